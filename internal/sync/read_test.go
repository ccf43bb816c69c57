package sync

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// freezeCache makes the reconciler read a CatalogSource from a cache without updates, which holds cached. live counts the
// reads from the API server.
func (w *world) freezeCache() (live *int, cached *v1beta1.CatalogSource) {
	w.t.Helper()
	live, cached = new(int), w.source()
	get := func(read func(ctx context.Context, key client.ObjectKey, into *v1beta1.CatalogSource) error) client.Client {
		return interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
				if catalog, ok := into.(*v1beta1.CatalogSource); ok {
					return read(ctx, key, catalog)
				}
				return c.Get(ctx, key, into, opts...)
			},
		})
	}
	w.Live = get(func(ctx context.Context, key client.ObjectKey, into *v1beta1.CatalogSource) error {
		*live++
		return w.api.Get(ctx, key, into)
	})
	w.Client = get(func(_ context.Context, _ client.ObjectKey, into *v1beta1.CatalogSource) error {
		cached.DeepCopyInto(into)
		return nil
	})
	return live, cached
}

// Polls without a change read from the cache, not from the API server.
func TestReadUnchanged(t *testing.T) {
	w := newWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	w.settle()
	live, _ := w.freezeCache()
	for range 3 {
		w.clock.SetTime(w.clock.Now().Add(time.Hour))
		w.reconcile()
	}
	wantEqual(t, "requests to the registry", []string{"HEAD manifests", "HEAD manifests", "HEAD manifests"}, w.registry.take())
	wantEqual(t, "reads at the API server", 0, *live)
}

// A cache that lacks this process's last write is not used, and none before the first live read.
func TestReadBehindOwnWrite(t *testing.T) {
	w := newWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	w.settle()
	live, cached := w.freezeCache()
	_, second := w.registry.push("latest", catalogOf(pkg{name: "foo", version: "2.0.0"}))
	w.clock.SetTime(w.clock.Now().Add(time.Hour))
	w.reconcile()
	wantEqual(t, "reads before the write", 0, *live)

	read := func(when string, want int) {
		t.Helper()
		*live = 0
		object, err := w.read(t.Context(), w.catalog)
		must.Succeed(t, err)
		wantEqual(t, when+": digest", second, w.kind.Source(object).Observed.Digest)
		wantEqual(t, when+": reads at the API server", want, *live)
	}
	read("the cache is behind", 1)
	read("the cache is still behind", 1)
	w.source().DeepCopyInto(cached)
	read("the cache is not behind", 0)
	w.restart()
	read("the process is new", 1)
	read("and has read once", 0)
}

// After a failed write the API server is read, as the write may have been made.
func TestReadAfterFailedWrite(t *testing.T) {
	w := newWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	w.settle()
	live, _ := w.freezeCache()
	c := w.source()
	err := w.known.write(c, func() error {
		w.requestPoll("made, though it looks as if not")
		return errors.New("the connection was lost")
	})
	if err == nil {
		t.Error("the error is lost")
	}
	object, err := w.read(t.Context(), w.catalog)
	must.Succeed(t, err)
	wantEqual(t, "annotation", "made, though it looks as if not", object.GetAnnotations()[v1beta1.PollRequestedAnnotation])
	wantEqual(t, "reads at the API server", 1, *live)
}

// A cache newer than the last live read is not used: it may be of a restored etcd. Nor is one with a deleted object, which may
// have been recreated.
func TestReadUnusableCache(t *testing.T) {
	for name, change := range map[string]func(*v1beta1.CatalogSource){
		"ahead":       func(c *v1beta1.CatalogSource) { c.ResourceVersion += "0" },
		"terminating": func(c *v1beta1.CatalogSource) { c.DeletionTimestamp = &metav1.Time{Time: start} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
			w.create(ref, nil)
			w.settle()
			live, stale := w.freezeCache()
			change(stale)
			stale.Spec.Image = "registry.example/other"
			for range 2 {
				*live = 0
				object, err := w.read(t.Context(), w.catalog)
				must.Succeed(t, err)
				wantEqual(t, "image", ref, w.kind.Source(object).Image.Ref)
				wantEqual(t, "reads at the API server", 1, *live)
			}
		})
	}
}
