package sync

import (
	"context"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/operator-catalogs/catalogd/internal/poll"
	"github.com/operator-catalogs/catalogd/internal/source"
	"github.com/operator-catalogs/catalogd/internal/store"
	"github.com/operator-catalogs/catalogd/internal/sync/fault"
	"github.com/operator-catalogs/catalogd/internal/sync/status"
)

// prepare makes what other services need of the served content.
func (e *Engine) prepare(ctx context.Context, catalog string) (err error) {
	ctx, end := span(ctx, "prepare", &err)
	defer end()
	served, ok := e.Store.Catalog(catalog)
	if e.Prepare == nil || !ok || !served.Snapshot.Validated() {
		return nil
	}
	return e.Prepare(ctx, served.Snapshot)
}

// publish makes the OperatorPackages match the served content. If nothing is served, or it is older than the packages of
// the leader before, they stay.
func (e *Engine) publish(
	ctx context.Context, src source.Source, content content, progress *progressReporter,
) (_ status.Packages, err error) {
	ctx, end := span(ctx, "publish", &err)
	defer end()
	served, ok := e.Store.Catalog(src.Name)
	if !ok || content.behind {
		return status.Packages{}, nil
	}
	return e.publisher().Publish(ctx, src, served.Snapshot, progress)
}

// conclude returns the outcome of a leader. A crowded pass is repeated as a whole when a slot frees up: it leaves the status
// and the time of the next poll, so that a due or requested poll remains pending.
func (e *Engine) conclude(ctx context.Context, src source.Source, f findings) outcome {
	_, end := span(ctx, "conclude", new(error))
	defer end()
	if f.content.crowded {
		return outcome{image: f.image.Ref, crowded: true, err: f.packages.Err}
	}
	served, ok := e.Store.Catalog(src.Name)
	r := status.Results{
		Image:     f.image.Image,
		Fault:     f.fault(),
		Attempted: f.poll.attempted || f.content.attempted,
		Current:   f.content.current,
		Behind:    f.content.behind,
		Insecure:  f.access.insecure,
		Answered:  f.poll.answered,
		Served:    e.numbersOf(served, ok),
		Packages:  f.packages,
		Prefetch:  e.prefetched(src),
	}
	if r.Fault != nil {
		logf.FromContext(ctx).Error(r.Fault, "updating the catalog failed", "served", ok)
	}
	s := status.Concluded(src, r)
	next := e.planNext(src, f)
	e.measure(src, f, s)
	return outcome{
		status: &s, events: status.Events(src.Observed, s, r), next: next,
		image: r.Image.Ref, fault: r.Fault, err: f.packages.Err,
	}
}

// prefetched returns how far the wanted bundles are cached, or why they are not. It is nil if none are wanted.
func (e *Engine) prefetched(src source.Source) *source.Prefetch {
	switch {
	case !src.Prefetch:
		return nil
	case e.Prefetched == nil:
		return &source.Prefetch{
			Message: "catalogd does not pull bundle images: run it with --bundle-content, or remove spec.prefetchBundles.",
		}
	}
	if p, ok := e.Prefetched(src.Name); ok {
		return &p
	}
	return src.Observed.Prefetch // until this process knows
}

// fault returns the fault of the last step that was attempted.
func (f findings) fault() error {
	if f.content.fault != nil {
		return f.content.fault
	}
	return f.poll.fault
}

// numbersOf returns the numbers of the served content; nil if nothing is served.
func (e *Engine) numbersOf(served store.Catalog, ok bool) *status.Served {
	if !ok {
		return nil
	}
	info := served.Snapshot.Info()
	return &status.Served{
		Digest: info.Digest, URL: e.baseURL(served.Name), Since: served.Since,
		Content: source.Content{
			Channels: info.Channels, Bundles: info.Bundles, Blobs: info.Blobs, Bytes: info.Bytes,
			Endpoint: served.Endpoint, UnpackedAt: info.UnpackedAt, Subset: subsetOf(info.Subset),
		},
	}
}

// subsetOf returns what a filter left out.
func subsetOf(s *store.Subset) *source.Subset {
	if s == nil {
		return nil
	}
	const most = 20 // named in a status
	out := &source.Subset{
		Packages: s.LeftOut.Packages, Channels: s.LeftOut.Channels, Bundles: s.LeftOut.Bundles, Blobs: s.LeftOut.Blobs,
		NotFoundCount: len(s.Unmatched),
	}
	for _, u := range s.Unmatched[:min(most, len(s.Unmatched))] {
		out.NotFound = append(out.NotFound, u.String())
	}
	return out
}

// catchUp returns the outcome of a follower.
func (e *Engine) catchUp(ctx context.Context, src source.Source, access registryAccess, content content) outcome {
	out := outcome{image: src.Observed.Image, fault: content.fault, crowded: content.crowded}
	if content.crowded {
		return out
	}
	e.Metrics.Follow(src.Name, !content.current)
	if content.current {
		e.Polls.Forget(src.Name) // once it leads, it polls at once
		return out
	}
	now := e.Clock.Now()
	if content.fault != nil {
		logf.FromContext(ctx).Error(content.fault, "pulling the digest in the status failed", "digest", src.Observed.Digest)
		e.Polls.Record(src.Name, access.subject, now, content.fault)
	}
	entry := e.Polls.Get(src.Name)
	out.next = e.plan(src.Name, timing{
		now: now, entry: entry, fault: content.fault, attempted: content.attempted,
		retryAt: retryAt(now, entry, access, src.Observed.Image),
	})
	return out
}

