package catalogs

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/migrate"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
	"github.com/operator-catalogs/catalogd/internal/cli/status"
)

func newDescribeCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "describe CATALOG...",
		Short: "Show everything about a catalog",
		Long: `Show everything about a catalog: its state and, if there is a problem, the remedy; its content and
its polls; the invalid packages with reasons; the largest packages; and the last events.

Information that you may not read is omitted.`,
		Example:           `  kubectl catalog describe sample`,
		ValidArgsFunction: lookup.CompleteCatalogs(s),
		RunE: func(cmd *cobra.Command, names []string) error {
			if len(names) == 0 {
				return exit.Usagef("specify a catalog; kubectl catalog list shows all catalogs")
			}
			for i, name := range names {
				if i > 0 {
					fmt.Fprintln(s.Stdout)
				}
				d, err := describe(cmd.Context(), s, name)
				if err == nil {
					err = d.print(s.Stdout)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// A description is the result of describe.
type description struct {
	catalog *status.Catalog
	now     time.Time
	verdict verdict
	fields  [][2]string
	invalid []lookup.InvalidPackage
	largest []sizedPackage
	events  []eventsv1.Event
}

// describe reads a catalog. Optional information that cannot be read becomes a warning.
func describe(ctx context.Context, s *session.Session, name string) (*description, error) {
	c, err := lookup.Catalog(ctx, s, name)
	if err != nil {
		return nil, err
	}
	namespace := s.DaemonNamespace(ctx)
	served, _ := readServed(ctx, s) // other requests to the same service report its errors
	addContent(c, served[c.Name])
	d := &description{catalog: c, now: time.Now(), verdict: newVerdict(c, namespace)}
	d.fields = d.readFields(ctx, s, namespace, served[c.Name])
	d.invalid, err = lookup.Invalid(ctx, s, c)
	if err != nil {
		s.Stderr.Warnf("showing %d of %d invalid packages: %v", len(d.invalid), d.invalidCount(), err)
	}
	if d.largest, err = largestPackages(ctx, s, c); err != nil {
		s.Stderr.Warnf("omitting the largest packages: %v", err)
	}
	if d.events, err = lastEvents(ctx, s, c); err != nil {
		s.Stderr.Warnf("omitting the events: %v", err)
	}
	return d, nil
}

// invalidCount returns the number of invalid packages, as far as it is known.
func (d *description) invalidCount() int {
	if d.catalog.Status.Content == nil {
		return len(d.invalid)
	}
	return int(d.catalog.Status.Content.InvalidPackageCount)
}

func (d *description) print(to *output.Terminal) error {
	lines := output.Lines{Terminal: to}
	for _, part := range []func(*output.Terminal) error{
		d.printVerdict, d.printFields, d.printConditions, d.printInvalid, d.printLargest, d.printEvents,
	} {
		lines.Do(func() error { return part(to) })
	}
	return lines.Err
}

func (d *description) printVerdict(to *output.Terminal) error {
	v := d.verdict
	text := fmt.Sprintf("%s %q %s.", title(d.catalog), d.catalog.Name, to.Paint(v.style, v.text))
	if _, err := fmt.Fprintln(to, strings.Join(to.Wrap(text, 0), "\n")); err != nil {
		return err
	}
	since := ""
	if !v.since.IsZero() {
		since = d.ago(v.since)
	}
	return to.Fields(2, [2]string{"Since", since}, [2]string{"Message", output.Line(v.message)},
		[2]string{"Remedy", output.Line(v.remedy)})
}

// title returns what a catalog is called: ClusterCatalogs by their kind.
func title(c *status.Catalog) string {
	if c.Kind == status.ClusterCatalog {
		return string(c.Kind)
	}
	return "Catalog"
}

// ago returns the time since t. The cluster's clock may be ahead of ours.
func (d *description) ago(t time.Time) string {
	return duration.HumanDuration(max(0, d.now.Sub(t))) + " ago"
}

func (d *description) printFields(to *output.Terminal) error {
	fmt.Fprintln(to)
	return to.Fields(0, d.fields...)
}

func (d *description) readFields(ctx context.Context, s *session.Session, namespace string, served servedCatalog) [][2]string {
	c := d.catalog
	directory := ""
	if c.Spec.ExtractContent != nil {
		directory = c.Spec.ExtractContent.ConfigDir
	}
	fields := [][2]string{
		{"Display name", output.Line(c.Spec.DisplayName)},
		{"Publisher", output.Line(c.Spec.Publisher)},
		{"Description", output.Text(c.Spec.Description)},
		{"Labels", labelsText(c)},
		{"Image", output.Line(status.Image(c))},
		{"Template", output.Line(status.Template(c))},
		{"Digest", c.Status.Digest},
		{"Directory", output.Line(directory)},
		{"Subset", subsetText(c)},
		{"Progress", progressText(c)},
		{"Priority", fmt.Sprint(c.Spec.Priority)},
		{"Polling", d.polling(served)},
		{"Registry access", accessText(ctx, s, c, namespace)},
		{"OLM v1", offerText(c)},
		{"OLM v0", olmV0Text(ctx, s, c)},
		{"Prefetched", prefetchText(c)},
	}
	fields = append(fields, d.contentFields(ctx, s)...)
	return append(fields, [2]string{"Created", d.ago(c.CreationTimestamp.Time)})
}

func labelsText(c *status.Catalog) string {
	if len(c.Labels) == 0 {
		return ""
	}
	return strings.ReplaceAll(labels.FormatLabels(c.Labels), ",", ", ")
}

func progressText(c *status.Catalog) string {
	if c.Status.Progress == nil {
		return ""
	}
	stage, detail := phase(output.NewRate(), *c.Status.Progress)
	return strings.TrimSuffix(stage+": "+detail, ": ")
}

func subsetText(c *status.Catalog) string {
	if c.Status.Content == nil || c.Status.Content.Subset == nil {
		return ""
	}
	s := c.Status.Content.Subset
	text := fmt.Sprintf("without %s, %s", output.Counted(int(s.LeftOut.Packages), "package", "packages"),
		output.Counted(int(s.LeftOut.Bundles), "bundle", "bundles"))
	if s.NotFoundCount > 0 {
		text += "; not found: " + output.Line(strings.Join(s.NotFound, ", "))
	}
	return text
}

func prefetchText(c *status.Catalog) string {
	p := c.Status.Prefetch
	if p == nil {
		return ""
	}
	text := fmt.Sprintf("%d of %s", p.Cached, output.Counted(int(p.Bundles), "bundle", "bundles"))
	if p.Failed > 0 {
		text += fmt.Sprintf(", %d failed", p.Failed)
	}
	if p.Message != "" {
		text += ": " + output.Line(p.Message)
	}
	return text
}

// polling returns the schedule and the times of the last and the next poll.
func (d *description) polling(polled servedCatalog) string {
	text := scheduleText(d.catalog)
	if !polled.LastPoll.IsZero() {
		text += "; last " + d.ago(polled.LastPoll)
	}
	if next := nextPoll(d.catalog, polled, d.now); strings.HasPrefix(next, "in ") || next == "now" {
		text += "; next " + next
	}
	return text
}

func (d *description) contentFields(ctx context.Context, s *session.Session) [][2]string {
	var fields [][2]string
	if content := d.catalog.Status.Content; content != nil {
		counts := []string{
			output.Counted(int(content.Packages), "package", "packages"),
			output.Counted(int(content.Channels), "channel", "channels"),
			output.Counted(int(content.Bundles), "bundle", "bundles"),
			output.Counted(int(content.Blobs), "blob", "blobs"),
			output.Bytes(content.Bytes) + " as JSON",
		}
		fields = append(fields, [2]string{"Content", strings.Join(counts, ", ")}, [2]string{"Source", output.Line(content.Source)})
		if content.UnpackedAt != nil {
			fields = append(fields, [2]string{"Unpacked", d.ago(content.UnpackedAt.Time)})
		}
	}
	if poll := d.catalog.Status.Poll; poll != nil && poll.LastChangeTime != nil {
		fields = append(fields, [2]string{"Last change", d.ago(poll.LastChangeTime.Time)})
	}
	if urls := d.catalog.Status.URLs; urls != nil {
		fields = append(fields, [2]string{"URL", urls.Base}, [2]string{"Replicas", replicas(ctx, s, d.catalog.Name, urls.Base)})
	}
	return fields
}

// offerText returns whether a CatalogSource is offered to OLM v1.
func offerText(c *status.Catalog) string {
	synced := status.Condition(c, v1beta1.ClusterCatalogSyncedCondition)
	switch {
	case !c.Spec.OLMv1:
		return ""
	case synced.Status == metav1.ConditionTrue:
		return "offered as ClusterCatalog " + c.Name
	}
	return "not offered: " + cmp.Or(output.Line(synced.Message), "catalogd has not reconciled it yet")
}

// olmV0Text returns, for each namespace in which a CatalogSource is offered to OLM v0, whether OLM v0 is connected.
func olmV0Text(ctx context.Context, s *session.Session, c *status.Catalog) string {
	if c.Spec.OLMv0 == nil {
		return ""
	}
	var lines []string
	for _, namespace := range c.Spec.OLMv0.Namespaces {
		lines = append(lines, fmt.Sprintf("namespace %s: %s", namespace, olmV0State(ctx, s, namespace, c.Name)))
	}
	return strings.Join(lines, "\n")
}

func olmV0State(ctx context.Context, s *session.Session, namespace, name string) string {
	api, err := s.Client()
	if err != nil {
		return output.Line(err.Error())
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(migrate.CatalogSource)
	err = api.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, object)
	switch {
	case apierrors.IsNotFound(err):
		return "not offered"
	case apierrors.IsForbidden(err):
		return "unknown (forbidden)"
	case err != nil:
		return output.Line(err.Error())
	}
	state, _, _ := unstructured.NestedString(object.Object, "status", "connectionState", "lastObservedState")
	return "offered; OLM v0's connection is " + cmp.Or(output.Line(state), "not made yet")
}

// accessText returns the settings for the registry, and whether the referenced objects exist.
func accessText(ctx context.Context, s *session.Session, c *status.Catalog, namespace string) string {
	var lines []string
	for _, r := range references(c) {
		text := "exists"
		switch err := lookUp(ctx, s, namespace, r); {
		case apierrors.IsNotFound(err):
			text = s.Stdout.Paint(output.Red, "not found in namespace "+namespace)
		case apierrors.IsForbidden(err):
			text = "unknown (forbidden)"
		case err != nil:
			text = output.Line(err.Error())
		}
		lines = append(lines, fmt.Sprintf("%s %q (%s): %s", r.kind, r.name, r.use, text))
	}
	if access := c.Spec.Registry; access != nil {
		for _, m := range access.Mirrors {
			of := cmp.Or(m.Source, "the image's registry")
			lines = append(lines, output.Line(fmt.Sprintf("mirror %s of %s", m.Location, of)))
		}
		if access.Insecure {
			lines = append(lines, s.Stdout.Paint(output.Yellow, "insecure: the network can replace the catalog"))
		}
	}
	return strings.Join(lines, "\n")
}

func (d *description) printConditions(to *output.Terminal) error {
	table := output.Table{Columns: []output.Column{
		{Name: "type"}, {Name: "status", Style: statusStyle}, {Name: "reason"}, {Name: "since", Drop: 1, Right: true},
		{Name: "message", Least: 20, Drop: 2},
	}}
	for _, c := range d.catalog.Conditions {
		table.Rows = append(table.Rows, []string{
			c.Type, string(c.Status), c.Reason, d.ago(c.LastTransitionTime.Time), status.Brief(c.Message),
		})
	}
	return printTable(to, "Conditions", table)
}

// printTable prints a table with a title, unless it is empty.
func printTable(to *output.Terminal, title string, table output.Table) error {
	if len(table.Rows) == 0 {
		return nil
	}
	if err := to.Title(title); err != nil {
		return err
	}
	return to.Print(table, output.Options{})
}
