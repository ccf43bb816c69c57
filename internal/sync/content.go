package sync

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/poll"
	"github.com/operator-catalogs/catalogd/internal/registry"
	"github.com/operator-catalogs/catalogd/internal/source"
	"github.com/operator-catalogs/catalogd/internal/store"
	"github.com/operator-catalogs/catalogd/internal/sync/fault"
	"github.com/operator-catalogs/catalogd/internal/unpack"
)

// content is the result of unpack.
type content struct {
	attempted bool
	current   bool // whether the served content is the wanted one
	behind    bool // whether it is older than the status, or of another directory or filter
	crowded   bool // whether all slots to unpack are taken
	fault     error
}

// unpack makes the catalog serve the wanted digest. The old content is served until the new one is complete.
func (c *controller) unpack(
	ctx context.Context, src source.Source, image string, access registryAccess, poll polled, progress *progressReporter,
) (out content, err error) {
	ctx, end := span(ctx, "unpack", &err)
	defer end()
	j := job{Engine: c.Engine, src: src, access: access, wanted: poll.wanted, progress: progress, wake: c.wake}
	if poll.wanted != (name.Digest{}) {
		j.target = c.target(src, image, poll.wanted)
		out = j.run(ctx, poll)
		if ctx.Err() != nil {
			return content{}, ctx.Err()
		}
	}
	if served, ok := c.Store.Catalog(src.Name); ok && !out.current {
		out.behind = isBehind(src.Observed, served) ||
			(poll.wanted != (name.Digest{}) && !served.Snapshot.IsVariant(j.target))
	}
	return out, nil
}

// target returns the wanted content as the store names it.
func (e *Engine) target(src source.Source, image string, wanted name.Digest) store.Source {
	target := store.Source{
		Image: image, Digest: wanted.DigestStr(), ConfigDir: src.Image.ConfigDir, Filter: src.Filter, Owner: string(src.UID),
	}
	served, ok := e.Store.Catalog(src.Name)
	since := src.Observed.Changed
	if target.Digest == src.Observed.Digest && (!ok || served.Snapshot.IsVariant(target)) {
		target.Since = since // all replicas report it in Last-Modified
		return target
	}
	target.Basis, target.Since = src.Observed.Basis(), e.Clock.Now()
	if !target.Since.After(since) { // by the clock of another replica
		target.Since = since.Add(time.Second)
	}
	return target
}

// job brings one catalog to one digest. It is a value: its methods return their results.
type job struct {
	*Engine
	src      source.Source
	access   registryAccess
	wanted   name.Digest
	target   store.Source
	progress *progressReporter
	wake     func(catalog string)
}

// run returns the result of the job. It is undefined if ctx ended.
func (j job) run(ctx context.Context, poll polled) content {
	snap, stored := j.Store.Snapshot(j.target.Key())
	served, ok := j.Store.Catalog(j.src.Name)
	isServed := ok && served.Snapshot.Key() == j.target.Key() && served.Image == j.target.Image
	if stored && (isServed || poll.foundAt != "") {
		return j.serve(ctx, snap, poll.foundAt)
	}
	if !stored {
		snap = nil
	}
	refilters := !stored && ok && j.refilters(served)
	if !refilters && ((poll.fault != nil && ok) || (!poll.attempted && j.waits())) {
		return content{}
	}
	out := j.obtain(ctx, snap, refilters)
	out.attempted = true
	return out
}

// waits reports whether the backoff of an earlier failure lasts.
func (j job) waits() bool {
	entry := j.Polls.Get(j.src.Name)
	return !j.src.Urgent() && entry.Err != nil && entry.Subject == j.access.subject && j.Clock.Now().Before(entry.Next)
}

