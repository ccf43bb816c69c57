package sync

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	stdsync "sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/retry"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/apis/olmv1"
	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/poll"
	"github.com/operator-catalogs/catalogd/internal/registry"
	"github.com/operator-catalogs/catalogd/internal/source"
	"github.com/operator-catalogs/catalogd/internal/store"
	"github.com/operator-catalogs/catalogd/internal/sync/catalogsource"
	"github.com/operator-catalogs/catalogd/internal/testing/controlplane"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// apiServer is how to reach the API server that all tests share. Set by TestMain, read only afterwards.
var apiServer *rest.Config

func TestMain(m *testing.M) {
	controlplane.Main(m, filepath.Join("..", ".."), func(p *controlplane.Plane) error {
		apiServer = p.Admin
		for _, args := range [][]string{
			{"apply", "-k", filepath.Join("..", "..", "config", "crd", "olmv1")},
			{"wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"},
		} {
			if _, err := p.Kubectl(context.Background(), args...); err != nil {
				return err
			}
		}
		return nil
	})
}

// start is when the fake clock of every world begins.
var start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// world is a reconciler and all that it works with: a real API server, registry and store, and a clock that stands.
type world struct {
	*controller
	t        testing.TB
	api      client.WithWatch // reads and writes that are the test's own
	requests *apiRequests     // those of the reconciler
	registry *imageRegistry
	clock    *clocktesting.FakePassiveClock
	recorder *events.FakeRecorder
	metrics  *prometheus.Registry
	dir      string // of the store
	catalog  string // the name of the CatalogSource
}

var catalogCount atomic.Int32 // catalogs are cluster-scoped, and so need names of their own

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{
		t:        t,
		requests: &apiRequests{},
		registry: newImageRegistry(t),
		clock:    clocktesting.NewFakePassiveClock(start),
		recorder: events.NewFakeRecorder(1000),
		metrics:  prometheus.NewRegistry(),
		dir:      t.TempDir(),
	}
	w.api = newClient(t, rest.CopyConfig(apiServer))
	logged := rest.CopyConfig(apiServer)
	logged.Wrap(func(next http.RoundTripper) http.RoundTripper { w.requests.next = next; return w.requests })
	c := newClient(t, logged)
	engine := &Engine{
		Client:   c,
		Live:     c,
		Polls:    &poll.Log{},
		Metrics:  NewMetrics(w.metrics),
		Recorder: w.recorder,
		Clock:    w.clock,
		Config: Config{
			Namespace:              "catalogd-system",
			BaseURL:                "http://catalogd.example",
			DefaultPollingInterval: 15 * time.Minute,
			Concurrency:            1,
			ServiceAccount:         "catalogd",
			ServerVersion:          func(context.Context) (*apiversion.Info, error) { return &apiversion.Info{GitVersion: "v1.37.1"}, nil },
		},
	}
	w.controller = engine.newController(catalogsource.Kind{})
	w.newRegistries()
	w.openStore()
	t.Cleanup(func() { must.Succeed(t, w.Store.Close()) })
	return w.another()
}

// another returns a world of another catalog with the same reconciler, store and registry.
func (w *world) another() *world {
	other := *w
	other.catalog = fmt.Sprintf("catalog-%d", catalogCount.Add(1))
	w.t.Cleanup(other.deleteCatalog)
	return &other
}

func newClient(t testing.TB, cfg *rest.Config) client.WithWatch {
	t.Helper()
	cfg.QPS = -1
	scheme := runtime.NewScheme()
	must.Succeed(t, v1beta1.AddToScheme(scheme))
	must.Succeed(t, corev1.AddToScheme(scheme))
	must.Succeed(t, coordinationv1.AddToScheme(scheme))
	must.Succeed(t, olmv1.AddToScheme(scheme))
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: scheme})
	must.Succeed(t, err)
	return c
}

func (w *world) openStore() {
	w.t.Helper()
	st, err := store.Open(w.dir, store.Options{Now: w.clock.Now})
	must.Succeed(w.t, err)
	w.Store = st
}

// newRegistries creates the access to registries, as a start of the process does.
func (w *world) newRegistries() {
	w.t.Helper()
	w.Config.Registries = registry.New(registry.Config{Now: w.clock.Now, Backoff: poll.Backoff})
}

// restart ends the process, as a crash does, and starts the next. State that is not on disk is lost.
func (w *world) restart() {
	w.t.Helper()
	must.Succeed(w.t, w.Store.Close())
	w.Polls = &poll.Log{}
	w.known = knownVersions{}
	w.newRegistries()
	w.openStore()
}

