package catalogs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/follow"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
	"github.com/operator-catalogs/catalogd/internal/cli/status"
)

// progress is how far a catalog is from the goal of a wait.
type progress struct {
	done          bool
	err           error         // the goal is out of reach
	grace         time.Duration // until err is final
	stage, detail string        // the current activity
	hint          string        // what to check after a timeout
}

// A waitRequest is a wait for a catalog.
type waitRequest struct {
	kind      status.Kind
	name      string
	uid       types.UID // empty: any object of the name
	timeout   time.Duration
	goal      string                         // in words
	check     func(*status.Catalog) progress // of nil if the catalog does not exist
	continues string                         // what an interrupt does not end, in words
}

var errTimeout = errors.New("timed out")

// wait shows the progress of a catalog until it reaches the goal, and returns it.
func wait(ctx context.Context, s *session.Session, req waitRequest) (*status.Catalog, error) {
	parent := ctx
	ctx, cancel := context.WithTimeoutCause(ctx, req.timeout, errTimeout)
	defer cancel()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	shown := s.Stderr.Progress()
	defer shown.End()
	var last *status.Catalog
	var now progress
	var grace *time.Timer
	rate := output.NewRate()
	err := follow.One(ctx, s, req.kind, req.name, func(c *status.Catalog) error {
		if grace != nil {
			grace.Stop()
		}
		last, now = c, refine(rate, c, req.progress(c))
		switch {
		case now.done:
			return follow.ErrDone
		case now.err == nil:
			shown.Show(now.stage, now.detail)
		case now.grace == 0:
			return now.err
		default:
			err := now.err
			grace = time.AfterFunc(now.grace, func() { fail(err) })
		}
		return nil
	})
	if parent.Err() != nil && err != nil {
		shown.End()
		fmt.Fprintln(s.Stderr, output.Line(req.interrupted(now)))
		return nil, exit.Silent(err)
	}
	if errors.Is(err, errTimeout) {
		return nil, req.timedOut(now)
	}
	return last, err
}

// progress checks a catalog, unless it was recreated.
func (r waitRequest) progress(c *status.Catalog) progress {
	if c != nil && r.uid != "" && c.UID != r.uid {
		return progress{err: session.Recreated(r.name)}
	}
	return r.check(c)
}

func (r waitRequest) timedOut(p progress) error {
	why := cmp.Or(p.hint, p.detail, p.stage, unobserved)
	if p.err != nil {
		why = p.err.Error()
	}
	return fmt.Errorf("timed out after %s: catalog %q is not %s: %s", r.timeout, r.name, r.goal, output.Line(why))
}

// interrupted returns the last progress, whose line is erased, and what continues.
func (r waitRequest) interrupted(p progress) string {
	last := cmp.Or(p.stage, unobserved)
	if p.err != nil {
		last = p.err.Error()
	} else if p.detail != "" {
		last += ": " + p.detail
	}
	return fmt.Sprintf("interrupted: catalog %q is not %s yet (%s); %s", r.name, r.goal, last, r.continues)
}

// The stage and the hint of a catalog whose current spec catalogd has not reconciled.
const (
	unobserved     = "Waiting for catalogd to reconcile it"
	unobservedHint = "catalogd has not reconciled it; check that catalogd is running"
)

var errDeleted = exit.NotFoundf("the catalog was deleted")

// readiness returns the progress of a catalog towards being ready.
func readiness(c *status.Catalog) progress {
	if c == nil || c.DeletionTimestamp != nil {
		return progress{err: errDeleted}
	}
	ready := status.Condition(c, v1beta1.ReadyCondition)
	progressing := status.Condition(c, v1beta1.ProgressingCondition)
	switch {
	case !status.IsObserved(c) && c.Kind == status.ClusterCatalog:
		return progress{stage: unobserved, hint: unobservedHint + " with --cluster-catalogs"}
	case !status.IsObserved(c):
		return progress{stage: unobserved, hint: unobservedHint}
	case ready.Status == metav1.ConditionTrue, progressing.Reason == v1beta1.SuspendedReason,
		progressing.Reason == v1beta1.UserSpecifiedUnavailableReason:
		return progress{done: true}
	case progressing.Reason == v1beta1.BlockedReason:
		p := progress{err: errors.New(status.Sentence(c, ready.Message))}
		if ready.Reason == v1beta1.AccessInvalidReason { // of a Secret or ConfigMap that was created just before the catalog
			p.grace = 2 * time.Second
		}
		return p
	case ready.Reason == v1beta1.InvalidPackagesReason, ready.Reason == v1beta1.ImageNotFoundReason: // retried, but in vain
		return progress{err: errors.New(status.Sentence(c, ready.Message))}
	case progressing.Reason == v1beta1.RetryingReason, ready.Reason == v1beta1.SyncFailedReason:
		return progress{stage: "Retrying", detail: ready.Message}
	}
	return progress{stage: "Unpacking", detail: ready.Message}
}

// refine refines progress with status.progress, unless the catalog is being deleted.
func refine(rate *output.Rate, c *status.Catalog, p progress) progress {
	if p.done || p.err != nil || c.Status.Progress == nil || c.DeletionTimestamp != nil {
		return p
	}
	p.stage, p.detail = phase(rate, *c.Status.Progress)
	p.hint = ""
	return p
}

// phase returns the phase of an update, and its bytes with their rate.
func phase(rate *output.Rate, p v1beta1.CatalogProgress) (stage, detail string) {
	switch p.Phase {
	case v1beta1.ProgressResolving:
		return "Resolving the image", ""
	case v1beta1.ProgressDownloading:
		return "Downloading", rate.Progress(p.Bytes, p.TotalBytes)
	case v1beta1.ProgressIndexing:
		return "Indexing", ""
	case v1beta1.ProgressPublishing:
		total := output.Counted(int(p.TotalPackages), "package", "packages")
		return "Publishing", fmt.Sprintf("%d of %s", p.Packages, total)
	}
	return string(p.Phase), ""
}
