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
	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/poll"
	"github.com/operator-catalogs/catalogd/internal/registry"
	"github.com/operator-catalogs/catalogd/internal/store"
	"github.com/operator-catalogs/catalogd/internal/unpack"
)

// resolve finds out which digest is wanted: that of a digest reference, what a poll says if one is due, else what was
// found last.
func (r *CatalogReconciler) resolve(ctx context.Context, rec *reconciliation) error {
	c := rec.catalog
	if rec.image == "" { // its template gives none
		r.answerRequest(rec)
		return nil
	}
	ref, err := name.ParseReference(rec.image)
	if digest, ok := ref.(name.Digest); ok && err == nil {
		rec.wanted = digest
		r.answerRequest(rec)
		return nil
	}
	if err == nil {
		if digest := r.lastDigest(c); c.Status.Image == rec.image && digest != "" {
			rec.wanted = ref.Context().Digest(digest)
		}
		_, err = r.schedule(c)
	} else {
		err = badReference(rec)
	}
	switch {
	case err != nil:
		r.answerRequest(rec)
		rec.blocked(err)
		return nil
	case c.Spec.Suspend || !r.due(rec):
		return nil
	case r.postpone(rec, ref):
		return nil
	}
	r.answerRequest(rec)
	return r.poll(ctx, rec, ref)
}

func badReference(rec *reconciliation) error {
	field := "spec.image"
	if templateOf(rec.catalog) != "" {
		field = "the image template"
	}
	return fmt.Errorf("the image reference %q of %s cannot be read: %s", rec.image, field, registry.ReferenceForm)
}

// poll asks the image's registry, or a mirror of it, which digest the image has.
func (r *CatalogReconciler) poll(ctx context.Context, rec *reconciliation, ref name.Reference) error {
	rec.attempted, rec.polledAt = true, r.Clock.Now()
	err := rec.accessErr
	if rec.before.Status.Digest == "" || rec.isAskedFor() { // else there may well be nothing new
		rec.progress.enter(ctx, v1beta1.ProgressResolving)
	}
	if err == nil {
		ctx, end := span(ctx, "poll")
		_, err = rec.client.Try(ctx, ref, func(ctx context.Context, at registry.Endpoint) error {
			digest, err := poll.Digest(ctx, at.Ref, at.Remote...)
			if err == nil {
				rec.wanted, rec.foundAt = ref.Context().Digest(digest.DigestStr()), digest.String()
			}
			return err
		})
		end(err)
	}
	if ctx.Err() != nil {
		return ctx.Err() // we are told to stop; that says nothing about the image
	}
	r.Metrics.Polled(rec.catalog.Name, rec.polledAt, err)
	if err != nil {
		rec.fetchErr = rec.withRemedy(err)
	}
	return nil
}

// lastDigest is the digest that was found last. The store may know better than the status, which is written after it and
// may not have been: going back to what it says would take newer content out of service.
func (r *CatalogReconciler) lastDigest(c *v1beta1.CatalogSource) string {
	if served, ok := r.Store.Catalog(c.Name); ok && (c.Status.Digest == "" || isAhead(c, served)) {
		return served.Snapshot.Info().Digest
	}
	return c.Status.Digest
}

func (rec *reconciliation) blocked(err error) {
	rec.attempted, rec.fetchErr = true, &blockedError{err}
}

// due tells whether to ask the registry: never done by this process, the time has come, the image or the way to it is
// another, or somebody asked for it.
func (r *CatalogReconciler) due(rec *reconciliation) bool {
	entry := r.Polls.Get(rec.catalog.Name)
	return rec.isAskedFor() || entry.Last.IsZero() || entry.Subject != rec.subject ||
		(!entry.Next.IsZero() && !r.Clock.Now().Before(entry.Next))
}

// isAskedFor tells whether a person did something that asks for an attempt now.
func (rec *reconciliation) isAskedFor() bool {
	return rec.specChanged() || rec.requested()
}

