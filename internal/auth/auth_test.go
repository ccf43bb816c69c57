package auth

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/operator-catalogs/catalogd/internal/testing/controlplane"
	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// answer is the decision on a request.
type answer struct {
	User    string
	Allowed bool
	Reason  string
	Err     string // a part of the error; "" none
}

// authorize authenticates and authorizes a request as the content service does.
func authorize(a *Authorizer, r *http.Request) (name string, allowed bool, reason string, err error) {
	credentials := Credentials{Authorization: r.Header["Authorization"], Own: r.Header[Header]}
	if r.TLS != nil {
		credentials.Certificates = r.TLS.PeerCertificates
	}
	user, err := a.Authenticate(r.Context(), credentials)
	if err != nil || user == nil {
		return "", false, "", err
	}
	decision, err := a.Authorize(r.Context(), Question{User: user, Verb: "get", Path: r.URL.Path})
	return user.GetName(), decision.Allowed, decision.Reason, err
}

func ask(a *Authorizer, r *http.Request) answer {
	user, allowed, reason, err := authorize(a, r)
	got := answer{User: user, Allowed: allowed, Reason: reason}
	if err != nil {
		got.Err = err.Error()
	}
	return got
}

// check compares answers; want has only parts of the reason and the error.
func check(t *testing.T, got, want answer) {
	t.Helper()
	if want.Reason != "" && strings.Contains(got.Reason, want.Reason) {
		got.Reason = want.Reason
	}
	if want.Err != "" && strings.Contains(got.Err, want.Err) {
		got.Err = want.Err
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

func request(path, authorization string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, nil) // the method does not count
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	return r
}

// serviceAccount creates a service account and a token for it.
func (c *cluster) serviceAccount(t *testing.T, audiences ...string) (name, token string) {
	t.Helper()
	accounts := c.admin.CoreV1().ServiceAccounts("default")
	account, err := accounts.Create(t.Context(), &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "reader-"},
	}, metav1.CreateOptions{})
	must.Succeed(t, err)
	review, err := accounts.CreateToken(t.Context(), account.Name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{Audiences: audiences},
	}, metav1.CreateOptions{})
	must.Succeed(t, err)
	return "system:serviceaccount:default:" + account.Name, review.Status.Token
}

func TestTokens(t *testing.T) {
	a := shared.authorizer(t, nil)
	stranger, strangersToken := shared.serviceAccount(t)
	reader, readersToken := shared.serviceAccount(t)
	shared.bind(t, "reader", "catalogd-content-reader", reader,
		"/catalogs", "/catalogs/sample/api/v1/all", "/openapi.json")

	by := answer{User: reader, Allowed: true, Reason: `RBAC: allowed by ClusterRoleBinding "reader" of ClusterRole "catalogd-content-reader"`}
	for _, test := range []struct {
		name, path, authorization string
		want                      answer
	}{
		{"nothing said", "/catalogs", "", answer{}},
		{"no bearer token", "/catalogs", "Basic YTpi", answer{}},
		{"garbage", "/catalogs", "Bearer garbage", answer{}},
		{"changed token", "/catalogs", "Bearer " + readersToken[:len(readersToken)-20] + strings.Repeat("A", 20), answer{}},
		{"no role", "/catalogs", "Bearer " + strangersToken, answer{User: stranger}},
		{"role", "/catalogs", "Bearer " + readersToken, by},
		{"below a catalog", "/catalogs/sample/api/v1/all", "Bearer " + readersToken, by},
		{"query does not count", "/catalogs/sample/api/v1/metas?schema=olm.package", "bearer " + readersToken, by},
		{"across catalogs", "/api/v1/search?q=a", "Bearer " + readersToken, by},
		{"description", "/openapi.json", "Bearer " + readersToken, by},
		{"version, which system:discovery gives to all who have an account", "/version", "Bearer " + strangersToken,
			answer{User: stranger, Allowed: true, Reason: "RBAC: allowed by ClusterRoleBinding"}},
		{"across catalogs without the role", "/api/v1/search?q=a", "Bearer " + strangersToken,
			answer{User: stranger, Reason: `a request about all catalogs needs access to "/catalogs/*/api/v1/search"`}},
		{"elements that go up", "/catalogs/../catalogs/sample", "Bearer " + readersToken,
			answer{User: reader, Reason: `the path is not clean; request "/catalogs/sample"`}},
		{"the same, escaped", "/catalogs/sample%2f%2e%2e%2fother", "Bearer " + readersToken,
			answer{User: reader, Reason: `the path is not clean; request "/catalogs/other"`}},
		{"a slash at the end", "/catalogs/sample/", "Bearer " + readersToken, by},
		{"other path", "/metrics", "Bearer " + readersToken, answer{User: reader}},
	} {
		t.Run(test.name, func(t *testing.T) {
			check(t, ask(a, request(test.path, test.authorization)), test.want)
		})
	}
}

