package page

import (
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
)

// The sample catalog has a configDir, so its version is more than its digest.
func TestPinnedURLsResolve(t *testing.T) {
	h := newPage(t, sampleCatalog)
	for _, path := range []string{"/catalogs/catalog/packages/dbaas-operator?tab=versions", "/catalogs/catalog/packages/dbaas-operator/channels/stable"} {
		pinned := ""
		for _, link := range elements(parsed(t, h, path), "link") {
			if isPinned := attribute(link, "rel") == "alternate"; isPinned {
				pinned = attribute(link, "href")
			}
		}
		base, err := url.Parse(path)
		if err != nil {
			t.Fatal(err)
		}
		target, err := base.Parse(pinned)
		if err != nil || target.Path == base.Path {
			t.Errorf("%s: pinned URL %q, error %v", path, pinned, err)
			continue
		}
		if resp, body := get(t, h, target.String()); resp.StatusCode != http.StatusOK {
			t.Errorf("GET %s: %s\n%s", target, resp.Status, body)
		}
	}
}

// A catalog that changes after the first query for a page does not change the rest of the page.
func TestPageShowsOneVersion(t *testing.T) {
	for _, path := range []string{"/compare?a=1.0.0&b=1.1.0", "/compare?a=1.0.0&b=1.1.0&permissions=1", "?tab=permissions", "/channels/stable?from=1.1.0&to=1.0.0"} {
		c := newContent(t)
		beta := `{"schema":"olm.channel","package":"foo","name":"beta","entries":[{"name":"foo.v1.0.0"},{"name":"foo.v1.1.0","skips":["foo.v1.0.0"]}]}`
		c.commit(t, "a", "1", []byte(packageJSON("foo", "1.0.0", "", "1.1.0", "")+beta))
		api, requests := apiOf(c.store), atomic.Int64{}
		page := pageOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/catalogs/a/") && requests.Add(1) == 2 {
				c.commit(t, "a", "2", []byte(packageJSON("foo", "2.0.0", "", "2.1.0", "")))
			}
			if requests.Load() > 1 && strings.HasPrefix(r.URL.Path, "/catalogs/a/api/") {
				t.Errorf("%s: %s reads the current version", path, r.URL.Path)
			}
			api.ServeHTTP(w, r)
		}))
		resp, body := get(t, page, "/catalogs/a/packages/foo"+path)
		if resp.StatusCode != http.StatusOK || !strings.Contains(string(body), "1.1.0") || requests.Load() < 2 {
			t.Errorf("GET %s: %s after %d requests, or without version 1.1.0", path, resp.Status, requests.Load())
		}
	}
}

func TestPagesWatchTheirCatalogs(t *testing.T) {
	h := newPage(t, sampleCatalog)
	for path, want := range map[string]string{
		"/": watchAll, "/?catalog=catalog": watchListed, "/catalogs/catalog": watchListed,
		"/catalogs/catalog/packages/dbaas-operator": watchListed, "/catalogs/catalog/packages/dbaas-operator/channels/stable": watchListed, "/help": "",
	} {
		if got := attribute(elements(parsed(t, h, path), "body")[0], "data-watch"); got != want {
			t.Errorf("%s watches %q, want %q", path, got, want)
		}
	}
}