// specChanged tells whether the spec is another than the one that the status is about.
func (rec *reconciliation) specChanged() bool {
	return rec.before.Status.ObservedGeneration != rec.catalog.Generation
}

// requested tells whether a poll is asked for. A suspended catalog leaves the request until it is resumed.
func (rec *reconciliation) requested() bool {
	value := rec.catalog.Annotations[v1beta1.PollRequestedAnnotation]
	return value != "" && !rec.catalog.Spec.Suspend && (rec.before.Status.Poll == nil || rec.before.Status.Poll.Requested != value)
}

// answerRequest echoes a request for a poll, which is made or pointless now. Whether it worked, the conditions say.
func (r *CatalogReconciler) answerRequest(rec *reconciliation) {
	if rec.requested() {
		pollStatus(rec.catalog).Requested = rec.catalog.Annotations[v1beta1.PollRequestedAnnotation]
	}
}

func pollStatus(c *v1beta1.CatalogSource) *v1beta1.PollStatus {
	if c.Status.Poll == nil {
		c.Status.Poll = &v1beta1.PollStatus{}
	}
	return c.Status.Poll
}

// schedule says how a catalog is polled.
func (r *CatalogReconciler) schedule(c *v1beta1.CatalogSource) (poll.Schedule, error) {
	switch {
	case c.Spec.PollingSchedule != "":
		schedule, err := poll.Cron(c.Spec.PollingSchedule)
		if err != nil {
			return schedule, fmt.Errorf("spec.pollingSchedule cannot be used: %w", err)
		}
		if now := r.Clock.Now(); schedule.Next(now, now, c.Name).IsZero() {
			return schedule, fmt.Errorf("spec.pollingSchedule cannot be used: no day ever matches %q", c.Spec.PollingSchedule)
		}
		return schedule, nil
	case c.Spec.PollingInterval != nil:
		return poll.Every(c.Spec.PollingInterval.Duration), nil
	}
	return poll.Every(r.Config.DefaultPollingInterval), nil
}

// unpack brings the catalog in the store to the wanted digest. What is served stays served until new content is whole.
func (r *CatalogReconciler) unpack(ctx context.Context, rec *reconciliation) error {
	c := rec.catalog
	if rec.wanted == (name.Digest{}) {
		return nil
	}
	src := r.source(rec)
	snap, stored := r.Store.Snapshot(src.Key())
	served, ok := r.Store.Catalog(c.Name)
	if serves := ok && served.Snapshot.Key() == src.Key() && served.Image == src.Image; stored && (serves || rec.foundAt != "") {
		r.point(ctx, rec, src, snap)
		return ctx.Err()
	}
	if (rec.fetchErr != nil && ok) || r.waits(rec) {
		return nil
	}
	rec.attempted = true
	if !stored {
		snap = nil
	}
	if err := r.obtain(ctx, rec, src, snap); err != nil && ctx.Err() == nil {
		rec.fetchErr = err
	}
	return ctx.Err()
}

