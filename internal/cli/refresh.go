package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/content"
	term "github.com/operator-catalogs/catalogd/internal/cli/output"
)

// feedTime is how long the content service may take to serve what the status says is served: another replica of it may be asked.
const feedTime = 30 * time.Second

// refreshOptions say which catalogs to refresh, and how.
type refreshOptions struct {
	all, wait bool
	timeout   time.Duration
}

func newRefreshCmd(e *env) *cobra.Command {
	var opts refreshOptions
	cmd := &cobra.Command{
		Use:        "refresh NAME...",
		SuggestFor: []string{"update", "poll", "sync"},
		Short:      "Have catalogs polled now",
		Long: `Have catalogs polled now, whenever their next poll is due. With --wait it is told what changed: the digest, and the packages that were added
(+), changed (~) and removed (-), and those that are left out as they cannot be used (!).`,
		Example: `  kubectl catalog refresh sample --wait
  kubectl catalog refresh --all`,
		ValidArgsFunction: e.completeCatalogs,
	}
	flags := cmd.Flags()
	flags.BoolVar(&opts.all, "all", false, "all catalogs that are offered and not suspended")
	flags.BoolVar(&opts.wait, "wait", false, "wait until they are current, and tell what changed")
	flags.DurationVar(&opts.timeout, "timeout", 10*time.Minute, "how long to wait for each")
	ch := newChange(cmd)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		if err := ch.begin(cmd); err != nil {
			return err
		}
		return e.refresh(cmd.Context(), ch, names, opts)
	}
	return cmd
}

func (e *env) refresh(ctx context.Context, ch *change, names []string, opts refreshOptions) error {
	catalogs, err := e.chosen(ctx, names, opts.all)
	if err != nil {
		return err
	}
	refreshes := make([]*refresh, 0, len(catalogs))
	for i := range catalogs {
		c := &catalogs[i]
		if err := atRest(c); err != nil {
			if !opts.all {
				return err
			}
			continue
		}
		r := &refresh{env: e, catalog: c, before: c.Status.Digest}
		if opts.wait && !ch.isDry() {
			r.version = r.servedVersion(ctx)
		}
		if err := r.ask(ctx, ch); err != nil {
			return err
		}
		refreshes = append(refreshes, r)
	}
	if !opts.wait || ch.isDry() {
		return nil
	}
	var failed []error
	for _, r := range refreshes {
		if err := r.finish(ctx, ch, opts.timeout); err != nil {
			failed = append(failed, r.named(err))
		}
	}
	return errors.Join(failed...)
}

// atRest is why nobody would look for new content of a catalog; nil if somebody would.
func atRest(c *v1beta1.CatalogSource) error {
	switch {
	case c.Spec.Availability == v1beta1.AvailabilityUnavailable:
		return fmt.Errorf("catalog %q is not offered, so nothing would look at it: set its spec.availability to Available (kubectl edit catalogsource %s)", c.Name, c.Name)
	case c.Spec.Suspend:
		return fmt.Errorf("catalog %q is suspended, so nothing would look at it: kubectl catalog resume %s", c.Name, c.Name)
	}
	return nil
}

// named says whose an error is, if it does not say so itself.
func (r *refresh) named(err error) error {
	if catalog := fmt.Sprintf("catalog %q", r.catalog.Name); !strings.Contains(err.Error(), catalog) {
		return fmt.Errorf("%s: %w", catalog, err)
	}
	return err
}

// A refresh is that of one catalog.
type refresh struct {
	*env
	catalog *v1beta1.CatalogSource
	earlier string // what was asked for last
	before  string // the digest
	version string // what the content service calls what it serves; empty if it does not say
	request string
}

// ask sets the annotation that asks for a poll to a value that it never had.
func (r *refresh) ask(ctx context.Context, ch *change) error {
	r.earlier = r.catalog.Annotations[v1beta1.PollRequestedAnnotation]
	r.request = time.Now().UTC().Format(time.RFC3339Nano)
	err := r.patch(ctx, ch, r.catalog, map[string]any{"metadata": map[string]any{
		"uid":         r.catalog.UID,
		"annotations": map[string]any{v1beta1.PollRequestedAnnotation: r.request},
	}})
	if err != nil {
		return err
	}
	return r.tell(ch, r.catalog, "poll requested")
}

// finish waits until the poll is over, and tells what changed.
func (r *refresh) finish(ctx context.Context, ch *change, timeout time.Duration) error {
	meter := newMeter()
	judge := func(c *v1beta1.CatalogSource) finding { return meter.refine(c, r.judge(c)) }
	after, err := r.wait(ctx, waiter{name: r.catalog.Name, uid: r.catalog.UID, timeout: timeout, goal: "refreshed", judge: judge,
		goesOn: "catalogd polls it all the same: kubectl catalog describe " + r.catalog.Name + " says how it is"})
	if err != nil || !ch.isTold() {
		return err
	}
	if after.Status.Digest == r.before {
		_, err := fmt.Fprintf(r.stdout, "catalog %q is unchanged: %s\n", after.Name, shortDigest(r.before))
		return err
	}
	if _, err := fmt.Fprintf(r.stdout, "catalog %q: %s -> %s\n", after.Name, orNothing(shortDigest(r.before)), shortDigest(after.Status.Digest)); err != nil {
		return err
	}
	return r.tellChanges(ctx, after)
}

