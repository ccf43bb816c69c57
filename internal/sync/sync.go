// Package sync brings catalogs to what their Sources ask for: it polls images, unpacks their content into the store,
// publishes OperatorPackages and reports status. One replica leads and does all that; the others bring their volumes to
// the digests in the statuses.
//
//	object -> Source -> access -> poll -> unpack -> publish -> status, events
//
// A pass (pass.go) reads the object, the store and the poll log each time, so that a restart, a lost volume and a first
// start are one path. What outlives a pass is in memory only, and its loss costs little:
//
//	owner       what                                        cost of its loss
//	controller  known: last resourceVersion of each object  one read from the API server for each object
//	controller  interrupts: the pass at work on an object   none; the process that does the work is gone too
//	controller  contests: other programs that write         one write for each object, which may be refused
//	Engine      versions: the cluster's version             one request
//	Engine      gate: catalogs that wait for a slot         none; all objects are reconciled at the start
//	poll.Log    last and next poll, failures in a row       one poll of each image, spread over the window
//	registry    sessions and rate limits of registries      new sessions; one refused request for each registry
package sync

import (
	"context"
	stdsync "sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/internal/poll"
	"github.com/operator-catalogs/catalogd/internal/registry"
	"github.com/operator-catalogs/catalogd/internal/source"
	"github.com/operator-catalogs/catalogd/internal/store"
	"github.com/operator-catalogs/catalogd/internal/sync/access"
	"github.com/operator-catalogs/catalogd/internal/sync/publish"
	"github.com/operator-catalogs/catalogd/internal/unpack"
)

// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create

// Config has the settings that an admin makes for all catalogs.
type Config struct {
	Namespace              string        // catalogd's own
	BaseURL                string        // of the content service, without a trailing slash
	DefaultPollingInterval time.Duration // for catalogs without a schedule
	Concurrency            int           // images unpacked at a time; half of that from one registry
	Limits                 unpack.Limits
	Registries             *registry.Registries
	ServiceAccount         string                                       // catalogd's own; its imagePullSecrets apply to all catalogs
	PullSecret             types.NamespacedName                         // applies to all catalogs; empty: none
	Selector               labels.Selector                              // selects the objects of this installation; nil: all
	Incomplete             bool                                         // a kind is not served yet: keep the content of unknown catalogs
	ServerVersion          func(context.Context) (*version.Info, error) // of the API server
}

// selects reports whether an object with these labels belongs to this installation.
func (c Config) selects(of map[string]string) bool {
	return c.Selector == nil || c.Selector.Matches(labels.Set(of))
}

// A Kind translates between the objects of one API kind and Sources. It is comparable.
type Kind interface {
	New() client.Object
	NewList() client.ObjectList
	Finalizer() string
	IsMirror(metav1.Object) bool        // whether the object only represents a catalog of another kind
	Source(client.Object) source.Source // may share memory with the object

	// Claim sets what the metadata of an object needs before its content is served, or after its owner withdrew it.
	// again also overrules what other programs wrote.
	Claim(object client.Object, again bool)
	// SetStatus sets the status of an object, and what stands in its annotations instead.
	SetStatus(client.Object, source.Status)
	// StatusPatch returns a patch to the status that an object has later. It fails if the object changed meanwhile.
	StatusPatch(from client.Object) client.Patch
}

// Mirror represents catalogs in other APIs.
type Mirror interface {
	// Sync brings the representation of a catalog up to date with its new status, and adds to the status whether that
	// succeeded.
	Sync(context.Context, client.Object, *source.Status) error
	// Delete deletes the representation of a catalog.
	Delete(context.Context, client.Object) error
}

// Prepare makes what a service needs of validated content, before its clients ask for it. It returns at once if that has been
// done.
type Prepare func(context.Context, *store.Snapshot) error

// Prefetched returns how far the wanted bundles of a catalog are cached; false if that is not known yet.
type Prefetched func(catalog string) (p source.Prefetch, ok bool)

// Leadership reports which replica leads. A step that began may end after the leadership: the API client refuses its
// writes.
type Leadership interface {
	Left() time.Duration      // for how long this replica certainly leads; 0: it does not
	Changed() <-chan struct{} // closed when that changes
	Refused(error) bool       // reports whether a write failed since this replica does not lead
}

// Engine has what passes over the catalogs of all kinds share.
type Engine struct {
	Client     client.Client // reads objects of all kinds, and the metadata of OperatorPackages, from the cache
	Live       client.Reader // reads from the API server
	Store      *store.Store
	Polls      *poll.Log
	Metrics    *Metrics
	Recorder   events.EventRecorder
	Clock      clock.PassiveClock
	Tracer     trace.Tracer // nil: no traces
	Config     Config
	Leadership Leadership // nil: there is one replica
	Mirrors    []Mirror
	Prepare    Prepare    // nil: nothing is prepared
	Prefetched Prefetched // nil: nothing is prefetched

	kinds       []Kind
	controllers []*controller
	passes      stdsync.Map // a *stdsync.Mutex for each name: one pass at a time, whatever the kind
	versions    serverVersions
	gate        gate
}

// leads reports whether this replica polls images and writes to the API server.
func (e *Engine) leads() bool { return e.Leadership == nil || e.Leadership.Left() > 0 }

// Reconcile queues a pass over a catalog, of whatever kind it is.
func (e *Engine) Reconcile(ctx context.Context, catalog string) {
	for _, c := range e.controllers {
		if err := c.Client.Get(ctx, client.ObjectKey{Name: catalog}, c.kind.New()); err == nil {
			c.reconcileAgain(ctx, catalog)
		}
	}
}

// stopServing removes the content of a catalog, and all else that this process keeps of it.
func (e *Engine) stopServing(catalog string) error {
	if err := e.Store.Remove(catalog); err != nil {
		return err
	}
	e.Polls.Forget(catalog)
	e.Config.Registries.Forget(catalog)
	e.Metrics.Forget(catalog)
	return nil
}

func (e *Engine) baseURL(catalog string) string { return e.Config.BaseURL + "/catalogs/" + catalog }

func (e *Engine) accessReader() access.Reader {
	return access.Reader{
		Cache: e.Client, Live: e.Live,
		Namespace: e.Config.Namespace, ServiceAccount: e.Config.ServiceAccount, PullSecret: e.Config.PullSecret,
	}
}

func (e *Engine) publisher() publish.Publisher {
	return publish.Publisher{
		Client: e.Client, Live: e.Live, Store: e.Store, Namespace: e.Config.Namespace, BaseURL: e.Config.BaseURL,
		IsRefused: func(err error) bool { return e.Leadership != nil && e.Leadership.Refused(err) },
	}
}
