package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// validPackage returns the file of a valid package with one bundle.
func validPackage(name, version string) *fstest.MapFile {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"schema":"olm.package","name":%q,"defaultChannel":"stable","gen":%q}`+"\n", name, version)
	fmt.Fprintf(&b, `{"schema":"olm.channel","package":%q,"name":"stable","entries":[{"name":"%s.v%s"}],"gen":%q}`+"\n", name, name, version,
		version)
	fmt.Fprintf(&b, `{"schema":"olm.bundle","package":%q,"name":"%s.v%s","image":"quay.io/example/%s:v%s","properties":[`+
		`{"type":"olm.package","value":{"packageName":%q,"version":%q}},{"type":"olm.gvk","value":{"group":"example.com",`+
		`"kind":"Database","version":"v1"}}],"gen":%q}`+"\n",
		name, name, version, name, version, name, version, version)
	return &fstest.MapFile{Data: b.Bytes()}
}

type searchAnswer struct {
	Results []struct {
		Catalog, Name, Version, Channel, URL string
		Kinds                                []string
		Score                                int
	}
	Total      int
	Incomplete []string
}

func searchFor(t *testing.T, base, query string) searchAnswer {
	t.Helper()
	var answer searchAnswer
	if err := json.Unmarshal([]byte(get(t, base+"/api/v1/search?"+query)), &answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

// TestSearchRanks searches three catalogs with equal and different scores, and compares every limit with the whole list.
func TestSearchRanks(t *testing.T) {
	st := openStore(t)
	packages := fstest.MapFS{}
	// the last provides the kind Database
	for _, name := range []string{"database", "database-operator", "my-database", "mydatabase", "other"} {
		packages[name+".json"] = validPackage(name, "1.0.0")
	}
	for i, name := range []string{"low", "high", "middle"} {
		commit(t, st, name, fmt.Sprint(i+1), packages)
	}
	cfg := testConfig(st)
	cfg.Priority = func(catalog string) int32 { return map[string]int32{"low": -1, "high": 10}[catalog] }
	base := startServer(t, New(cfg))

	whole := searchFor(t, base, "q=database&limit=100")
	if whole.Total != 15 || len(whole.Results) != 15 {
		t.Fatalf("got %d results of %d, want 15", len(whole.Results), whole.Total)
	}
	var got []string
	for i, r := range whole.Results {
		got = append(got, r.Name+" "+r.Catalog)
		if i > 0 && r.Score > whole.Results[i-1].Score {
			t.Errorf("%s comes after what fits less", r.Name)
		}
		if r.Version != "1.0.0" || r.Channel != "stable" || !slices.Equal(r.Kinds, []string{"Database"}) ||
			r.URL != "https://catalogd.example/catalogs/"+r.Catalog+"/api/v1/packages/"+r.Name {
			t.Errorf("result %+v", r)
		}
	}
	want := []string{
		"database high", "database middle", "database low", "database-operator high", "database-operator middle", "database-operator low",
	}
	if diff := cmp.Diff(want, got[:6]); diff != "" {
		t.Errorf("the best (-want +got):\n%s", diff)
	}
	for limit := 1; limit <= 20; limit++ {
		part := searchFor(t, base, fmt.Sprintf("q=database&limit=%d", limit))
		if diff := cmp.Diff(whole.Results[:min(limit, 15)], part.Results); part.Total != 15 || diff != "" {
			t.Errorf("limit %d: total %d, results (-want +got):\n%s", limit, part.Total, diff)
		}
	}
	one := searchFor(t, base, "q=database&catalog=middle&limit=2")
	if one.Total != 5 || len(one.Results) != 2 || one.Results[0].Catalog != "middle" {
		t.Errorf("in one catalog: %+v", one)
	}
}

// TestBestEqualsSorted compares the best of results in any order with the first of all results sorted.
func TestBestEqualsSorted(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		all := make([]*searchResult, random.IntN(60))
		for i := range all {
			all[i] = &searchResult{Name: fmt.Sprint(i), Catalog: fmt.Sprint(random.IntN(3)), Score: 1 + random.IntN(4), priority: random.Int32N(2)}
		}
		limit := 1 + random.IntN(20)
		kept, filled := best{}, 0
		for _, result := range all {
			kept.add(result, limit, func() { filled++ })
		}
		slices.SortFunc(all, compareResults)
		if !slices.Equal(kept, all[:min(limit, len(all))]) {
			t.Fatalf("limit %d of %d: the best are not kept", limit, len(all))
		}
		if filled < len(kept) {
			t.Fatalf("%d results were filled in, of %d", filled, len(kept))
		}
	}
}

func TestSearchURLIsEscaped(t *testing.T) {
	s := newServer(testConfig(openStore(t)))
	result := &searchResult{Catalog: "c"}
	s.searcher.fill(result, fbc.Summary{Name: "../a b?", HasIcon: true})
	want := "https://catalogd.example/catalogs/c/api/v1/packages/" + url.PathEscape("../a b?")
	if result.URL != want || result.IconURL != want+"/icon" {
		t.Errorf("got %s and %s, want %s", result.URL, result.IconURL, want)
	}
}

// TestSearchTimeout checks that a search ends at its timeout with a remedy.
func TestSearchTimeout(t *testing.T) {
	s := newServer(testConfig(newTestStore(t)))
	s.searcher.timeout = -1
	resp, body := do(t, http.MethodGet, startServer(t, s)+"/api/v1/search?q=operator", "")
	if resp.StatusCode != http.StatusServiceUnavailable ||
		resp.Header.Get("Retry-After") != "5" || !strings.Contains(body, "search a single catalog") {
		t.Errorf("status %d, header %v, %q", resp.StatusCode, resp.Header, body)
	}
	if err := wellFormed(resp.StatusCode, resp.Header, body, http.MethodGet); err != nil {
		t.Error(err)
	}
	if s.searcher.slots.Used() != 0 {
		t.Error("the search still has its slot")
	}
}

// TestSearchNamesDamagedCatalog checks that an unreadable catalog does not affect others, and that the response names it.
func TestSearchNamesDamagedCatalog(t *testing.T) {
	dir := t.TempDir()
	st, err := store.Open(dir, store.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	commit(t, st, "damaged", "1", fstest.MapFS{"p.json": validPackage("p", "1.0.0")})
	files, err := filepath.Glob(filepath.Join(dir, "snapshots", "*", "packages"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err := os.Truncate(files[0], 5); err != nil {
		t.Fatal(err)
	}
	commit(t, st, "intact", "2", fstest.MapFS{"p.json": validPackage("p", "2.0.0")})
	var log strings.Builder
	cfg := testConfig(st)
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	answer := searchFor(t, startServer(t, New(cfg)), "q=p")
	if len(answer.Results) != 1 || answer.Results[0].Catalog != "intact" ||
		answer.Total != 1 || !slices.Equal(answer.Incomplete, []string{"damaged"}) {
		t.Errorf("got %+v", answer)
	}
	if !strings.Contains(log.String(), "catalog=damaged") {
		t.Errorf("the log is %q", log.String())
	}
}
