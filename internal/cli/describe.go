package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	term "github.com/operator-catalogs/catalogd/internal/cli/output"
)

func newDescribeCmd(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "describe CATALOG...",
		Short: "Show everything about a catalog",
		Long: `Show everything about a catalog: whether it is as it should be and, if not, what to do; what is served and how it is followed; the packages that
cannot be used and why; the largest packages; and the last events.

What may not be read is left out.`,
		Example:           `  kubectl catalog describe sample`,
		ValidArgsFunction: e.completeCatalogs,
		RunE: func(cmd *cobra.Command, names []string) error {
			if len(names) == 0 {
				return usagef("name a catalog: kubectl catalog list shows those there are")
			}
			for i, name := range names {
				if i > 0 {
					fmt.Fprintln(e.stdout)
				}
				if err := e.describe(cmd.Context(), name); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func (e *env) describe(ctx context.Context, name string) error {
	c, err := e.catalog(ctx, name)
	if err != nil {
		return err
	}
	d := &description{env: e, catalog: c, namespace: e.daemonNamespace(ctx), now: time.Now()}
	for _, part := range []func(context.Context) error{
		d.verdict, d.fields, d.conditions, d.invalidPackages, d.largestPackages, d.events,
	} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// A description is written of one catalog.
type description struct {
	*env
	catalog   *v1beta1.CatalogSource
	namespace string // catalogd's
	now       time.Time
}

func (d *description) verdict(context.Context) error {
	v := verdictOn(d.catalog, d.namespace)
	text := fmt.Sprintf("Catalog %q %s.", d.catalog.Name, d.stdout.Paint(v.style, v.text))
	if _, err := fmt.Fprintln(d.stdout, strings.Join(d.stdout.Wrap(text, 0), "\n")); err != nil {
		return err
	}
	since := ""
	if !v.since.IsZero() {
		since = d.ago(v.since)
	}
	return d.stdout.Fields(2, [2]string{"Since", since}, [2]string{"catalogd says", term.Line(v.why)}, [2]string{"What to do", term.Line(v.remedy)})
}

// ago is how long ago something was. The clock of the cluster may be ahead of ours.
func (d *description) ago(t time.Time) string {
	return duration.HumanDuration(max(0, d.now.Sub(t))) + " ago"
}

func (d *description) title(text string) error {
	_, err := fmt.Fprintf(d.stdout, "\n%s\n", d.stdout.Paint(term.Bold, text))
	return err
}

func (d *description) fields(ctx context.Context) error {
	c := d.catalog
	fmt.Fprintln(d.stdout)
	pairs := [][2]string{
		{"Display name", term.Line(c.Spec.DisplayName)},
		{"Publisher", term.Line(c.Spec.Publisher)},
		{"Description", term.Text(c.Spec.Description)},
		{"Labels", labelsOf(c)},
		{"Image", term.Line(imageOf(c))},
		{"Template", term.Line(templateOf(c))},
		{"Digest", c.Status.Digest},
		{"Directory", term.Line(directoryOf(c))},
		{"At work", atWork(c)},
		{"Priority", fmt.Sprint(c.Spec.Priority)},
		{"Polled", d.schedule(ctx)},
		{"Registry access", d.access(ctx)},
	}
	pairs = append(pairs, d.served(ctx)...)
	pairs = append(pairs, [2]string{"Created", d.ago(c.CreationTimestamp.Time)})
	return d.stdout.Fields(0, pairs...)
}

func labelsOf(c *v1beta1.CatalogSource) string {
	if len(c.Labels) == 0 {
		return ""
	}
	return strings.ReplaceAll(labels.FormatLabels(c.Labels), ",", ", ")
}

// atWork says how far catalogd is with new content.
func atWork(c *v1beta1.CatalogSource) string {
	if c.Status.Progress == nil {
		return ""
	}
	stage, detail := newMeter().read(*c.Status.Progress)
	return strings.TrimSuffix(stage+": "+detail, ": ")
}

func templateOf(c *v1beta1.CatalogSource) string {
	if c.Spec.ImageTemplate != "" {
		return c.Spec.ImageTemplate
	}
	return c.Annotations[v1beta1.ImageTemplateAnnotation]
}

func directoryOf(c *v1beta1.CatalogSource) string {
	if c.Spec.ExtractContent == nil {
		return ""
	}
	return c.Spec.ExtractContent.ConfigDir
}

// served says what is served, and where.
func (d *description) served(ctx context.Context) [][2]string {
	var pairs [][2]string
	if content := d.catalog.Status.Content; content != nil {
		pairs = append(pairs, [2]string{"Content", fmt.Sprintf("%s, %s, %s, %s, %s as JSON",
			counted(int(content.Packages), "package", "packages"), counted(int(content.Channels), "channel", "channels"),
			counted(int(content.Bundles), "bundle", "bundles"), counted(int(content.Blobs), "blob", "blobs"), term.Bytes(content.Bytes))},
			[2]string{"Found at", term.Line(content.Source)})
		if content.UnpackedAt != nil {
			pairs = append(pairs, [2]string{"Unpacked", d.ago(content.UnpackedAt.Time)})
		}
	}
	if poll := d.catalog.Status.Poll; poll != nil && poll.LastChangeTime != nil {
		pairs = append(pairs, [2]string{"Last change", d.ago(poll.LastChangeTime.Time)})
	}
	if urls := d.catalog.Status.URLs; urls != nil {
		pairs = append(pairs, [2]string{"URL", urls.Base}, [2]string{"Replicas", d.replicas(ctx, urls.Base)})
	}
	return pairs
}

// access says how the registry is reached, and whether what that needs is there.
func (d *description) access(ctx context.Context) string {
	var lines []string
	for _, n := range needs(d.catalog) {
		is, err := d.look(ctx, d.namespace, n)
		state := string(is)
		switch {
		case err != nil:
			state = term.Line(err.Error())
		case is == absent:
			state = d.stdout.Paint(term.Red, state+" in namespace "+d.namespace)
		}
		lines = append(lines, fmt.Sprintf("%s (%s): %s", n, n.use, state))
	}
	if access := d.catalog.Spec.Registry; access != nil {
		for _, m := range access.Mirrors {
			from := "the image's registry"
			if m.Source != "" {
				from = m.Source
			}
			lines = append(lines, term.Line(fmt.Sprintf("mirror %s of %s", m.Location, from)))
		}
		if access.Insecure {
			lines = append(lines, d.stdout.Paint(term.Yellow, "insecure: whoever is on the way to the registry can replace the catalog"))
		}
	}
	return strings.Join(lines, "\n")
}

func (d *description) conditions(context.Context) error {
	if len(d.catalog.Status.Conditions) == 0 {
		return nil
	}
	if err := d.title("Conditions"); err != nil {
		return err
	}
	table := term.Table{Columns: []term.Column{
		{Name: "type"}, {Name: "status", Style: statusStyle}, {Name: "reason"}, {Name: "since", Drop: 1, Right: true}, {Name: "message", Least: 20, Drop: 2},
	}}
	for _, c := range d.catalog.Status.Conditions {
		table.Rows = append(table.Rows, []string{c.Type, string(c.Status), c.Reason, d.ago(c.LastTransitionTime.Time), whole(c.Message)})
	}
	return d.stdout.Print(table, term.Options{})
}

var statusStyle = term.ByValue(map[string]term.Style{"True": term.Green, "False": term.Red, "Unknown": term.Yellow})