func (w *world) deleteCatalog() {
	ctx := context.Background()
	c := &v1beta1.CatalogSource{}
	if err := w.api.Get(ctx, types.NamespacedName{Name: w.catalog}, c); err == nil {
		c.Finalizers = nil
		must.Succeed(w.t, w.api.Update(ctx, c))
		must.Succeed(w.t, client.IgnoreNotFound(w.api.Delete(ctx, c)))
	}
	must.Succeed(w.t, w.api.DeleteAllOf(ctx, &v1beta1.OperatorPackage{}, client.MatchingLabels{v1beta1.CatalogLabel: w.catalog}))
}

// create creates the CatalogSource for an image; change may be nil.
func (w *world) create(image string, change func(*v1beta1.CatalogSource)) *v1beta1.CatalogSource {
	w.t.Helper()
	c := &v1beta1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Name: w.catalog}, Spec: v1beta1.CatalogSourceSpec{Image: image}}
	if change != nil {
		change(c)
	}
	must.Succeed(w.t, w.api.Create(w.t.Context(), c))
	return c
}

// source reads the CatalogSource.
func (w *world) source() *v1beta1.CatalogSource {
	w.t.Helper()
	c := &v1beta1.CatalogSource{}
	must.Succeed(w.t, w.api.Get(w.t.Context(), types.NamespacedName{Name: w.catalog}, c))
	return c
}

// change alters the CatalogSource as a user would.
func (w *world) change(change func(*v1beta1.CatalogSource)) {
	w.t.Helper()
	must.Succeed(w.t, retry.RetryOnConflict(retry.DefaultRetry, func() error { // a reconciler that runs may write, too
		c := w.source()
		change(c)
		return w.api.Update(w.t.Context(), c)
	}))
}

func (w *world) requestPoll(value string) {
	w.t.Helper()
	w.change(func(c *v1beta1.CatalogSource) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1beta1.PollRequestedAnnotation, value)
	})
}

// tryReconcile makes one pass over the catalog.
func (w *world) tryReconcile() (ctrl.Result, error) {
	return w.Reconcile(w.t.Context(), w.request())
}

func (w *world) request() ctrl.Request {
	return ctrl.Request{NamespacedName: types.NamespacedName{Name: w.catalog}}
}

// reconcile is tryReconcile without an expected error. It returns the time until the next pass.
func (w *world) reconcile() time.Duration {
	w.t.Helper()
	result, err := w.tryReconcile()
	must.Succeed(w.t, err)
	return result.RequeueAfter
}

// settle makes the first passes over a new catalog, or one that is available again.
func (w *world) settle() *v1beta1.CatalogSource {
	w.t.Helper()
	w.reconcile()
	w.reconcile()
	c := w.source()
	if !meta.IsStatusConditionTrue(c.Status.Conditions, v1beta1.ReadyCondition) {
		w.t.Fatalf("the catalog did not become Ready: %v", conditions(c))
	}
	w.requests.take()
	w.registry.take()
	w.events()
	return c
}

// trial makes the steps of a leader's pass one by one, and keeps what they find.
type trial struct {
	*world
	object   client.Object
	src      source.Source
	f        findings
	progress *progressReporter
}

// begin reads the catalog and makes the steps before resolve.
func (w *world) begin() *trial {
	w.t.Helper()
	object, err := w.read(w.t.Context(), w.catalog)
	must.Succeed(w.t, err)
	return w.prepare(object)
}

func (w *world) prepare(object client.Object) *trial {
	w.t.Helper()
	tr := &trial{world: w, object: object, src: w.kind.Source(object)}
	var err error
	tr.f.image, err = w.render(w.t.Context(), tr.src)
	must.Succeed(w.t, err)
	tr.f.access, err = w.access(w.t.Context(), tr.src, tr.f.image.Ref, tr.f.image.Ref)
	must.Succeed(w.t, err)
	return tr
}

func (tr *trial) resolve() {
	tr.t.Helper()
	var err error
	tr.f.poll, err = tr.controller.resolve(tr.t.Context(), tr.src, tr.f.image, tr.f.access, tr.progress)
	must.Succeed(tr.t, err)
}

func (tr *trial) unpack() {
	tr.t.Helper()
	must.Succeed(tr.t, tr.tryUnpack(tr.t.Context()))
}

func (tr *trial) tryUnpack(ctx context.Context) (err error) {
	tr.f.content, err = tr.controller.unpack(ctx, tr.src, tr.f.image.Ref, tr.f.access, tr.f.poll, tr.progress)
	return err
}

