package page

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func testLogger(testing.TB) *slog.Logger { return slog.New(slog.DiscardHandler) }

// Each forwarded path maps to one path of the API, with some of its parameters.
func TestForwards(t *testing.T) {
	var got string
	api := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = r.Method + " " + r.URL.RequestURI() + " " + string(body)
	})
	h := Mount(api, Config{Logger: testLogger(t)})
	for _, test := range []struct{ method, target, want string }{
		{"GET", "/catalogs/c/icons/abc", "GET /catalogs/c/api/v1/icons/abc/80 "},
		{"HEAD", "/catalogs/c/icons/abc", "HEAD /catalogs/c/api/v1/icons/abc/80 "},
		{"GET", "/catalogs/c/digests/d/icons/abc?x=y", "GET /catalogs/c/digests/d/api/v1/icons/abc/80 "},
		{"GET", "/catalogs/c/raw/p%20q", "GET /catalogs/c/api/v1/packages/p%20q "},
		{"GET", "/catalogs/c/digests/d/raw/p", "GET /catalogs/c/digests/d/api/v1/packages/p "},
		{"GET", "/catalogs/c/packages/p/channels/a%2Fb/graph?format=svg&x=y", "GET /catalogs/c/api/v1/packages/p/channels/a%2Fb/graph?format=svg "},
		{"GET", "/catalogs/c/digests/d/packages/p/channels/ch/graph", "GET /catalogs/c/digests/d/api/v1/packages/p/channels/ch/graph "},
		{"GET", "/watch", "GET /api/v1/watch "},
		{"GET", "/watch?catalog=c", "GET /catalogs/c/api/v1/watch "},
		{"POST", "/graphql", `POST /api/v1/graphql {"query":"{a}"}`},
		{"POST", "/graphql?catalog=c&x=y", `POST /catalogs/c/api/v1/graphql {"query":"{a}"}`},
	} {
		got = ""
		body := ""
		if test.method == http.MethodPost {
			body = `{"query":"{a}"}`
		}
		send(h, test.method, "/ui"+test.target, body, "Content-Type: application/json; charset=utf-8")
		if got != test.want {
			t.Errorf("%s %s: got %q, want %q", test.method, test.target, got, test.want)
		}
	}
}

// An icon that the API does not have is a placeholder. Other errors, and other missing files, stay what they are.
func TestMissingIcon(t *testing.T) {
	status := http.StatusNotFound
	h := Mount(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }), Config{Logger: testLogger(t)})
	got := send(h, http.MethodGet, "/ui/catalogs/c/icons/abc", "")
	if got.Code != http.StatusOK || got.Header().Get("Content-Type") != "image/svg+xml" || got.Header().Get("Content-Security-Policy") != imagePolicy {
		t.Errorf("a missing icon: status %d, %v", got.Code, got.Header())
	}
	if got := send(h, http.MethodGet, "/ui/catalogs/c/raw/p", ""); got.Code != http.StatusNotFound {
		t.Errorf("a missing package: status %d", got.Code)
	}
	status = http.StatusForbidden
	if got := send(h, http.MethodGet, "/ui/catalogs/c/icons/abc", ""); got.Code != http.StatusForbidden {
		t.Errorf("a forbidden icon: status %d", got.Code)
	}
}

