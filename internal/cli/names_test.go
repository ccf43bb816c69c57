package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
)

// namedWorld is a cluster with catalogs one and two, which both have package foo; two has package a.one besides,
// which is named like one of catalog
// one.
func namedWorld(t *testing.T) string {
	t.Helper()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Name, Catalog string
			Filter        struct{ Names, Catalog any }
		}
		_ = json.Unmarshal([]byte(r.FormValue("variables")), &asked)
		if of := strings.Split(r.URL.Path, "/"); of[1] == "catalogs" && asked.Filter.Catalog == nil {
			asked.Filter.Catalog = of[2]
		}
		query := r.FormValue("query")
		w.Header().Set("Content-Location", strings.Replace(r.URL.Path, "/api/", "/digests/1/api/", 1))
		switch {
		case strings.Contains(r.URL.Path, "/packages/"):
			if !strings.HasSuffix(r.URL.Path, "/one/api/v1/packages/foo") {
				http.Error(w, "404 Not Found\nno such package", http.StatusNotFound)
				return
			}
			_, _ = w.Write([]byte(`{"schema":"olm.package","name":"foo"}`))
		case strings.Contains(query, "package(name: $name"):
			_, _ = w.Write([]byte(`{"data":{"package":{"defaultChannel":{"name":"stable"},"channels":[{"name":"stable"}]}}}`))
		case strings.Contains(query, "packages("):
			nodes := []any{}
			for _, p := range [][2]string{{"foo", "one"}, {"foo", "two"}, {"a.one", "two"}} {
				names, _ := asked.Filter.Names.([]any)
				if (names == nil || slices.Contains(names, any(p[0]))) && (asked.Filter.Catalog == nil || asked.Filter.Catalog == p[1]) {
					nodes = append(nodes, map[string]any{
						"name": p[0], "version": "1.0.0", "catalog": map[string]any{"name": p[1]}, "defaultChannel": map[string]any{"name": "stable"},
					})
				}
			}
			_ = json.NewEncoder(w).Encode(map[string]any{
				"data": map[string]any{"packages": map[string]any{"nodes": nodes, "pageInfo": map[string]any{}}},
			})
		default: // of bundles, channels and deprecations there are none
			_, _ = w.Write([]byte(`{"data":{"none":{"nodes":[],"pageInfo":{}}}}`))
		}
	}))
	t.Cleanup(service.Close)
	var catalogs []v1beta1.CatalogSource
	for _, name := range []string{"one", "two"} {
		c := missingImage("")
		c.Name = name
		c.Status.URLs = &v1beta1.CatalogSourceURLs{Base: service.URL + "/catalogs/" + name}
		catalogs = append(catalogs, c)
	}
	return cluster(t, nil, catalogs...)
}

// All commands accept the same names of packages, and suggest the right command for a name of another kind.
func TestNames(t *testing.T) {
	server := namedWorld(t)
	for _, test := range []struct {
		args string
		code int
		says string
	}{
		{"graph foo.two -o json", 0, `"catalog": {\n        "name": "two"\n    }`},
		{"graph package.content.catalogd.operatorframework.io/foo -c two -o json", 0, `"name": "two"`},
		{"graph package/foo.two -o json", 0, `"name": "two"`},
		{"graph foo -c two -o json", 0, `"name": "two"`},
		{"graph a.one -o json", 0, `"package": {\n        "name": "a.one"\n    }`},
		{"graph foo.nope", 3, `package "foo.nope" not found`},
		{"graph fou.one", 3, `package "fou.one" not found: did you mean "foo"?`},
		{"graph foo.two -c one", 3, `package "foo.two" not found in catalog "one"`},
		{"path foo.nope --from 1", 3, `package "foo.nope" not found`},
		{"show foo.nope", 3, `package "foo.nope" not found`},
		{"get packages foo.two -o custom-columns=C:.catalog.name --no-headers", 0, "two\n"},
		{"get packages/foo.two package/foo.two", 2, "cannot combine package/foo.two with packages/foo.two"},
		{"get packages/foo.two packages/a.one -o custom-columns=C:.name --no-headers", 0, "foo\na.one\n"},
		{"get package." + output.Group + "/a.one -o custom-columns=C:.name --no-headers", 0, "a.one\n"},
		{"get packages foo packages/a.one", 2, "cannot combine packages/a.one with packages"},
		{"get packages fo*", 3, "kubectl catalog search fo finds packages"},
		{"get packages one", 3, `package "one" not found; it is a catalog: kubectl catalog describe one`},
		{"get bundles -p foo.two", 0, `No bundles found in package "foo" in catalog "two".`},
		{"get bundles foo", 3, `bundle "foo" not found; it is a package: kubectl catalog get bundles -p foo`},
		{"get channels one", 3, `channel "one" not found; it is a catalog: kubectl catalog get channels -c one`},
		{"get deprecations foo.one", 3, `it is a package: kubectl catalog get deprecations -p foo.one`},
		{"get catalogs", 2, "kubectl catalog list lists catalogs"},
		{"show one", 3, `package "one" not found; it is a catalog: kubectl catalog describe one`},
		{"describe foo", 3, `catalog "foo" not found; it is a package: kubectl catalog show foo`},
		{"list twoo", 3, `catalog "twoo" not found: did you mean "two"?`},
		{"providers foo", 3, `no package provides or requires "foo"; it is a package: kubectl catalog show foo`},
		{"providers Nosuch", 3, `no package provides or requires "Nosuch"; kubectl catalog search WORDS also finds`},
		{"export one foo.one -o -", 0, `"name": "foo"`},
		{"export two foo.one -o -", 3, `package "foo.one" not found in catalog "two"`},
		{"diff one two -p foo.one", 0, "have the same packages"},
		{"diff one two -p foo.three", 3, `package "foo.three" not found in one or two`},
	} {
		code, stdout, stderr := run(t, append(strings.Fields(test.args), "--server", server)...)
		if says := strings.ReplaceAll(test.says, `\n`, "\n"); code != test.code || !strings.Contains(stdout+stderr, says) {
			t.Errorf("%s: exit code %d, want %d, and %q in\n%s%s", test.args, code, test.code, says, stdout, stderr)
		}
	}
}
