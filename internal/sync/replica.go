package sync

import (
	"cmp"
	"context"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/poll"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// Leadership tells which of several replicas leads. What it lets be begun is not yet over when it ends: writes to the API server are kept
// from going on by the client that makes them.
type Leadership interface {
	Left() time.Duration      // for how long it is surely this replica; 0: it is not
	Changed() <-chan struct{} // closed when that changes
	Refused(error) bool       // whether that is why a write failed: it was not this replica that led, or not any more
}

// leads tells whether this replica is to follow images and to write to the API server.
func (r *CatalogReconciler) leads() bool { return r.Leadership == nil || r.Leadership.Left() > 0 }

// leading are the steps of the replica that leads.
func (r *CatalogReconciler) leading() []step {
	return []step{
		{"disown", r.disown},
		{"finalize", r.finalize},
		{"withdraw", r.withdraw},
		{"render", r.render},
		{"announce", r.announce},
		{"access", r.access},
		{"resolve", r.resolve},
		{"unpack", r.unpack},
		{"publish", r.publish},
		{"conclude", r.conclude},
	}
}

// following are the steps of the others. They bring the volume of their replica to the content that the status names, and write nothing
// to the API server.
func (r *CatalogReconciler) following() []step {
	return []step{
		{"disown", r.disown},
		{"dismiss", r.dismiss},
		{"adopt", r.adopt},
		{"access", r.access},
		{"unpack", r.unpack},
		{"keepUp", r.keepUp},
	}
}

// disown takes out of service what is served here for another CatalogSource of this name, which was deleted while this replica did not look.
// What was served stays served for as long as it is the same object that asks for it; another one has to get content by its own image and
// credentials. But if its status names this very content, somebody got it so (or a backup with statuses was restored), and it stays.
func (r *CatalogReconciler) disown(ctx context.Context, rec *reconciliation) error {
	c := rec.catalog
	served, ok := r.Store.Catalog(c.Name)
	if !ok || served.Owner == "" || served.Owner == string(c.UID) || isNamed(c, served) {
		return nil
	}
	logf.FromContext(ctx).Info("the catalog was deleted and made anew; removing its former content", "digest", served.Snapshot.Info().Digest)
	if err := r.Store.Remove(c.Name); err != nil {
		return err
	}
	r.forget(c.Name)
	return nil
}

// isNamed tells whether what is served is what the status names.
func isNamed(c *v1beta1.CatalogSource, served store.Catalog) bool {
	src := store.Source{Digest: c.Status.Digest, ConfigDir: configDir(c)}
	return served.Image == c.Status.Image && served.Snapshot.Key() == src.Key()
}

// dismiss takes a catalog out of service here that is being deleted or withdrawn.
func (r *CatalogReconciler) dismiss(_ context.Context, rec *reconciliation) error {
	c := rec.catalog
	if !isWithdrawn(c) {
		return nil
	}
	if err := r.Store.Remove(c.Name); err != nil {
		return err
	}
	r.forget(c.Name)
	return errDone
}

// aheadFor is how long a replica that led goes on with what it found while the status does not come after. Another leader has polled since then;
// that it left the status as it was means that what was found is gone, or is not wanted any more.
const aheadFor = 15 * time.Minute

// adopt takes what is wanted from the status. Where this replica led before and is ahead of it, it waits for the status to come after.
func (r *CatalogReconciler) adopt(_ context.Context, rec *reconciliation) error {
	c := rec.catalog
	served, ok := r.Store.Catalog(c.Name)
	if until := served.Since.Add(aheadFor); ok && isAhead(c, served) && r.Clock.Now().Before(until) {
		rec.next = until
		r.Metrics.Follow(c.Name, false)
		return errDone
	}
	if c.Status.Digest == "" {
		r.Metrics.Follow(c.Name, false)
		return errDone
	}
	ref, err := name.ParseReference(c.Status.Image)
	if err != nil { // nobody could have unpacked it
		return errDone
	}
	rec.image, rec.wanted = c.Status.Image, ref.Context().Digest(c.Status.Digest)
	rec.subject = rec.wanted.String()
	return nil
}

// keepUp notes how far this replica is, and when it is to try again.
func (r *CatalogReconciler) keepUp(ctx context.Context, rec *reconciliation) error {
	if rec.crowded {
		return nil
	}
	c := rec.catalog
	r.Metrics.Follow(c.Name, !rec.current)
	if rec.current {
		r.Polls.Forget(c.Name) // should it lead one day, it polls at once
		return nil
	}
	now := r.Clock.Now()
	if rec.fetchErr != nil {
		logf.FromContext(ctx).Error(rec.fetchErr, "this replica is not brought to the content of the status", "digest", c.Status.Digest)
		r.Polls.Record(c.Name, rec.subject, now, rec.fetchErr)
	}
	entry := r.Polls.Get(c.Name)
	switch {
	case retried(rec.fetchErr):
		at := r.retryAt(rec, now.Add(poll.Backoff(entry.Failures)))
		rec.next = r.Polls.Plan(c.Name, at, at.Sub(now)/2)
	case rec.fetchErr == nil && now.Before(entry.Next):
		rec.next = entry.Next // we came for another reason while the backoff lasts
	}
	return nil
}

// release lets go of a catalog that the selector does not select, or not any more. Its packages stay: another installation is to take it over.
// If it is being deleted it is seen to the end, as there may be none. What another one has taken over already, its status tells.
func (r *CatalogReconciler) release(ctx context.Context, rec *reconciliation) error {
	c := rec.catalog
	ours := r.leads() && (c.Status.URLs == nil || c.Status.URLs.Base == r.baseURL(c.Name))
	if ours && !c.DeletionTimestamp.IsZero() {
		return r.finalize(ctx, rec)
	}
	if _, ok := r.Store.Catalog(c.Name); ok {
		if err := r.Store.Remove(c.Name); err != nil {
			return err
		}
	}
	r.forget(c.Name)
	if ours {
		return r.dropFinalizer(ctx, c)
	}
	return nil
}

// basisOf is what a leader's decision to serve other content than the status names is founded on: that status. It is never empty, as that
// of a follower is, which serves what the status names.
func basisOf(c *v1beta1.CatalogSource) string {
	return cmp.Or(c.Status.Digest, "nothing") + "@" + changeTime(c).UTC().Format(time.RFC3339)
}

// changeTime is since when a catalog has the content that its status names; zero: it is not known.
func changeTime(c *v1beta1.CatalogSource) metav1.Time {
	if p := c.Status.Poll; p != nil && p.LastChangeTime != nil {
		return *p.LastChangeTime
	}
	return metav1.Time{}
}

// isAhead tells whether what is served here is newer than what the status names: it was found by a leader for whom the status was as it is,
// so that nobody went on from there since. The process that found it ended before it could say so, or the API server did not take it.
func isAhead(c *v1beta1.CatalogSource, served store.Catalog) bool {
	return served.Snapshot.Info().Digest != c.Status.Digest && served.Basis == basisOf(c)
}

// isBehind tells whether what is served here is older than what the status names.
func isBehind(c *v1beta1.CatalogSource, served store.Catalog) bool {
	return c.Status.Digest != "" && served.Snapshot.Info().Digest != c.Status.Digest && !isAhead(c, served)
}

// isWithdrawn tells whether a catalog is not to be served, whatever its status names.
func isWithdrawn(c *v1beta1.CatalogSource) bool {
	return !c.DeletionTimestamp.IsZero() || c.Spec.Availability == v1beta1.AvailabilityUnavailable
}

// Awaited is the digest that a status names, as long as it is to be served here and is not: what is served is older, or nothing is. Empty: there is
// none.
func Awaited(c *v1beta1.CatalogSource, st *store.Store) string {
	if isWithdrawn(c) {
		return ""
	}
	if served, ok := st.Catalog(c.Name); ok && !isBehind(c, served) {
		return ""
	}
	return c.Status.Digest
}

// lags tells whether a leader serves what is older than the status, or of another directory of the image than is wanted: what was published of
// newer content is to stay then.
func (r *CatalogReconciler) lags(rec *reconciliation, served store.Catalog) bool {
	if rec.current {
		return false
	}
	return isBehind(rec.catalog, served) || (rec.wanted != name.Digest{} && served.Snapshot.Info().ConfigDir != r.source(rec).ConfigDir)
}

// Lag is how far a replica is from what the statuses say, by the names of the catalogs.
type Lag struct {
	Missing []string // not served here, and being fetched
	Failing []string // not served here, as they cannot be had
	Behind  []string // served in another version than the one that is being fetched
}

// None tells that there is no lag.
func (l Lag) None() bool { return len(l.Missing)+len(l.Failing)+len(l.Behind) == 0 }

// LagOf compares what is served here with the statuses. It reads a cache, and its error is that there is none yet.
func LagOf(ctx context.Context, reader client.Reader, st *store.Store, polls *poll.Log) (lag Lag, err error) {
	list := &v1beta1.CatalogSourceList{}
	if err := reader.List(ctx, list); err != nil {
		return lag, err
	}
	for i := range list.Items {
		c := &list.Items[i]
		if c.Status.Digest == "" || isWithdrawn(c) {
			continue
		}
		failed := polls.Get(c.Name).Err != nil
		switch served, ok := st.Catalog(c.Name); {
		case !ok && failed:
			lag.Failing = append(lag.Failing, c.Name)
		case !ok:
			lag.Missing = append(lag.Missing, c.Name)
		case !failed && isBehind(c, served):
			lag.Behind = append(lag.Behind, c.Name)
		}
	}
	return lag, nil
}

// followLeadership has all catalogs looked at when this replica begins to lead, or ends to.
func (r *CatalogReconciler) followLeadership(ctx context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
	if r.Leadership == nil {
		return nil
	}
	changed := r.Leadership.Changed() // before anything can be missed
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
			changed = r.Leadership.Changed()
			r.known.clear() // others may have written since, and the cache not have it yet
			for _, catalog := range r.allCatalogs(ctx, nil) {
				queue.Add(catalog)
			}
		}
	}()
	return nil
}
