package page

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"
)

// send sends a request with headers ("Name: value") to a handler.
func send(h http.Handler, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// Every response of the page has the security headers, and none lets other origins read it.
func TestEveryResponseIsProtected(t *testing.T) {
	const csp = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
		"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types catalogd"
	h := Mount(newAPI(t, sampleCatalog), Config{Login: true, Logger: testLogger(t)})
	const form = "Content-Type: application/x-www-form-urlencoded"
	asset := "/ui/assets/" + assetsVersion + "/frame.css"
	for _, test := range []struct {
		method, target, header string
		status                 int
	}{
		{"GET", "/ui/catalogs", "", http.StatusOK},
		{"HEAD", "/ui/catalogs", "", http.StatusOK},
		{"GET", "/ui/catalogs", "Origin: https://evil.example", http.StatusOK},
		{"GET", "/ui", "", http.StatusSeeOther},
		{"GET", "/", "Accept: text/html", http.StatusSeeOther},
		{"GET", "/ui/catalogs/catalog", "", http.StatusOK},
		{"GET", "/ui/catalogs/absent", "", http.StatusNotFound},
		{"GET", "/ui/nothing", "", http.StatusNotFound},
		{"GET", "/ui/catalogs/", "", http.StatusPermanentRedirect},
		{"GET", "/ui/catalogs//x", "", http.StatusNotFound},
		{"GET", "/ui/../catalogs", "", http.StatusNotFound},
		{"GET", asset, "", http.StatusOK},
		{"GET", asset, "Accept-Encoding: gzip", http.StatusOK},
		{"GET", "/ui/assets/old/frame.css", "", http.StatusNotFound},
		{"GET", "/ui/catalogs/catalog/raw/skupper-operator", "", http.StatusOK},
		{"GET", "/ui/catalogs/catalog/raw/absent", "", http.StatusNotFound},
		{"POST", "/ui/graphql", "Content-Type: application/json", http.StatusBadRequest},
		{"POST", "/ui/graphql", form, http.StatusUnsupportedMediaType},
		{"POST", "/ui/login", form, http.StatusUnprocessableEntity},
		{"POST", "/ui/login", "Content-Type: text/plain", http.StatusUnsupportedMediaType},
		{"POST", "/ui/logout", form, http.StatusSeeOther},
		{"POST", "/ui/", form, http.StatusMethodNotAllowed},
		{"POST", "/ui/catalogs", form, http.StatusMethodNotAllowed},
		{"OPTIONS", "/ui/graphql", "Origin: https://evil.example", http.StatusMethodNotAllowed},
		{"GET", "/ui/", "Sec-Fetch-Site: cross-site", http.StatusForbidden},
		{"POST", "/ui/login", "Origin: https://evil.example", http.StatusForbidden},
	} {
		w := send(h, test.method, test.target, "", test.header)
		if w.Code != test.status {
			t.Errorf("%s %s, %s: status %d, want %d: %s", test.method, test.target, test.header, w.Code, test.status, w.Body)
		}
		for name, want := range map[string]string{
			"Content-Security-Policy": csp, "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Access-Control-Allow-Origin": "",
		} {
			if got := strings.Join(w.Header().Values(name), "|"); got != want {
				t.Errorf("%s %s, %s: %s: %s, want %s", test.method, test.target, test.header, name, got, want)
			}
		}
		if w.Code >= http.StatusBadRequest && strings.Contains(w.Header().Get("Cache-Control"), "max-age") {
			t.Errorf("%s %s, %s: browsers keep an error: %s", test.method, test.target, test.header, w.Header().Get("Cache-Control"))
		}
	}
}

// Pages of other origins can only link to the page. A sibling domain is another origin.
func TestFetchMetadata(t *testing.T) {
	h := protect(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	kinds := []struct {
		method, mode, dest string
		foreign            bool // allowed for other origins
	}{
		{"GET", "navigate", "document", true},
		{"HEAD", "navigate", "document", true},
		{"GET", "navigate", "iframe", false},
		{"GET", "navigate", "object", false},
		{"GET", "navigate", "embed", false},
		{"GET", "navigate", "", false},
		{"GET", "no-cors", "image", false},
		{"GET", "no-cors", "script", false},
		{"GET", "no-cors", "style", false},
		{"GET", "cors", "empty", false},
		{"GET", "cors", "document", false},
		{"GET", "websocket", "websocket", false},
		{"GET", "", "", false},
		{"POST", "navigate", "document", false},
		{"POST", "cors", "empty", false},
		{"POST", "no-cors", "empty", false},
		{"DELETE", "cors", "empty", false},
	}
	for _, site := range []string{"", "none", "same-origin", "same-site", "cross-site", "unknown"} {
		for _, kind := range kinds {
			var headers []string
			for name, value := range map[string]string{"Sec-Fetch-Site": site, "Sec-Fetch-Mode": kind.mode, "Sec-Fetch-Dest": kind.dest} {
				if value != "" {
					headers = append(headers, name+": "+value)
				}
			}
			want := http.StatusOK
			if site != "" && site != "none" && site != "same-origin" && !kind.foreign {
				want = http.StatusForbidden
			}
			if w := send(h, kind.method, "/", "", headers...); w.Code != want {
				t.Errorf("%s, %+v: status %d, want %d", site, kind, w.Code, want)
			}
		}
	}
	for _, test := range []struct {
		origin string // of a POST by a browser without Fetch Metadata
		status int
	}{
		{"https://example.com", http.StatusOK},
		{"https://evil.example", http.StatusForbidden},
		{"https://sub.example.com", http.StatusForbidden},
		{"null", http.StatusForbidden},
	} {
		if w := send(h, "POST", "https://example.com/", "", "Origin: "+test.origin); w.Code != test.status {
			t.Errorf("POST from %s: status %d, want %d", test.origin, w.Code, test.status)
		}
	}
}

// Paths with relative elements never reach the API.
func TestPathsStayInside(t *testing.T) {
	api := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("a request reached the API: %s", r.URL) })
	h := Mount(api, Config{Logger: testLogger(t)})
	for _, path := range []string{
		"..", ".", "a/..", "%2e%2e", "..%2f..", "a%2F..%2F..%2Fb", ".%2e/b", "/b", "%2F", "a//b", "a%2f%2fb",
	} {
		for _, target := range []string{"/catalogs/%s/raw/p", "/catalogs/c/raw/%s", "/catalogs/%s", "/catalogs/c/packages/%s/channels/ch/graph"} {
			target = "/ui" + fmt.Sprintf(target, path)
			if w := send(h, "GET", target, ""); w.Code != http.StatusNotFound {
				t.Errorf("%s: status %d, Location %s", target, w.Code, w.Header().Get("Location"))
			}
		}
	}
}