// The role is that of the comment in content_reader.yaml.
func TestOneCatalogOnly(t *testing.T) {
	a := shared.authorizer(t, nil)
	user, token := shared.serviceAccount(t)
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "sample-reader"},
		Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"/catalogs/sample", "/catalogs/sample/*"}, Verbs: []string{"get"}}},
	}
	_, err := shared.admin.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{})
	must.Succeed(t, err)
	t.Cleanup(func() {
		must.Succeed(t, shared.admin.RbacV1().ClusterRoles().Delete(context.Background(), role.Name, metav1.DeleteOptions{}))
	})
	shared.bind(t, "sample-reader", role.Name, user, "/catalogs/sample")
	for path, allowed := range map[string]bool{
		"/catalogs/sample":                true,
		"/catalogs/sample/api/v1/graphql": true,
		"/catalogs/sample2/api/v1/all":    false,
		"/catalogs":                       false,
		"/api/v1/graphql":                 false,
	} {
		got := ask(a, request(path, "Bearer "+token))
		if got.Err != "" || got.User != user || got.Allowed != allowed {
			t.Errorf("%s: got %+v, want allowed %t", path, got, allowed)
		}
	}
}

func TestAnswersAreCached(t *testing.T) {
	var requests *counter
	a := shared.authorizer(t, func(cfg *Config) { requests = counted(cfg) })
	user, token := shared.serviceAccount(t)
	wantRequests := func(what string, want map[string]int) {
		t.Helper()
		if diff := cmp.Diff(want, requests.take()); diff != "" {
			t.Errorf("requests for %s (-want +got):\n%s", what, diff)
		}
	}
	wantRequests("New", map[string]int{})
	check(t, ask(a, request("/catalogs", "")), answer{})
	wantRequests("nobody", map[string]int{})
	r := request("/catalogs", "Bearer "+token)
	check(t, ask(a, r), answer{User: user})
	wantRequests("the first", map[string]int{"tokenreviews": 1, "subjectaccessreviews": 1})
	check(t, ask(a, request("/catalogs", "Bearer "+token)), answer{User: user})
	wantRequests("the same again", map[string]int{})
	check(t, ask(a, request("/catalogs/a", "Bearer "+token)), answer{User: user})
	wantRequests("another path", map[string]int{"subjectaccessreviews": 1})
	for range 2 {
		check(t, ask(a, request("/catalogs", "Bearer garbage")), answer{})
	}
	wantRequests("what cannot be read as a token", map[string]int{"tokenreviews": 1})
}

func TestTokenOfDeletedAccount(t *testing.T) {
	t.Parallel()
	user, token := shared.serviceAccount(t)
	check(t, ask(shared.authorizer(t, nil), request("/catalogs", "Bearer "+token)), answer{User: user})
	name := user[strings.LastIndex(user, ":")+1:]
	must.Succeed(t, shared.admin.CoreV1().ServiceAccounts("default").Delete(t.Context(), name, metav1.DeleteOptions{}))
	eventually.Holds(t, "the token is no longer valid", func() bool {
		got := ask(shared.authorizer(t, nil), request("/catalogs", "Bearer "+token)) // a new one, which keeps no answer
		return got == answer{}
	})
}

