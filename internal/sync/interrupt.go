package sync

import (
	"context"
	"errors"
	stdsync "sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// errInterrupted is the cause that cancels a pass when the spec of its object changes, or the object is deleted.
var errInterrupted = errors.New("the object changed during the pass")

// interrupts cancels passes over objects that changed: unpacking takes a while, and a correction should not wait for it. The
// zero value is ready for use.
type interrupts struct{ work stdsync.Map } // workInProgress by UID

type workInProgress struct {
	generation int64
	cancel     context.CancelCauseFunc
}

// begin returns the context of a pass over one generation of an object. The caller calls end after the pass.
func (i *interrupts) begin(ctx context.Context, uid types.UID, generation int64) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	i.work.Store(uid, workInProgress{generation, cancel})
	return ctx, func() {
		cancel(nil)
		i.work.Delete(uid)
	}
}

// changed cancels the pass over an earlier generation of an object.
func (i *interrupts) changed(uid types.UID, generation int64) {
	if w, ok := i.work.Load(uid); ok && w.(workInProgress).generation < generation {
		w.(workInProgress).cancel(errInterrupted)
	}
}

// onChange passes updates of the spec, and deletions: both increment the generation. It cancels the running pass; the event
// starts the next.
func (i *interrupts) onChange() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		if e.ObjectNew.GetGeneration() == e.ObjectOld.GetGeneration() {
			return false
		}
		i.changed(e.ObjectNew.GetUID(), e.ObjectNew.GetGeneration())
		return true
	}}
}