// obtain gets what is wanted from the registry; if it is in the store already, as shared, only the leave to have it. The error
// is one for people, but for that of ctx.
func (r *CatalogReconciler) obtain(ctx context.Context, rec *reconciliation, src store.Source, shared *store.Snapshot) (err error) {
	if rec.isAskedFor() {
		r.Store.ForgetRefusal(src.Key())
	}
	if refusal, refused := r.Store.Refused(src.Key()); refused {
		return refusedError(rec, &reasonedError{refusal.Reason, errors.New(refusal.Message)})
	}
	if rec.accessErr != nil {
		return fmt.Errorf("cannot unpack %s: %w", rec.wantedImage(), rec.accessErr)
	}
	if shared != nil {
		err = r.share(ctx, rec, src, shared)
	} else {
		err = r.fetch(ctx, rec, src)
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	return r.unpackFailed(ctx, rec, err)
}

// share takes what another catalog had unpacked, if the registry would give it to this one too: else a catalog could have
// what its own credentials, or a registry that does not exist, never gave it.
func (r *CatalogReconciler) share(ctx context.Context, rec *reconciliation, src store.Source, snap *store.Snapshot) error {
	from, err := rec.client.Try(ctx, rec.wanted, func(ctx context.Context, at registry.Endpoint) error {
		return poll.Check(ctx, rec.wantedAt(at), at.Remote...)
	})
	if err != nil {
		return err
	}
	rec.foundAt = rec.wantedAt(from).String()
	r.point(ctx, rec, src, snap)
	return ctx.Err()
}

// wantedAt is what is wanted, as an endpoint calls it.
func (rec *reconciliation) wantedAt(at registry.Endpoint) name.Digest {
	return at.Ref.Context().Digest(rec.wanted.DigestStr())
}

// point makes the catalog serve what is in the store.
func (r *CatalogReconciler) point(ctx context.Context, rec *reconciliation, src store.Source, snap *store.Snapshot) {
	src.Endpoint = rec.foundAt
	if err := r.Store.Serve(ctx, rec.catalog.Name, src, snap); err != nil {
		if ctx.Err() != nil {
			return // we are told to stop; callers ask ctx
		}
		rec.attempted, rec.fetchErr = true, r.unpackFailed(ctx, rec, err)
		return
	}
	rec.current = true
}

// source says what is wanted, as the store has it.
func (r *CatalogReconciler) source(rec *reconciliation) store.Source {
	src := store.Source{Image: rec.image, Digest: rec.wanted.DigestStr(), ConfigDir: configDir(rec.catalog), Owner: string(rec.catalog.UID)}
	served, ok := r.Store.Catalog(rec.catalog.Name)
	since := changeTime(rec.before).Time
	if src.Digest == rec.before.Status.Digest && (!ok || served.Snapshot.Info().ConfigDir == src.ConfigDir) {
		src.Since = since // the same on all replicas: it stands in Last-Modified
		return src
	}
	src.Basis, src.Since = basisOf(rec.before), r.Clock.Now()
	if !src.Since.After(since) { // by the clock of another replica
		src.Since = since.Add(time.Second)
	}
	return src
}

// configDir is the directory of the image that the spec asks for; empty: where the image's label says.
func configDir(c *v1beta1.CatalogSource) string {
	if e := c.Spec.ExtractContent; e != nil {
		return e.ConfigDir
	}
	return ""
}

// waits tells whether an earlier failure still asks for patience. A failure of this very reconcile does not.
func (r *CatalogReconciler) waits(rec *reconciliation) bool {
	entry := r.Polls.Get(rec.catalog.Name)
	return !rec.attempted && !rec.isAskedFor() && entry.Err != nil && entry.Subject == rec.subject && r.Clock.Now().Before(entry.Next)
}

// fetch unpacks the wanted image into the store.
func (r *CatalogReconciler) fetch(ctx context.Context, rec *reconciliation, src store.Source) (err error) {
	leave, ok := r.gate.enter(rec.catalog.Name, rec.wanted.Context().RegistryStr(), r.Config.Concurrency)
	if !ok {
		rec.crowded = true
		return nil
	}
	defer leave()
	if snap, ok := r.Store.Snapshot(src.Key()); ok { // another catalog pulled it while this one waited
		return r.share(ctx, rec, src, snap)
	}
	log := logf.FromContext(ctx).WithValues("image", src.Image, "digest", src.Digest)
	log.Info("unpacking")
	started := r.Clock.Now()
	stage, err := r.stage(rec.catalog.Name, src.Image)
	if err != nil {
		return err
	}
	defer func() {
		if discardErr := stage.Discard(); discardErr != nil {
			log.Error(discardErr, "cannot delete a stage; it goes at the next start")
		}
	}()
	rec.progress.enter(ctx, v1beta1.ProgressDownloading)
	var files unpack.Result
	pull, end := span(ctx, "pull")
	from, err := rec.client.Try(pull, rec.wanted, func(ctx context.Context, at registry.Endpoint) (err error) {
		opts := unpack.Options{ConfigDir: src.ConfigDir, Limits: r.Config.Limits, Remote: at.Remote, Written: stage.Add, Progress: rec.progress.fetched()}
		if total := &opts.Limits.TotalBytes; *total == 0 || stage.Room() < *total {
			*total = stage.Room()
		}
		files, err = unpack.Image(ctx, rec.wantedAt(at), stage.Root(), opts)
		return err
	})
	end(err)
	if limit, ok := errors.AsType[*unpack.LimitError](err); ok && limit.Limit == unpack.LimitTotalBytes && limit.Value == stage.Room() {
		return stage.NoRoom() // the image is not to blame
	}
	if err != nil {
		return err
	}
	src.Endpoint = rec.wantedAt(from).String()
	rec.progress.enter(ctx, v1beta1.ProgressIndexing)
	commit, end := span(ctx, "commit")
	snap, err := stage.Commit(commit, src)
	end(err)
	if err != nil {
		return err
	}
	log.Info("unpacked", "files", files.Files, "blobs", snap.Info().Blobs, "bytes", snap.Info().Bytes,
		"took", r.Clock.Since(started).Round(time.Millisecond))
	rec.current = true
	r.Metrics.Unpacked(rec.catalog.Name, r.Clock.Since(started))
	return nil
}

// unpackFailed tells what a failure means, and does what helps the next attempt: an image that is wrong is refused until it
// changes, a full volume gives up what it keeps for a grace period.
func (r *CatalogReconciler) unpackFailed(ctx context.Context, rec *reconciliation, err error) error {
	var invalidImage *unpack.InvalidImageError
	var invalidFile *fbc.Error
	if errors.As(err, &invalidImage) || errors.As(err, &invalidFile) {
		err = fmt.Errorf("%w%s", err, imageRemedy(err))
		r.Store.RecordRefusal(r.source(rec).Key(), store.Refusal{Reason: reasonOf(err), Message: err.Error()})
		return refusedError(rec, err)
	}
	told := rec.withRemedy(fmt.Errorf("cannot unpack %s: %w", rec.wantedImage(), err))
	switch {
	case isFull(err):
		if err := r.Store.Reclaim(); err != nil {
			logf.FromContext(ctx).Error(err, "cannot free space in the store")
		}
		return &reasonedError{v1beta1.StorageFullReason, fmt.Errorf("%w. Give catalogd more space, or remove catalogs", told)}
	case errors.Is(err, syscall.EROFS), errors.Is(err, syscall.EIO):
		return &reasonedError{v1beta1.StorageFailedReason, fmt.Errorf("%w. Look after catalogd's volume", told)}
	}
	return told
}

// isFull tells whether there is no room on the volume, or none within the limit that catalogd was given.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// stage makes a stage. If there is no room, what the store keeps for a grace period goes first.
func (r *CatalogReconciler) stage(catalog, image string) (*store.Stage, error) {
	stage, err := r.Store.Stage(catalog, image)
	if !isFull(err) {
		return stage, err
	}
	if err := r.Store.Reclaim(); err != nil {
		return nil, err
	}
	return r.Store.Stage(catalog, image)
}

// refusedError says that the image is wrong, in the words of err.
func refusedError(rec *reconciliation, err error) error {
	return &blockedError{fmt.Errorf("cannot unpack %s: %w", rec.wantedImage(), err)}
}

// wantedImage names the image that is wanted, for people.
func (rec *reconciliation) wantedImage() string {
	if strings.Contains(rec.image, "@") {
		return rec.image
	}
	return rec.image + " at " + shortDigest(rec.wanted.DigestStr())
}

// shortDigest is enough of a digest for people to compare.
func shortDigest(digest string) string {
	const most = len("sha256:") + 12
	return digest[:min(len(digest), most)]
}