// Neither parameters nor names of a catalog make a request leave its path.
func TestNamesStayInside(t *testing.T) {
	var (
		mu    sync.Mutex // pages send requests at the same time
		paths []string
	)
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		paths = append(paths, r.URL.Path)
		_, _ = io.WriteString(w, `{"data":{"package":{"name":"p","head":{"name":".."}}}}`)
	})
	h := New(Config{Source: func(r *http.Request) Source { return Inside(api, r) }})
	for _, target := range []string{
		"/watch?catalog=..", "/changes?catalog=..", "/apis?catalog=..", "/apis/g/K?catalog=a/../b", "/graphql?catalog=.", "/?catalog=..",
		"/compare?from=..@v&to=..", "/compare?from=c@..&to=c", "/catalogs/c/packages/p?tab=permissions", "/catalogs/c/packages/p?version=x",
	} {
		send(h, "GET", target, "")
	}
	send(h, "POST", "/graphql?catalog=..", "{}", "Content-Type: application/json")
	for _, p := range paths {
		if path.Clean(p) != p {
			t.Errorf("a request for %s reached the API", p)
		}
	}
	if len(paths) < 10 {
		t.Errorf("requests to the API: %q", paths)
	}
}

func TestMount(t *testing.T) {
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Host+r.URL.Path) })
	h := Mount(api, Config{Logger: testLogger(t)})
	for _, test := range []struct{ target, accept, want string }{
		{"/", "*/*", "example.com/"},
		{"/", "text/html,*/*", "ui/"},
		{"/ui", "*/*", "ui/"},
		{"/catalogs", "text/html", "example.com/catalogs"},
		{"/uix", "text/html", "example.com/uix"},
		{"/a/ui/", "", "example.com/a/ui/"},
		{"/%75i/", "", "example.com/ui/"},
		{"/ui/help", "", "Help"},
	} {
		w := send(h, "GET", test.target, "", "Accept: "+test.accept)
		if got := w.Header().Get("Location") + w.Body.String(); got != test.want && (test.want != "Help" || !strings.Contains(got, "<h1>")) {
			t.Errorf("%s, %s: got %s, want %s", test.target, test.accept, got, test.want)
		}
	}
}
