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
	"sigs.k8s.io/controller-runtime/pkg/event"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/poll"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// Leadership tells which of several replicas leads. What it lets be begun is not yet over when it ends: writes to the API server are kept
// from going on by the client that makes them.
type Leadership interface {
	Left() time.Duration      // for how long it is surely this replica; 0: it is not
	Changed() <-chan struct{} // closed when that changes
}

// leads tells whether this replica is to follow images and to write to the API server.
func (r *CatalogReconciler) leads() bool { return r.Leadership == nil || r.Leadership.Left() > 0 }

// leading are the steps of the replica that leads.
func (r *CatalogReconciler) leading() []step {
	return []step{
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
		{"dismiss", r.dismiss},
		{"adopt", r.adopt},
		{"access", r.access},
		{"unpack", r.unpack},
		{"keepUp", r.keepUp},
	}
}

// dismiss takes a catalog out of service here that is being deleted or withdrawn.
func (r *CatalogReconciler) dismiss(_ context.Context, rec *reconciliation) error {
	c := rec.catalog
	if c.DeletionTimestamp.IsZero() && c.Spec.Availability != v1beta1.AvailabilityUnavailable {
		return nil
	}
	if err := r.Store.Remove(c.Name); err != nil {
		return err
	}
	r.forget(c.Name)
	return errDone
}

// adopt takes what is wanted from the status. Where this replica led before and is ahead of it, it waits for the status to come after.
func (r *CatalogReconciler) adopt(_ context.Context, rec *reconciliation) error {
	c := rec.catalog
	if served, ok := r.Store.Catalog(c.Name); c.Status.Digest == "" || (ok && isAhead(c, served)) {
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

// release lets go of a catalog that the selector does not select any more. Its packages stay: another installation is to take it over. If
// it is being deleted it is seen to the end, as there may be none.
func (r *CatalogReconciler) release(ctx context.Context, rec *reconciliation) error {
	if !rec.catalog.DeletionTimestamp.IsZero() && r.leads() {
		return r.finalize(ctx, rec)
	}
	if err := r.Store.Remove(rec.catalog.Name); err != nil {
		return err
	}
	r.forget(rec.catalog.Name)
	if r.leads() {
		return r.dropFinalizer(ctx, rec.catalog)
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

// Lag tells how far a replica is from what the statuses say: of the catalogs that have a digest, those that are not served here at all, and
// those that are served in another version, though nothing is known to keep this replica from the one it should have. It reads a cache,
// and its error is that there is none yet.
func Lag(ctx context.Context, reader client.Reader, st *store.Store, polls *poll.Log) (missing, behind []string, err error) {
	list := &v1beta1.CatalogSourceList{}
	if err := reader.List(ctx, list); err != nil {
		return nil, nil, err
	}
	for i := range list.Items {
		c := &list.Items[i]
		if c.Status.Digest == "" || !c.DeletionTimestamp.IsZero() {
			continue
		}
		switch served, ok := st.Catalog(c.Name); {
		case !ok:
			missing = append(missing, c.Name)
		case isBehind(c, served) && polls.Get(c.Name).Err == nil:
			behind = append(behind, c.Name)
		}
	}
	return missing, behind, nil
}

// toFollow lets through what a replica that does not lead has to follow: that the status names other content.
func (r *CatalogReconciler) toFollow() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, isCatalog := e.ObjectOld.(*v1beta1.CatalogSource)
		now, _ := e.ObjectNew.(*v1beta1.CatalogSource)
		return isCatalog && !r.leads() && (basisOf(before) != basisOf(now) || before.Status.Image != now.Status.Image)
	}}
}

// followLeadership has all catalogs looked at when this replica begins to lead, or ends to.
func (r *CatalogReconciler) followLeadership(ctx context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
	if r.Leadership == nil {
		return nil
	}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-r.Leadership.Changed():
			}
			for _, catalog := range r.allCatalogs(ctx, nil) {
				queue.Add(catalog)
			}
		}
	}()
	return nil
}
