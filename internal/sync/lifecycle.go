package sync

import (
	"context"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/operator-catalogs/catalogd/internal/source"
	"github.com/operator-catalogs/catalogd/internal/store"
	"github.com/operator-catalogs/catalogd/internal/sync/status"
)

// dropForeign removes content that this replica serves for a deleted object of the same name: a new object must get content
// by its own image and credentials. It keeps content that the new object's status names, as another replica got it, or a
// backup with statuses was restored.
func (e *Engine) dropForeign(ctx context.Context, src source.Source) (err error) {
	ctx, end := span(ctx, "dropForeign", &err)
	defer end()
	served, ok := e.Store.Catalog(src.Name)
	if !ok || served.Owner == "" || served.Owner == string(src.UID) || isNamed(src, served) {
		return nil
	}
	logf.FromContext(ctx).Info("the catalog was deleted and recreated; removing its former content",
		"digest", served.Snapshot.Info().Digest)
	return e.stopServing(src.Name)
}

// isNamed reports whether the served content is the one that the status names.
func isNamed(src source.Source, served store.Catalog) bool {
	named := store.Source{Digest: src.Observed.Digest, ConfigDir: src.Image.ConfigDir, Filter: src.Filter}
	return served.Image == src.Observed.Image && served.Snapshot.Key() == named.Key()
}

// finalize removes the packages, the content and the finalizer of a deleted catalog. It does not wait for the cluster's
// garbage collector, so that the content is gone when the object is. After a crash it starts over.
func (c *controller) finalize(ctx context.Context, src source.Source, object client.Object) (_ outcome, err error) {
	ctx, end := span(ctx, "finalize", &err)
	defer end()
	if !controllerutil.ContainsFinalizer(object, c.kind.Finalizer()) {
		return outcome{}, nil
	}
	if err := c.publisher().DeleteAll(ctx, src.Name); err != nil {
		return outcome{}, err
	}
	for _, mirror := range c.Mirrors {
		if err := mirror.Delete(ctx, object); err != nil {
			return outcome{}, err
		}
	}
	if err := c.stopServing(src.Name); err != nil {
		return outcome{}, err
	}
	if err := c.dropFinalizer(ctx, object); err != nil || len(object.GetFinalizers()) == 0 {
		return outcome{}, err
	}
	return outcome{status: new(status.Deleted(src))}, nil
}

// withdraw stops serving a catalog that its owner marked Unavailable, and deletes its packages.
func (e *Engine) withdraw(ctx context.Context, src source.Source) (_ outcome, err error) {
	ctx, end := span(ctx, "withdraw", &err)
	defer end()
	published, err := e.publisher().HasAny(ctx, src.Name)
	if err != nil {
		return outcome{}, err
	}
	if published || !status.IsWithdrawn(src.Observed) { // the cache may be stale; the status says whether all were deleted
		if err := e.publisher().DeleteAll(ctx, src.Name); err != nil {
			return outcome{}, err
		}
	}
	if err := e.stopServing(src.Name); err != nil {
		return outcome{}, err
	}
	return outcome{status: new(status.Withdrawn(src))}, nil
}

// aheadFor is how long a former leader serves a digest that no status names. The next leader has polled since then: if the
// status is the same still, the digest is gone, or no longer wanted.
const aheadFor = 15 * time.Minute

// adopt returns the digest that the status names, or the zero one if there is nothing to follow. A former leader that is
// ahead of the status waits for it until the returned time.
func (e *Engine) adopt(src source.Source) (_ polled, waitUntil time.Time) {
	served, ok := e.Store.Catalog(src.Name)
	if until := served.Since.Add(aheadFor); ok && isAhead(src.Observed, served) && e.Clock.Now().Before(until) {
		e.Metrics.Follow(src.Name, false)
		return polled{}, until
	}
	if src.Observed.Digest == "" {
		e.Metrics.Follow(src.Name, false)
		return polled{}, time.Time{}
	}
	ref, err := name.ParseReference(src.Observed.Image)
	if err != nil { // no leader can have unpacked it
		return polled{}, time.Time{}
	}
	return polled{wanted: ref.Context().Digest(src.Observed.Digest)}, time.Time{}
}
