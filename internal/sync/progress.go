package sync

import (
	"context"
	stdsync "sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/operator-catalogs/catalogd/internal/source"
	"github.com/operator-catalogs/catalogd/internal/unpack"
)

const (
	progressEvery    = time.Second            // the least time between two writes, and before the first
	progressCheck    = 200 * time.Millisecond // how often a write may become due
	progressPatience = 2 * time.Second        // how long a write may delay the end of the pass
)

// A progressReporter writes the progress of a pass to the status while the pass works on new content. The first failed
// write ends it, and nothing else. A nil reporter does nothing.
//
// Only a leader reports. The status at the end of the pass has no progress; after a crash the next pass removes it.
type progressReporter struct {
	c        *controller
	began    time.Time
	phase    atomic.Pointer[source.Phase]
	pull     unpack.Progress
	packages atomic.Int32 // published
	total    atomic.Int32 // to publish

	begin, end  stdsync.Once
	quit, ended chan struct{} // of the goroutine that writes
	object      client.Object // as it was read, or written last; owned by the goroutine while it runs
	tried       time.Time     // owned by the goroutine, as is failed
	failed      bool          // or there is nothing to write
}

func (c *controller) newProgressReporter(object client.Object) *progressReporter {
	return &progressReporter{c: c, began: c.Clock.Now(), object: object, quit: make(chan struct{}), ended: make(chan struct{})}
}

// enter begins a phase. The first call starts the goroutine that writes, until stop.
func (p *progressReporter) enter(ctx context.Context, phase source.Phase) {
	if p == nil {
		return
	}
	p.phase.Store(&phase)
	p.begin.Do(func() {
		p.object = copyOf(p.object)
		go p.run(ctx)
	})
}

// fetched returns the counter of fetched bytes.
func (p *progressReporter) fetched() *unpack.Progress {
	if p == nil {
		return nil
	}
	return &p.pull
}

// Total sets the number of packages to publish.
func (p *progressReporter) Total(packages int) {
	if p != nil {
		p.total.Store(int32(packages))
	}
}

// Publishing begins the phase Publishing.
func (p *progressReporter) Publishing(ctx context.Context) { p.enter(ctx, source.Publishing) }

// Published counts a published package.
func (p *progressReporter) Published() {
	if p != nil {
		p.packages.Add(1)
	}
}

// stop waits for the last write; object is the result of it.
func (p *progressReporter) stop() {
	p.begin.Do(func() { close(p.ended) }) // there is no goroutine, and will be none
	p.end.Do(func() { close(p.quit) })
	<-p.ended
}

func (p *progressReporter) run(ctx context.Context) {
	defer close(p.ended)
	check := time.NewTicker(progressCheck)
	defer check.Stop()
	for {
		select {
		case <-p.quit:
			return
		case <-ctx.Done():
			return
		case <-check.C:
			p.report(ctx)
		}
	}
}

// report writes the progress if that is due and the progress changed.
func (p *progressReporter) report(ctx context.Context) {
	now, progress := p.c.Clock.Now(), p.state()
	s := p.c.kind.Source(p.object).Observed
	if p.failed || now.Sub(p.began) < progressEvery || now.Sub(p.tried) < progressEvery ||
		(s.Progress != nil && *s.Progress == progress) {
		return
	}
	p.tried, s.Progress = now, &progress
	ctx, cancel := context.WithTimeout(ctx, progressPatience)
	defer cancel()
	after := p.c.withStatus(p.object, s)
	if equality.Semantic.DeepEqual(p.object, after) { // the kind has no progress
		p.failed = true
		return
	}
	if err := p.c.patchStatus(ctx, p.object, after); err != nil {
		p.failed = true // it may have been made, or somebody changed the object: writeStatus finds out
		logf.FromContext(ctx).V(1).Info("cannot write the progress", "error", err.Error())
		return
	}
	p.object = after
}

func (p *progressReporter) state() source.Progress {
	progress := source.Progress{Phase: *p.phase.Load()}
	progress.Bytes, progress.TotalBytes = p.pull.Bytes()
	if progress.Phase == source.Publishing {
		progress.Packages, progress.TotalPackages = p.packages.Load(), p.total.Load()
	}
	return progress
}
