// Package sync brings the cluster to what CatalogSources ask for: it decides when an image is polled, when its content
// is unpacked into the store, and what the OperatorPackages and statuses say. Of several replicas one does that; the others bring their
// volumes to what the statuses say.
//
// Data flows one way: CatalogSource -> poll -> unpack -> store -> OperatorPackages and status. Nothing here remembers what
// was done: each reconcile asks the API server (or a cache that is not behind it), the store and the poll log what there is, so that
// a restart, a lost volume and a first start are one path.
package sync

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/poll"
	"github.com/operator-catalogs/catalogd/internal/registry"
	"github.com/operator-catalogs/catalogd/internal/store"
	"github.com/operator-catalogs/catalogd/internal/unpack"
)

// +kubebuilder:rbac:groups=catalogd.operatorframework.io,resources=catalogsources,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=catalogd.operatorframework.io,resources=catalogsources/status,verbs=patch
// +kubebuilder:rbac:groups=catalogd.operatorframework.io,resources=catalogsources/finalizers,verbs=update
// +kubebuilder:rbac:groups=catalogd.operatorframework.io,resources=operatorpackages,verbs=get;list;watch;create;update;delete;deletecollection
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create

// Config is what the admin of catalogd decides.
type Config struct {
	Namespace              string        // catalogd's own; stands in OperatorPackages as their catalogs' namespace
	BaseURL                string        // of the content service, as clients reach it, without a trailing slash
	DefaultPollingInterval time.Duration // for catalogs that state none
	Concurrency            int           // how many images are unpacked at a time; half of that of one registry
	Limits                 unpack.Limits
	Registries             *registry.Registries
	ServiceAccount         string                                // catalogd's own; its imagePullSecrets hold for all catalogs
	PullSecret             types.NamespacedName                  // holds for all catalogs; empty: none
	Selector               labels.Selector                       // which CatalogSources are ours; nil: all
	ServerVersion          func(context.Context) (string, error) // the gitVersion of the API server, for image templates
}

// CatalogReconciler keeps one catalog after another as its CatalogSource asks.
type CatalogReconciler struct {
	Client   client.Client // reads CatalogSources, and the metadata of OperatorPackages, from the cache
	Live     client.Reader // reads from the API server
	Store    *store.Store
	Polls    *poll.Log
	Metrics  *Metrics
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	Tracer   trace.Tracer // nil: nothing is traced
	Config   Config

	Leadership Leadership // nil: there is no other replica

	known      knownVersions
	interrupts interrupts
	versions   serverVersions
	gate       gate
}

// reconciliation is one pass over one catalog: what the steps learn and hand on. The catalog's status is altered in
// place and written once, at the end.
type reconciliation struct {
	catalog *v1beta1.CatalogSource
	before  *v1beta1.CatalogSource // as it was read

	image     string           // what is followed: spec.image, or what its template gives; empty: no telling
	client    *registry.Client // the way to its registry; nil: there is none, for accessErr
	accessErr error
	missing   []string // Secrets with credentials for all catalogs that should be there
	insecure  []string // registries of the image that need not prove who they are
	subject   string   // names image and way, so that another one can be told from the one tried last

	wanted     name.Digest // what is to be served; zero: what is served now
	foundAt    string      // the reference by digest at which a registry said, in this pass, that it has it
	current    bool        // whether that is served
	attempted  bool        // whether the image was polled or unpacked
	polledAt   time.Time   // when it was polled, if it was
	crowded    bool        // whether there was no place to unpack it; it is told when there is
	postponed  time.Time   // when a poll is to be made that was due; zero: there was none
	fetchErr   error       // why that failed
	lags       bool        // whether what is served here is older than what the status names, of which nobody was to hear but this replica
	syncErr    error       // why OperatorPackages could not be written
	invalid    []store.InvalidPackage
	published  int
	unexamined bool      // whether it is not known which packages of what is served are sound; published and invalid say nothing then
	next       time.Time // when to come again; zero: when something changes
	concluded  bool      // whether the last step was done
	progress   *teller   // of a leader's pass; nil: nothing is told of it
}

// errDone ends a reconcile before its last step, with success.
var errDone = errors.New("done")

