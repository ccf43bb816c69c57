package auth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// apiServer is a fake API server for rare states. Tokens with the prefix "good" are valid, and every user but one can read everything.
type apiServer struct {
	*httptest.Server
	review func(w http.ResponseWriter, token string) bool // nil or false: default response
	access func()                                         // called before the response to a SubjectAccessReview; may be nil
	denied string                                         // the user who can read nothing
	core   http.HandlerFunc                               // ConfigMaps

	mu      sync.Mutex
	reviews map[string]int // by token
	now     int            // in progress
	most    int            // maximum of now
}

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	s := &apiServer{reviews: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /apis/authentication.k8s.io/v1/tokenreviews", func(w http.ResponseWriter, r *http.Request) {
		var review authenticationv1.TokenReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		token := review.Spec.Token
		defer s.count(token)()
		if s.review != nil && s.review(w, token) {
			return
		}
		if strings.HasPrefix(token, "good") {
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: token}}
		} else {
			review.Status.Error = "invalid bearer token"
		}
		reply(w, http.StatusOK, review)
	})
	mux.HandleFunc("POST /apis/authorization.k8s.io/v1/subjectaccessreviews", func(w http.ResponseWriter, r *http.Request) {
		if s.access != nil {
			s.access()
		}
		var review authorizationv1.SubjectAccessReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		review.Status.Allowed = review.Spec.User != s.denied
		reply(w, http.StatusOK, review)
	})
	mux.HandleFunc("GET /api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication", func(
		w http.ResponseWriter, r *http.Request,
	) {
		s.core(w, r)
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// count counts a TokenReview as in progress until end is called.
func (s *apiServer) count(token string) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reviews[token]++
	s.now++
	s.most = max(s.most, s.now)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.now--
	}
}

// asked returns the number of TokenReviews and the maximum of concurrent ones.
func (s *apiServer) asked() (all, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.reviews {
		all += n
	}
	return all, s.most
}

func (s *apiServer) authorizer(t *testing.T) *Authorizer {
	t.Helper()
	a, err := New(s.config())
	must.Succeed(t, err)
	return a
}

func (s *apiServer) config() Config {
	return Config{
		REST:   &rest.Config{Host: s.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}},
		Logger: slog.New(slog.DiscardHandler),
	}
}

func reply(w http.ResponseWriter, code int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(value)
}

func fail(w http.ResponseWriter, code int) {
	reply(w, code, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "code": code})
}

// While invalid tokens take all TokenReview slots, other clients get answers: those without a token, and known users for known
// and new paths.
func TestInvalidTokensTakeAllSlots(t *testing.T) {
	server := newAPIServer(t)
	held := make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	defer release()
	server.review = func(_ http.ResponseWriter, token string) bool {
		if strings.HasPrefix(token, "slow") {
			<-held
		}
		return false
	}
	a := server.authorizer(t)
	known := answer{User: "good", Allowed: true}
	check(t, ask(a, request("/catalogs", "Bearer good")), known)

	const strangers = 3 * inFlight
	var busy, nobody atomic.Int32
	var wg sync.WaitGroup
	for i := range strangers {
		wg.Go(func() {
			user, allowed, _, err := authorize(a, request("/catalogs", fmt.Sprintf("Bearer slow%d", i)))
			switch {
			case errors.Is(err, ErrBusy):
				busy.Add(1)
			case err == nil && user == "" && !allowed:
				nobody.Add(1)
			default:
				t.Errorf("user %q, allowed %t, error %v", user, allowed, err)
			}
		})
	}
	eventually.Holds(t, "all slots are taken", func() bool { _, most := server.asked(); return most == inFlight })
	check(t, ask(a, request("/catalogs", "")), answer{})
	check(t, ask(a, request("/catalogs", "Bearer good")), known)
	check(t, ask(a, request("/catalogs/new", "Bearer good")), known)
	if n := nobody.Load() + busy.Load(); n != 0 {
		t.Errorf("%d strangers were answered before the others", n)
	}
	eventually.Holds(t, "the other requests to fail", func() bool { return busy.Load() == strangers-inFlight })
	release()
	wg.Wait()
	if _, most := server.asked(); nobody.Load() != inFlight || most != inFlight {
		t.Errorf("%d answered, %d at a time, want %d", nobody.Load(), most, inFlight)
	}
	check(t, ask(a, request("/catalogs", "Bearer good2")), answer{User: "good2", Allowed: true})
}

