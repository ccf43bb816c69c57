package sync

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	runtimecontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	runtimesource "sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/operator-catalogs/catalogd/internal/source"
	"github.com/operator-catalogs/catalogd/internal/sync/publish"
)

// workersPerUnpack is the number of workers for each image that may be unpacked: most catalogs need only a poll, and must not
// wait for the slow ones.
const workersPerUnpack = 4

// The backoff of a catalog for which the API server or the store failed; it doubles in between. With the limit of failures
// in publish, a catalog that keeps failing makes some 30 writes a minute.
const (
	firstRetry = time.Second
	maxRetry   = time.Minute
)

// Register adds a controller for each kind, and the maintenance of the store, to a manager.
func (e *Engine) Register(mgr ctrl.Manager, kinds ...Kind) error {
	if err := publish.Index(context.Background(), mgr.GetFieldIndexer()); err != nil {
		return err
	}
	e.kinds = kinds
	k := &keeper{e}
	for _, kind := range kinds {
		c := e.newController(kind)
		if err := c.register(mgr); err != nil {
			return err
		}
		e.controllers = append(e.controllers, c)
	}
	return mgr.Add(manager.RunnableFunc(k.run))
}

func (e *Engine) newController(kind Kind) *controller {
	return &controller{Engine: e, kind: kind, again: make(chan event.GenericEvent)}
}

func (c *controller) register(mgr ctrl.Manager) error {
	reused := true // after the loss of the API server, a new manager has a controller of the same name
	b := ctrl.NewControllerManagedBy(mgr).
		For(c.kind.New(), builder.WithPredicates(predicate.Or(
			c.interrupts.onChange(), predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{},
			c.statusChanged(), c.finalizerLost()))).
		Owns(publish.Metadata(), builder.OnlyMetadata, builder.WithPredicates(c.ownPackages())).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(c.requestsOfSecret)).
		WatchesMetadata(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(c.requestsOfConfigMap)).
		Watches(&corev1.ServiceAccount{}, handler.EnqueueRequestsFromMapFunc(c.allRequests)).
		WatchesRawSource(runtimesource.Channel(c.again, &handler.EnqueueRequestForObject{})).
		WatchesRawSource(runtimesource.Func(c.wakeThrough)).
		WatchesRawSource(runtimesource.Func(c.followLeadership)).
		WithOptions(runtimecontroller.Options{
			MaxConcurrentReconciles: workersPerUnpack * c.Config.Concurrency,
			SkipNameValidation:      &reused,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](firstRetry, maxRetry),
		})
	for _, kind := range c.kinds {
		if kind != c.kind {
			b.Watches(kind.New(), handler.EnqueueRequestsFromMapFunc(c.requestOfNamesake),
				builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{})))
		}
	}
	return b.Complete(c)
}

// requestOfNamesake returns a request for the object with the name of an object of another kind, if there is one.
func (c *controller) requestOfNamesake(ctx context.Context, other client.Object) []ctrl.Request {
	if err := c.Client.Get(ctx, client.ObjectKey{Name: other.GetName()}, c.kind.New()); err != nil {
		return nil
	}
	return []ctrl.Request{requestFor(other.GetName())}
}

// Watched returns the content of the cache: of catalogd's namespace the names and versions of Secrets and ConfigMaps, and its
// own ServiceAccount; and the selected objects. It does not watch a pull Secret in another namespace: without the right to,
// nothing would work.
func (c Config) Watched(kinds ...Kind) map[client.Object]cache.ByObject {
	own := map[string]cache.Config{c.Namespace: {}}
	account := cache.Config{FieldSelector: fields.OneTermEqualSelector("metadata.name", c.ServiceAccount)}
	watched := map[client.Object]cache.ByObject{
		&corev1.Secret{}:         {Namespaces: own, Transform: withoutAnnotations},
		&corev1.ConfigMap{}:      {Namespaces: own, Transform: withoutAnnotations},
		&corev1.ServiceAccount{}: {Namespaces: map[string]cache.Config{c.Namespace: account}},
	}
	if c.Selector != nil {
		for _, kind := range kinds {
			watched[kind.New()] = cache.ByObject{Label: c.Selector}
		}
	}
	return watched
}

// withoutAnnotations also drops the content that kubectl keeps in an annotation.
func withoutAnnotations(object any) (any, error) {
	if o, ok := object.(metav1.Object); ok {
		o.SetAnnotations(nil)
		o.SetManagedFields(nil)
	}
	return object, nil
}

