package page

import (
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/operator-catalogs/catalogd/internal/channel"
)

// Each page answers whatever one of its requests to the API returns: an error of the service, one of a proxy, or half a response.
func TestPagesSurviveFaults(t *testing.T) {
	c := newContent(t)
	c.commit(t, "a", "1", packageFile(t, nil, manyVersions(3, true), channel.Channel{Package: "foo", Name: "beta", Entries: manyVersions(1, false).Entries}))
	c.commit(t, "b", "2", packageFile(t, nil, manyVersions(2, false)))
	api := apiOf(c.store)
	replies := map[string]struct {
		status int
		body   string
	}{
		"missing": {404, "404 Not Found\ncatalog \"a\" not found"}, "busy": {429, "429 Too Many Requests\nretry later"},
		"not validated": {503, "503 Service Unavailable\nretry later"}, "damaged": {500, "500 Internal Server Error\nthe content is damaged"},
		"forbidden": {403, "403 Forbidden\nforbidden"}, "unauthenticated": {401, "401 Unauthorized\nlog in"}, "page of a proxy": {200, "<html>hello"},
		"error of a proxy": {502, "<html><script>x</script>"}, "half": {200, `{"data":{"package":{"name":"fo`}, "nothing": {200, ""}, "null": {200, "null"},
		"empty object": {200, "{}"}, "no data": {200, `{"data":null,"errors":[{"message":"the catalog is gone"}]}`}, "empty data": {200, `{"data":{}}`},
		"redirect": {301, ""}, "no content": {204, ""}, "list": {200, "[]"}, "null fields": {200, `{"data":{"package":null,"packages":null,"bundles":null,"catalogs":null}}`},
		"nulls in fields": {200, `{"data":{"package":{"head":null,"channels":null,"channel":null,"catalog":null},"packages":{"nodes":null},"a":null,"b":null}}`},
	}
	var now atomic.Pointer[fault]
	faulty := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := now.Load()
		if f.count.Add(1) == f.failing {
			w.WriteHeader(f.status)
			_, _ = io.WriteString(w, f.body)
			return
		}
		api.ServeHTTP(w, r)
	})
	h := New(Config{Source: func(r *http.Request) Source { return Inside(faulty, r) }})
	for _, target := range []string{
		"/", "/?q=zzz", "/catalogs", "/catalogs/a", "/changes", "/changes?catalog=a", "/apis", "/apis/g/Kind", "/compare?from=a&to=b", "/graphql",
		"/catalogs/a/packages/foo", "/catalogs/a/packages/foo?tab=permissions", "/catalogs/a/packages/foo?tab=apis&version=1.1.0", "/catalogs/a/packages/absent",
		"/catalogs/a/packages/foo/channels/stable?from=1.0.0", "/catalogs/a/packages/foo/compare?permissions=1",
		"/catalogs/a/packages/foo/channels/stable/graph?format=svg", "/catalogs/a/raw/foo", "/watch?catalog=zzz",
	} {
		for name, reply := range replies {
			for failing := int32(1); ; failing++ {
				now.Store(&fault{failing: failing, status: reply.status, body: reply.body})
				w := send(h, "GET", target, "")
				if strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
					checkPage(t, target, w.Body.String())
				} else if w.Code == http.StatusInternalServerError && reply.status != http.StatusInternalServerError {
					t.Errorf("%s, request %d is %s: %s", target, failing, name, w.Body)
				}
				if w.Code < 200 || w.Code > 599 || w.Code >= 300 && w.Code < 400 && name != "redirect" {
					t.Errorf("%s, request %d is %s: status %d", target, failing, name, w.Code)
				}
				if now.Load().count.Load() < failing {
					break
				}
			}
		}
	}
}

// fault is what one request of those for a page returns.
type fault struct {
	count   atomic.Int32
	failing int32
	status  int
	body    string
}

// Readers who leave, and requests that abort or hang, leave no goroutine behind.
func TestFaultsLeaveNoGoroutines(t *testing.T) {
	c := newContent(t)
	c.commit(t, "a", "1", packageFile(t, nil, manyVersions(3, true)))
	before := runtime.NumGoroutine()
	for name, api := range map[string]http.HandlerFunc{
		"abort":       func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"panic":       func(http.ResponseWriter, *http.Request) { panic("x") },
		"endless":     func(w http.ResponseWriter, _ *http.Request) { writeUntilError(w) },
		"endless 500": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500); writeUntilError(w) },
		"half, abort": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "{")
			panic(http.ErrAbortHandler)
		},
		"goexit":        func(http.ResponseWriter, *http.Request) { runtime.Goexit() },
		"informational": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(103); w.WriteHeader(500) },
	} {
		h := New(Config{Source: func(r *http.Request) Source { return Inside(api, r) }})
		for _, target := range []string{"/", "/catalogs/a", "/changes", "/watch?catalog=a", "/catalogs/a/raw/foo", "/catalogs/a/packages/foo"} {
			func() {
				defer func() {
					if reason := recover(); reason != nil && reason != http.ErrAbortHandler { //nolint:errorlint // the value of a panic
						t.Errorf("%s, %s: panic: %v", name, target, reason)
					}
				}()
				send(h, "GET", target, "")
			}()
		}
	}
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<16)
			t.Fatalf("%d goroutines, before %d:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

func writeUntilError(w io.Writer) {
	text := []byte(strings.Repeat(" ", 1<<16))
	for {
		if _, err := w.Write(text); err != nil {
			return
		}
	}
}

// A page of an API that hangs ends.
func TestSlowPagesEnd(t *testing.T) {
	hanging := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	for name, source := range map[string]func(*http.Request) Source{
		"inside": func(r *http.Request) Source { return Inside(hanging, r) },
		"client": func(*http.Request) Source { return waiting{} },
	} {
		p := build(Config{Source: source})
		p.slowest = time.Millisecond
		if w := send(p.handler(), "GET", "/catalogs", ""); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: status %d, %s", name, w.Code, w.Body)
		}
	}
}

// waiting is a Source that answers nothing, with the error of http.Client.
type waiting struct{}

func (waiting) Do(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// Content that exceeds a limit of the API is no fault of the service: the page tells the limit, and nothing is logged.
func TestPagesTellLimits(t *testing.T) {
	api := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"data":null,"errors":[{"message":"the reply has more than 7 values"}]}`)
	})
	var log strings.Builder
	h := New(Config{Source: func(r *http.Request) Source { return Inside(api, r) }, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	w := send(h, "GET", "/catalogs/a/packages/p", "")
	if w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), "more than 7 values") || log.Len() > 0 {
		t.Errorf("status %d, log %s: %s", w.Code, log.String(), w.Body)
	}
}
