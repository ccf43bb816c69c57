package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/cmd/kubectl-catalog/internal/term"
)

// A finding is what a catalog that somebody waits for is found to be.
type finding struct {
	done          bool
	err           error         // why waiting is of no use
	grace         time.Duration // how long that may take to pass by itself all the same
	stage, detail string        // what is waited for
	hint          string        // what to look at where that does not come
}

// A waiter waits for a catalog.
type waiter struct {
	name    string
	uid     types.UID // of the object that is waited for; empty: whichever has the name
	timeout time.Duration
	goal    string                               // what it is to be, for people
	judge   func(*v1beta1.CatalogSource) finding // of nil where the catalog does not exist
}

var errTimeout = errors.New("timed out")

// wait tells what is going on until it is over, and returns the catalog as it is then.
func (e *env) wait(ctx context.Context, w waiter) (*v1beta1.CatalogSource, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, w.timeout, errTimeout)
	defer cancel()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	progress := e.stderr.Progress()
	defer progress.End()
	var last *v1beta1.CatalogSource
	var found finding
	var grace *time.Timer
	err := e.followOne(ctx, w.name, func(c *v1beta1.CatalogSource) error {
		if grace != nil {
			grace.Stop()
		}
		last, found = c, w.find(c)
		switch {
		case found.done:
			return errEnough
		case found.err == nil:
			progress.Show(found.stage, found.detail)
		case found.grace == 0:
			return found.err
		default:
			err := found.err
			grace = time.AfterFunc(found.grace, func() { fail(err) })
		}
		return nil
	})
	if errors.Is(err, errTimeout) {
		return nil, timedOut(w, found)
	}
	return last, err
}

// find judges a catalog, unless it is another one of the name.
func (w waiter) find(c *v1beta1.CatalogSource) finding {
	if c != nil && w.uid != "" && c.UID != w.uid {
		return finding{err: madeAnew(w.name)}
	}
	return w.judge(c)
}

func madeAnew(name string) error {
	return fmt.Errorf("catalog %q was removed and made anew meanwhile: what is there now is another", name)
}

func timedOut(w waiter, found finding) error {
	why := cmp.Or(found.hint, found.detail, found.stage)
	if found.err != nil {
		why = found.err.Error()
	}
	return fmt.Errorf("catalog %q is not %s after %s: %s", w.name, w.goal, w.timeout, term.Line(why))
}

// condition returns a condition of a catalog, Unknown where it has none.
func condition(c *v1beta1.CatalogSource, kind string) metav1.Condition {
	if found := meta.FindStatusCondition(c.Status.Conditions, kind); found != nil {
		return *found
	}
	return metav1.Condition{Type: kind, Status: metav1.ConditionUnknown}
}

// What a catalog waits for that catalogd has not looked at since it was changed.
const (
	unseen     = "Waiting for catalogd to look at it"
	unseenHint = "catalogd has not looked at it, is it running?"
)

// isSeen tells whether the status is about the catalog as it is.
func isSeen(c *v1beta1.CatalogSource) bool {
	return c.Status.ObservedGeneration == c.Generation && condition(c, v1beta1.ReadyCondition).Status != metav1.ConditionUnknown
}

// readiness judges whether a catalog is ready.
func readiness(c *v1beta1.CatalogSource) finding {
	if c == nil || c.DeletionTimestamp != nil {
		return finding{err: notFoundf("the catalog was removed meanwhile")}
	}
	ready, progressing := condition(c, v1beta1.ReadyCondition), condition(c, v1beta1.ProgressingCondition)
	switch {
	case !isSeen(c):
		return finding{stage: unseen, hint: unseenHint}
	case ready.Status == metav1.ConditionTrue, progressing.Reason == v1beta1.SuspendedReason, progressing.Reason == v1beta1.UserSpecifiedUnavailableReason:
		return finding{done: true}
	case progressing.Reason == v1beta1.BlockedReason:
		return finding{err: errors.New(ready.Message), grace: settling(ready)}
	case ready.Reason == v1beta1.InvalidPackagesReason:
		return finding{err: errors.New(ready.Message)}
	case progressing.Reason == v1beta1.RetryingReason, ready.Reason == v1beta1.SyncFailedReason:
		return finding{stage: "Trying again", detail: ready.Message}
	}
	return finding{stage: "Unpacking", detail: ready.Message}
}

// settling is how long catalogd may take to see a Secret or ConfigMap that was made just before the catalog that names it.
func settling(ready metav1.Condition) time.Duration {
	if ready.Reason == v1beta1.AccessInvalidReason {
		return 2 * time.Second
	}
	return 0
}
