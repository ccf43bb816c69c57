package sync

import (
	"context"
	"errors"
	"fmt"
	stdsync "sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/source"
	"github.com/operator-catalogs/catalogd/internal/sync/fault"
)

// controller reconciles the objects of one kind. One controller has the roles of leader and follower, so that they never
// work on a catalog at the same time.
type controller struct {
	*Engine
	kind Kind

	known      knownVersions
	interrupts interrupts
	contests   contests
	wake       func(catalog string)    // requeues a catalog; nil: none is requeued
	again      chan event.GenericEvent // catalogs to reconcile again
}

// Reconcile makes one pass over a catalog.
func (c *controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	lock, _ := c.passes.LoadOrStore(req.Name, &stdsync.Mutex{})
	lock.(*stdsync.Mutex).Lock()
	defer lock.(*stdsync.Mutex).Unlock()
	ctx, end := c.tracePass(ctx, req.Name)
	out, err := c.pass(ctx, req.Name)
	c.gate.passed(req.Name, out.crowded)
	end(out, err)
	if err != nil || out.next.IsZero() {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: max(out.next.Sub(c.Clock.Now()), time.Millisecond)}, nil
}

// pass reads the object, does the steps of this replica's role, and writes the status, whatever the steps return.
func (c *controller) pass(ctx context.Context, name string) (outcome, error) {
	object, err := c.read(ctx, name)
	if object == nil || err != nil {
		return outcome{}, err
	}
	src := c.kind.Source(object)
	stop, again, err := c.yields(ctx, src, object)
	if stop || err != nil {
		return outcome{next: c.Clock.Now().Add(rivalAge)}, err
	}
	if c.kind.IsMirror(object) {
		return outcome{}, c.freeMirror(ctx, src, object)
	}
	names := names{c.Engine, c.kind}
	other, err := names.beside(ctx, src)
	if err != nil {
		return outcome{}, err
	}
	work, done := c.interrupts.begin(ctx, src.UID, src.Generation)
	defer done()

	switch {
	case !c.Config.selects(src.Labels):
		out, err := c.release(work, src, object, other != namesake{})
		return out, unlessInterrupted(work, err)
	case names.belongTo(other, object):
		return c.yieldName(ctx, src, object, other, again)
	case !c.leads():
		out, err := c.follow(work, src)
		return out, unlessInterrupted(work, err)
	}
	progress := c.newProgressReporter(object)
	defer progress.stop()
	out, err := c.lead(work, src, object, again, progress)
	err = unlessInterrupted(work, err)
	progress.stop()
	return c.finish(ctx, progress.object, out, err)
}

// yieldName is a pass over an object whose name belongs to another. Content and packages are that one's.
func (c *controller) yieldName(ctx context.Context, src source.Source, object client.Object, owner namesake, again bool) (outcome, error) {
	if !c.leads() {
		return outcome{}, nil
	}
	if src.State == source.Deleting {
		return outcome{}, c.dropFinalizer(ctx, object)
	}
	if err := c.claim(ctx, object, again); err != nil {
		return outcome{}, err
	}
	out := refused(src, fault.WithReason(v1beta1.NameTakenReason, fmt.Errorf(
		"the name %s belongs to %s, which is older: delete that one, or create this catalog under another name", src.Name, owner)))
	return c.finish(ctx, object, out, nil)
}

// finish writes the status that a leader's steps returned beside err, and records their events.
func (c *controller) finish(ctx context.Context, object client.Object, out outcome, err error) (outcome, error) {
	written, writeErr := c.writeStatus(ctx, object, out.status)
	if fault.IsContest(writeErr) {
		c.contests.lose(c.kind.Source(object))
		return outcome{next: c.Clock.Now()}, err // the next pass says so
	}
	if written {
		for _, e := range out.events {
			c.Recorder.Eventf(object, nil, e.Type, e.Reason, e.Action, "%s", e.Note)
		}
	}
	return out, errors.Join(err, out.err, writeErr)
}

// freeMirror removes the finalizer of a mirror, which has no content of its own: OLM v1's catalogd adds one to every object.
func (c *controller) freeMirror(ctx context.Context, src source.Source, mirror client.Object) error {
	if src.State != source.Deleting || !c.leads() {
		return nil
	}
	return c.dropFinalizer(ctx, mirror)
}

// unlessInterrupted returns err, or nil if the pass ended since its object changed: the next pass is queued already.
func unlessInterrupted(work context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(work), errInterrupted) {
		return nil
	}
	return err
}

// read returns the object of a catalog. If the API server says that there is none, it removes the content and returns nil:
// it was deleted without waiting for the finalizer.
func (c *controller) read(ctx context.Context, name string) (client.Object, error) {
	object, err := c.known.read(ctx, c.Client, c.Live, c.kind.New, name)
	if err == nil {
		return object, nil
	}
	if !isGone(err, name) {
		return nil, err
	}
	c.known.byName.Delete(name)
	c.contests.objects.Delete(name)
	if other, err := (names{c.Engine, c.kind}).of(ctx, c.Live, name); other != (namesake{}) || err != nil {
		return nil, err // the content may be the other's; if not, its next pass removes it
	}
	logf.FromContext(ctx).Info("the catalog was deleted; removing its content")
	return nil, c.stopServing(name)
}

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

// tracePass begins the span of a pass. The returned function ends it.
func (e *Engine) tracePass(ctx context.Context, catalog string) (context.Context, func(outcome, error)) {
	if e.Tracer == nil {
		return ctx, func(outcome, error) {}
	}
	ctx, pass := e.Tracer.Start(ctx, "reconcile", trace.WithAttributes(attribute.String("catalogd.catalog", catalog)))
	return ctx, func(out outcome, err error) {
		pass.SetAttributes(attribute.String("catalogd.image", out.image), attribute.String("catalogd.digest", out.digest()))
		endSpan(pass, errors.Join(err, out.fault))
	}
}

// span begins the span of a part of a pass. The returned function ends it with the error at err. Without a trace, both do
// nothing.
func span(ctx context.Context, name string, err *error) (context.Context, func()) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, func() {}
	}
	ctx, part := parent.TracerProvider().Tracer("github.com/operator-catalogs/catalogd").Start(ctx, name)
	return ctx, func() { endSpan(part, *err) }
}

// endSpan ends a span with an error, whose text contains no secret.
func endSpan(s trace.Span, err error) {
	if err != nil {
		s.SetStatus(codes.Error, err.Error())
	}
	s.End()
}
