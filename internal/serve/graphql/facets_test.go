package graphql

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/serve/graphql/graph"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// variedPackages returns a catalog of n packages with random facts, some of which differ only in case.
func variedPackages(n int, seed uint64) fstest.MapFS {
	r := rand.New(rand.NewPCG(seed, 0))
	one := func(values ...string) string { return values[r.IntN(len(values))] }
	some := func(values ...string) []string {
		return slices.DeleteFunc(values, func(string) bool { return r.IntN(3) == 0 })
	}
	labels := func(prefix string, values ...string) map[string]string {
		out := map[string]string{}
		for _, v := range values {
			out["operatorframework.io/"+prefix+v] = one("supported", "unsupported")
		}
		return out
	}
	text := strings.Repeat("The operator manages things. ", 40) // as long as half of the real ones
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	type object map[string]any
	for i := range n {
		name := fmt.Sprintf("p%05d", i)
		metadata := object{
			"description": text,
			"displayName": one("", "Zeta", "alpha ", "Älpha", "beta") + one("", fmt.Sprint(i%7)),
			"provider":    object{"name": one("", "Red Hat", "red hat", "Ärger & Co", fmt.Sprint("Provider ", r.IntN(n)))},
			"labels":      labels("arch.", some("amd64", "arm64", "s390x")...),
			"annotations": object{
				"capabilities": one("", "Basic Install", "Deep Insights"),
				"categories":   strings.Join(some("Database", "database", "Big Data", "Security"), ", "),
				"features.operators.openshift.io/disconnected": one("true", "false"), "operators.openshift.io/infrastructure-features": one("[]", `["fips"]`),
			},
			"installModes": []object{{"type": "AllNamespaces", "supported": r.IntN(2) == 0}, {"type": "OwnNamespace", "supported": true}},
		}
		properties := []object{
			{"type": "olm.package", "value": object{"packageName": name, "version": "1.0.0"}}, {"type": "olm.csv.metadata", "value": metadata},
		}
		for range r.IntN(4) {
			kind := object{"group": one("example.com", "Example.com"), "version": one("v1", "v2"), "kind": fmt.Sprint("Kind", r.IntN(n))}
			properties = append(properties, object{"type": "olm.gvk", "value": kind})
		}
		blobs := []object{
			{"schema": "olm.package", "name": name, "defaultChannel": "a"},
			{"schema": "olm.channel", "package": name, "name": "a", "entries": []object{{"name": name + ".v1"}}},
			{"schema": "olm.bundle", "package": name, "name": name + ".v1", "image": "example.com/i", "properties": properties},
		}
		if r.IntN(5) == 0 {
			entries := []object{{"reference": object{"schema": "olm.package"}, "message": "old"}}
			blobs = append(blobs, object{"schema": "olm.deprecations", "package": name, "entries": entries})
		}
		for _, blob := range blobs {
			_ = encoder.Encode(blob) // maps, strings and booleans: it cannot fail
		}
	}
	return fstest.MapFS{"catalog.json": {Data: []byte(b.String())}}
}

// listedPackage is a package as GraphQL shows it.
type listedPackage struct {
	Name, DisplayName, Provider, Capabilities, Version                  string
	Categories, Features, Architectures, OperatingSystems, InstallModes []string
	Provides                                                            []struct{ Group, Kind string }
	Deprecation                                                         *struct{ Message string }
	Catalog                                                             struct {
		Name     string
		Priority int
	}
}

const listedFields = `name displayName provider capabilities version categories features architectures operatingSystems installModes
	provides { group kind } deprecation { message } catalog { name priority }`

// values returns the values of a facet, in lower case and without duplicates.
func (p listedPackage) values(facet graph.FacetName) (values []string) {
	switch facet {
	case graph.FacetNameCatalog:
		values = []string{p.Catalog.Name}
	case graph.FacetNameCategory:
		values = p.Categories
	case graph.FacetNameProvider:
		values = []string{p.Provider}
	case graph.FacetNameCapability:
		values = []string{p.Capabilities}
	case graph.FacetNameFeature:
		values = p.Features
	case graph.FacetNameArchitecture:
		values = p.Architectures
	case graph.FacetNameOperatingSystem:
		values = p.OperatingSystems
	case graph.FacetNameInstallMode:
		values = p.InstallModes
	case graph.FacetNameKind:
		for _, api := range p.Provides {
			values = append(values, api.Kind+"."+api.Group)
		}
	case graph.FacetNameDeprecated:
		values = []string{fmt.Sprint(p.Deprecation != nil)}
	}
	values = strings.Split(strings.ToLower(strings.Join(values, "\n")), "\n")
	slices.Sort(values)
	return slices.DeleteFunc(slices.Compact(values), func(v string) bool { return v == "" })
}

