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

func TestRetries(t *testing.T) {
	busy := func(w http.ResponseWriter) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	lacks := func(w http.ResponseWriter) { w.Header().Set(missingHeader, "new") }
	fine := func(http.ResponseWriter) {}
	for name, test := range map[string]struct {
		answers  []func(http.ResponseWriter)
		asked    int
		reported string // missing catalogs
		code     int    // of the error
	}{
		"first attempt":                 {answers: []func(http.ResponseWriter){fine}, asked: 1},
		"busy once":                     {answers: []func(http.ResponseWriter){busy, fine}, asked: 2},
		"another replica answers later": {answers: []func(http.ResponseWriter){lacks, lacks, fine}, asked: 3},
		"missing everywhere":            {answers: []func(http.ResponseWriter){lacks}, asked: attempts, reported: "new"},
		"asked to wait an hour": {answers: []func(http.ResponseWriter){func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusTooManyRequests)
		}}, asked: 1, code: http.StatusTooManyRequests},
		"not found": {
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
			service.http.Transport = &http.Transport{} // not shared: closing a server closes idle connections of the default one
			reported := ""
			service.Missing = func(catalogs string) { reported = catalogs }
			resp, err := service.Get(context.Background(), "/catalogs", nil, nil)
			if err == nil {
				_ = resp.Body.Close()
			}
			code := 0
			if refused, ok := errors.AsType[*Error](err); ok {
				code = refused.Code
			}
			if asked != test.asked || reported != test.reported || code != test.code {
				t.Errorf("asked %d times, reported %q, error %v; want %d, %q, %d", asked, reported, err, test.asked, test.reported, test.code)
			}
		})
	}
}

func TestMissingCatalogsAreAwaitedAndReportedOnce(t *testing.T) {
	t.Parallel()
	asked, reported := 0, 0
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
	service.Missing = func(string) { reported++ }
	service.missing = "old" // awaited before
	for range 3 {
		resp, err := service.Get(t.Context(), "/catalogs", url.Values{"lacks": {"old"}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	if asked != 3 || reported != 0 {
		t.Errorf("asked %d times, reported %d times", asked, reported)
	}
	resp, err := service.Get(t.Context(), "/catalogs", url.Values{"lacks": {"new"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if asked != 3+attempts || reported != 1 || service.missing != "new" {
		t.Errorf("another catalog: asked %d times, reported %d times", asked-3, reported)
	}
}
