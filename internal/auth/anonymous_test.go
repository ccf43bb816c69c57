package auth

import (
	"context"
	"crypto/tls"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// viewsOfSample are the paths that can be opened to clients without credentials; closedToAnonymous are all others.
var (
	viewsOfSample     = []string{"/catalogs/sample/api/v1/all", "/catalogs/sample/api/v1/metas?schema=olm.package"}
	closedToAnonymous = []string{
		"/", "/catalogs", "/catalogs/", "/catalogs/sample", "/catalogs/sample/api/v1/packages", "/catalogs/sample/api/v1/packages/foo/icon",
		"/catalogs/sample/api/v1/graphql", "/catalogs/sample/api/v1/watch", "/catalogs/sample/api/v1/all/", "/catalogs/sample/api/v1/",
		"/catalogs/sample/digests/sha256:1/api/v1/all", "/catalogs//api/v1/all", "/catalogs/*/api/v1/all", "/catalogs/a/b/api/v1/all",
		"/catalogs/sample/../other/api/v1/all", "/catalogs/../api/v1/all", "/catalogs/sample%2f%2e%2e%2fother/api/v1/all",
		"/api/v1/all", "/api/v1/metas", "/api/v1/search?q=a", "/api/v1/graphql", "/version", "/openapi.json", "/metrics",
	}
)

// role creates a ClusterRole to get paths.
func (c *cluster) role(t *testing.T, name string, paths ...string) {
	t.Helper()
	_, err := c.admin.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{NonResourceURLs: paths, Verbs: []string{"get"}}},
	}, metav1.CreateOptions{})
	must.Succeed(t, err)
	t.Cleanup(func() {
		must.Succeed(t, c.admin.RbacV1().ClusterRoles().Delete(context.Background(), name, metav1.DeleteOptions{}))
	})
}

// Each step has an authorizer of its own, which has no cached answers, and keeps the roles of the steps before.
func TestAnonymous(t *testing.T) {
	const name = "system:anonymous"
	_, token := shared.serviceAccount(t, "another-audience")
	authorizer := func() *Authorizer { return shared.authorizer(t, func(cfg *Config) { cfg.Anonymous = true }) }
	allowed := func(a *Authorizer, want bool, paths ...string) {
		t.Helper()
		for _, path := range paths {
			if got := ask(a, request(path, "")); got.User != name || got.Allowed != want || got.Err != "" {
				t.Errorf("%s: got %+v, want allowed %t", path, got, want)
			}
		}
	}
	closed := func(a *Authorizer) {
		t.Helper()
		allowed(a, false, closedToAnonymous...)
		for _, path := range viewsOfSample {
			for _, authorization := range []string{"Bearer garbage", "Bearer " + token, "Basic YTpi", "Bearer", " "} {
				check(t, ask(a, request(path, authorization)), answer{})
			}
			through := request(path, "")
			through.Header[Header] = []string{"Bearer garbage"}
			check(t, ask(a, through), answer{})
			check(t, ask(shared.authorizer(t, nil), request(path, "")), answer{}) // without Config.Anonymous
		}
	}
	a := authorizer()
	allowed(a, false, viewsOfSample...)
	closed(a)

	shared.role(t, "anonymous-sample", "/catalogs/sample/api/v1/all", "/catalogs/sample/api/v1/metas")
	shared.bind(t, "anonymous-sample", "anonymous-sample", name, "/catalogs/sample/api/v1/all", "/catalogs/sample/api/v1/metas")
	a = authorizer()
	allowed(a, true, viewsOfSample...)
	allowed(a, false, "/catalogs/other/api/v1/all", "/catalogs/other/api/v1/metas")
	closed(a)

	shared.role(t, "anonymous-all", "/catalogs/*/api/v1/all", "/catalogs/*/api/v1/metas")
	shared.bind(t, "anonymous-all", "anonymous-all", name, "/catalogs/*/api/v1/all", "/catalogs/*/api/v1/metas")
	a = authorizer()
	allowed(a, true, viewsOfSample...)
	allowed(a, true, "/catalogs/other/api/v1/all", "/catalogs/v4.20/api/v1/metas")
	closed(a)

	shared.role(t, "anonymous-everything", "*")
	shared.bind(t, "anonymous-everything", "anonymous-everything", name, "/catalogs")
	a = authorizer()
	allowed(a, true, viewsOfSample...)
	closed(a)
}

