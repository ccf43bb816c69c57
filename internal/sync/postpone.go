package sync

import (
	"time"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/operator-catalogs/catalogd/internal/poll"
)

// mostPostponed is how much later than planned a poll may be since its registry failed others, but for waiting for its turn:
// what fails may be theirs.
const mostPostponed = 5 * time.Minute

// postpone puts a poll off while the registry wants no requests, and for a while, unless somebody asked for it, when the registry
// is known to fail: this catalog or others found out. The first poll of this process takes its turn: after a start all catalogs are
// due. There is no hurry, as long as what was polled last is served; whoever changed the image, or the way to it, is to be told. A
// request for a poll waits only for the registry.
func (r *CatalogReconciler) postpone(rec *reconciliation, ref name.Reference) bool {
	catalog, now := rec.catalog.Name, r.Clock.Now()
	entry := r.Polls.Get(catalog)
	_, served := r.Store.Catalog(catalog)
	first := entry.Last.IsZero()
	changed := !first && entry.Subject != rec.subject || rec.specChanged()
	if !served || changed || rec.client == nil {
		return false
	}
	asked, advised := rec.client.NotBefore(ref)
	latest := entry.Due.Add(mostPostponed)
	turn := now
	switch {
	case asked.After(now):
		turn = r.Polls.Postpone(catalog, asked, r.window(rec))
	case rec.requested():
	case advised.After(now) && latest.After(now):
		if advised.After(latest) {
			advised = latest
		}
		turn = r.Polls.Postpone(catalog, advised, r.window(rec))
	case first && entry.Next.IsZero():
		turn = r.Polls.Plan(catalog, now, r.window(rec))
	case first:
		turn = entry.Next
	}
	if !turn.After(now) {
		return false
	}
	rec.postponed = turn
	return true
}

// window is for how long the polls of a catalog may wait for their turn.
func (r *CatalogReconciler) window(rec *reconciliation) time.Duration {
	schedule, err := r.schedule(rec.catalog)
	if err != nil {
		schedule = poll.Every(r.Config.DefaultPollingInterval) // of what is tried again all the same
	}
	return schedule.Window(r.Polls.Get(rec.catalog.Name).Last, r.Clock.Now())
}
