package serve

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type blobKeys struct{ Schema, Package, Name string }

func keysOf(tb testing.TB, line string) blobKeys {
	tb.Helper()
	var k blobKeys
	if err := json.Unmarshal([]byte(line), &k); err != nil {
		tb.Fatalf("line %q: %v", line, err)
	}
	return k
}

// TestQueriesEqualFilteredCatalog asks for every combination of schema, package and name that occurs,
// and of some that do not, and compares with the lines of /all that match. Wherever two replies have
// one ETag, they must have the same bytes.
func TestQueriesEqualFilteredCatalog(t *testing.T) {
	base := startServer(t, newTestHandler(t)) + "/catalogs/small/api/v1/"
	lines := slices.Collect(strings.Lines(get(t, base+"all")))
	schemas, packages, names := []string{"", "none"}, []string{"", "none"}, []string{"", "none"}
	keys := make([]blobKeys, len(lines))
	for i, line := range lines {
		keys[i] = keysOf(t, line)
		schemas = append(schemas, keys[i].Schema)
		packages = append(packages, keys[i].Package)
		names = append(names, keys[i].Name)
	}
	matching := func(match func(blobKeys) bool) string {
		var b strings.Builder
		for i, line := range lines {
			if match(keys[i]) {
				b.WriteString(line)
			}
		}
		return b.String()
	}
	tagged := make(map[string]string)
	check := func(path, want string) {
		t.Helper()
		got, tag := getTagged(t, base+path)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
		if other, ok := tagged[tag]; ok && other != got {
			t.Errorf("%s: another reply of other bytes has the ETag %s too", path, tag)
		}
		tagged[tag] = got
	}
	olm := []string{"olm.package", "olm.channel", "olm.bundle", "olm.deprecations"}
	for _, schema := range distinct(schemas) {
		for _, pkg := range distinct(packages) {
			for _, name := range distinct(names) {
				query := url.Values{"schema": {schema}, "package": {pkg}, "name": {name}}.Encode()
				match := func(k blobKeys) bool {
					return (schema == "" || k.Schema == schema) && (pkg == "" || k.Package == pkg) && (name == "" || k.Name == name)
				}
				check("metas?"+query, matching(match))
				check("custom?"+query, matching(func(k blobKeys) bool { return match(k) && !slices.Contains(olm, k.Schema) }))
			}
		}
	}
	for _, pkg := range distinct(packages) {
		if pkg == "" || pkg == "none" {
			continue
		}
		check("packages/"+pkg, matching(func(k blobKeys) bool {
			return k.Package == pkg || k.Schema == "olm.package" && k.Name == pkg
		}))
	}
}

func distinct(s []string) []string { return slices.Compact(slices.Sorted(slices.Values(s))) }

// FuzzRequest sends any path and query: no request is an internal error, and every error has the
// form that the service promises.
func FuzzRequest(f *testing.F) {
	cfg, ended := testConfig(newTestStore(f)), make(chan struct{})
	close(ended) // or a change feed would go on
	cfg.Done = ended
	h := New(cfg)
	f.Add("/catalogs", "")
	f.Add("/catalogs/small/api/v1/watch", "since=sha256:")
	f.Add("/catalogs/small/api/v1/graphql", "query={packages(first:1){nodes{name}}}&variables={}")
	f.Add("/catalogs/small/digests/"+digestOf("1")+"/api/v1/graphql", "query=%7Bcatalogs%7Bname%7D%7D")
	f.Add("/catalogs/icons/digests/sha256:%00/api/v1/packages/none", "")
	f.Add("/api/v1/search", "q=operator&limit=3&catalog=small")
	f.Add("/openapi.json", "")
	f.Add("/catalogs/small/api/v1/metas", "schema=olm.package&package=a%2F..&name=")
	f.Add("/catalogs/icons/api/v1/packages/html/icon", "")
	f.Add("/catalogs/icons/api/v1/bundles/../a b/ü?.v1", "package=none")
	f.Add("/catalogs/../../x/api/v1/all", "%zz;=&")
	f.Fuzz(func(t *testing.T, path, query string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, &http.Request{
			Method: http.MethodGet, URL: &url.URL{Path: path, RawQuery: query}, Host: "catalogd.example", Header: http.Header{}, Body: http.NoBody,
		})
		if w.Code >= http.StatusInternalServerError {
			t.Errorf("status %d: %s", w.Code, w.Body)
		}
		if err := wellFormed(w.Code, w.Header(), w.Body.String(), http.MethodGet); err != nil {
			t.Error(err)
		}
	})
}
