package sync

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	stdsync "sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/sync/catalogsource"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// apiProxy forwards requests to the real API server, records them, and can inject faults.
type apiProxy struct {
	config    *rest.Config // by which it is reached
	conflicts atomic.Int32 // responses with 409

	mu       stdsync.Mutex
	requests []proxied
	fault    apiFault // nil: none
	watches  map[*http.Request]context.CancelFunc
}

// apiFault answers a request in place of the API server, if it returns true.
type apiFault func(http.ResponseWriter, *http.Request) bool

type proxied struct {
	at     time.Time
	what   string // "<method> <path below the API group>", "WATCH" being a method
	failed bool
}

func newAPIProxy(t *testing.T) *apiProxy {
	t.Helper()
	transport, err := rest.TransportFor(apiServer)
	must.Succeed(t, err)
	target, err := url.Parse(apiServer.Host)
	must.Succeed(t, err)
	forward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // watches
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	p := &apiProxy{watches: map[*http.Request]context.CancelFunc{}}
	forward.ModifyResponse = func(r *http.Response) error {
		if r.StatusCode == http.StatusConflict {
			p.conflicts.Add(1)
		}
		return nil
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		fault := p.fault
		p.mu.Unlock()
		failed := fault != nil && fault(w, r)
		p.note(r, failed)
		if !failed {
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			defer p.watching(r, cancel)()
			forward.ServeHTTP(w, r.WithContext(ctx))
		}
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	p.config = &rest.Config{Host: server.URL, QPS: -1}
	return p
}

func (p *apiProxy) note(r *http.Request, failed bool) {
	method := r.Method
	if isWatch(r) {
		method = "WATCH"
	}
	_, path, _ := strings.Cut(r.URL.Path, "/v1beta1/")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = append(p.requests, proxied{time.Now(), method + " " + path, failed})
}

// watching registers the cancel function of a watch until done is called.
func (p *apiProxy) watching(r *http.Request, cancel context.CancelFunc) (done func()) {
	if !isWatch(r) {
		return func() {}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watches[r] = cancel
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.watches, r)
	}
}

// cutWatches ends all watches.
func (p *apiProxy) cutWatches() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, cancel := range p.watches {
		cancel()
	}
}

// misbehave sets the fault of the proxy, nil for none, and drops the recorded requests.
func (p *apiProxy) misbehave(fault apiFault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests, p.fault = nil, fault
}

// seen returns the requests since the last change of the fault whose description has the prefix what.
func (p *apiProxy) seen(what string) []proxied {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []proxied
	for _, r := range p.requests {
		if strings.HasPrefix(r.what, what) {
			out = append(out, r)
		}
	}
	return out
}

// between returns the time from the i-th to the j-th request.
func between(requests []proxied, i, j int) time.Duration { return requests[j].at.Sub(requests[i].at) }

func isWatch(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }

// isWrite reports whether r is a write of anything but an event.
func isWrite(r *http.Request) bool {
	return r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/v1beta1/")
}

// answers fails matching requests with a status, as the API server does; retryAfter is in seconds, or "".
func answers(code int, reason metav1.StatusReason, retryAfter string, match func(*http.Request) bool) apiFault {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !match(r) {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"a fault of this test","reason":%q,"code":%d}`, reason,
			code)
		return true
	}
}

// cuts breaks the connections of matching requests.
func cuts(match func(*http.Request) bool) apiFault {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !match(r) {
			return false
		}
		if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
			conn.Close()
		}
		return true
	}
}

// runThrough runs the controller behind the proxy. It selects its own catalog only, so that tests can run concurrently.
func (w *world) runThrough(p *apiProxy) {
	w.t.Helper()
	packages := &metav1.PartialObjectMetadata{}
	packages.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("OperatorPackage"))
	watched := w.Config.Watched(catalogsource.Kind{})
	watched[&v1beta1.CatalogSource{}] = cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", w.catalog)}
	watched[packages] = cache.ByObject{Label: labels.SelectorFromSet(labels.Set{v1beta1.CatalogLabel: w.catalog})}
	w.runManagerAt(p.config, watched)
}

// rights makes the controller a user named as the catalog. grant binds the roles of config/rbac to it; revoke removes them.
func (w *world) rights() (grant func()) {
	w.t.Helper()
	roles, err := os.ReadFile(filepath.Join("..", "..", "config", "rbac", "role.yaml"))
	must.Succeed(w.t, err)
	for _, text := range strings.Split(string(roles), "\n---\n") {
		role := &unstructured.Unstructured{}
		must.Succeed(w.t, yaml.Unmarshal([]byte(text), &role.Object))
		role.SetName(w.catalog)
		if role.GetNamespace() != "" {
			role.SetNamespace(w.Config.Namespace)
		}
		must.Succeed(w.t, w.api.Create(w.t.Context(), role))
	}
	w.t.Cleanup(w.revoke)
	return func() {
		for _, binding := range w.bindings() {
			must.Succeed(w.t, w.api.Create(w.t.Context(), binding))
		}
	}
}

// revoke deletes the bindings of the user.
func (w *world) revoke() {
	for _, binding := range w.bindings() {
		must.Succeed(w.t, client.IgnoreNotFound(w.api.Delete(context.Background(), binding)))
	}
}

// bindings returns the bindings of the roles to the user.
func (w *world) bindings() []*unstructured.Unstructured {
	binding := func(kind, namespace string) *unstructured.Unstructured {
		b := &unstructured.Unstructured{Object: map[string]any{
			"roleRef":  map[string]any{"apiGroup": rbacGroup, "kind": strings.TrimSuffix(kind, "Binding"), "name": w.catalog},
			"subjects": []any{map[string]any{"apiGroup": rbacGroup, "kind": "User", "name": w.catalog}},
		}}
		b.SetGroupVersionKind(schema.GroupVersionKind{Group: rbacGroup, Version: "v1", Kind: kind})
		b.SetName(w.catalog)
		b.SetNamespace(namespace)
		return b
	}
	return []*unstructured.Unstructured{binding("ClusterRoleBinding", ""), binding("RoleBinding", w.Config.Namespace)}
}

const rbacGroup = "rbac.authorization.k8s.io"

// isForbidden reports whether cfg may no longer read a catalog.
func (w *world) isForbidden(cfg *rest.Config) bool {
	w.t.Helper()
	scoped, err := client.New(cfg, client.Options{Scheme: w.api.Scheme()})
	must.Succeed(w.t, err)
	return apierrors.IsForbidden(scoped.Get(w.t.Context(), w.request().NamespacedName, &v1beta1.CatalogSource{}))
}

// uids returns the UIDs of the catalog's OperatorPackages by name.
func (w *world) uids() map[string]string {
	w.t.Helper()
	list := &v1beta1.OperatorPackageList{}
	must.Succeed(w.t, w.api.List(w.t.Context(), list, client.MatchingFields{"spec.catalog": w.catalog}))
	out := map[string]string{}
	for _, item := range list.Items {
		out[item.Name] = string(item.UID)
	}
	return out
}