// The rate of TokenReviews is limited, and an invalid token is reviewed once.
func TestTokensPerSecond(t *testing.T) {
	server := newAPIServer(t)
	a := server.authorizer(t)
	start := time.Now()
	var wg sync.WaitGroup
	for i := range 400 {
		wg.Go(func() { ask(a, request("/catalogs", fmt.Sprintf("Bearer bad%d", i))) })
	}
	wg.Wait()
	asked, _ := server.asked()
	// 10% more, because a token bucket is not exact under concurrency.
	if most := int(1.1 * (tokenBurst + time.Since(start).Seconds()*tokenRate)); asked < tokenBurst || asked > most {
		t.Errorf("%d questions, want %d to %d", asked, tokenBurst, most)
	}
	server.mu.Lock()
	defer server.mu.Unlock()
	for token, n := range server.reviews {
		if n > 1 {
			t.Errorf("%s was asked about %d times", token, n)
		}
	}
}

// The rate limit of TokenReviews does not apply to SubjectAccessReviews. The waits are long, because a slow machine needs seconds for
// the reviews.
func TestManyPaths(t *testing.T) {
	server := newAPIServer(t)
	cfg := server.config()
	cfg.Timeout, cfg.maxWait = time.Minute, time.Minute
	cfg.tokenLimit = flowcontrol.NewTokenBucketRateLimiter(0.001, 1) // one token
	a, err := New(cfg)
	must.Succeed(t, err)
	var wg sync.WaitGroup
	for i := range 400 {
		wg.Go(func() {
			check(t, ask(a, request(fmt.Sprintf("/catalogs/c%d", i), "Bearer good")), answer{User: "good", Allowed: true})
		})
	}
	wg.Wait()
}

// A response that does not identify the user of a token is an error.
func TestMalformedReviews(t *testing.T) {
	for name, test := range map[string]struct {
		review func(w http.ResponseWriter, token string) bool
		want   answer
		asked  int // for two requests
	}{
		"an error text": {nil, answer{}, 1},
		"not authenticated": {func(w http.ResponseWriter, _ string) bool {
			reply(w, http.StatusOK, authenticationv1.TokenReview{})
			return true
		}, answer{}, 1},
		"a page": {func(w http.ResponseWriter, _ string) bool {
			fmt.Fprint(w, "<html>log in first</html>")
			return true
		}, answer{Err: "creating a TokenReview: "}, 2},
		"broken off": {func(http.ResponseWriter, string) bool { panic(http.ErrAbortHandler) }, answer{Err: "EOF"}, 2},
		"500": {
			func(w http.ResponseWriter, _ string) bool { fail(w, http.StatusInternalServerError); return true },
			answer{Err: "creating a TokenReview: no"},
			8,
		},
		"401": {
			func(w http.ResponseWriter, _ string) bool { fail(w, http.StatusUnauthorized); return true },
			answer{Err: "creating a TokenReview: no"},
			2,
		},
		"403": {
			func(w http.ResponseWriter, _ string) bool { fail(w, http.StatusForbidden); return true }, answer{Err: "system:auth-delegator"}, 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := newAPIServer(t)
			server.review = test.review
			a := server.authorizer(t)
			for range 2 {
				start := time.Now()
				check(t, ask(a, request("/catalogs", "Bearer bad")), test.want)
				if took := time.Since(start); took > 3*time.Second {
					t.Errorf("it took %s", took)
				}
			}
			if asked, _ := server.asked(); asked != test.asked {
				t.Errorf("asked %d times, want %d", asked, test.asked)
			}
		})
	}
}

