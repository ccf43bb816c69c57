package catalogs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/content"
	"github.com/operator-catalogs/catalogd/internal/cli/follow"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
	"github.com/operator-catalogs/catalogd/internal/cli/status"
)

// feedTime limits the wait for the content service: the replica that answers may serve a new version later than the status names it.
const feedTime = 30 * time.Second

// A refreshRequest selects the catalogs to poll.
type refreshRequest struct {
	selection
	wait    bool
	timeout time.Duration
}

func newRefreshCommand(s *session.Session) *cobra.Command {
	var req refreshRequest
	cmd := &cobra.Command{
		Use:        "refresh NAME...",
		SuggestFor: []string{"update", "poll", "sync"},
		Short:      "Poll catalogs now",
		Long: `Poll catalogs now, whenever the next poll is due. With --wait, the command prints the changes: the
digest, and the packages that were added (+), changed (~), removed (-) or are invalid (!).`,
		Example: `  kubectl catalog refresh sample --wait
  kubectl catalog refresh --all`,
		ValidArgsFunction: lookup.CompleteCatalogs(s),
	}
	flags := cmd.Flags()
	flags.BoolVar(&req.all, "all", false, "all catalogs that are available and not suspended")
	flags.BoolVar(&req.wait, "wait", false, "wait until they are up to date, and print the changes")
	flags.DurationVar(&req.timeout, "timeout", 10*time.Minute, "how long to wait for each catalog")
	ch := newChange(cmd)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		req.names = names
		if ch.isDry() {
			req.wait = false
		}
		return refresh(cmd.Context(), s, ch, req)
	}
	return cmd
}

func refresh(ctx context.Context, s *session.Session, ch *change, req refreshRequest) error {
	catalogs, err := req.find(ctx, s)
	if err != nil {
		return err
	}
	var polls []poll
	for i := range catalogs {
		if err := canPoll(&catalogs[i]); err != nil {
			if !req.all {
				return err
			}
			continue
		}
		p, err := requestPoll(ctx, s, ch, &catalogs[i], req.wait)
		if err != nil {
			return err
		}
		polls = append(polls, p)
	}
	if !req.wait {
		return nil
	}
	var failed []error
	for _, p := range polls {
		after, err := p.wait(ctx, s, req.timeout)
		if err == nil && ch.isText() {
			err = printUpdate(ctx, s, p, after)
		}
		if err != nil {
			failed = append(failed, p.named(err))
		}
	}
	return errors.Join(failed...)
}

// canPoll returns an error if catalogd does not poll a catalog.
func canPoll(c *status.Catalog) error {
	ready := status.Ready(c)
	switch {
	case ready.Reason == v1beta1.NameTakenReason:
		return fmt.Errorf("catalog %q is not polled: %s", c.Arg(), ready.Message)
	case !c.IsOurs():
		return fmt.Errorf("catalog %q is not maintained by catalogd: check that catalogd runs with --cluster-catalogs, and that OLM v1's own "+
			"catalogd does not run", c.Arg())
	case c.Spec.Availability == v1beta1.AvailabilityUnavailable:
		return fmt.Errorf("catalog %q is unavailable and not polled: set spec.%s to Available (kubectl edit %s)",
			c.Arg(), c.AvailabilityField(), c.Ref())
	case c.Spec.Suspend:
		return fmt.Errorf("catalog %q is suspended and not polled: kubectl catalog resume %s", c.Arg(), c.Arg())
	}
	return nil
}

// A poll is the requested poll of one catalog.
type poll struct {
	catalog  *status.Catalog
	request  string // the annotation
	previous string // its previous value
	digest   string // served before
	version  string // of the content service, served before; empty if unknown
}

// requestPoll sets the annotation that requests a poll to a new value.
func requestPoll(ctx context.Context, s *session.Session, ch *change, c *status.Catalog, readVersion bool) (poll, error) {
	p := poll{
		catalog:  c,
		request:  time.Now().UTC().Format(time.RFC3339Nano),
		previous: c.Annotations[v1beta1.PollRequestedAnnotation],
		digest:   c.Status.Digest,
	}
	if readVersion {
		event, _ := p.firstEvent(ctx, s, func(content.Event) bool { return true }) // without it, there is no list of changes
		p.version = event.ID
	}
	err := ch.patch(ctx, s, c, map[string]any{"metadata": map[string]any{
		"uid":         c.UID,
		"annotations": map[string]any{v1beta1.PollRequestedAnnotation: p.request},
	}})
	if err == nil {
		err = ch.print(s.Stdout, c, "poll requested")
	}
	return p, err
}

// wait waits until the poll is complete.
func (p poll) wait(ctx context.Context, s *session.Session, timeout time.Duration) (*status.Catalog, error) {
	name := p.catalog.Arg()
	return wait(ctx, s, waitRequest{
		kind: p.catalog.Kind, name: p.catalog.Name, uid: p.catalog.UID, timeout: timeout, goal: "refreshed", check: p.progress,
		continues: "catalogd continues the poll: kubectl catalog describe " + name + " shows its state",
	})
}

