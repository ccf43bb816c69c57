package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/content"
	term "github.com/operator-catalogs/catalogd/internal/cli/output"
)

// catalogColumns are those of `kubectl catalog list`. Where all are ready, no reason is needed.
func catalogColumns(allReady bool) []term.Column {
	return []term.Column{
		{Name: "name"},
		{Name: "image", Least: 20, Drop: 4},
		{Name: "digest", Drop: 1},
		{Name: "packages", Drop: 5, Right: true},
		{Name: "ready", Style: statusStyle},
		{Name: "reason", Wide: allReady},
		{Name: "last change", Drop: 3, Right: true},
		{Name: "next poll", Drop: 2, Right: true},
		{Name: "priority", Wide: true, Right: true},
		{Name: "status", Wide: true},
	}
}

func isReady(c v1beta1.CatalogSource) bool { return ready(&c).Status == metav1.ConditionTrue }

func newListCmd(e *env) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list [NAME...]",
		Aliases: []string{"ls"},
		Short:   "List the catalogs of the cluster",
		Example: `  kubectl catalog list
  kubectl catalog list -o wide
  kubectl catalog list --watch
  kubectl catalog list --sort-by .status.content.bytes`,
		ValidArgsFunction: e.completeCatalogs,
	}
	out := newOutput(cmd)
	var opts listOptions
	flags := cmd.Flags()
	flags.StringVarP(&opts.selector, "selector", "l", "", "only catalogs with these labels: key=value,...")
	flags.StringVar(&opts.fields, "field-selector", "", "only catalogs with these fields: metadata.name=value")
	flags.StringVar(&opts.sortBy, "sort-by", "", "sort by a `field` of the objects, as a JSONPath: .spec.priority")
	flags.BoolVarP(&opts.watch, "watch", "w", false, "after the list, a row for each catalog that changes, until interrupted")
	flags.BoolP("all-namespaces", "A", false, "catalogs are in no namespace: as kubectl takes it for such objects")
	_ = flags.MarkHidden("all-namespaces")
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		if opts.names = names; len(names) > 0 && opts.selector+opts.fields != "" {
			return usagef("name catalogs, or select them by --selector and --field-selector, not both")
		}
		if err := checkSelectors(opts.selector, opts.fields); err != nil {
			return err
		}
		if opts.watch {
			return e.watchList(cmd.Context(), out, opts)
		}
		return e.list(cmd.Context(), out, opts)
	}
	return cmd
}

// checkSelectors returns an error if --selector or --field-selector cannot be read, before anything is asked.
func checkSelectors(selector, fieldSelector string) error {
	if _, err := labels.Parse(selector); err != nil {
		return usagef("--selector %q: %w", selector, err)
	}
	if _, err := fields.ParseSelector(fieldSelector); err != nil {
		return usagef("--field-selector %q: %w", fieldSelector, err)
	}
	return nil
}

// noCatalogs is said where there is nothing to list, to search or to change.
const noCatalogs = "There are no catalogs. Add one: kubectl catalog add NAME IMAGE"

// nothingFound says that nothing was found, or that there is nothing to find it in.
func (e *env) nothingFound(ctx context.Context, text string) error {
	if e.serverURL == "" {
		if catalogs, err := e.catalogs(ctx); err == nil && len(catalogs) == 0 {
			text = noCatalogs
		}
	}
	_, err := fmt.Fprintln(e.stderr, text)
	return err
}

// listOptions say which catalogs to list, and how.
type listOptions struct {
	names            []string
	selector, fields string
	sortBy           string
	watch            bool
}

func (e *env) list(ctx context.Context, out *output, opts listOptions) error {
	var catalogs []v1beta1.CatalogSource
	var missing []string // those that there are, are listed all the same, as kubectl does
	var err error
	if len(opts.names) > 0 {
		catalogs, missing, err = e.existing(ctx, opts.names)
	} else {
		catalogs, err = e.selectCatalogs(ctx, opts.selector, opts.fields)
	}
	missed := e.noCatalogs(ctx, missing)
	switch {
	case err != nil:
		return err
	case len(catalogs) == 0 && missed != nil:
		return missed
	case len(catalogs) == 0 && out.isTable():
		return e.noneListed(ctx, opts)
	}
	rows, err := e.catalogRows(ctx, out, catalogs)
	if err != nil {
		return err
	}
	if err := sortRows(rows, opts.sortBy); err != nil {
		return err
	}
	allReady := !slices.ContainsFunc(catalogs, func(c v1beta1.CatalogSource) bool { return !isReady(c) })
	return errors.Join(missed, out.print(e.stdout, catalogColumns(allReady), rows, len(opts.names) == 1))
}

func (e *env) noneListed(ctx context.Context, opts listOptions) error {
	text := noCatalogs
	if opts.selector+opts.fields != "" {
		text = fmt.Sprintf("There are no catalogs%s.", getOptions{selector: opts.selector, fields: opts.fields}.where())
	}
	return e.nothingFound(ctx, text)
}

