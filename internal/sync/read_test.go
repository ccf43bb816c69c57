package sync

import (
	"context"
	"errors"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
)

// freezeCache has the reconciler read a CatalogSource as it is now, until thaw, from a cache that hears of no change; live counts the reads at
// the API server.
func (w *world) freezeCache() (live *int, thaw func()) {
	w.t.Helper()
	stale, api := w.source(), w.Client
	live = new(int)
	frozen := true
	w.Client = interceptor.NewClient(api.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
			if catalog, ok := into.(*v1beta1.CatalogSource); ok && frozen {
				stale.DeepCopyInto(catalog)
				return nil
			}
			return c.Get(ctx, key, into, opts...)
		},
	})
	w.Live = interceptor.NewClient(api.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
			if _, ok := into.(*v1beta1.CatalogSource); ok {
				*live++
			}
			return c.Get(ctx, key, into, opts...)
		},
	})
	return live, func() { frozen = false }
}

// Polls that change nothing do not ask the API server what the cache knows.
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

// A cache that is behind by what this process wrote is not believed, and neither is any before the first read of a process.
func TestReadBehindOwnWrite(t *testing.T) {
	w := newWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	w.settle()
	live, thaw := w.freezeCache()
	_, second := w.registry.push("latest", catalogOf(pkg{name: "foo", version: "2.0.0"}))
	w.clock.SetTime(w.clock.Now().Add(time.Hour))
	w.reconcile()
	wantEqual(t, "reads before the write", 0, *live)

	read := func(when string, want int) {
		t.Helper()
		*live = 0
		rec, err := w.read(t.Context(), w.request())
		must(t, err)
		wantEqual(t, when+": digest", second, rec.catalog.Status.Digest)
		wantEqual(t, when+": reads at the API server", want, *live)
	}
	read("the cache is behind", 1)
	read("the cache is still behind", 1)
	thaw()
	read("the cache is not behind", 0)
	w.restart()
	read("the process is new", 1)
	read("and has read once", 0)
}

// Whether a write that failed was made is not known; so the API server is asked.
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
	rec, err := w.read(t.Context(), w.request())
	must(t, err)
	wantEqual(t, "annotation", "made, though it looks as if not", rec.catalog.Annotations[v1beta1.PollRequestedAnnotation])
	wantEqual(t, "reads at the API server", 1, *live)
}

func TestIsAsNew(t *testing.T) {
	for _, test := range []struct {
		version, known string
		want           bool
	}{
		{"7", "7", true},
		{"10", "9", true},
		{"9", "10", false},
		{"", "10", false},
		{"10", "x", false},
	} {
		if got := isAsNew(test.version, test.known); got != test.want {
			t.Errorf("%q is as new as %q: %t", test.version, test.known, got)
		}
	}
}
