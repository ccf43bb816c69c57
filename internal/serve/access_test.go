package serve

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestAccess(t *testing.T) {
	st := newTestStore(t)
	paths := []string{
		"/catalogs", "/catalogs/small", "/catalogs/small/api/v1/all", "/catalogs/nowhere/api/v1/all", "/catalogs/Not a name/api/v1/all",
		"/catalogs/small/digests/" + digestOf("1") + "/api/v1/all", "/catalogs/small/api/v1/watch", "/api/v1/graphql", "/api/v1/search?q=a",
		"/openapi.json", "/version", "/nothing", "/catalogs/small/../icons/api/v1/all",
	}
	for _, test := range []struct {
		name          string
		user          string
		allowed       bool
		reason        string
		err           error
		status        int
		header, value string
		text          string // "PATH" is the request's
	}{
		{
			name: "nobody", status: http.StatusUnauthorized, header: "WWW-Authenticate", value: `Bearer realm="catalogd"`,
			text: "401 Unauthorized\nwho you are is not said, or not proven: send a token that the API server accepts, as \"Authorization: Bearer TOKEN\", or a client certificate of the cluster; or, through the API server's proxy, one made for the audience catalogd.operatorframework.io, as \"Catalogd-Authorization: Bearer TOKEN\"\n",
		},
		{
			name: "not allowed", user: "jane", status: http.StatusForbidden,
			text: "403 Forbidden\nuser \"jane\" may not get the path \"PATH\"; an admin can bind the ClusterRole catalogd-content-reader to them\n",
		},
		{
			name: "not allowed, for a reason", user: "ja\nne", reason: "of\nthe moon", status: http.StatusForbidden,
			text: "403 Forbidden\nuser \"ja\\nne\" may not get the path \"PATH\" (\"of\\nthe moon\"); an admin can bind the ClusterRole catalogd-content-reader to them\n",
		},
		{
			name: "unknown", err: errors.New("dialing 10.0.0.1: refused"), status: http.StatusServiceUnavailable, header: "Retry-After", value: "5",
			text: "503 Service Unavailable\nthe API server cannot be asked now whether you may read this; come again\n",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := testConfig(st)
			var log strings.Builder
			cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
			var asked string
			cfg.Authorize = func(r *http.Request) (string, bool, string, error) {
				asked = r.URL.Path
				return test.user, test.allowed, test.reason, test.err
			}
			h := New(cfg)
			for _, path := range paths {
				for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete} {
					w := httptest.NewRecorder()
					r := httptest.NewRequest(method, strings.ReplaceAll(path, " ", "%20"), nil)
					h.ServeHTTP(w, r)
					if w.Code != test.status || w.Header().Get(test.header) != test.value || asked != r.URL.Path {
						t.Errorf("%s %s: status %d, header %v, asked for %q", method, path, w.Code, w.Header(), asked)
					}
					if want := strings.Replace(test.text, "PATH", r.URL.Path, 1); w.Body.String() != want {
						t.Errorf("%s %s: got %q, want %q", method, path, w.Body, want)
					}
					if err := wellFormed(w.Code, w.Header(), w.Body.String(), method); err != nil {
						t.Error(err)
					}
				}
			}
			if logged := strings.Contains(log.String(), "10.0.0.1"); logged != (test.err != nil) {
				t.Errorf("the log is %q", log.String())
			}
		})
	}
	t.Run("allowed", func(t *testing.T) {
		cfg := testConfig(st)
		cfg.Authorize = func(r *http.Request) (string, bool, string, error) {
			return "jane", strings.HasPrefix(r.URL.Path, "/catalogs/small/"), "", nil
		}
		url := startServer(t, New(cfg))
		for path, want := range map[string]int{
			"/catalogs/small/api/v1/packages": http.StatusOK, "/catalogs/small/nothing": http.StatusNotFound,
			"/catalogs/icons/api/v1/packages": http.StatusForbidden, "/catalogs": http.StatusForbidden,
			"/catalogs/small/../icons/api/v1/packages":   http.StatusForbidden, // net/http answers with the clean path, and that is asked for
			"/catalogs/small%2F..%2Ficons/api/v1/all":    http.StatusBadRequest,
			"/catalogs/small/%2E%2E/icons/api/v1/all":    http.StatusNotFound, // an escaped dot is no step up
			"/catalogs/small/api/v1/packages/..%2F..%2F": http.StatusNotFound,
		} {
			if got := statusOf(t, url+path); got != want {
				t.Errorf("%s: status %d, want %d", path, got, want)
			}
		}
	})
}

// An API server that cannot be asked is complained of once in a while, not for each request, and not for a client that has gone.
func TestAccessComplaints(t *testing.T) {
	var log bytes.Buffer
	cfg := testConfig(newTestStore(t))
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	cfg.Authorize = func(*http.Request) (string, bool, string, error) { return "", false, "", errors.New("no answer") }
	s := newServer(cfg)
	ask := func(ctx context.Context) {
		reply := httptest.NewRecorder()
		s.ServeHTTP(reply, httptest.NewRequestWithContext(ctx, http.MethodGet, "/catalogs", nil))
		if reply.Code != http.StatusServiceUnavailable {
			t.Errorf("status %d", reply.Code)
		}
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	ask(gone)
	if log.Len() > 0 {
		t.Errorf("of a client that has gone is logged:\n%s", log.String())
	}
	for range 10 {
		ask(t.Context())
	}
	if got := strings.Count(log.String(), "no answer"); got != 1 {
		t.Errorf("10 requests make %d lines:\n%s", got, log.String())
	}
}
