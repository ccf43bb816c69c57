package page

import (
	"net/http"
	"net/url"
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
