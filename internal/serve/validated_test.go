package serve

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/store"
)

// A catalog without validation results, as after a crash, is served. Requests that need its packages get 503, or results without it.
func TestContentBeforeValidation(t *testing.T) {
	dir := t.TempDir()
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	commit(t, st, "small", "1", os.DirFS("testdata/small"))
	commit(t, st, "other", "2", os.DirFS("testdata/small"))
	small, _ := st.Catalog("small")
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "snapshots", small.Snapshot.Key(), "packages")); err != nil {
		t.Fatal(err)
	}
	if st, err = store.Open(dir, store.Options{}); err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	url := startServer(t, New(testConfig(st)))

	const query = "graphql?query=%7Bpackages%7Bnodes%7Bcatalog%7Bname%7D%7D%7D%7D"
	for _, path := range []string{"/api/v1/search?q=operator&catalog=small", "/catalogs/small/api/v1/" + query} {
		resp, body := do(t, http.MethodGet, url+path, "")
		if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "1" || !strings.Contains(body, `"small"`) {
			t.Errorf("%s: got %d, Retry-After %q: %s", path, resp.StatusCode, resp.Header.Get("Retry-After"), body)
		}
	}
	for _, path := range []string{"/api/v1/search?q=operator", "/api/v1/" + query} {
		resp, body := do(t, http.MethodGet, url+path, "")
		if resp.StatusCode != http.StatusOK || !strings.Contains(body, `"other"`) || strings.Contains(body, `"small"`) {
			t.Errorf("%s: got %d: %s", path, resp.StatusCode, body)
		}
	}
	for _, path := range []string{"/catalogs", "/catalogs/small/api/v1/all", "/catalogs/small/api/v1/packages"} {
		if resp, body := do(t, http.MethodGet, url+path, ""); resp.StatusCode != http.StatusOK {
			t.Errorf("%s: got %d: %s", path, resp.StatusCode, body)
		}
	}
}