// facetFilter is an element of PackageFilter.facets.
type facetFilter struct {
	Name   graph.FacetName `json:"name"`
	Values []string        `json:"values"`
}

func (f facetFilter) matches(p listedPackage) bool {
	return slices.ContainsFunc(p.values(f.Name), func(v string) bool {
		return slices.ContainsFunc(f.Values, func(want string) bool { return strings.ToLower(want) == v })
	})
}

// naive selects and counts packages in the simplest way.
func naive(all []listedPackage, filters []facetFilter, sort string) (names []string, counts map[string]int) {
	counts = map[string]int{}
	var selected []listedPackage
	for _, p := range all {
		matches := func(but graph.FacetName) bool {
			return !slices.ContainsFunc(filters, func(f facetFilter) bool { return f.Name != but && !f.matches(p) })
		}
		if matches("") {
			selected = append(selected, p)
		}
		for _, facet := range graph.AllFacetName {
			for _, v := range p.values(facet) {
				if matches(facet) {
					counts[string(facet)+" "+v]++
				}
			}
		}
	}
	slices.SortFunc(selected, func(a, b listedPackage) int {
		title := cmp.Compare(strings.ToLower(cmp.Or(a.DisplayName, a.Name)), strings.ToLower(cmp.Or(b.DisplayName, b.Name)))
		name := cmp.Or(cmp.Compare(a.Name, b.Name), b.Catalog.Priority-a.Catalog.Priority, cmp.Compare(a.Catalog.Name, b.Catalog.Name))
		switch sort {
		case "DISPLAY_NAME":
			return cmp.Or(cmp.Compare(a.values(graph.FacetNameDeprecated)[0], b.values(graph.FacetNameDeprecated)[0]), title, name)
		case "PROVIDER":
			of := func(p listedPackage) string { return cmp.Or(strings.ToLower(p.Provider), "\xff") }
			return cmp.Or(cmp.Compare(of(a), of(b)), title, name)
		}
		return name
	})
	for _, p := range selected {
		names = append(names, p.Catalog.Name+"/"+p.Name)
	}
	return names, counts
}

// pageOfPackages is a page with facets.
type pageOfPackages struct {
	Packages struct {
		TotalCount int
		Nodes      []listedPackage
		Facets     []struct {
			Name   graph.FacetName
			Values []struct {
				Value string
				Count int
			}
		}
	}
}

// allListed returns all packages, in any order.
func allListed(tb testing.TB, url string) (all []listedPackage) {
	tb.Helper()
	for {
		page := ask[pageOfPackages](tb, url, `query($n: Int) { packages(first: 100, offset: $n) { totalCount nodes { `+listedFields+` } } }`,
			"n", len(all)).Packages
		if all = append(all, page.Nodes...); len(all) >= page.TotalCount {
			return all
		}
	}
}

// Lists and counts equal those of a simple loop over all packages.
func TestFacets(t *testing.T) {
	small, varied, twice := emptyStore(t, t.TempDir()), emptyStore(t, t.TempDir()), emptyStore(t, t.TempDir())
	commit(t, small, "small", "1", os.DirFS("../testdata/small"))
	commit(t, varied, "varied", "2", variedPackages(180, 1))
	commit(t, twice, "main", "3", variedPackages(60, 2))
	commit(t, twice, "other", "4", variedPackages(90, 3))
	commit(t, twice, "small", "1", os.DirFS("../testdata/small"))
	for name, st := range map[string]*store.Store{"small": small, "varied": varied, "several": twice} {
		t.Run(name, func(t *testing.T) {
			url := startServer(t, config(), st)
			all, r := allListed(t, url), rand.New(rand.NewPCG(4, 0))
			for range 60 {
				filters := []facetFilter{}
				for _, facet := range graph.AllFacetName {
					if r.IntN(4) > 0 {
						continue
					}
					f := facetFilter{facet, []string{}}
					for range 1 + r.IntN(3) {
						f.Values = append(f.Values, all[r.IntN(len(all))].values(facet)...)
					}
					filters = append(filters, f)
				}
				checkFacets(t, url, all, filters, []string{"NAME", "DISPLAY_NAME", "PROVIDER"}[r.IntN(3)])
			}
		})
	}
}

