package sync

import (
	"strings"
	"testing"
	"time"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/store"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// limitStorage restarts with a limit that leaves a number of bytes free.
func (w *world) limitStorage(left int64) {
	w.t.Helper()
	u, err := w.Store.Usage()
	must.Succeed(w.t, err)
	must.Succeed(w.t, w.Store.Close())
	st, err := store.Open(w.dir, store.Options{Now: w.clock.Now, Limit: u.Used + left})
	must.Succeed(w.t, err)
	w.Store = st
}

// A catalog without room reports that with a remedy, and everything served stays served. It becomes Ready once another
// catalog is deleted.
func TestStorageLimit(t *testing.T) {
	long := pkg{name: "bar", description: strings.Repeat("long ", 10_000)}
	short := pkg{name: "foo", description: strings.Repeat("short ", 2000)}
	next := pkg{name: "foo", version: "2.0.0", description: strings.Repeat("other ", 2000)}
	for _, test := range []struct {
		name   string
		serves bool  // the catalog has earlier content, so that its size is known before anything is asked for
		left   int64 // bytes below the limit
	}{
		{name: "replaced", serves: true, left: 5_000},
		{name: "new", left: 5_000},
		{name: "new, and nothing is left", left: 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			tooMuch := w.another()
			oldRef, _ := w.registry.push("old", catalogOf(long))
			w.create(oldRef, nil)
			w.settle()
			ref, digest := w.registry.push("latest", catalogOf(next))
			if test.serves {
				ref, digest = w.registry.push("latest", catalogOf(short))
			}
			tooMuch.create(ref, nil)
			if test.serves {
				tooMuch.settle()
				_, digest = w.registry.push("latest", catalogOf(next))
			}
			w.limitStorage(test.left)
			kept, before := w.served(), tooMuch.served()
			used, err := w.Store.Usage()
			must.Succeed(t, err)

			w.clock.SetTime(start.Add(time.Hour))
			tooMuch.reconcile()
			tooMuch.reconcile()
			for range 5 { // it is tried again, and no more comes of it
				ready := conditions(tooMuch.source())[v1beta1.ReadyCondition]
				if !strings.HasPrefix(ready, "False StorageFull: ") ||
					!strings.Contains(ready, "--storage-limit") || !strings.Contains(ready, "remove catalogs") {
					t.Fatalf("Ready is %q, want the reason, the flag and what to do", ready)
				}
				if w.served() != kept || tooMuch.served() != before {
					t.Error("what was served is not served any more")
				}
				w.clock.SetTime(w.clock.Now().Add(tooMuch.reconcile()))
			}
			if u, err := w.Store.Usage(); err != nil || u.Used > u.Limit || u.Used > used.Used {
				t.Errorf("the store takes %+v (%v), before it was %+v", u, err, used)
			}

			must.Succeed(t, w.api.Delete(t.Context(), w.source()))
			w.reconcile()
			for range 3 { // its retry, nobody asks for it
				w.clock.SetTime(w.clock.Now().Add(tooMuch.reconcile()))
			}
			wantCondition(t, tooMuch.source(), v1beta1.ReadyCondition, "True Succeeded: 1 package is published.")
			if tooMuch.servedDigest() != digest {
				t.Errorf("serves %q, want %s", tooMuch.servedDigest(), digest)
			}
		})
	}
}