// planNext notes the attempt of a leader, if there was one, and returns when the next pass is due.
func (e *Engine) planNext(src source.Source, f findings) time.Time {
	now, attempted, failed := e.Clock.Now(), f.poll.attempted || f.content.attempted, f.fault()
	switch {
	case fault.IsRetryable(failed):
		e.Polls.Record(src.Name, f.access.subject, now, failed)
	case !f.poll.at.IsZero():
		e.Polls.Record(src.Name, f.access.subject, f.poll.at, nil)
	case attempted: // without a poll; the backoff of an earlier failure is over
		e.Polls.Record(src.Name, f.access.subject, e.Polls.Get(src.Name).Last, nil)
	}
	entry := e.Polls.Get(src.Name)
	schedule, err := e.schedule(src)
	if err != nil {
		schedule = poll.Every(e.Config.DefaultPollingInterval) // for the window of a retry
	}
	next := e.plan(src.Name, timing{
		now: now, entry: entry, fault: failed, attempted: attempted, postponed: f.poll.postponed,
		retryAt: retryAt(now, entry, f.access, f.image.Ref),
		due:     e.nextPoll(src, f.image.Ref, entry.Last, now),
		window:  schedule.Window(entry.Last, now),
	})
	if src.Image.Template != "" && (next.IsZero() || next.After(now.Add(versionAge))) {
		next = now.Add(versionAge) // the cluster may have another version by then
	}
	return next
}

// timing is the input for the time of the next pass.
type timing struct {
	now       time.Time
	entry     poll.Entry // with this attempt
	fault     error
	attempted bool
	postponed time.Time     // the turn of a poll that was due; zero: none
	retryAt   time.Time     // when to retry after fault
	due       time.Time     // the next poll of the schedule; zero: none
	window    time.Duration // for the turn of that poll
}

// next returns the time from which the next pass is due, and the window in which the poll log gives it a turn. If isTurn,
// the log gave it one already. A zero time means that only a change leads to the next pass.
func (t timing) next() (from time.Time, window time.Duration, isTurn bool) {
	entry := t.entry
	switch {
	case fault.IsRetryable(t.fault):
		return t.retryAt, t.retryAt.Sub(t.now) / 2, false // not the schedule's window: many that fail recover as fast as one
	case !t.postponed.IsZero():
		return t.postponed, 0, true
	case !t.attempted && entry.Next.After(t.now) && !entry.Next.Equal(entry.Due): // postponed by an earlier pass
		return entry.Next, 0, true
	case entry.Err != nil && t.now.Before(entry.Next): // the backoff lasts
		return entry.Next, 0, true
	}
	return t.due, t.window, false
}

// plan notes the time of the next pass in the poll log and returns it.
func (e *Engine) plan(catalog string, t timing) time.Time {
	from, window, isTurn := t.next()
	if isTurn {
		return from
	}
	return e.Polls.Plan(catalog, from, window)
}

// retryAt returns when to retry after a failure: after the backoff, that of the registry, and the wait that it asks for.
func retryAt(now time.Time, entry poll.Entry, access registryAccess, image string) time.Time {
	asked, advised := access.notBefore(image)
	return slices.MaxFunc([]time.Time{now.Add(poll.Backoff(entry.Failures)), asked, advised}, time.Time.Compare)
}

// nextPoll returns the next poll of the schedule. It is zero for a digest reference, a suspended catalog, one that is polled
// once, and an invalid image or schedule.
func (e *Engine) nextPoll(src source.Source, image string, last, now time.Time) time.Time {
	ref, err := name.ParseReference(image)
	if _, isDigest := ref.(name.Digest); err != nil || isDigest || src.Schedule.Suspend || src.Schedule.Once {
		return time.Time{}
	}
	schedule, err := e.schedule(src)
	if err != nil {
		return time.Time{}
	}
	return schedule.Next(last, now, src.Name)
}

// measure sets the metrics of a catalog.
func (e *Engine) measure(src source.Source, f findings, s source.Status) {
	_, served := e.Store.Catalog(src.Name)
	behind := f.content.behind || (!served && s.Digest != "")
	e.Metrics.Observe(src.Name, s, e.Polls.Get(src.Name), len(f.access.insecure) > 0, behind)
	now := e.Clock.Now()
	interval := time.Duration(0)
	if schedule, err := e.schedule(src); err == nil && !e.nextPoll(src, f.image.Ref, now, now).IsZero() {
		interval = schedule.Gap(now)
	}
	e.Metrics.Scheduled(src.Name, interval)
	if !f.poll.at.IsZero() && f.fault() == nil && f.content.current {
		e.Metrics.Current(src.Name, f.poll.at)
	}
}