// obtain pulls the wanted content. If the store has it, as shared, it only asks the registry for permission. If it refilters, it
// sends no request.
func (j job) obtain(ctx context.Context, shared *store.Snapshot, refilters bool) content {
	if j.src.Urgent() {
		j.Store.ForgetRefusal(j.target.Key())
	}
	if refusal, refused := j.Store.Refused(j.target.Key()); refused {
		return content{fault: j.refused(fault.WithReason(refusal.Reason, errors.New(refusal.Message)))}
	}
	if refilters {
		out, err := j.refilter(ctx)
		if err != nil && !isNotStored(err) && ctx.Err() == nil {
			out.fault = j.failed(ctx, err)
		}
		if !isNotStored(err) {
			return out
		}
	}
	if j.access.err != nil {
		return content{fault: fmt.Errorf("cannot unpack %s: %w", j.imageName(), j.access.err)}
	}
	var out content
	var err error
	if shared != nil {
		out, err = j.share(ctx, shared)
	} else {
		out, err = j.fetch(ctx)
	}
	if err != nil && ctx.Err() == nil {
		out.fault = j.failed(ctx, err)
	}
	return out
}

// share serves content that another catalog unpacked, if the registry permits this one to pull it. Otherwise a catalog could
// serve content that its own credentials do not permit.
func (j job) share(ctx context.Context, snap *store.Snapshot) (content, error) {
	from, err := j.permitted(ctx)
	if err != nil {
		return content{}, err
	}
	return j.serve(ctx, snap, from), nil
}

// permitted asks the registry whether this catalog can pull the wanted digest. It returns the reference at which it can.
func (j job) permitted(ctx context.Context) (string, error) {
	from, err := j.access.client.Try(ctx, j.wanted, func(ctx context.Context, at registry.Endpoint) error {
		return poll.Check(ctx, j.wantedAt(at), at.Remote...)
	})
	if err != nil {
		return "", err
	}
	return j.wantedAt(from).String(), nil
}

// wantedAt returns the wanted digest at an endpoint.
func (j job) wantedAt(at registry.Endpoint) name.Digest {
	return at.Ref.Context().Digest(j.wanted.DigestStr())
}

// serve makes the catalog serve a snapshot of the store.
func (j job) serve(ctx context.Context, snap *store.Snapshot, endpoint string) content {
	target := j.target
	target.Endpoint = endpoint
	if err := j.Store.Serve(ctx, j.src.Name, target, snap); err != nil {
		if ctx.Err() != nil {
			return content{}
		}
		return content{attempted: true, fault: j.failed(ctx, err)}
	}
	return content{current: true}
}

// fetch pulls the wanted image, unpacks it into the store and serves it.
func (j job) fetch(ctx context.Context) (_ content, err error) {
	leave, ok := j.gate.enter(j.src.Name, j.wanted.Context().RegistryStr(), j.Config.Concurrency, j.wake)
	if !ok {
		return content{crowded: true}, nil
	}
	defer leave()
	if snap, ok := j.Store.Snapshot(j.target.Key()); ok { // another catalog pulled it while this one waited
		return j.share(ctx, snap)
	}
	if j.Store.CanRestore(j.target) { // another catalog has another part of it
		from, err := j.permitted(ctx)
		if err != nil {
			return content{}, err
		}
		if err := j.commit(ctx, j.restored(from)); !isNotStored(err) {
			return content{current: err == nil}, err
		}
	}
	err = j.commit(ctx, j.pull)
	return content{current: err == nil}, err
}

// commit unpacks with fill and serves the result.
func (j job) commit(ctx context.Context, fill func(context.Context, *store.Stage) (store.Source, int, error)) (err error) {
	log := logf.FromContext(ctx).WithValues("image", j.target.Image, "digest", j.target.Digest)
	log.Info("unpacking")
	started := j.Clock.Now()
	stage, err := j.stage()
	if err != nil {
		return err
	}
	defer func() {
		if discardErr := stage.Discard(); discardErr != nil {
			log.Error(discardErr, "cannot delete a stage; the next start deletes it")
		}
	}()
	target, files, err := fill(ctx, stage)
	if err != nil {
		return err
	}
	j.progress.enter(ctx, source.Indexing)
	commit, end := span(ctx, "commit", &err)
	snap, err := stage.Commit(commit, target)
	end()
	if err != nil {
		return err
	}
	took := j.Clock.Since(started)
	log.Info("unpacked", "files", files, "blobs", snap.Info().Blobs, "bytes", snap.Info().Bytes, "took", took.Round(time.Millisecond))
	j.Metrics.Unpacked(j.src.Name, took)
	return nil
}