// Reconcile makes one pass over a catalog: the steps of the role that this replica has, see leading and following. One controller has both
// roles, so that they never work on a catalog at the same time.
func (r *CatalogReconciler) Reconcile(ctx context.Context, req ctrl.Request) (result ctrl.Result, err error) {
	ctx, end := r.tracePass(ctx, req.Name)
	rec, err := r.read(ctx, req)
	defer func() { end(rec, err) }()
	defer func() { r.gate.passed(req.Name, rec != nil && rec.crowded) }()
	if rec == nil || err != nil {
		return ctrl.Result{}, err
	}
	defer func() {
		if err = errors.Join(err, r.writeStatus(ctx, rec)); err != nil {
			result = ctrl.Result{} // the controller decides when to come again
		}
	}()
	work, done := r.interrupts.begin(ctx, rec.catalog.UID, rec.catalog.Generation)
	defer done()
	defer func() { rec.progress.end() }()

	for _, step := range r.steps(rec) {
		if err := step.run(work, rec); err != nil {
			if errors.Is(err, errDone) || errors.Is(context.Cause(work), errInterrupted) {
				break
			}
			return ctrl.Result{}, err
		}
	}
	return r.result(rec), rec.syncErr
}

func (r *CatalogReconciler) steps(rec *reconciliation) []step {
	switch {
	case !r.Config.selects(rec.catalog.Labels):
		return []step{{"release", r.release}}
	case r.leads():
		rec.catalog.Status.Progress = nil // whoever began with it is not at it any more
		rec.progress = &teller{r: r, rec: rec, began: r.Clock.Now()}
		return r.leading()
	}
	return r.following()
}

// selects tells whether a CatalogSource of these labels is to be kept by this installation.
func (c Config) selects(of map[string]string) bool {
	return c.Selector == nil || c.Selector.Matches(labels.Set(of))
}

func (r *CatalogReconciler) forget(catalog string) {
	r.Polls.Forget(catalog)
	r.Config.Registries.Forget(catalog)
	r.Metrics.Forget(catalog)
	r.known.forget(catalog)
}

// writeStatus is the only place that writes a catalog's status. Nothing is written if nothing changed. What changed is
// told by events once it is written, so that a write that fails does not tell it again and again.
func (r *CatalogReconciler) writeStatus(ctx context.Context, rec *reconciliation) error {
	if equality.Semantic.DeepEqual(rec.before.Status, rec.catalog.Status) {
		return nil
	}
	now := rec.catalog
	err := r.patchStatus(ctx, rec, now)
	if apierrors.IsConflict(err) { // by whom? Only another leader writes statuses
		now = &v1beta1.CatalogSource{}
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(rec.catalog), now); err != nil {
			return client.IgnoreNotFound(err)
		}
		rec.before.Status.Progress = now.Status.Progress // of a write of ours whose answer did not come
		if now.UID != rec.catalog.UID || !equality.Semantic.DeepEqual(now.Status, rec.before.Status) {
			return fmt.Errorf("another replica wrote the status of %s meanwhile: %w", rec.catalog.Name, err)
		}
		err = r.patchStatus(ctx, rec, now)
	}
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	if rec.concluded {
		r.recordEvents(rec)
	}
	return nil
}

// patchStatus writes the status over that of the pass's begin, in the version of the object that now has.
func (r *CatalogReconciler) patchStatus(ctx context.Context, rec *reconciliation, now *v1beta1.CatalogSource) error {
	from, after := now.DeepCopy(), now.DeepCopy() // the patch overwrites what it is given with the answer
	from.Status, after.Status = *rec.before.Status.DeepCopy(), *rec.catalog.Status.DeepCopy()
	patch := client.MergeFromWithOptions(from, client.MergeFromWithOptimisticLock{})
	return r.known.write(after, func() error { return r.Client.Status().Patch(ctx, after, patch) })
}

func (r *CatalogReconciler) result(rec *reconciliation) ctrl.Result {
	if rec.next.IsZero() {
		return ctrl.Result{}
	}
	return ctrl.Result{RequeueAfter: max(rec.next.Sub(r.Clock.Now()), time.Millisecond)}
}