func (e *env) catalogRows(ctx context.Context, out *output, catalogs []v1beta1.CatalogSource) ([]row, error) {
	var polls map[string]pollTimes
	if out.isTable() && len(catalogs) > 0 {
		var err error
		if polls, err = e.polls(ctx); err != nil && ctx.Err() == nil && !e.unpolled {
			e.unpolled = true
			e.warn("when catalogs are polled next is not known: %v", err)
		}
	}
	rows := make([]row, 0, len(catalogs))
	for i := range catalogs {
		r, err := catalogRow(&catalogs[i], polls[catalogs[i].Name], time.Now())
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// watchList prints the list, and from then on what changes. A catalog that is removed has a last row, as kubectl get --watch prints one.
func (e *env) watchList(ctx context.Context, out *output, opts listOptions) error {
	for _, name := range opts.names {
		if _, err := e.catalog(ctx, name); err != nil {
			return err
		}
	}
	c, err := e.client()
	if err != nil {
		return err
	}
	printer, err := out.stream(e.stdout, catalogColumns(false))
	if err != nil {
		return err
	}
	var waiting []v1beta1.CatalogSource // for the whole list at first, so that its columns fit all of it
	listed := false
	flush := func() error {
		rows, err := e.catalogRows(ctx, out, waiting)
		waiting, listed = nil, true
		if err == nil {
			err = sortRows(rows, opts.sortBy)
		}
		if err != nil || len(rows) == 0 {
			return err
		}
		return printer(rows)
	}
	f := &follower{client: c, list: metav1.ListOptions{LabelSelector: opts.selector, FieldSelector: opts.fields}, synced: flush}
	f.each = func(_ watch.EventType, c *v1beta1.CatalogSource) error {
		if len(opts.names) > 0 && !slices.Contains(opts.names, c.Name) {
			return nil
		}
		waiting = append(waiting, *c)
		if !listed {
			return nil
		}
		return flush()
	}
	return stopped(ctx, selectorError(f.run(ctx), catalogFields))
}

// stopped makes no error of an interrupt that is the way to end a command.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// pollTimes are what the content service says of when a catalog is polled; the API server does not know.
type pollTimes struct {
	Name     string
	LastPoll time.Time
	NextPoll time.Time
}

// polls asks when catalogs are polled. Whoever may not read the content sees the rest of the list all the same; that is no error.
func (e *env) polls(ctx context.Context) (map[string]pollTimes, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	services, err := e.services(ctx)
	if err != nil {
		return nil, err
	}
	times := map[string]pollTimes{}
	var failed []error
	for _, service := range services {
		var answer struct{ Catalogs []pollTimes }
		if err := service.JSON(ctx, "/catalogs", nil, &answer); err != nil {
			if !content.IsRefused(err) {
				failed = append(failed, err)
			}
			continue
		}
		for _, c := range answer.Catalogs {
			times[c.Name] = c
		}
	}
	return times, errors.Join(failed...)
}

func catalogRow(c *v1beta1.CatalogSource, polled pollTimes, now time.Time) (row, error) {
	c.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("CatalogSource"))
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c)
	if err != nil {
		return row{}, err
	}
	if err := unstructured.SetNestedField(object, int64(c.Spec.Priority), "spec", "priority"); err != nil { // the type leaves 0 out, the API server does not
		return row{}, err
	}
	packages, changed := "", ""
	if c.Status.Content != nil {
		packages = fmt.Sprint(c.Status.Content.Packages)
		if n := c.Status.Content.InvalidPackageCount; n > 0 {
			packages += fmt.Sprintf(" (%d left out)", n)
		}
	}
	if c.Status.Poll != nil && c.Status.Poll.LastChangeTime != nil {
		changed = duration.HumanDuration(now.Sub(c.Status.Poll.LastChangeTime.Time)) + " ago"
	}
	is, reason := ready(c), ""
	if is.Status != metav1.ConditionTrue {
		reason = is.Reason
	}
	return row{
		cells: []string{
			c.Name, imageOf(c), shortDigest(c.Status.Digest), packages, string(is.Status), reason, changed, nextPoll(c, polled, now),
			fmt.Sprint(c.Spec.Priority), inOurWords(c, is.Message),
		},
		object: &unstructured.Unstructured{Object: object},
	}, nil
}

func nextPoll(c *v1beta1.CatalogSource, polled pollTimes, now time.Time) string {
	switch {
	case c.Spec.Suspend:
		return "suspended"
	case strings.Contains(imageOf(c), "@") && condition(c, v1beta1.ProgressingCondition).Reason != v1beta1.RetryingReason:
		return "never"
	case polled.NextPoll.IsZero():
		return ""
	case polled.NextPoll.Before(now):
		return "now"
	}
	return "in " + duration.HumanDuration(polled.NextPoll.Sub(now))
}

// ready is the condition Ready of a catalog; Unknown where catalogd has not looked at it.
func ready(c *v1beta1.CatalogSource) metav1.Condition {
	if found := meta.FindStatusCondition(c.Status.Conditions, v1beta1.ReadyCondition); found != nil {
		return *found
	}
	return metav1.Condition{Status: metav1.ConditionUnknown, Message: "catalogd has not looked at it: is it running?"}
}

// imageOf is what a catalog is made of: what is served, or what is asked for as long as nothing is.
func imageOf(c *v1beta1.CatalogSource) string {
	for _, image := range []string{c.Status.Image, c.Spec.Image, c.Spec.ImageTemplate} {
		if image != "" {
			return image
		}
	}
	return c.Annotations[v1beta1.ImageTemplateAnnotation]
}

// shortDigest is enough of a digest to tell two apart: the first 12 digits, as container tools show them.
func shortDigest(digest string) string {
	_, hex, _ := strings.Cut(digest, ":")
	return hex[:min(12, len(hex))]
}
