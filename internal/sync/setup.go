package sync

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// How often the store is looked after. Neither is a promise to anybody: content is found damaged and space is freed
// about this much later.
const (
	sweepEvery = 5 * time.Minute
	scrubEvery = 24 * time.Hour
)

// workersPerUnpack is how many catalogs are worked on for each image that may be unpacked: most have to be polled only, and must
// not wait for the few that are slow.
const workersPerUnpack = 4

// How soon a catalog comes again for which the API server, or the store, failed a pass; it doubles in between. With mostFailures, that is
// some 30 writes a minute of a catalog that goes on to fail.
const (
	firstRetry = time.Second
	mostRetry  = time.Minute
)

// Register adds the controller, and what looks after the store, to a manager.
func (r *CatalogReconciler) Register(mgr ctrl.Manager) error {
	if err := indexPackages(context.Background(), mgr.GetFieldIndexer()); err != nil {
		return err
	}
	again := make(chan event.GenericEvent)
	packages := metadataOf(v1beta1.GroupVersion.WithKind("OperatorPackage"))
	reused := true // a process that lost the API server makes a new manager, with a controller of the same name
	err := ctrl.NewControllerManagedBy(mgr).
		Named("catalogsource").
		For(&v1beta1.CatalogSource{}, builder.WithPredicates(predicate.Or(
			r.interrupts.onChange(), predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{}, r.toFollow(), lostFinalizer()))).
		Owns(packages, builder.OnlyMetadata, builder.WithPredicates(r.ownPackages())).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.catalogsOfSecret)).
		WatchesMetadata(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.catalogsOfConfigMap)).
		Watches(&corev1.ServiceAccount{}, handler.EnqueueRequestsFromMapFunc(r.allCatalogs)).
		WatchesRawSource(source.Channel(again, &handler.EnqueueRequestForObject{})).
		WatchesRawSource(source.Func(r.wakeThrough)).
		WatchesRawSource(source.Func(r.followLeadership)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workersPerUnpack * r.Config.Concurrency,
			SkipNameValidation:      &reused,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](firstRetry, mostRetry),
		}).
		Complete(r)
	if err != nil {
		return err
	}
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { return r.keepStore(ctx, again) }))
}

// WaitForCache waits until a cache is filled with all that the controller watches. Before that it looks at no catalog.
func WaitForCache(ctx context.Context, c cache.Informers) error {
	for _, object := range []client.Object{
		&v1beta1.CatalogSource{}, metadataOf(v1beta1.GroupVersion.WithKind("OperatorPackage")),
		metadataOf(corev1.SchemeGroupVersion.WithKind("Secret")), metadataOf(corev1.SchemeGroupVersion.WithKind("ConfigMap")), &corev1.ServiceAccount{},
	} {
		if _, err := c.GetInformer(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// metadataOf is an object of a kind of which the cache has metadata only.
func metadataOf(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	return object
}

// wakeThrough has catalogs that wait for a place to unpack come again by way of the controller's queue.
func (r *CatalogReconciler) wakeThrough(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
	r.gate.onPlace(func(catalog string) { queue.Add(ctrl.Request{NamespacedName: types.NamespacedName{Name: catalog}}) })
	return nil
}

// keepStore checks the content of the store against its checksums, first at start and then daily, and deletes what
// nobody needs. Catalogs that another pass helps are sent to again. It ends with ctx.
func (r *CatalogReconciler) keepStore(ctx context.Context, again chan<- event.GenericEvent) error {
	log := logf.FromContext(ctx).WithName("store")
	sweep, scrub := time.NewTicker(sweepEvery), time.NewTicker(scrubEvery)
	defer sweep.Stop()
	defer scrub.Stop()
	r.scrub(ctx, again)
	for {
		if err := errors.Join(r.removeOrphans(ctx, again), r.Store.Sweep(), r.dropOlder(ctx)); err != nil && ctx.Err() == nil {
			log.Error(err, "cannot free space in the store; trying again later")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-sweep.C:
		case <-scrub.C:
			r.scrub(ctx, again)
		}
	}
}

// dropOlder deletes what a catalogd of an older layout stored, once all that is to be served is in ours.
func (r *CatalogReconciler) dropOlder(ctx context.Context) error {
	if lag, err := LagOf(ctx, r.Client, r.Store, r.Polls); err != nil || !lag.None() {
		return err
	}
	return r.Store.DropOlder()
}

// scrub checks the content of the store. What is damaged, and what has its packages examined only now, is to be looked at again: those
// packages are not published yet.
func (r *CatalogReconciler) scrub(ctx context.Context, again chan<- event.GenericEvent) {
	unvalidated := slices.DeleteFunc(r.Store.Catalogs(), func(c store.Catalog) bool { return c.Snapshot.Validated() })
	names, _ := r.Store.Scrub(ctx) // its only error is that of ctx
	for _, c := range unvalidated {
		if c.Snapshot.Validated() {
			names = append(names, c.Name)
		}
	}
	for _, name := range names {
		lookAgain(ctx, again, name)
	}
}

// lookAgain asks for another pass over a catalog.
func lookAgain(ctx context.Context, again chan<- event.GenericEvent, name string) {
	select {
	case again <- event.GenericEvent{Object: &v1beta1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Name: name}}}:
	case <-ctx.Done():
	}
}

// removeOrphans removes the content of catalogs that were deleted while no catalogd ran and nobody waited for the
// finalizer. It asks the API server, as what it deletes is not to depend on the state of a cache. Catalogs that are not selected any more, of
// which the cache does not tell, are looked at again: they may have our finalizer, and be waited for.
func (r *CatalogReconciler) removeOrphans(ctx context.Context, again chan<- event.GenericEvent) error {
	stored := r.Store.Catalogs() // before the list: what is stored meanwhile belongs to a catalog that there is
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("CatalogSourceList"))
	if err := r.Live.List(ctx, list); err != nil {
		return err
	}
	known := map[string]bool{}
	for _, item := range list.Items {
		known[item.Name] = true
		if !r.Config.selects(item.Labels) && slices.Contains(item.Finalizers, v1beta1.CleanupFinalizer) {
			lookAgain(ctx, again, item.Name)
		}
	}
	var errs []error
	for _, c := range stored {
		if !known[c.Name] {
			errs = append(errs, r.Store.Remove(c.Name))
		}
	}
	return errors.Join(errs...)
}