func TestAudiences(t *testing.T) {
	a := shared.authorizer(t, func(cfg *Config) { cfg.Audiences = []string{"catalogd"} })
	user, token := shared.serviceAccount(t, "catalogd")
	check(t, ask(a, request("/catalogs", "Bearer "+token)), answer{User: user})
	_, other := shared.serviceAccount(t)
	check(t, ask(a, request("/catalogs", "Bearer "+other)), answer{})
	// And a token made for catalogd is not one for the API server.
	check(t, ask(shared.authorizer(t, nil), request("/catalogs", "Bearer "+token)), answer{})
}

// serveAnswers serves the answer for each request over TLS.
func serveAnswers(t *testing.T, a *Authorizer) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := ask(a, r)
		fmt.Fprintf(w, "%s|%t|%s", got.User, got.Allowed, got.Err)
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// get sends a request with client certificates and an optional token to a server of serveAnswers.
func get(t *testing.T, server *httptest.Server, path, token string, certificates ...tls.Certificate) string {
	t.Helper()
	header := http.Header{}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	return getWith(t, server, path, header, certificates...)
}

// getWith is get with any header.
func getWith(t *testing.T, server *httptest.Server, path string, header http.Header, certificates ...tls.Certificate) string {
	t.Helper()
	transport := server.Client().Transport.(*http.Transport).Clone()
	transport.TLSClientConfig.Certificates = certificates
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
	must.Succeed(t, err)
	r.Header = header
	response, err := (&http.Client{Transport: transport}).Do(r)
	must.Succeed(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must.Succeed(t, err)
	return string(body)
}

func TestClientCertificates(t *testing.T) {
	a := shared.authorizer(t, nil)
	server := serveAnswers(t, a)
	certificateOf := func(user envtest.User) tls.Certificate {
		added, err := shared.Env.AddUser(user, nil)
		must.Succeed(t, err)
		pair, err := tls.X509KeyPair(added.Config().CertData, added.Config().KeyData)
		must.Succeed(t, err)
		return pair
	}
	alice := certificateOf(envtest.User{Name: "alice"})
	bob := certificateOf(envtest.User{Name: "bob"})
	master := certificateOf(envtest.User{Name: "master", Groups: []string{"system:masters"}})
	other := newAuthority(t)
	mallory := other.client(t, "alice")
	_, token := shared.serviceAccount(t)
	shared.bind(t, "alice", "catalogd-content-reader", "alice", "/catalogs")

	if got := get(t, server, "/catalogs", "", alice); !strings.Contains(got, "the cluster's CA for client certificates is not known yet") {
		t.Errorf("before the authorities were read: %s", got)
	}
	if got := get(t, server, "/catalogs", token, alice); !strings.HasPrefix(got, "system:serviceaccount:default:reader-") {
		t.Errorf("with a token, before the authorities were read: %s", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	eventually.Holds(t, "the authorities are read", a.authorities.answered.Load)
	cancel()
	must.Succeed(t, <-ended)
	for _, test := range []struct {
		name string
		pair []tls.Certificate
		want string
	}{
		{"with the role", []tls.Certificate{alice}, "alice|true|"},
		{"without it", []tls.Certificate{bob}, "bob|false|"},
		{"system:masters", []tls.Certificate{master}, "master|true|"},
		{"of another authority", []tls.Certificate{mallory}, "|false|"},
		{"none", nil, "|false|"},
	} {
		if got := get(t, server, "/catalogs", "", test.pair...); got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
	if got := get(t, server, "/catalogs", token, mallory); !strings.HasPrefix(got, "system:serviceaccount:default:reader-") {
		t.Errorf("of another authority, with a token: %s", got)
	}

	// The cluster takes on another authority. The API server itself keeps the ConfigMap, and what others add to it.
	configMaps := shared.admin.CoreV1().ConfigMaps(authoritiesNamespace)
	eventually.Holds(t, "the ConfigMap is written", func() bool {
		configMap, err := configMaps.Get(t.Context(), authoritiesName, metav1.GetOptions{})
		must.Succeed(t, err)
		configMap.Data[authoritiesKey] += string(other.pem)
		_, err = configMaps.Update(t.Context(), configMap, metav1.UpdateOptions{})
		return err == nil
	})
	a.authorities.read(t.Context())
	for _, pair := range []tls.Certificate{mallory, alice} {
		if got := get(t, server, "/catalogs", "", pair); got != "alice|true|" {
			t.Errorf("after another authority was added: %s", got)
		}
	}
}

// Without access to the CA, tokens work and one warning is logged. With access, the CA is read.
func TestForbiddenAuthorities(t *testing.T) {
	user, err := shared.Env.AddUser(envtest.User{Name: "delegator"}, nil)
	must.Succeed(t, err)
	shared.bind(t, "delegator", "system:auth-delegator", "delegator")
	var log lockedBuffer
	a := shared.authorizer(t, func(cfg *Config) {
		cfg.REST = user.Config()
		cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	a.authorities.read(t.Context())
	a.authorities.read(t.Context())
	const problem = "the account of catalogd needs Role extension-apiserver-authentication-reader there"
	if got := log.String(); strings.Count(got, "level=WARN") != 1 || !strings.Contains(got, problem) {
		t.Errorf("logged, want one warning with %q:\n%s", problem, got)
	}
	account, token := shared.serviceAccount(t)
	eventually.Holds(t, "the delegator may delegate", func() bool {
		return ask(a, request("/catalogs", "Bearer "+token)) == answer{User: account}
	})
	server := serveAnswers(t, a)
	if got := get(t, server, "/catalogs", "", newAuthority(t).client(t, "alice")); got != "|false|" {
		t.Errorf("a client certificate while no authority is known: %s", got)
	}
	working := shared.authorizer(t, nil)
	a.authorities.client = working.authorities.client
	a.authorities.read(t.Context())
	if got := log.String(); !strings.Contains(got, "works again") || a.authorities.current.Load() == nil {
		t.Errorf("the authorities were not read when they could be:\n%s", got)
	}
}

// Without system:auth-delegator, the error names the remedy; the client is not unauthenticated.
func TestForbiddenReviews(t *testing.T) {
	user, err := shared.Env.AddUser(envtest.User{Name: "without-rights"}, nil)
	must.Succeed(t, err)
	a := shared.authorizer(t, func(cfg *Config) { cfg.REST = user.Config() })
	_, token := shared.serviceAccount(t)
	check(t, ask(a, request("/catalogs", "Bearer "+token)), answer{Err: "the account of catalogd needs ClusterRole system:auth-delegator"})
}

// A silent API server causes an error after Timeout.
func TestSilentServer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	defer listener.Close()
	a := shared.authorizer(t, func(cfg *Config) {
		cfg.REST = &rest.Config{Host: "http://" + listener.Addr().String()}
		cfg.Timeout = 50 * time.Millisecond
	})
	check(t, ask(a, request("/catalogs", "Bearer a")), answer{Err: "authenticating a client: "})
	a.authorities.read(t.Context())
	if a.authorities.answered.Load() {
		t.Error("the authorities count as read")
	}
}

func TestStoppedServer(t *testing.T) {
	t.Parallel()
	plane, err := controlplane.Start(root, nil)
	must.Succeed(t, err)
	own, err := newCluster(plane)
	must.Succeed(t, err)
	stopped := false
	defer func() {
		if !stopped {
			must.Succeed(t, own.Stop())
		}
	}()
	a := own.authorizer(t, nil)
	user, token := own.serviceAccount(t)
	_, later := own.serviceAccount(t)
	check(t, ask(a, request("/catalogs", "Bearer "+token)), answer{User: user})
	must.Succeed(t, own.Stop())
	stopped = true
	check(t, ask(a, request("/catalogs", "Bearer "+token)), answer{User: user})
	check(t, ask(a, request("/catalogs/a", "Bearer "+token)), answer{User: user, Err: `authorizing ` + user + ` to get "/catalogs/a": `})
	check(t, ask(a, request("/catalogs", "Bearer "+later)), answer{Err: "authenticating a client: "})
	check(t, ask(a, request("/catalogs", "")), answer{})
}