// WaitForCache waits until a cache is synced for all watched objects. Before that the controllers reconcile nothing.
func WaitForCache(ctx context.Context, c cache.Informers, kinds ...Kind) error {
	objects := []client.Object{
		publish.Metadata(), &corev1.ServiceAccount{},
		&metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}},
		&metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}},
	}
	for _, kind := range kinds {
		objects = append(objects, kind.New())
	}
	for _, object := range objects {
		if _, err := c.GetInformer(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// wakeThrough makes the gate requeue catalogs through a queue.
func (c *controller) wakeThrough(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
	c.wake = func(catalog string) { queue.Add(requestFor(catalog)) }
	return nil
}

// followLeadership reconciles all catalogs when this replica begins or ceases to lead.
func (c *controller) followLeadership(ctx context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
	if c.Leadership == nil {
		return nil
	}
	changed := c.Leadership.Changed() // before anything can be missed
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
			changed = c.Leadership.Changed()
			c.known.byName.Clear() // other replicas may have written what the cache lacks
			for _, request := range c.allRequests(ctx, nil) {
				queue.Add(request)
			}
		}
	}()
	return nil
}

func requestFor(catalog string) ctrl.Request {
	return ctrl.Request{NamespacedName: types.NamespacedName{Name: catalog}}
}

// requestsOfSecret returns requests for the catalogs that may use a Secret.
func (c *controller) requestsOfSecret(ctx context.Context, secret client.Object) []ctrl.Request {
	shared, err := c.accessReader().SharedSecrets(ctx)
	if err != nil {
		logf.FromContext(ctx).Error(err, "cannot determine the catalogs of a Secret; requeuing all", "secret", secret.GetName())
	}
	if err != nil || slices.Contains(shared, client.ObjectKeyFromObject(secret)) {
		return c.allRequests(ctx, secret)
	}
	return c.requestsWhere(ctx, func(access source.Access) bool { return access.UsesSecret(secret.GetName()) })
}

// requestsOfConfigMap returns requests for the catalogs that use a ConfigMap.
func (c *controller) requestsOfConfigMap(ctx context.Context, configMap client.Object) []ctrl.Request {
	return c.requestsWhere(ctx, func(access source.Access) bool { return access.UsesConfigMap(configMap.GetName()) })
}

func (c *controller) allRequests(ctx context.Context, _ client.Object) []ctrl.Request {
	return c.requestsWhere(ctx, func(source.Access) bool { return true })
}

func (c *controller) requestsWhere(ctx context.Context, concerns func(source.Access) bool) (requests []ctrl.Request) {
	sources, err := List(ctx, c.Client, c.kind)
	if err != nil {
		logf.FromContext(ctx).Error(err, "cannot list the catalogs of a changed object; they use it at their next attempt")
		return nil
	}
	for _, src := range sources {
		if concerns(src.Access) {
			requests = append(requests, requestFor(src.Name))
		}
	}
	return requests
}

// finalizerLost passes updates that removed our finalizer: another installation may have released the catalog.
func (c *controller) finalizerLost() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectNew.GetDeletionTimestamp().IsZero() &&
			controllerutil.ContainsFinalizer(e.ObjectOld, c.kind.Finalizer()) && !controllerutil.ContainsFinalizer(e.ObjectNew, c.kind.Finalizer())
	}}
}

// ownPackages passes OperatorPackages that name this installation, before or after a change.
func (c *controller) ownPackages() predicate.Predicate {
	ours := func(o client.Object) bool { return publish.IsFrom(o, c.Config.Namespace) }
	funcs := predicate.NewPredicateFuncs(ours)
	funcs.UpdateFunc = func(e event.UpdateEvent) bool { return ours(e.ObjectOld) || ours(e.ObjectNew) }
	return funcs
}

// statusChanged passes, on a follower, updates of the digest that the status names. On a leader, it passes the writes of
// other programs that may maintain the objects of the kind.
func (c *controller) statusChanged() predicate.Predicate {
	_, contested := c.kind.(Contested)
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		if c.leads() {
			version, _ := c.known.byName.Load(e.ObjectNew.GetName())
			return contested && version != e.ObjectNew.GetResourceVersion() && !c.sameStatus(e.ObjectOld, e.ObjectNew)
		}
		before, now := c.kind.Source(e.ObjectOld).Observed, c.kind.Source(e.ObjectNew).Observed
		return before.Basis() != now.Basis() || before.Image != now.Image
	}}
}
