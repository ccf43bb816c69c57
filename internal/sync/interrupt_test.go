package sync

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
)

func TestInterrupts(t *testing.T) {
	object := func(uid types.UID, generation int64) *v1beta1.CatalogSource {
		return &v1beta1.CatalogSource{ObjectMeta: metav1.ObjectMeta{UID: uid, Generation: generation}}
	}
	for name, test := range map[string]struct {
		before, after *v1beta1.CatalogSource
		interrupted   bool
		passes        bool
	}{
		"the spec changed":                     {object("a", 2), object("a", 3), true, true},
		"the spec changed before work began":   {object("a", 1), object("a", 2), false, true},
		"labels or status changed":             {object("a", 2), object("a", 2), false, false},
		"the spec of another changed":          {object("b", 2), object("b", 3), false, true},
		"the spec of an earlier life, deleted": {object("old", 8), object("old", 9), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			var i interrupts
			ctx, end := i.begin(t.Context(), "a", 2)
			defer end()
			passes := i.onChange().Update(event.UpdateEvent{ObjectOld: test.before, ObjectNew: test.after})
			if passes != test.passes {
				t.Errorf("the event passes: %t, want %t", passes, test.passes)
			}
			if got := errors.Is(context.Cause(ctx), errInterrupted); got != test.interrupted {
				t.Errorf("interrupted: %t, want %t", got, test.interrupted)
			}
		})
	}
}

// A catalog that is deleted during a slow pull is removed at once without a fault.
func TestDeletedWhileUnpacking(t *testing.T) {
	w := newWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	w.reconcile() // announces
	asked := make(chan struct{}, 1)
	w.registry.refuse(func(r *http.Request) bool { // does not answer until the client gives up
		asked <- struct{}{}
		<-r.Context().Done()
		return true
	})
	go func() {
		<-asked
		old := w.source()
		if err := w.api.Delete(context.WithoutCancel(t.Context()), old.DeepCopy()); err != nil {
			t.Error(err)
		}
		w.interrupts.onChange().Update(event.UpdateEvent{ObjectOld: old, ObjectNew: w.source()})
	}()
	started := time.Now()
	w.reconcile()
	t.Logf("interrupted after %v", time.Since(started))
	if got := conditions(w.source())["Progressing"]; got != "True Unpacking: Unpacking and publishing "+ref+"." {
		t.Errorf("Progressing is %s", got)
	}
	w.reconcile()
	if err := w.api.Get(t.Context(), types.NamespacedName{Name: w.catalog}, &v1beta1.CatalogSource{}); err == nil {
		t.Error("the object is still there")
	}
}