// The counts heed the search and the other filters, and a catalog that a filter leaves out counts for its own facet only.
func TestFacetsHeedOtherFilters(t *testing.T) {
	st := emptyStore(t, t.TempDir())
	commit(t, st, "main", "1", variedPackages(40, 1))
	commit(t, st, "other", "2", variedPackages(40, 1))
	url := startServer(t, config(), st)
	type data struct {
		A, B, C, D struct {
			TotalCount int
			Facets     json.RawMessage
		}
	}
	got := ask[data](t, url, `{
		a: packages(filter: {provider: "RED HAT", category: "database", catalog: "main"}, search: "beta") { ...F }
		b: packages(filter: {facets: [{name: PROVIDER, values: ["red hat"]}, {name: CATEGORY, values: ["Database"]}, {name: CATALOG, values: ["main"]}]},
			search: "beta") { totalCount facets(names: [KIND]) { name values { value count } } }
		c: packages(filter: {facets: [{name: PROVIDER, values: []}]}) { totalCount facets(names: [KIND, PROVIDER], first: 1) { name values { count } } }
		d: packages(filter: {facets: [{name: CATALOG, values: ["OTHER"]}]}) { totalCount facets(names: [CATALOG]) { name values { value count } } }
	} fragment F on PackageConnection { totalCount facets(names: [KIND]) { name values { value count } } }`)
	if got.A.TotalCount == 0 || got.A.TotalCount != got.B.TotalCount || string(got.A.Facets) != string(got.B.Facets) || len(got.A.Facets) < 50 {
		t.Errorf("got %+v by fields, %+v by facets", got.A, got.B)
	}
	if got.C.TotalCount != 0 || !strings.HasPrefix(string(got.C.Facets), `[{"name":"PROVIDER","values":[{"count":`) ||
		!strings.HasSuffix(string(got.C.Facets), `{"name":"KIND","values":[]}]`) {
		t.Errorf("no provider: got %d %s", got.C.TotalCount, got.C.Facets)
	}
	both := `[{"name":"CATALOG","values":[{"value":"main","count":40},{"value":"other","count":40}]}]`
	if got.D.TotalCount != 40 || string(got.D.Facets) != both {
		t.Errorf("one catalog: got %d %s", got.D.TotalCount, got.D.Facets)
	}
}

func TestSortOfSearch(t *testing.T) {
	st := emptyStore(t, t.TempDir())
	commit(t, st, "main", "1", variedPackages(40, 1))
	url := startServer(t, config(), st)
	type data struct {
		Best, Sorted struct{ Nodes []listedPackage }
	}
	got := ask[data](t, url, `{ best: packages(search: "p00031 p") { nodes { name } } sorted: packages(search: "p", sort: NAME) { nodes { name } } }`)
	if got.Best.Nodes[0].Name != "p00031" || got.Sorted.Nodes[0].Name != "p00000" {
		t.Errorf("got %s first of the best, %s first by name", got.Best.Nodes[0].Name, got.Sorted.Nodes[0].Name)
	}
}

func TestInvalidPages(t *testing.T) {
	url := startServer(t, config(), openStore(t))
	for arguments, want := range map[string]string{
		`(offset: -1) { totalCount }`:                 "offset is -1",
		`(offset: 1, after: "x") { totalCount }`:      "without after",
		`{ facets(first: 0) { name } }`:               "first is 0: use 1 to 10000",
		`{ facets(first: 10001) { name } }`:           "first is 10001: use 1 to 10000",
		`(after: "0-0-0", offset: 0) { nodes {name}}`: "without after",
	} {
		post(t, url, "{ packages"+arguments+" }").wantError(t, graph.CodeInput, want)
	}
	const query = `query($a: String, $f: [String!]!, $s: PackageSort) {
		packages(first: 1, after: $a, filter: {facets: [{name: DEPRECATED, values: $f}]}, sort: $s) { pageInfo { endCursor } } }`
	cursor := ask[struct{ Packages connection }](t, url, query, "f", []string{"false"}).Packages.PageInfo.EndCursor
	post(t, url, query, "a", cursor, "f", []string{"true"}).wantError(t, graph.CodeInput, "other arguments")
	post(t, url, query, "a", cursor, "f", []string{"false"}, "s", "PROVIDER").wantError(t, graph.CodeInput, "other arguments")
}