// pull unpacks the wanted image into a stage. It returns the target with the endpoint that had it, and the number of files.
func (j job) pull(ctx context.Context, stage *store.Stage) (_ store.Source, files int, err error) {
	j.progress.enter(ctx, source.Downloading)
	ctx, end := span(ctx, "pull", &err)
	defer end()
	from, err := j.access.client.Try(ctx, j.wanted, func(ctx context.Context, at registry.Endpoint) error {
		opts := unpack.Options{
			ConfigDir: j.target.ConfigDir, Limits: j.Config.Limits, Remote: at.Remote,
			Written: stage.Add, Progress: j.progress.fetched(),
		}
		if total := &opts.Limits.TotalBytes; *total == 0 || stage.Room() < *total {
			*total = stage.Room()
		}
		result, err := unpack.Image(ctx, j.wantedAt(at), stage.Root(), opts)
		files = result.Files
		return err
	})
	if limit, ok := errors.AsType[*unpack.LimitError](err); ok && limit.Limit == unpack.LimitTotalBytes && limit.Value == stage.Room() {
		return store.Source{}, 0, stage.NoRoom() // the image is not to blame
	}
	if err != nil {
		return store.Source{}, 0, err
	}
	target := j.target
	target.Endpoint = j.wantedAt(from).String()
	return target, files, nil
}

// failed explains an error, and prepares the next attempt: an invalid image is refused until it changes, and a full volume
// gives up what it keeps for a grace period.
func (j job) failed(ctx context.Context, err error) error {
	if isImage, err := fault.OfImage(err); isImage {
		j.Store.RecordRefusal(j.target.Key(), store.Refusal{Reason: fault.Reason(err), Message: err.Error()})
		return j.refused(err)
	}
	explained := remedies(j.target.Image, j.access).WithRemedy(fmt.Errorf("cannot unpack %s: %w", j.imageName(), err))
	switch {
	case isFull(err):
		if err := j.Store.Reclaim(); err != nil {
			logf.FromContext(ctx).Error(err, "cannot free space in the store")
		}
		return fault.WithReason(v1beta1.StorageFullReason, fmt.Errorf("%w. Give catalogd more space, or remove catalogs", explained))
	case errors.Is(err, syscall.EROFS), errors.Is(err, syscall.EIO):
		return fault.WithReason(v1beta1.StorageFailedReason, fmt.Errorf("%w. Check catalogd's volume", explained))
	}
	return explained
}

// isFull reports whether the volume, or the limit of the store, has no room.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// stage makes a stage. If there is no room, it frees what the store keeps for a grace period.
func (j job) stage() (*store.Stage, error) {
	stage, err := j.Store.Stage(j.src.Name, j.target.Image)
	if !isFull(err) {
		return stage, err
	}
	if err := j.Store.Reclaim(); err != nil {
		return nil, err
	}
	return j.Store.Stage(j.src.Name, j.target.Image)
}

// refused returns the fault of an invalid image.
func (j job) refused(err error) error {
	return fault.Block(fmt.Errorf("cannot unpack %s: %w", j.imageName(), err))
}

// imageName returns the wanted image with its digest, shortened for people.
func (j job) imageName() string {
	if strings.Contains(j.target.Image, "@") {
		return j.target.Image
	}
	const most = len("sha256:") + 12
	digest := j.target.Digest
	return j.target.Image + " at " + digest[:min(len(digest), most)]
}
