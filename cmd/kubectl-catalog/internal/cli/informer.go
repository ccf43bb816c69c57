package cli

import (
	"context"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
)

// eachCatalog calls each for every CatalogSource, whenever one changes, and now and then besides, until ctx ends or each returns an error,
// which is returned. An API server that goes away and comes back is no error.
func (w *watcher) eachCatalog(ctx context.Context, each func(*v1beta1.CatalogSource) error) error {
	c, err := w.client()
	if err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	seen := func(object any) {
		if catalog, ok := object.(*v1beta1.CatalogSource); ok {
			if err := each(catalog); err != nil {
				fail(err)
			}
		}
	}
	silent := logr.Discard()
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		Logger: &silent,
		ListerWatcher: &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				var list v1beta1.CatalogSourceList
				return &list, c.List(ctx, &list, &client.ListOptions{Raw: &options})
			},
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				return c.Watch(ctx, &v1beta1.CatalogSourceList{}, &client.ListOptions{Raw: &options})
			},
		},
		ObjectType:   &v1beta1.CatalogSource{},
		ResyncPeriod: feedRetry / 3,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    seen,
			UpdateFunc: func(_, object any) { seen(object) },
		},
	})
	informer.RunWithContext(logr.NewContext(ctx, silent))
	return context.Cause(ctx)
}
