package serve

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/store"
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

// TestQueriesEqualFilteredCatalog queries every existing combination of schema, package and name, and some others, and compares the
// responses with the matching lines of /all. Responses with equal ETags must have equal bytes.
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

// FuzzRequest sends any path and query. None may cause an internal error, and every error must have the documented form.
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

// Each field of store.Query must change the tag; otherwise responses with different bytes would share a strong ETag.
func TestQueryTagCoversEveryField(t *testing.T) {
	c, ok := newTestStore(t).Catalog("small")
	if !ok {
		t.Fatal("no catalog")
	}
	queries := map[string]store.Query{"none": {}}
	var walk func(q *store.Query, field reflect.Value, name string)
	walk = func(q *store.Query, field reflect.Value, name string) {
		switch field.Kind() {
		case reflect.Struct:
			for i := range field.NumField() {
				walk(q, field.Field(i), name+"."+field.Type().Field(i).Name)
			}
			return
		case reflect.String:
			field.SetString("value")
		case reflect.Bool:
			field.SetBool(true)
		default:
			t.Fatalf("%s: set a field of kind %s here, too", name, field.Kind())
		}
		queries[name] = *q
		field.SetZero()
	}
	var q store.Query
	walk(&q, reflect.ValueOf(&q).Elem(), "Query")
	queries["shifted"] = store.Query{Schema: "val", Package: "ue"} // the same text in other fields
	queries["blank at the end"], queries["blank at the start"] = store.Query{Schema: "a ", Package: "b"}, store.Query{Schema: "a", Package: " b"}
	queries["quoted"] = store.Query{Schema: `val", Package:"ue`}
	queries["invalid UTF-8"], queries["other invalid UTF-8"] = store.Query{Name: "\xff"}, store.Query{Name: "\xfe"}
	tags := map[string]string{}
	for name, q := range queries {
		tag := queryTag(c, q)
		if other, ok := tags[tag]; ok {
			t.Errorf("%s and %s have one tag, %s", name, other, tag)
		}
		tags[tag] = name
	}
}

func BenchmarkQueryTag(b *testing.B) {
	c, _ := newTestStore(b).Catalog("small")
	for b.Loop() {
		queryTag(c, store.Query{Schema: "olm.bundle", Package: "some-operator", Name: "some-operator.v1.2.3"})
	}
}