// A query can select a facet hundreds of times. Counting the kinds of large catalogs each time would exceed the memory of catalogd.
func TestFacetsAreCountedOnce(t *testing.T) {
	st := emptyStore(t, t.TempDir())
	commit(t, st, "main", "1", variedPackages(2_000, 1))
	commit(t, st, "other", "2", variedPackages(2_000, 2))
	url := startServer(t, config(), st)
	allocated := func(times int) int {
		t.Helper()
		var q strings.Builder
		for i := range times {
			fmt.Fprintf(&q, "a%d: facets(names: [KIND]) { name } ", i)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		ask[struct{ Packages map[string]any }](t, url, "{ packages(first: 1) { "+q.String()+"} }")
		runtime.ReadMemStats(&after)
		return int(after.TotalAlloc - before.TotalAlloc)
	}
	allocated(1) // reads the catalogs
	if one, many := allocated(1), allocated(200); many > one+(20<<20) {
		t.Errorf("one facet takes %d bytes, 200 times the same one %d", one, many)
	}
}

// The values of a facet count even if the query does not select them, because they take memory.
func TestUnselectedFacetValuesCount(t *testing.T) {
	st := emptyStore(t, t.TempDir())
	commit(t, st, "main", "1", variedPackages(500, 1))
	cfg := config()
	cfg.Limits.Values = 300
	url := startServer(t, cfg, st)
	const query = `query($n: Int) { packages(first: 1) { facets(names: [KIND], first: $n) { name } } }`
	ask[struct{ Packages map[string]any }](t, url, query, "n", 200)
	post(t, url, query, "n", 400).wantError(t, graph.CodeLimit, "more than 300 values")
}

func checkFacets(t *testing.T, url string, all []listedPackage, filters []facetFilter, sort string) {
	t.Helper()
	names, counts := naive(all, filters, sort)
	page := ask[pageOfPackages](t, url, `query($f: [FacetFilter!], $s: PackageSort) {
		packages(filter: {facets: $f}, first: 100, sort: $s) { totalCount nodes { name catalog { name } }
			facets { name values { value count } } } }`, "f", filters, "s", sort).Packages
	var got []string
	for _, p := range page.Nodes {
		got = append(got, p.Catalog.Name+"/"+p.Name)
	}
	if diff := gocmp.Diff(names[:min(len(names), 100)], got); diff != "" || page.TotalCount != len(names) {
		t.Errorf("%v by %s: got %d of %d, -want +got:\n%s", filters, sort, page.TotalCount, len(names), diff)
	}
	gotCounts := map[string]int{}
	for _, facet := range page.Facets {
		for i, v := range facet.Values {
			if i > 0 {
				before := facet.Values[i-1]
				if before.Count < v.Count || before.Count == v.Count && strings.ToLower(before.Value) >= strings.ToLower(v.Value) {
					t.Errorf("%s: %v follows %v", facet.Name, v, before)
				}
			}
			gotCounts[string(facet.Name)+" "+strings.ToLower(v.Value)] = v.Count
		}
		if len(facet.Values) == 200 { // the rest is left out
			least := facet.Values[199].Count
			for key, n := range counts {
				if strings.HasPrefix(key, string(facet.Name)+" ") && gotCounts[key] == 0 && n <= least {
					delete(counts, key)
				}
			}
		}
	}
	if diff := gocmp.Diff(counts, gotCounts); diff != "" {
		t.Errorf("%v: counts, -want +got:\n%s", filters, diff)
	}
	if len(page.Facets) != len(graph.AllFacetName) {
		t.Errorf("got %d facets", len(page.Facets))
	}
}

// The page of a console: a filter, the counts of all facets, and the packages of one page.
func BenchmarkPage(b *testing.B) {
	for _, n := range []int{319, 5_000} {
		st := emptyStore(b, b.TempDir())
		commit(b, st, "main", "1", variedPackages(n, 1))
		handler := New(config())
		for name, arguments := range map[string]string{
			"all":    `first: 60, sort: DISPLAY_NAME`,
			"filter": `first: 60, sort: DISPLAY_NAME, filter: {facets: [{name: CATEGORY, values: ["database"]}, {name: FEATURE, values: ["disconnected"]}]}`,
			"search": `first: 60, search: "alpha things"`, "search of few": `first: 60, search: "kind77"`,
		} {
			query := "{packages(" + arguments + `) { totalCount nodes { ` + listedFields + ` shortDescription iconHash } facets { name values { value count } } } }`
			b.Run(fmt.Sprintf("%d/%s", n, name), func(b *testing.B) {
				for b.Loop() {
					r := request(b, "GET", "/?query="+url.QueryEscape(query), "")
					if reply := handler.Answer(r, st.Catalogs(), nil); reply.Status != 200 || bytes.Contains(reply.Body, []byte("errors")) {
						b.Fatalf("%.500s", reply.Body)
					}
				}
			})
		}
	}
}