func (tr *trial) publish() {
	tr.t.Helper()
	var err error
	tr.f.packages, err = tr.controller.publish(tr.t.Context(), tr.src, tr.f.content, tr.progress)
	must.Succeed(tr.t, err)
}

// conclude returns the outcome, and the object with its status.
func (tr *trial) conclude() (outcome, *v1beta1.CatalogSource) {
	tr.t.Helper()
	out := tr.controller.conclude(tr.t.Context(), tr.src, tr.f)
	return out, tr.withStatus(tr.object, *out.status).(*v1beta1.CatalogSource)
}

func (tr *trial) attempted() bool { return tr.f.poll.attempted || tr.f.content.attempted }

// writeDigest writes a status with another digest.
func (tr *trial) writeDigest(digest string) error {
	s := tr.src.Observed
	s.Digest = digest
	_, err := tr.writeStatus(tr.t.Context(), tr.object, &s)
	return err
}

// packages returns the resource versions of the catalog's OperatorPackages by name.
func (w *world) packages() map[string]string {
	w.t.Helper()
	list := &v1beta1.OperatorPackageList{}
	must.Succeed(w.t, w.api.List(w.t.Context(), list, client.MatchingFields{"spec.catalog": w.catalog}))
	out := map[string]string{}
	for _, item := range list.Items {
		out[strings.TrimSuffix(item.Name, "."+w.catalog)] = item.ResourceVersion
	}
	return out
}

func (w *world) getPackage(name string) *v1beta1.OperatorPackage {
	w.t.Helper()
	pkg := &v1beta1.OperatorPackage{}
	must.Succeed(w.t, w.api.Get(w.t.Context(), types.NamespacedName{Name: name + "." + w.catalog}, pkg))
	return pkg
}

// served returns the served content of the catalog; "" if none.
func (w *world) served() string {
	w.t.Helper()
	c, ok := w.Store.Catalog(w.catalog)
	if !ok {
		return ""
	}
	f, err := c.Snapshot.OpenAll()
	must.Succeed(w.t, err)
	defer f.Close()
	b, err := io.ReadAll(f)
	must.Succeed(w.t, err)
	return string(b)
}

// servedDigest returns the digest that the store serves; "" if none.
func (w *world) servedDigest() string {
	c, ok := w.Store.Catalog(w.catalog)
	if !ok {
		return ""
	}
	return c.Snapshot.Info().Digest
}

// events returns the events since the last call, "<type> <reason> <note>" each.
func (w *world) events() []string {
	var out []string
	for {
		select {
		case e := <-w.recorder.Events:
			out = append(out, e)
		default:
			return out
		}
	}
}

// conditions returns the conditions of a catalog, "<status> <reason>: <message>" by type.
func conditions(c *v1beta1.CatalogSource) map[string]string {
	out := map[string]string{}
	for _, cond := range c.Status.Conditions {
		out[cond.Type] = fmt.Sprintf("%s %s: %s", cond.Status, cond.Reason, cond.Message)
	}
	return out
}

// wantCondition checks one condition of a catalog, written as conditions does.
func wantCondition(t *testing.T, c *v1beta1.CatalogSource, conditionType, want string) {
	t.Helper()
	if got := conditions(c)[conditionType]; got != want {
		t.Errorf("%s is\n %q, want\n %q", conditionType, got, want)
	}
}

func wantEqual[T any](t testing.TB, what string, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// apiRequests notes the requests that alter something at the API server, and may fail some.
type apiRequests struct {
	next http.RoundTripper
	mu   stdsync.Mutex
	log  []string
	fail func(*http.Request) bool // answered with 500
}

func (r *apiRequests) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	fail := r.fail != nil && r.fail(req)
	if req.Method != http.MethodGet {
		r.log = append(r.log, req.Method+" "+strings.TrimPrefix(req.URL.Path, "/apis/catalogd.operatorframework.io/v1beta1/"))
	}
	r.mu.Unlock()
	if !fail {
		return r.next.RoundTrip(req)
	}
	const body = `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"the disk of etcd is full","code":500}`
	return &http.Response{
		StatusCode: http.StatusInternalServerError,
		Header:     http.Header{"Content-Type": {"application/json"}},
		Body:       io.NopCloser(strings.NewReader(body)),
		Request:    req,
	}, nil
}

// take returns the writes since the last call, "<method> <resource>/<name>" each.
func (r *apiRequests) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() { r.log = nil }()
	return r.log
}

// failing makes the API server fail matching requests until stop is called.
func (r *apiRequests) failing(match func(*http.Request) bool) (stop func()) {
	set := func(f func(*http.Request) bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.fail = f
	}
	set(match)
	return func() { set(nil) }
}
