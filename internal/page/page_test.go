package page

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// get returns the response of a handler for a path, and its body.
func get(tb testing.TB, h http.Handler, path string) (*http.Response, []byte) {
	tb.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	body, err := io.ReadAll(w.Result().Body)
	if err != nil {
		tb.Fatal(err)
	}
	return w.Result(), body
}

// TestAllLinksResolve follows all links of all pages of the sample catalog, starting at the list of packages.
func TestAllLinksResolve(t *testing.T) {
	h := newPage(t, sampleCatalog)
	todo, seen := []string{"/"}, map[string]bool{"/": true}
	for len(todo) > 0 {
		path := todo[0]
		todo = todo[1:]
		resp, body := get(t, h, path)
		if resp.StatusCode != http.StatusOK {
			t.Errorf("GET %s: %s\n%s", path, resp.Status, body)
			continue
		}
		if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
			continue
		}
		for _, link := range linksOf(t, path, body) {
			if !seen[link] && strings.Count(link, "&") < 2 && !strings.Contains(link, "&to=") { // combinations of filters, or of versions, are endless
				seen[link] = true
				todo = append(todo, link)
			}
		}
	}
	for _, want := range []string{"/catalogs/catalog", "/catalogs/catalog/packages/dbaas-operator", "/help"} {
		if !seen[want] {
			t.Errorf("no link leads to %s", want)
		}
	}
	t.Logf("%d pages", len(seen))
}

// linksOf returns the addresses of this site that a page refers to. It fails for markup that the Content-Security-Policy forbids.
func linksOf(t *testing.T, path string, body []byte) []string {
	t.Helper()
	tree, err := html.Parse(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	base, err := url.Parse(path)
	if err != nil {
		t.Fatal(err)
	}
	var links []string
	for n := range tree.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if n.Data == "style" || n.Data == "script" && !slices.ContainsFunc(n.Attr, isSourceOrData) {
			t.Errorf("%s has an inline %s", path, n.Data)
		}
		for _, a := range n.Attr {
			if a.Key == "style" || strings.HasPrefix(a.Key, "on") {
				t.Errorf("%s: attribute %s of %s", path, a.Key, n.Data)
			}
			if a.Key != "href" && a.Key != "src" {
				continue
			}
			link, err := base.Parse(a.Val)
			if err != nil {
				t.Errorf("%s links to %q: %v", path, a.Val, err)
				continue
			}
			if link.Host == "" && link.Scheme == "" {
				link.Fragment = ""
				links = append(links, link.String())
			}
		}
	}
	return links
}

func isSourceOrData(a html.Attribute) bool {
	return a.Key == "src" || a.Key == "type" && a.Val == "application/json"
}

func TestStatus(t *testing.T) {
	h := newPage(t, sampleCatalog)
	for path, want := range map[string]struct {
		status int
		text   string
	}{
		"/":                               {200, "10 packages"},
		"/?q=database":                    {200, "for “database”"},
		"/?page=0":                        {400, "invalid page"},
		"/nothing":                        {404, "page &#34;/nothing&#34; not found"},
		"/catalogs/none":                  {404, "catalog &#34;none&#34; not found"},
		"/catalogs/Not_A_Name":            {400, "invalid catalog name"},
		"/catalogs/catalog/packages/none": {404, "not found in catalog"},
		"/catalogs/catalog/packages/dbaas-operator?tab=x":            {400, "unknown tab"},
		"/catalogs/catalog/packages/dbaas-operator?version=9.9.9":    {404, "version &#34;9.9.9&#34; not found"},
		"/catalogs/catalog/packages/dbaas-operator?version=0.5.0":    {200, "0.5.0"},
		"/catalogs/catalog/packages/dbaas-operator?channel=none":     {404, "channel &#34;none&#34; not found"},
		"/catalogs/catalog/digests/sha256:x/packages/dbaas-operator": {404, "invalid version"},
		"/assets/old/frame.css":                                      {404, ""},
		"/assets/" + assetsVersion + "/frame.css":                    {200, "--bg"},
	} {
		resp, body := get(t, h, path)
		if resp.StatusCode != want.status || !strings.Contains(string(body), want.text) {
			t.Errorf("GET %s: %s, want %d and %q\n%s", path, resp.Status, want.status, want.text, body)
		}
	}
}

func TestTheme(t *testing.T) {
	h := newPage(t, sampleCatalog)
	for cookie, want := range map[string]string{
		"":                          `<html lang="en">`,
		"catalogd-theme=dark":       `<html lang="en" data-theme="dark">`,
		"a=b; catalogd-theme=light": `<html lang="en" data-theme="light">`,
		"catalogd-theme=blue":       `<html lang="en">`,
		`catalogd-theme="><script>`: `<html lang="en">`,
		"catalogd-theme=><script>":  `<html lang="en">`,
	} {
		w := send(h, "GET", "/help", "", "Cookie: "+cookie)
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("cookie %q: %.60q, want %q", cookie, w.Body, want)
		}
	}
}

func TestUnchangedPageIsNotSentAgain(t *testing.T) {
	h := newPage(t, sampleCatalog)
	first, _ := get(t, h, "/")
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("If-None-Match", first.Header.Get("ETag"))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusNotModified || w.Body.Len() > 0 {
		t.Errorf("status %d with %d bytes, want 304 without content", w.Code, w.Body.Len())
	}
}