// A canceled request is not a failure of the API server.
func TestClientCancels(t *testing.T) {
	server := newAPIServer(t)
	held := make(chan struct{})
	defer close(held)
	ctx, cancel := context.WithCancel(t.Context())
	server.review = func(_ http.ResponseWriter, token string) bool {
		if token == "bad" {
			cancel()
			<-held
		}
		return false
	}
	a := server.authorizer(t)
	if _, _, _, err := authorize(a, request("/catalogs", "Bearer bad").WithContext(ctx)); !errors.Is(err, context.Canceled) {
		t.Errorf("during the TokenReview: got error %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	server.access = func() {
		cancel()
		<-held
	}
	if _, _, _, err := authorize(a, request("/catalogs", "Bearer good").WithContext(ctx)); !errors.Is(err, context.Canceled) {
		t.Errorf("during the SubjectAccessReview: got error %v", err)
	}
}

// A CA that the API server no longer publishes is no longer trusted; during a failure the last one is.
func TestWithdrawnAuthorities(t *testing.T) {
	server := newAPIServer(t)
	cluster := newAuthority(t)
	data := func(data map[string]string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, corev1.ConfigMap{Data: data}) }
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			reply(w, code, map[string]any{
				"kind": "Status", "status": "Failure", "code": code, "reason": strings.ReplaceAll(http.StatusText(code), " ", ""),
			})
		}
	}
	good := data(map[string]string{authoritiesKey: string(cluster.pem)})
	a := server.authorizer(t)
	front := serveAnswers(t, a)
	alice := cluster.client(t, "alice")
	for _, test := range []struct {
		name string
		then http.HandlerFunc
		want string
	}{
		{"key removed", data(nil), "|false|"},
		{"key emptied", data(map[string]string{authoritiesKey: ""}), "|false|"},
		{"key damaged", data(map[string]string{authoritiesKey: "garbage"}), "|false|"},
		{"another authority", data(map[string]string{authoritiesKey: string(newAuthority(t).pem)}), "|false|"},
		{"gone", status(http.StatusNotFound), "|false|"},
		{"may not be read", status(http.StatusForbidden), "alice|true|"},
		{"fails", status(http.StatusInternalServerError), "alice|true|"},
	} {
		server.core = good
		a.authorities.read(t.Context())
		if got := get(t, front, "/catalogs", "", alice); got != "alice|true|" {
			t.Fatalf("before %s: %s", test.name, got)
		}
		server.core = test.then
		a.authorities.read(t.Context())
		if got := get(t, front, "/catalogs", "", alice); got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
}

func TestInvalidClientCertificates(t *testing.T) {
	server := newAPIServer(t)
	cluster := newAuthority(t)
	server.core = func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, corev1.ConfigMap{Data: map[string]string{authoritiesKey: string(cluster.pem)}})
	}
	a := server.authorizer(t)
	a.authorities.read(t.Context())
	front := serveAnswers(t, a)
	client := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	for name, template := range map[string]*x509.Certificate{
		"expired": {Subject: pkix.Name{CommonName: "alice"}, NotAfter: time.Now().Add(-time.Minute), ExtKeyUsage: client},
		"not yet good": {
			Subject:     pkix.Name{CommonName: "alice"},
			NotBefore:   time.Now().Add(time.Hour),
			NotAfter:    time.Now().Add(2 * time.Hour),
			ExtKeyUsage: client,
		},
		"no name": {Subject: pkix.Name{Organization: []string{"system:masters"}}, NotAfter: cluster.cert.NotAfter, ExtKeyUsage: client},
		"of a server": {
			Subject: pkix.Name{CommonName: "alice"}, NotAfter: cluster.cert.NotAfter, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		},
	} {
		pair := cluster.sign(t, template)
		if got := get(t, front, "/catalogs", "", pair); got != "|false|" {
			t.Errorf("%s: got %s", name, got)
		}
		if got := get(t, front, "/catalogs", "good", []tls.Certificate{pair}...); got != "good|true|" {
			t.Errorf("%s, with a token: got %s", name, got)
		}
	}
}
