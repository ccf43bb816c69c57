package page

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// within runs a test of Inside. It fails if a goroutine remains or on a deadlock.
func within(t *testing.T, handler http.HandlerFunc, test func(t *testing.T, do func(method string) (*http.Response, error), cancel func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		source := Inside(handler, httptest.NewRequest(http.MethodGet, "/", nil))
		test(t, func(method string) (*http.Response, error) {
			r, err := http.NewRequestWithContext(ctx, method, "/a", nil)
			if err != nil {
				t.Fatal(err)
			}
			return source.Do(r)
		}, cancel)
	})
}

func TestInsidePassesResponses(t *testing.T) {
	handler := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X", "sent")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusTeapot)
		w.WriteHeader(http.StatusOK)
		w.Header().Set("X", "too late")
		_, _ = io.WriteString(w, "a")
		_, _ = io.WriteString(w, "b")
	}
	for method, want := range map[string]string{http.MethodGet: "ab", http.MethodHead: ""} {
		within(t, handler, func(t *testing.T, do func(string) (*http.Response, error), _ func()) {
			resp, err := do(method)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil || string(body) != want || resp.StatusCode != http.StatusTeapot || resp.Header.Get("X") != "sent" {
				t.Errorf("%s: got %d, X: %s, %q, %v; want 418, sent, %q", method, resp.StatusCode, resp.Header.Get("X"), body, err, want)
			}
		})
	}
}

func TestInsidePassesEmptyResponses(t *testing.T) {
	within(t, func(http.ResponseWriter, *http.Request) {}, func(t *testing.T, do func(string) (*http.Response, error), _ func()) {
		resp, err := do(http.MethodGet)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if body, err := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK || len(body) > 0 || err != nil {
			t.Errorf("got %d, %q, %v", resp.StatusCode, body, err)
		}
	})
}

// A flushed header arrives although the handler has not written anything, as at the beginning of a feed.
func TestInsidePassesFlushedHeader(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		<-r.Context().Done()
	}
	within(t, handler, func(t *testing.T, do func(string) (*http.Response, error), _ func()) {
		resp, err := do(http.MethodGet)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil { // the handler ends
			t.Error(err)
		}
	})
}

// A handler that fails is an error, never a response that seems complete.
func TestInsideReportsFailures(t *testing.T) {
	for name, fail := range map[string]func(){
		"source_test.go": func() { panic("a fault") }, // the stack names this file
		"abort Handler":  func() { panic(http.ErrAbortHandler) },
		"aborted":        runtime.Goexit,
	} {
		within(t, func(http.ResponseWriter, *http.Request) { fail() }, func(t *testing.T, do func(string) (*http.Response, error), _ func()) {
			resp, err := do(http.MethodGet)
			if err == nil {
				resp.Body.Close()
			}
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("before the header: got error %v, want %q", err, name)
			}
		})
		partly := func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "a")
			fail()
		}
		within(t, partly, func(t *testing.T, do func(string) (*http.Response, error), _ func()) {
			resp, err := do(http.MethodGet)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if body, err := io.ReadAll(resp.Body); string(body) != "a" || err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("after a part: got %q, error %v, want %q", body, err, name)
			}
		})
	}
}

// A reader that leaves cancels the handler's request, and its writes fail.
func TestInsideEndsWhenTheReaderLeaves(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		for err := error(nil); err == nil; {
			_, err = io.WriteString(w, "more")
		}
		<-r.Context().Done()
	}
	within(t, handler, func(t *testing.T, do func(string) (*http.Response, error), _ func()) {
		resp, err := do(http.MethodGet)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(resp.Body, make([]byte, 6)); err != nil {
			t.Error(err)
		}
		resp.Body.Close()
	})
}

// Canceling a request ends Do and reading, even if the handler goes on.
func TestInsideEndsWhenCanceled(t *testing.T) {
	silent := func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		time.Sleep(time.Hour)
	}
	within(t, silent, func(t *testing.T, do func(string) (*http.Response, error), cancel func()) {
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		if _, err := do(http.MethodGet); !errors.Is(err, context.Canceled) || time.Since(start) != time.Second {
			t.Errorf("before the header: got error %v after %v", err, time.Since(start))
		}
		time.Sleep(2 * time.Hour) // the handler ends
	})
	stubborn := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "a")
		time.Sleep(time.Hour)
		if _, err := io.WriteString(w, "b"); err == nil {
			t.Error("the handler can write to a reader that has gone")
		}
	}
	within(t, stubborn, func(t *testing.T, do func(string) (*http.Response, error), cancel func()) {
		resp, err := do(http.MethodGet)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		if body, err := io.ReadAll(resp.Body); string(body) != "a" || !errors.Is(err, context.Canceled) || time.Since(start) != time.Second {
			t.Errorf("in the body: got %q, error %v after %v", body, err, time.Since(start))
		}
		time.Sleep(2 * time.Hour)
	})
}

// Only credentials of the reader reach the handler.
func TestInsidePassesCredentials(t *testing.T) {
	reader := httptest.NewRequest(http.MethodPost, "https://catalogs.example/ui/?a=b", strings.NewReader("form"))
	reader.Header = http.Header{
		"Authorization": {"Bearer a"}, tokenHeader: {"Bearer b"}, "Cookie": {"c=d"}, "X-Remote-User": {"admin"}, "Impersonate-User": {"admin"},
	}
	reader.TLS = &tls.ConnectionState{ServerName: "catalogs.example"}
	var got *http.Request
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = r
		r.Header.Del("Authorization")
	})
	r := httptest.NewRequest(http.MethodGet, "/catalogs?x=y", nil)
	r.Header.Set("Accept", "application/json")
	resp, err := Inside(handler, reader).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if diff := cmp.Diff(http.Header{tokenHeader: {"Bearer b"}, "Accept": {"application/json"}}, got.Header); diff != "" {
		t.Errorf("headers after the handler removed one (-want +got):\n%s", diff)
	}
	body, err := io.ReadAll(got.Body)
	if got.TLS != reader.TLS || got.Host != "catalogs.example" || got.URL.String() != "/catalogs?x=y" || len(body) > 0 || err != nil {
		t.Errorf("got %s %s, TLS %v, body %q, %v", got.Host, got.URL, got.TLS, body, err)
	}
	if reader.Header.Get("Authorization") == "" || len(r.Header) != 1 {
		t.Errorf("the requests changed: %v, %v", reader.Header, r.Header)
	}
}
