package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/auth"
)

// fakeAccess identifies every client as user and calls decide for every path.
type fakeAccess struct {
	user        string // "" is no identity
	anonymous   bool   // the clients without identity are auth.Anonymous
	err         error
	decide      func(path string) auth.Decision
	credentials auth.Credentials // of the last request
}

func (f *fakeAccess) Authenticate(_ context.Context, c auth.Credentials) (auth.User, error) {
	f.credentials = c
	if f.anonymous && f.err == nil {
		return auth.Anonymous, nil
	}
	if f.user == "" || f.err != nil {
		return nil, f.err
	}
	return namedUser{name: f.user}, nil
}

func (f *fakeAccess) Authorize(_ context.Context, q auth.Question) (auth.Decision, error) {
	if q.User.GetName() != f.user && q.User != auth.Anonymous || q.Verb != "get" {
		return auth.Decision{}, fmt.Errorf("asked whether %s may %s", q.User.GetName(), q.Verb)
	}
	return f.decide(q.Path), nil
}

type namedUser struct {
	auth.User
	name string
}

func (u namedUser) GetName() string { return u.name }

// Credentials are removed before a handler sees the request.
func TestCredentialsAreRemoved(t *testing.T) {
	access := &fakeAccess{user: "jane", decide: func(string) auth.Decision { return auth.Decision{Allowed: true} }}
	cfg := testConfig(newTestStore(t))
	cfg.Access = access
	r := httptest.NewRequest(http.MethodGet, "/catalogs", nil)
	r.Header.Set("Authorization", "Bearer a")
	r.Header.Set(auth.Header, "Bearer b")
	New(cfg).ServeHTTP(httptest.NewRecorder(), r)
	if got := access.credentials; len(got.Authorization) != 1 ||
		got.Authorization[0] != "Bearer a" || len(got.Own) != 1 || got.Own[0] != "Bearer b" {
		t.Errorf("the credentials are %+v", got)
	}
	if len(r.Header) > 0 {
		t.Errorf("left in the request: %v", r.Header)
	}
}

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
			text: "401 Unauthorized\nauthentication required: send a token that the API server accepts as \"Authorization: Bearer TOKEN\", " +
				"or a client certificate of the cluster; " +
				"through the API server's proxy, send a token for the audience catalogd.operatorframework.io as \"Catalogd-Authorization: " +
				"Bearer TOKEN\"\n",
		},
		{
			name: "not allowed", user: "jane", status: http.StatusForbidden,
			text: "403 Forbidden\nforbidden: user \"jane\" cannot get path \"PATH\"; an admin can bind ClusterRole catalogd-content-reader " +
				"to the user\n",
		},
		{
			name: "not allowed, for a reason", user: "ja\nne", reason: "of\nthe moon", status: http.StatusForbidden,
			text: "403 Forbidden\nforbidden: user \"ja\\nne\" cannot get path \"PATH\" (\"of\\nthe moon\"); an admin can bind ClusterRole " +
				"catalogd-content-reader to the user\n",
		},
		{
			name: "unknown", err: errors.New("dialing 10.0.0.1: refused"), status: http.StatusServiceUnavailable, header: "Retry-After", value: "5",
			text: "503 Service Unavailable\nthe API server cannot authorize the request now; retry later\n",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := testConfig(st)
			var log strings.Builder
			cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
			var asked string
			cfg.Access = &fakeAccess{user: test.user, err: test.err, decide: func(path string) auth.Decision {
				asked = path
				return auth.Decision{Allowed: test.allowed, Reason: test.reason}
			}}
			h := New(cfg)
			for _, path := range paths {
				for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete} {
					w := httptest.NewRecorder()
					r := httptest.NewRequest(method, strings.ReplaceAll(path, " ", "%20"), nil)
					h.ServeHTTP(w, r)
					if w.Code != test.status || w.Header().Get(test.header) != test.value || test.user != "" && asked != r.URL.Path {
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
		cfg.Access = &fakeAccess{user: "jane", decide: func(path string) auth.Decision {
			return auth.Decision{Allowed: strings.HasPrefix(path, "/catalogs/small/")}
		}}
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

// Clients without credentials get what is open to them, and 401 for everything else: they may have credentials to send.
func TestAnonymousAccess(t *testing.T) {
	cfg := testConfig(newTestStore(t))
	cfg.Access = &fakeAccess{anonymous: true, decide: func(path string) auth.Decision {
		return auth.Decision{Allowed: strings.HasSuffix(path, "/api/v1/all") || strings.HasSuffix(path, "/api/v1/metas"), Reason: "a rule"}
	}}
	url := startServer(t, New(cfg))
	for path, want := range map[string]int{
		"/catalogs/small/api/v1/all": http.StatusOK, "/catalogs/small/api/v1/metas?schema=olm.package": http.StatusOK,
		"/catalogs/nowhere/api/v1/all": http.StatusNotFound,
		"/catalogs":                    http.StatusUnauthorized, "/catalogs/small": http.StatusUnauthorized, "/version": http.StatusUnauthorized,
		"/catalogs/small/api/v1/packages": http.StatusUnauthorized, "/api/v1/search?q=a": http.StatusUnauthorized,
	} {
		resp, body := do(t, http.MethodGet, url+path, "")
		if resp.StatusCode != want || (want == http.StatusUnauthorized) != (resp.Header.Get("WWW-Authenticate") == `Bearer realm="catalogd"`) {
			t.Errorf("%s: got %d, %v: %.200s, want %d", path, resp.StatusCode, resp.Header, body, want)
		}
		if want == http.StatusUnauthorized && !strings.HasPrefix(body, "401 Unauthorized\nauthentication required: send a token") {
			t.Errorf("%s: got %s", path, body)
		}
	}
	for _, path := range []string{"/catalogs/small/api/v1/all", "/catalogs/small/api/v1/metas"} {
		resp, _ := do(t, http.MethodGet, url+path, "")
		if got := resp.Header.Get("Cache-Control"); got != "no-cache" {
			t.Errorf("%s: Cache-Control is %q", path, got)
		}
	}
}

// The paths that a ClusterRole opens to clients without credentials, /catalogs/*/api/v1/all and metas, are also the paths to
// authorize for /api/v1/all and /api/v1/metas: no route may have these.
func TestNoViewOfAllCatalogsIsOpenToAnonymous(t *testing.T) {
	for _, route := range newServer(testConfig(newTestStore(t))).routes() {
		if view, ok := strings.CutPrefix(route.path, "/api/v1/"); ok && (view == "all" || view == "metas") {
			t.Errorf("the route %s is open to whoever may get /catalogs/*/api/v1/%s", route.path, view)
		}
	}
}

// A failing API server is logged at most every few seconds, and never for a canceled request.
func TestAccessFailuresAreLoggedSeldom(t *testing.T) {
	var log bytes.Buffer
	cfg := testConfig(newTestStore(t))
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	cfg.Access = &fakeAccess{err: errors.New("no answer")}
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
