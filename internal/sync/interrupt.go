package sync

import (
	"context"
	"errors"
	stdsync "sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// errInterrupted is the cause for which a reconcile's context ends when its CatalogSource was changed or deleted.
var errInterrupted = errors.New("the CatalogSource changed meanwhile")

// interrupts ends the work on a CatalogSource that is no longer what it was: unpacking and publishing take a while, and
// whoever corrects or deletes it should not wait for that. The zero value is ready for use.
type interrupts struct {
	mu   stdsync.Mutex
	work map[types.UID]workInProgress
}

type workInProgress struct {
	generation int64
	cancel     context.CancelCauseFunc
}

// begin returns a context for the work on one generation of an object. The caller calls end when the work is done.
func (i *interrupts) begin(ctx context.Context, uid types.UID, generation int64) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.work == nil {
		i.work = map[types.UID]workInProgress{}
	}
	i.work[uid] = workInProgress{generation, cancel}
	return ctx, func() {
		cancel(nil)
		i.mu.Lock()
		defer i.mu.Unlock()
		delete(i.work, uid)
	}
}

// changed ends the work on earlier generations of an object.
func (i *interrupts) changed(uid types.UID, generation int64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if w, ok := i.work[uid]; ok && w.generation < generation {
		w.cancel(errInterrupted)
	}
}

// onChange tells changes of the spec, and deletions, from the others: both raise the generation. The reconcile that is
// under way ends, and the event that this lets through begins the next.
func (i *interrupts) onChange() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		if e.ObjectNew.GetGeneration() == e.ObjectOld.GetGeneration() {
			return false
		}
		i.changed(e.ObjectNew.GetUID(), e.ObjectNew.GetGeneration())
		return true
	}}
}
