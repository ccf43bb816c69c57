package sync

import (
	"context"
	stdsync "sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/unpack"
)

const (
	progressEvery    = time.Second            // between two writes at least, and before the first
	progressLook     = 200 * time.Millisecond // how often it is looked whether one is due
	progressPatience = 2 * time.Second        // how long a write may hold up the end of the pass
)

// A teller says in status.progress how far a pass over a catalog is that is at work on new content. It is for people who wait: a write that
// fails ends it, and nothing else. A nil teller says nothing.
//
// What is written is the leader's, as all of the status; the pass that wrote it removes it with the status that it writes at its end, and
// where it did not get that far, the next does.
type teller struct {
	r        *CatalogReconciler
	rec      *reconciliation // of the goroutine of the pass; the other has what it needs in catalog
	began    time.Time
	phase    atomic.Pointer[v1beta1.ProgressPhase]
	pull     unpack.Progress
	packages atomic.Int32 // that are published
	total    atomic.Int32 // that are to be

	begin         stdsync.Once
	stop, stopped chan struct{} // of the goroutine that writes; nil: there is none

	// What follows belongs to the goroutine that writes, and after its end to the pass.
	catalog *v1beta1.CatalogSource // as it was read, or written last
	tried   time.Time
	over    bool // a write failed
}

// enter says that a phase begins. The first time it has a goroutine begin to write, until end.
func (p *teller) enter(ctx context.Context, phase v1beta1.ProgressPhase) {
	if p == nil {
		return
	}
	p.phase.Store(&phase)
	p.begin.Do(func() {
		p.catalog = p.rec.catalog.DeepCopy()
		p.catalog.Status = *p.rec.before.Status.DeepCopy()
		p.stop, p.stopped = make(chan struct{}), make(chan struct{})
		go p.run(ctx)
	})
}

// fetched is where to count what is fetched.
func (p *teller) fetched() *unpack.Progress {
	if p == nil {
		return nil
	}
	return &p.pull
}

// publish says how many packages there are to publish.
func (p *teller) publish(total int) {
	if p != nil {
		p.total.Store(int32(total))
	}
}

// published counts a package that is.
func (p *teller) published() {
	if p != nil {
		p.packages.Add(1)
	}
}

// end waits for the last write, so that the pass can go on from it.
func (p *teller) end() {
	if p == nil || p.stop == nil {
		return
	}
	close(p.stop)
	<-p.stopped
	p.rec.catalog.ResourceVersion = p.catalog.ResourceVersion
	p.rec.before.Status.Progress = p.catalog.Status.Progress
}

func (p *teller) run(ctx context.Context) {
	defer close(p.stopped)
	look := time.NewTicker(progressLook)
	defer look.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-ctx.Done():
			return
		case <-look.C:
			p.report(ctx)
		}
	}
}

// report writes how far the pass is, if that is due and there is news.
func (p *teller) report(ctx context.Context) {
	now, state := p.r.Clock.Now(), p.state()
	if p.over || now.Sub(p.began) < progressEvery || now.Sub(p.tried) < progressEvery ||
		equality.Semantic.DeepEqual(p.catalog.Status.Progress, state) {
		return
	}
	p.tried = now
	ctx, cancel := context.WithTimeout(ctx, progressPatience)
	defer cancel()
	after, patch := p.catalog.DeepCopy(), lockedMerge(p.catalog)
	after.Status.Progress = state
	if err := p.r.known.write(after, func() error { return p.r.Client.Status().Patch(ctx, after, patch) }); err != nil {
		p.over = true // it may have been made, or somebody else changed the object: writeStatus finds out
		logf.FromContext(ctx).V(1).Info("the progress cannot be written", "error", err.Error())
		return
	}
	p.catalog.ResourceVersion, p.catalog.Status.Progress = after.ResourceVersion, state
}

func (p *teller) state() *v1beta1.CatalogProgress {
	state := &v1beta1.CatalogProgress{Phase: *p.phase.Load()}
	state.Bytes, state.TotalBytes = p.pull.Bytes()
	if state.Phase == v1beta1.ProgressPublishing {
		state.Packages, state.TotalPackages = p.packages.Load(), p.total.Load()
	}
	return state
}