// judge tells whether the poll is over. An attempt that failed is an error: what was asked for is not done.
func (r *refresh) judge(c *v1beta1.CatalogSource) finding {
	if c == nil || c.DeletionTimestamp != nil {
		return readiness(c)
	}
	if !r.isPolled(c) {
		if err := atRest(c); err != nil { // since it was asked for
			return finding{err: err}
		}
		return finding{stage: "Waiting for catalogd to ask the registry", hint: "catalogd has not looked at it, is it running?"}
	}
	progressing, synced := condition(c, v1beta1.ProgressingCondition), condition(c, v1beta1.PackagesSyncedCondition)
	switch {
	case progressing.Reason == v1beta1.BlockedReason, progressing.Reason == v1beta1.RetryingReason:
		return finding{err: errors.New(inOurWords(c, progressing.Message))}
	case synced.Reason == v1beta1.UnpackingReason:
		return finding{stage: "Publishing", detail: synced.Message}
	case synced.Reason == v1beta1.SyncFailedReason:
		return finding{stage: "Trying again", detail: synced.Message}
	}
	return finding{done: true}
}

// isPolled tells whether there was a poll since it was asked for: for this request, or for one that was put in its place.
func (r *refresh) isPolled(c *v1beta1.CatalogSource) bool {
	asked := c.Annotations[v1beta1.PollRequestedAnnotation]
	return c.Status.Poll != nil && (c.Status.Poll.Requested == r.request || c.Status.Poll.Requested == asked && asked != r.earlier)
}

// servedVersion is the version that the content service serves, from which on it can tell what changed.
func (r *refresh) servedVersion(ctx context.Context) string {
	event, err := r.event(ctx, "", func(content.Event) bool { return true })
	if err != nil {
		return ""
	}
	return event.ID
}

// tellChanges prints which packages differ. Whoever may not read the content knows the digests all the same.
func (r *refresh) tellChanges(ctx context.Context, after *v1beta1.CatalogSource) error {
	if r.version == "" {
		return nil
	}
	event, err := r.event(ctx, r.version, func(e content.Event) bool { return e.Digest == after.Status.Digest })
	if err != nil {
		r.warn("what changed in catalog %q is not known: %v", r.catalog.Name, err)
		return nil
	}
	if event.Changes == nil {
		r.warn("what changed in catalog %q is not known: what it was before is not kept any more", r.catalog.Name)
		return nil
	}
	left, err := r.leftOutOf(ctx, after)
	if err != nil {
		r.warn("which packages of catalog %q are left out is not all known: %v", r.catalog.Name, err)
	}
	if _, err := fmt.Fprint(r.stdout, r.describe(*event.Changes, left)); err != nil {
		return err
	}
	fmt.Fprintf(r.stderr, "more, for 15 minutes: kubectl catalog diff %s@%s %[1]s\n", r.catalog.Name, r.version)
	return nil
}

// event returns the first event of the catalog's feed that is wanted.
func (r *refresh) event(ctx context.Context, since string, wanted func(content.Event) bool) (found content.Event, err error) {
	ctx, cancel := context.WithTimeout(ctx, feedTime)
	defer cancel()
	service, err := r.service(ctx, r.catalog.Name)
	if err != nil {
		return found, err
	}
	err = service.Watch(ctx, r.catalog.Name, since, func(event content.Event) error {
		if event.Type != content.Digest || !wanted(event) {
			return nil
		}
		found = event
		return errEnough
	})
	switch {
	case errors.Is(err, errEnough):
		return found, nil
	case err == nil:
		return found, errors.New("it is not served any more")
	}
	return found, err
}

// describe has a line for each package that differs, and one that counts them. left is all that is left out, as it was before or now.
func (r *refresh) describe(changes content.Changes, left []leftOut) string {
	var b strings.Builder
	changes, lost := apart(changes, left)
	for _, group := range []struct {
		sign  string
		style term.Style
		names []string
	}{{"+", term.Green, changes.Added}, {"~", term.Yellow, changes.Changed}, {"-", term.Red, changes.Removed}} {
		for _, name := range slices.Sorted(slices.Values(group.names)) {
			fmt.Fprintf(&b, "  %s\n", r.stdout.Paint(group.style, group.sign+" "+term.Line(name)))
		}
	}
	for _, p := range lost {
		fmt.Fprintf(&b, "  %s\n", r.stdout.Paint(term.Red, p.words()))
	}
	fmt.Fprintf(&b, "%s added, %d changed, %d removed", counted(len(changes.Added), "package", "packages"), len(changes.Changed), len(changes.Removed))
	switch {
	case len(left) > len(lost):
		fmt.Fprintf(&b, "; %s left out, which kubectl catalog describe %s names", counted(len(left), "package is", "packages are"), r.catalog.Name)
	case len(left) > 0:
		fmt.Fprintf(&b, "; %s left out", counted(len(left), "package is", "packages are"))
	}
	return b.String() + "\n"
}

func orNothing(text string) string {
	if text == "" {
		return "nothing"
	}
	return text
}