// Only known headers pass in each direction. A document that could be a page becomes a download.
func TestForwardedHeaders(t *testing.T) {
	var asked http.Header
	var contentType, cache string
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Header
		h := w.Header()
		for name, value := range map[string]string{
			"Set-Cookie": "a=b", "Access-Control-Allow-Origin": "*", "Content-Security-Policy": "default-src *", "Location": "https://evil.example",
			"Clear-Site-Data": "*", "Refresh": "0;url=https://evil.example", "ETag": `"x"`, "Content-Type": contentType, "Cache-Control": cache,
		} {
			if value != "" {
				h.Set(name, value)
			}
		}
		_, _ = io.WriteString(w, "<!doctype html><script>x</script>")
	})
	h := Mount(api, Config{Logger: testLogger(t)})
	for _, test := range []struct{ contentType, cache, wantType, wantCache, wantPolicy string }{
		{"application/json", "no-cache", "application/json", "private, no-cache", policy},
		{"application/jsonl", "public, max-age=9, immutable", "application/jsonl", "private, max-age=9, immutable", policy},
		{"text/plain; charset=utf-8", "no-store", "text/plain; charset=utf-8", "no-store", policy},
		{"text/event-stream", "", "text/event-stream", "private, no-cache", policy},
		{"image/svg+xml", "max-age=9", "image/svg+xml", "private, max-age=9", imagePolicy},
		{"Image/PNG", "", "Image/PNG", "private, no-cache", imagePolicy},
		{"text/html", "", "application/octet-stream", "private, no-cache", policy},
		{"application/xhtml+xml", "", "application/octet-stream", "private, no-cache", policy},
		{"text/xml", "", "application/octet-stream", "private, no-cache", policy},
		{"text/javascript", "", "application/octet-stream", "private, no-cache", policy},
		{"multipart/x-mixed-replace", "", "application/octet-stream", "private, no-cache", policy},
		{"", "", "application/octet-stream", "private, no-cache", policy},
	} {
		contentType, cache = test.contentType, test.cache
		w := send(h, "GET", "/ui/catalogs/c/raw/p", "", "Cookie: a=b", "X-Forwarded-User: admin", "Range: bytes=0-1", "If-None-Match: x", "Accept: a")
		want := http.Header{"Etag": {`"x"`}, "Content-Type": {test.wantType}, "Content-Security-Policy": {test.wantPolicy}, "Cache-Control": {test.wantCache}}
		got := w.Header().Clone()
		for _, name := range []string{"X-Content-Type-Options", "X-Frame-Options", "Referrer-Policy", "Cross-Origin-Opener-Policy", "Cross-Origin-Resource-Policy"} {
			got.Del(name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.contentType, diff)
		}
		if diff := cmp.Diff(http.Header{"If-None-Match": {"x"}, "Accept": {"a"}}, asked); diff != "" {
			t.Errorf("%s: request (-want +got):\n%s", test.contentType, diff)
		}
	}
}

// Browsers detect incomplete responses.
func TestForwardBreaksOff(t *testing.T) {
	endless := strings.Repeat("x", 1<<20)
	for name, write := range map[string]func(http.ResponseWriter){
		"failure": func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, "part")
			panic(http.ErrAbortHandler)
		},
		"endless": func(w http.ResponseWriter) {
			for err := error(nil); err == nil; {
				_, err = io.WriteString(w, endless)
			}
		},
	} {
		api := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			write(w)
		})
		server := httptest.NewServer(Mount(api, Config{Logger: testLogger(t)}))
		resp, err := http.Get(server.URL + "/ui/catalogs/c/raw/p")
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, resp.Body); err == nil || n > maxResponse {
			t.Errorf("%s: got %d bytes, and no error", name, n)
		}
		resp.Body.Close()
		server.Close()
	}
}

// A forwarded feed sends each event at once, and ends when the browser disconnects.
func TestForwardFeed(t *testing.T) {
	ended := make(chan struct{})
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: a\n")
		<-r.Context().Done()
	})
	server := httptest.NewServer(Mount(api, Config{Logger: testLogger(t)}))
	defer server.Close()
	resp, err := http.Get(server.URL + "/ui/watch")
	if err != nil {
		t.Fatal(err)
	}
	event := make([]byte, 9)
	if _, err := io.ReadFull(resp.Body, event); err != nil || string(event) != "event: a\n" {
		t.Errorf("got %q, %v", event, err)
	}
	resp.Body.Close()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the feed goes on")
	}
}

func TestQueryAPIAccepts(t *testing.T) {
	h := newPage(t, sampleCatalog)
	const query = `{"query":"{catalogs{name}}"}`
	for _, test := range []struct {
		contentType, body string
		status            int
	}{
		{"application/json", query, http.StatusOK},
		{"Application/JSON ; charset=utf-8", query, http.StatusOK},
		{"text/plain", query, http.StatusUnsupportedMediaType},
		{"application/x-www-form-urlencoded", query, http.StatusUnsupportedMediaType},
		{"multipart/form-data; boundary=application/json", query, http.StatusUnsupportedMediaType},
		{"", query, http.StatusUnsupportedMediaType},
		{"application/json", "query=a", http.StatusBadRequest},
		{"application/json", `{"query":"` + strings.Repeat("a", maxQuery) + `"}`, http.StatusBadRequest},
	} {
		if w := send(h, "POST", "/graphql", test.body, "Content-Type: "+test.contentType); w.Code != test.status {
			t.Errorf("%s, %.40s: status %d, want %d: %s", test.contentType, test.body, w.Code, test.status, w.Body)
		}
	}
}
