package serve

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/operator-catalogs/catalogd/internal/auth"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// TestPagesOfOneVersion reads pages below the digest of the first page until the store removes it.
func TestPagesOfOneVersion(t *testing.T) {
	now := committedAt
	st, err := store.Open(t.TempDir(), store.Options{Now: func() time.Time { return now }, Grace: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	blob := func(version string) fstest.MapFS {
		return fstest.MapFS{"blob.json": {Data: []byte(`{"schema":"a","version":"` + version + `"}`)}}
	}
	commit(t, st, "moving", "1", blob("one"))
	commit(t, st, "other", "3", blob("three"))
	url := startServer(t, newHandler(st))
	first, body := do(t, http.MethodGet, url+"/catalogs/moving/api/v1/metas?schema=a", "")
	location := first.Header.Get("Content-Location")

	now = now.Add(10 * time.Second)
	commit(t, st, "moving", "2", blob("two"))
	if moved := get(t, url+"/catalogs/moving/api/v1/metas?schema=a"); moved == body {
		t.Error("the moving URL gives the old content")
	}
	again, bodyAgain := do(t, http.MethodGet, url+location, "")
	if again.StatusCode != http.StatusOK || bodyAgain != body || again.Header.Get(DigestHeader) != digestOf("1") ||
		again.Header.Get("ETag") != first.Header.Get("ETag") || again.Header.Get("Last-Modified") != first.Header.Get("Last-Modified") {
		t.Errorf("%s: status %d, %q, header %v; want %q and the headers of %v", location, again.StatusCode, bodyAgain, again.Header, body,
			first.Header)
	}
	if other := strings.Replace(location, "/moving/", "/other/", 1); statusOf(t, url+other) != http.StatusNotFound {
		t.Errorf("%s is found, though that catalog never served the digest", other)
	}

	now = now.Add(2 * time.Hour)
	if err := st.Sweep(); err != nil {
		t.Fatal(err)
	}
	gone, text := do(t, http.MethodGet, url+location, "")
	want := "404 Not Found\nversion " + digestOf("1") + " of catalog \"moving\" not found, or no longer kept; " +
		"the current version is at https://catalogd.example/catalogs/moving/digests/" + digestOf("2") + "\n"
	if gone.StatusCode != http.StatusNotFound || text != want || gone.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("after the sweep: status %d, %q, want %q", gone.StatusCode, text, want)
	}
}

// TestSharedCaches checks that shared caches must not store content that needs access.
func TestSharedCaches(t *testing.T) {
	st := openStore(t)
	commit(t, st, "small", "1", os.DirFS("testdata/small"))
	cfg := testConfig(st)
	cfg.Access = &fakeAccess{user: "somebody", decide: func(string) auth.Decision { return auth.Decision{Allowed: true} }}
	resp, _ := do(t, http.MethodGet, startServer(t, New(cfg))+"/catalogs/small/digests/"+digestOf("1")+"/api/v1/all", "")
	if got, want := resp.Header.Get("Cache-Control"), "private, max-age=31536000, immutable"; got != want {
		t.Errorf("Cache-Control: got %q, want %q", got, want)
	}
}
