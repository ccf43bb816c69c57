package content

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"k8s.io/client-go/rest"
)

// TestAgain has a service answer in a row what it is told, and counts how often it is asked.
func TestAgain(t *testing.T) {
	busy := func(w http.ResponseWriter) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	lacks := func(w http.ResponseWriter) { w.Header().Set(missingHeader, "new") }
	fine := func(http.ResponseWriter) {}
	for name, test := range map[string]struct {
		answers []func(http.ResponseWriter)
		asked   int
		told    string // of what is missing
		code    int    // of the error
	}{
		"at once":            {answers: []func(http.ResponseWriter){fine}, asked: 1},
		"busy for a moment":  {answers: []func(http.ResponseWriter){busy, fine}, asked: 2},
		"another replica":    {answers: []func(http.ResponseWriter){lacks, lacks, fine}, asked: 3},
		"missing everywhere": {answers: []func(http.ResponseWriter){lacks}, asked: attempts, told: "new"},
		"asked to wait an hour": {answers: []func(http.ResponseWriter){func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusTooManyRequests)
		}}, asked: 1, code: http.StatusTooManyRequests},
		"no such thing": {
			answers: []func(http.ResponseWriter){func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) }},
			asked:   1,
			code:    http.StatusNotFound,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				test.answers[min(asked, len(test.answers)-1)](w)
				asked++
			}))
			defer server.Close()
			at, err := ParseAddress(server.URL, "")
			if err != nil {
				t.Fatal(err)
			}
			service, err := Direct(&rest.Config{}, at, Options{})
			if err != nil {
				t.Fatal(err)
			}
			service.http.Transport = &http.Transport{} // its own: a server that closes closes the idle connections of the one that all share
			told := ""
			service.Missing = func(catalogs string) { told = catalogs }
			resp, err := service.Get(context.Background(), "/catalogs", nil, nil)
			if err == nil {
				_ = resp.Body.Close()
			}
			code := 0
			if refused, ok := errors.AsType[*Error](err); ok {
				code = refused.Code
			}
			if asked != test.asked || told != test.told || code != test.code {
				t.Errorf("asked %d times, told %q, error %v; want %d, %q, %d", asked, told, err, test.asked, test.told, test.code)
			}
		})
	}
}

// What lacks everywhere is waited for and told of once, not with each page.
func TestMissingIsWaitedForOnce(t *testing.T) {
	t.Parallel()
	asked, told := 0, 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		w.Header().Set(missingHeader, r.URL.Query().Get("lacks"))
	}))
	defer server.Close()
	at, err := ParseAddress(server.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	service, err := Direct(&rest.Config{}, at, Options{})
	if err != nil {
		t.Fatal(err)
	}
	service.Missing = func(string) { told++ }
	service.missing = "old" // was waited for
	for range 3 {
		resp, err := service.Get(t.Context(), "/catalogs", url.Values{"lacks": {"old"}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	if asked != 3 || told != 0 {
		t.Errorf("asked %d times, told %d times", asked, told)
	}
	resp, err := service.Get(t.Context(), "/catalogs", url.Values{"lacks": {"new"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if asked != 3+attempts || told != 1 || service.missing != "new" {
		t.Errorf("of another: asked %d times, told %d times", asked-3, told)
	}
}
