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
	"github.com/operator-catalogs/catalogd/internal/store"
	"github.com/operator-catalogs/catalogd/internal/unpack"
)

// blockedError is a fault that stays until somebody changes the object or the image; any other is worth a retry.
type blockedError struct{ err error }

func (e *blockedError) Error() string { return e.err.Error() }
func (e *blockedError) Unwrap() error { return e.err }

// resolve finds out which digest is wanted: that of a digest reference, what a poll says if one is due, else what was
// found last.
func (r *CatalogReconciler) resolve(ctx context.Context, rec *reconciliation) error {
	c := rec.catalog
	ref, err := name.ParseReference(c.Spec.Image)
	if err != nil {
		r.answerRequest(rec)
		rec.blocked(fmt.Errorf("the image reference %q in spec.image cannot be read: write registry/repository:tag, in lower case but for the tag, "+
			"or registry/repository@sha256: and 64 hex digits", c.Spec.Image))
		return nil
	}
	if digest, ok := ref.(name.Digest); ok {
		rec.wanted = digest
		r.answerRequest(rec)
		return nil
	}
	if digest := r.lastDigest(c); c.Status.Image == c.Spec.Image && digest != "" {
		rec.wanted = ref.Context().Digest(digest)
	}
	if _, err := r.schedule(c); err != nil {
		r.answerRequest(rec)
		rec.blocked(err)
		return nil
	}
	if c.Spec.Suspend || !r.due(rec) {
		return nil
	}
	r.answerRequest(rec)
	rec.attempted, rec.polledAt = true, r.Clock.Now()
	digest, err := poll.Digest(ctx, ref, r.Config.Registry...)
	if ctx.Err() != nil {
		return ctx.Err() // we are told to stop; that says nothing about the image
	}
	r.Metrics.Polled(c.Name, rec.polledAt, err)
	if err != nil {
		rec.fetchErr = err // it names the image
		return nil
	}
	rec.wanted = digest
	return nil
}

// lastDigest is the digest that was found last. The store knows better than the status, which is written after it and
// may not have been: going back to what it says would take newer content out of service.
func (r *CatalogReconciler) lastDigest(c *v1beta1.CatalogSource) string {
	if served, ok := r.Store.Catalog(c.Name); ok {
		return served.Snapshot.Info().Digest
	}
	return c.Status.Digest
}

func (rec *reconciliation) blocked(err error) {
	rec.attempted, rec.fetchErr = true, &blockedError{err}
}

// due tells whether to ask the registry: never done by this process, the time has come, the spec changed, or somebody
// asked for it.
func (r *CatalogReconciler) due(rec *reconciliation) bool {
	entry := r.Polls.Get(rec.catalog.Name)
	return rec.isAskedFor() || entry.Last.IsZero() || (!entry.Next.IsZero() && !r.Clock.Now().Before(entry.Next))
}

// isAskedFor tells whether a person did something that asks for an attempt now.
func (rec *reconciliation) isAskedFor() bool {
	return rec.before.Status.ObservedGeneration != rec.catalog.Generation || rec.requested()
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
	src := sourceOf(c, rec.wanted)
	if snap, ok := r.Store.Snapshot(src.Key()); ok {
		if err := r.Store.Point(c.Name, src.Image, snap); err != nil {
			rec.attempted, rec.fetchErr = true, r.unpackFailed(ctx, src, err)
			return nil
		}
		rec.current = true
		return nil
	}
	_, served := r.Store.Catalog(c.Name)
	if (rec.fetchErr != nil && served) || r.waits(rec) {
		return nil
	}
	if rec.isAskedFor() {
		r.Store.Forgive(src.Key())
	}
	rec.attempted = true
	if reason, refused := r.Store.Refused(src.Key()); refused {
		rec.fetchErr = &blockedError{errors.New(reason)}
		return nil
	}
	started := r.Clock.Now()
	if err := r.fetch(ctx, rec, src); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		rec.fetchErr = r.unpackFailed(ctx, src, err)
		return nil
	}
	rec.current = true
	r.Metrics.Unpacked(c.Name, r.Clock.Since(started))
	return nil
}

func sourceOf(c *v1beta1.CatalogSource, digest name.Digest) store.Source {
	src := store.Source{Image: c.Spec.Image, Digest: digest.DigestStr()}
	if c.Spec.ExtractContent != nil {
		src.ConfigDir = c.Spec.ExtractContent.ConfigDir
	}
	return src
}

// waits tells whether an earlier failure still asks for patience. A failure of this very reconcile does not.
func (r *CatalogReconciler) waits(rec *reconciliation) bool {
	entry := r.Polls.Get(rec.catalog.Name)
	return !rec.attempted && !rec.isAskedFor() && entry.Err != nil && r.Clock.Now().Before(entry.Next)
}

// fetch unpacks the wanted image into the store.
func (r *CatalogReconciler) fetch(ctx context.Context, rec *reconciliation, src store.Source) (err error) {
	log := logf.FromContext(ctx).WithValues("image", src.Image, "digest", src.Digest)
	log.Info("unpacking")
	started := r.Clock.Now()
	stage, err := r.Store.Stage()
	if err != nil {
		return err
	}
	defer func() {
		if discardErr := stage.Discard(); discardErr != nil {
			log.Error(discardErr, "cannot delete a stage; it goes at the next start")
		}
	}()
	opts := unpack.Options{ConfigDir: src.ConfigDir, Limits: r.Config.Limits, Remote: r.Config.Registry}
	files, err := unpack.Image(ctx, rec.wanted, stage.Root(), opts)
	if err != nil {
		return err
	}
	snap, err := stage.Commit(ctx, rec.catalog.Name, src)
	if err != nil {
		return err
	}
	log.Info("unpacked", "files", files.Files, "blobs", snap.Info().Blobs, "bytes", snap.Info().Bytes,
		"took", r.Clock.Since(started).Round(time.Millisecond))
	return nil
}

// unpackFailed tells what a failure means, and does what helps the next attempt: an image that is wrong is refused until it
// changes, a full volume gives up what it keeps for a grace period.
func (r *CatalogReconciler) unpackFailed(ctx context.Context, src store.Source, err error) error {
	var invalidImage *unpack.InvalidImageError
	var invalidFile *fbc.Error
	image := src.Image
	if !strings.Contains(image, "@") {
		image += " at " + shortDigest(src.Digest)
	}
	told := fmt.Errorf("cannot unpack %s: %w", image, err)
	if errors.As(err, &invalidImage) || errors.As(err, &invalidFile) {
		told = fmt.Errorf("%w. Correct the image and push it again", told)
		r.Store.Refuse(src.Key(), told.Error())
		return &blockedError{told}
	}
	if errors.Is(err, syscall.ENOSPC) {
		if err := r.Store.Reclaim(); err != nil {
			logf.FromContext(ctx).Error(err, "cannot free space in the store")
		}
		return fmt.Errorf("%w. Give catalogd's volume more space, or remove catalogs", told)
	}
	return told
}

// shortDigest is enough of a digest for people to compare.
func shortDigest(digest string) string {
	const most = len("sha256:") + 12
	return digest[:min(len(digest), most)]
}