// The literal paths open no view over all catalogs to users, and Anonymous is nobody who proves to have its name.
func TestRolesOfAnonymousForUsers(t *testing.T) {
	user, token := shared.serviceAccount(t)
	shared.role(t, "literal", "/catalogs/*/api/v1/all", "/catalogs/*/api/v1/metas")
	shared.bind(t, "literal", "literal", user, "/catalogs/*/api/v1/all")
	a := shared.authorizer(t, func(cfg *Config) { cfg.Anonymous = true })
	for _, path := range []string{"/catalogs", "/catalogs/sample/api/v1/all", "/api/v1/search?q=a", "/api/v1/graphql"} {
		if got := ask(a, request(path, "Bearer "+token)); got.User != user || got.Allowed || got.Err != "" {
			t.Errorf("%s: got %+v, want it denied", path, got)
		}
	}
	added, err := shared.Env.AddUser(envtest.User{Name: "system:anonymous"}, nil)
	must.Succeed(t, err)
	pair, err := tls.X509KeyPair(added.Config().CertData, added.Config().KeyData)
	must.Succeed(t, err)
	shared.bind(t, "namesake", "literal", "system:anonymous", "/catalogs/*/api/v1/all")
	a.authorities.read(t.Context())
	server := serveAnswers(t, a)
	if got, want := get(t, server, "/catalogs/sample/api/v1/all", "", pair), "system:anonymous|false|"; got != want {
		t.Errorf("with a certificate for the name: got %s, want %s", got, want)
	}
	if got, want := get(t, server, "/catalogs/sample/api/v1/all", ""), "system:anonymous|true|"; got != want {
		t.Errorf("without credentials: got %s, want %s", got, want)
	}
	if got, want := get(t, server, "/catalogs/sample/api/v1/all", "", newAuthority(t).client(t, "alice")), "|false|"; got != want {
		t.Errorf("with a certificate of another authority: got %s, want %s", got, want)
	}
}

// One question opens all catalogs; closed paths need none.
func TestAnswersForAnonymousAreCached(t *testing.T) {
	server := newAPIServer(t)
	cfg := server.config()
	cfg.Anonymous = true
	requests := counted(&cfg)
	a, err := New(cfg)
	must.Succeed(t, err)
	wantRequests := func(what string, want map[string]int) {
		t.Helper()
		if diff := cmp.Diff(want, requests.take()); diff != "" {
			t.Errorf("requests for %s (-want +got):\n%s", what, diff)
		}
	}
	for _, path := range closedToAnonymous {
		check(t, ask(a, request(path, "")), answer{User: "system:anonymous"})
	}
	wantRequests("closed paths", map[string]int{})
	for i := range 100 {
		check(t, ask(a, request(fmt.Sprintf("/catalogs/c%d/api/v1/all", i), "")), answer{User: "system:anonymous", Allowed: true})
	}
	wantRequests("a view of many catalogs", map[string]int{"subjectaccessreviews": 1})

	server.denied = "system:anonymous"
	for range 2 {
		check(t, ask(a, request("/catalogs/a/api/v1/metas", "")), answer{User: "system:anonymous"})
	}
	wantRequests("a view that is denied", map[string]int{"subjectaccessreviews": 2})
}

// Strangers who invent names of catalogs cannot flood the API server, nor keep users from it.
func TestInventedCatalogs(t *testing.T) {
	server := newAPIServer(t)
	server.denied = "system:anonymous"
	var asked atomic.Int32
	held := make(chan struct{})
	server.access = func() { asked.Add(1); <-held }
	cfg := server.config()
	cfg.Anonymous, cfg.Timeout = true, time.Minute
	a, err := New(cfg)
	must.Succeed(t, err)
	start := time.Now()
	var wg sync.WaitGroup
	for i := range 1000 {
		wg.Go(func() { ask(a, request(fmt.Sprintf("/catalogs/c%d/api/v1/all", i), "")) })
	}
	eventually.Holds(t, "strangers have all slots", func() bool { return asked.Load() == inFlight })
	wg.Go(func() {
		check(t, ask(a, request("/catalogs/a/api/v1/all", "Bearer good")), answer{User: "good", Allowed: true})
	})
	eventually.Holds(t, "a user is asked about", func() bool { return asked.Load() == inFlight+1 })
	close(held)
	wg.Wait()
	if most := int32(1.1 * (anonymousBurst + time.Since(start).Seconds()*anonymousRate)); asked.Load() > most+1 {
		t.Errorf("%d questions, want at most %d", asked.Load(), most)
	}
}