// named adds the catalog's name to an error that lacks it.
func (p poll) named(err error) error {
	if catalog := fmt.Sprintf("catalog %q", p.catalog.Name); !strings.Contains(err.Error(), catalog) {
		return fmt.Errorf("%s: %w", catalog, err)
	}
	return err
}

// progress returns the progress of the poll. A failed attempt is an error.
func (p poll) progress(c *status.Catalog) progress {
	if c == nil || c.DeletionTimestamp != nil {
		return readiness(c)
	}
	if !p.isAnswered(c) {
		return progress{err: canPoll(c), stage: "Waiting for catalogd to poll the registry", hint: unobservedHint}
	}
	progressing := status.Condition(c, v1beta1.ProgressingCondition)
	synced := status.Condition(c, v1beta1.PackagesSyncedCondition)
	switch {
	case progressing.Reason == v1beta1.BlockedReason, progressing.Reason == v1beta1.RetryingReason:
		return progress{err: errors.New(status.Sentence(c, progressing.Message))}
	case synced.Reason == v1beta1.UnpackingReason:
		return progress{stage: "Publishing", detail: synced.Message}
	case synced.Reason == v1beta1.SyncFailedReason:
		return progress{stage: "Retrying", detail: synced.Message}
	}
	return progress{done: true}
}

// isAnswered reports whether catalogd polled for this request, or for one that replaced it.
func (p poll) isAnswered(c *status.Catalog) bool {
	latest := c.Annotations[v1beta1.PollRequestedAnnotation]
	return c.Status.Poll != nil &&
		(c.Status.Poll.Requested == p.request || c.Status.Poll.Requested == latest && latest != p.previous)
}

// firstEvent returns the first wanted event of the catalog's feed since the version of the poll.
func (p poll) firstEvent(ctx context.Context, s *session.Session, wanted func(content.Event) bool) (found content.Event, err error) {
	ctx, cancel := context.WithTimeout(ctx, feedTime)
	defer cancel()
	service, err := lookup.ServiceOf(s, p.catalog)
	if err != nil {
		return found, err
	}
	err = service.Watch(ctx, p.catalog.Name, p.version, func(event content.Event) error {
		if event.Type != content.Digest || !wanted(event) {
			return nil
		}
		found = event
		return follow.ErrDone
	})
	switch {
	case errors.Is(err, follow.ErrDone):
		return found, nil
	case err == nil:
		return found, errors.New("the catalog is no longer served")
	}
	return found, err
}

// printUpdate prints what a poll changed. Users who may not read the content see the digests only.
func printUpdate(ctx context.Context, s *session.Session, p poll, after *status.Catalog) error {
	from, to := output.ShortDigest(p.digest), output.ShortDigest(after.Status.Digest)
	if p.digest == after.Status.Digest {
		_, err := fmt.Fprintf(s.Stdout, "catalog %q is unchanged: %s\n", after.Name, from)
		return err
	}
	if _, err := fmt.Fprintf(s.Stdout, "catalog %q: %s -> %s\n", after.Name, cmp.Or(from, "nothing"), to); err != nil {
		return err
	}
	if p.version == "" {
		return nil
	}
	event, err := p.firstEvent(ctx, s, func(e content.Event) bool { return e.Digest == after.Status.Digest })
	if err == nil && event.Changes == nil {
		err = errors.New("the previous version is no longer stored")
	}
	if err != nil {
		s.Stderr.Warnf("the changes of catalog %q are unknown: %v", after.Name, err)
		return nil
	}
	invalid, err := lookup.Invalid(ctx, s, after)
	if err != nil {
		s.Stderr.Warnf("the list of invalid packages of catalog %q is incomplete: %v", after.Name, err)
	}
	if _, err := fmt.Fprint(s.Stdout, changesText(s.Stdout, p.catalog.Arg(), *event.Changes, invalid)); err != nil {
		return err
	}
	fmt.Fprintf(s.Stderr, "for details within 15 minutes: kubectl catalog diff %s@%s %[1]s\n", p.catalog.Arg(), p.version)
	return nil
}

// changesText returns a line for each changed package, and their number. invalid lists all invalid packages, old and new.
func changesText(to *output.Terminal, catalog string, changes content.Changes, invalid []lookup.InvalidPackage) string {
	var b strings.Builder
	changes, updated := lookup.SeparateInvalid(changes, invalid)
	for _, group := range []struct {
		sign  string
		names []string
	}{{"+ ", changes.Added}, {"~ ", changes.Changed}, {"- ", changes.Removed}} {
		for _, name := range slices.Sorted(slices.Values(group.names)) {
			fmt.Fprintf(&b, "  %s\n", paintChange(to, group.sign+output.Line(name)))
		}
	}
	for _, p := range updated {
		fmt.Fprintf(&b, "  %s\n", paintChange(to, p.String()))
	}
	fmt.Fprintf(&b, "%s added, %d changed, %d removed",
		output.Counted(len(changes.Added), "package", "packages"), len(changes.Changed), len(changes.Removed))
	if len(invalid) > 0 {
		fmt.Fprintf(&b, "; %s invalid", output.Counted(len(invalid), "package is", "packages are"))
	}
	if len(invalid) > len(updated) {
		fmt.Fprintf(&b, " (listed by kubectl catalog describe %s)", catalog)
	}
	return b.String() + "\n"
}
