package graphql

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/store"
)

// manyPackages returns a catalog of n packages p000, p001 and so on, with one bundle each.
func manyPackages(n int) fstest.MapFS {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"schema":"olm.package","name":"p%03d","defaultChannel":"stable"}
{"schema":"olm.channel","package":"p%03[1]d","name":"stable","entries":[{"name":"p%03[1]d.v1.0.0"}]}
{"schema":"olm.bundle","package":"p%03[1]d","name":"p%03[1]d.v1.0.0","image":"quay.io/example/p:v1","properties":[
  {"type":"olm.package","value":{"packageName":"p%03[1]d","version":"1.0.0"}}]}
{"schema":"olm.deprecations","package":"p%03[1]d","entries":[]}
`, i)
	}
	return fstest.MapFS{"catalog.json": {Data: []byte(b.String())}}
}

// connection has the common fields of all connections.
type connection struct {
	TotalCount int
	Edges      []struct {
		Cursor string
		Node   json.RawMessage
	}
	Nodes    []json.RawMessage
	PageInfo struct {
		HasNextPage bool
		EndCursor   *string
	}
}

func TestPagingGivesEachOnce(t *testing.T) {
	st := emptyStore(t, t.TempDir())
	commit(t, st, "one", "1", manyPackages(23))
	commit(t, st, "two", "2", manyPackages(9))
	url := startServer(t, config(), st)
	for list, want := range map[string]int{
		"packages(first: $n, after: $after":                                               32,
		`packages(search: "p", first: $n, after: $after`:                                  32,
		`packages(filter: {catalog: "one"}, first: $n, after: $after`:                     23,
		"channels(first: $n, after: $after":                                               32,
		"bundles(first: $n, after: $after":                                                32,
		`bundles(filter: {catalog: "two", versionRange: "1.x"}, first: $n, after: $after`: 9,
		"deprecations(first: $n, after: $after":                                           32,
		"blobs(first: $n, after: $after":                                                  128,
	} {
		for _, size := range []int{1, 7, 100} {
			t.Run(fmt.Sprintf("%s by %d", list, size), func(t *testing.T) {
				node := "name catalog { name }"
				switch {
				case strings.HasPrefix(list, "channels"), strings.HasPrefix(list, "deprecations"):
					node = "package { name catalog { name } }"
				case strings.HasPrefix(list, "blobs"):
					node += " schema package"
				}
				query := fmt.Sprintf(`query($n: Int, $after: String) { list: %s) {
					totalCount edges { cursor node { %s } } nodes { %[2]s } pageInfo { hasNextPage endCursor } } }`, list, node)
				seen := map[string]bool{}
				var after any
				for more := true; more; {
					page := ask[struct{ List connection }](t, url, query, "n", size, "after", after).List
					if page.TotalCount != want || len(page.Nodes) != len(page.Edges) || len(page.Nodes) > size || len(page.Nodes) == 0 {
						t.Fatalf("got %d of %d, %d edges; want %d", len(page.Nodes), page.TotalCount, len(page.Edges), want)
					}
					for i, edge := range page.Edges {
						if seen[string(edge.Node)] || string(edge.Node) != string(page.Nodes[i]) {
							t.Fatalf("%s comes twice, or node %d is another", edge.Node, i)
						}
						seen[string(edge.Node)] = true
					}
					if last := page.Edges[len(page.Edges)-1].Cursor; *page.PageInfo.EndCursor != last {
						t.Errorf("endCursor is %s, the last edge has %s", *page.PageInfo.EndCursor, last)
					}
					more, after = page.PageInfo.HasNextPage, *page.PageInfo.EndCursor
				}
				if len(seen) != want {
					t.Errorf("got %d, want %d", len(seen), want)
				}
				beyond := ask[struct{ List connection }](t, url, query, "n", size, "after", after).List
				if len(beyond.Nodes) != 0 || beyond.PageInfo.HasNextPage || beyond.PageInfo.EndCursor != nil {
					t.Errorf("behind the last there is %+v", beyond)
				}
			})
		}
	}
}

// A list can be continued from any cursor, with another page size too.
func TestCursorOfAnEdge(t *testing.T) {
	st := emptyStore(t, t.TempDir())
	commit(t, st, "one", "1", manyPackages(5))
	url := startServer(t, config(), st)
	const query = `query($n: Int, $after: String) { packages(first: $n, after: $after) { edges { cursor } nodes { name } } }`
	type data struct{ Packages connection }
	first := ask[data](t, url, query, "n", 4, "after", "").Packages
	rest := ask[data](t, url, query, "n", 2, "after", first.Edges[1].Cursor).Packages
	if diff := cmp.Diff([]string{`{"name":"p002"}`, `{"name":"p003"}`}, texts(rest.Nodes)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func texts(raw []json.RawMessage) []string {
	out := make([]string, len(raw))
	for i, r := range raw {
		out[i] = string(r)
	}
	return out
}

func TestCursorErrors(t *testing.T) {
	st := emptyStore(t, t.TempDir())
	commit(t, st, "one", "1", manyPackages(5))
	commit(t, st, "two", "2", manyPackages(5))
	url := startServer(t, config(), st)
	const packages = `query($after: String, $catalog: String) { packages(first: 2, after: $after, filter: {catalog: $catalog}) { ` +
		`pageInfo { endCursor } nodes { name } } }`
	type data struct{ Packages connection }
	all := *ask[data](t, url, packages).Packages.PageInfo.EndCursor
	one := *ask[data](t, url, packages, "catalog", "one").Packages.PageInfo.EndCursor

	for name, after := range map[string]string{"no base64": "?", "short": "AAAA", "padded": one + "=", "longer": one + "AA"} {
		t.Run(name, func(t *testing.T) {
			post(t, url, packages, "after", after).wantError(t, "BAD_USER_INPUT", "after is not a cursor: use pageInfo.endCursor")
		})
	}
	post(t, url, `query($after: String) { bundles(after: $after) { totalCount } }`, "after", all).
		wantError(t, "BAD_USER_INPUT", "the cursor belongs to another list", "start again without after")
	post(t, url, `query($after: String) { packages(after: $after, search: "p") { totalCount } }`, "after", all).
		wantError(t, "BAD_USER_INPUT", "the cursor belongs to another list")

	old := st.Catalogs()
	commit(t, st, "two", "3", manyPackages(6))
	post(t, url, packages, "after", all).wantError(t, "BAD_USER_INPUT",
		"the listed catalogs (one, two) have changed since the cursor was returned",
		"/catalogs/{catalog}/digests/{digest}/api/v1/graphql")
	// A cursor of the unchanged catalog is still valid, and so is any cursor in the pinned catalogs that it came from.
	rest := ask[data](t, url, packages, "catalog", "one", "after", one).Packages
	if diff := cmp.Diff([]string{`{"name":"p002"}`, `{"name":"p003"}`}, texts(rest.Nodes)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	pinned := startPinned(t, config(), old)
	rest = ask[data](t, pinned, packages, "after", all).Packages
	if diff := cmp.Diff([]string{`{"name":"p001"}`, `{"name":"p001"}`}, texts(rest.Nodes)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	// The order of one catalog's packages does not depend on its priority.
	cfg := config()
	cfg.Priority = func(string) int32 { return 0 }
	ask[data](t, startPinned(t, cfg, old), packages, "catalog", "one", "after", one)
	post(t, startPinned(t, cfg, old), packages, "after", one).wantError(t, "BAD_USER_INPUT", "have changed since")
}

func TestPageSize(t *testing.T) {
	url := startServer(t, config(), openStore(t))
	for _, first := range []int{0, -1, 101, 1 << 30} {
		post(t, url, `query($n: Int) { packages(first: $n) { totalCount } }`, "n", first).
			wantError(t, "BAD_USER_INPUT", fmt.Sprintf("first is %d: use 1 to 100", first))
	}
	st := emptyStore(t, t.TempDir())
	commit(t, st, "many", "1", manyPackages(60))
	for _, query := range []string{"{ packages { nodes { name } } }", "{ packages(first: null) { nodes { name } } }"} {
		if n := len(ask[struct{ Packages connection }](t, startServer(t, config(), st), query).Packages.Nodes); n != 50 {
			t.Errorf("%s gives %d, want 50", query, n)
		}
	}
}

// Of equal packages, that of the catalog with the higher priority comes first in lists and searches.
func TestPriorityDecides(t *testing.T) {
	st := emptyStore(t, t.TempDir())
	for i, name := range []string{"a", "other", "z"} {
		commit(t, st, name, fmt.Sprint(i), manyPackages(1))
	}
	url := startServer(t, config(), st)
	for _, arguments := range []string{"", `(search: "p000")`} {
		nodes := ask[struct{ Packages connection }](t, url, "{ packages"+arguments+" { nodes { catalog { name } } } }").Packages.Nodes
		want := []string{`{"catalog":{"name":"other"}}`, `{"catalog":{"name":"a"}}`, `{"catalog":{"name":"z"}}`}
		if got := texts(nodes); !slices.Equal(got, want) {
			t.Errorf("packages%s: got %v", arguments, got)
		}
	}
}

func startPinned(tb testing.TB, cfg Config, catalogs []store.Catalog) string {
	tb.Helper()
	return serveAll(tb, New(cfg), func() []store.Catalog { return catalogs })
}
