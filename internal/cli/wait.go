package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	term "github.com/operator-catalogs/catalogd/internal/cli/output"
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
	goesOn  string                               // what an interrupt does not end, for people
}

var errTimeout = errors.New("timed out")

// wait tells what is going on until it is over, and returns the catalog as it is then.
func (e *env) wait(ctx context.Context, w waiter) (*v1beta1.CatalogSource, error) {
	whole := ctx
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
	if whole.Err() != nil && err != nil {
		progress.End()
		fmt.Fprintln(e.stderr, term.Line(interrupted(w, found)))
		return nil, silentError{err}
	}
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
	return anotherError{fmt.Errorf("catalog %q was removed and made anew meanwhile: what is there now is another", name)}
}

// An anotherError says that an object is another one than before.
type anotherError struct{ error }

func timedOut(w waiter, found finding) error {
	why := cmp.Or(found.hint, found.detail, found.stage, unseen)
	if found.err != nil {
		why = found.err.Error()
	}
	return fmt.Errorf("catalog %q is not %s after %s: %s", w.name, w.goal, w.timeout, term.Line(why))
}

// interrupted says what was last known, as the line that told of it is gone, and what goes on all the same.
func interrupted(w waiter, found finding) string {
	last := cmp.Or(found.stage, unseen)
	if found.err != nil {
		last = found.err.Error()
	} else if found.detail != "" {
		last += ": " + found.detail
	}
	return fmt.Sprintf("interrupted: catalog %q is not %s yet (%s); %s", w.name, w.goal, last, w.goesOn)
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
		return finding{err: errors.New(inOurWords(c, ready.Message)), grace: settling(ready)}
	case ready.Reason == v1beta1.InvalidPackagesReason, ready.Reason == v1beta1.ImageNotFoundReason: // which is tried again, but does not pass by itself
		return finding{err: errors.New(inOurWords(c, ready.Message))}
	case progressing.Reason == v1beta1.RetryingReason, ready.Reason == v1beta1.SyncFailedReason:
		return finding{stage: "Trying again", detail: ready.Message}
	}
	return finding{stage: "Unpacking", detail: ready.Message}
}

// inOurWords is a sentence of a status that points to a command of ours, not to a field, and does not end where a registry said nothing more.
func inOurWords(c *v1beta1.CatalogSource, message string) string {
	message = strings.ReplaceAll(message, "See status.content.invalidPackages.", "kubectl catalog describe "+c.Name+" names them all.")
	return strings.TrimRight(message, ": ")
}

// settling is how long catalogd may take to see a Secret or ConfigMap that was made just before the catalog that names it.
func settling(ready metav1.Condition) time.Duration {
	if ready.Reason == v1beta1.AccessInvalidReason {
		return 2 * time.Second
	}
	return 0
}
