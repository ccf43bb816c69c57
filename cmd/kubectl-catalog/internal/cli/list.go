package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/cmd/kubectl-catalog/internal/term"
)

// catalogColumns are those of `kubectl catalog list`.
var catalogColumns = []term.Column{
	{Name: "name"},
	{Name: "image", Least: 20},
	{Name: "digest"},
	{Name: "packages", Right: true},
	{Name: "ready", Style: term.ByValue(map[string]term.Style{"True": term.Green, "False": term.Red, "Unknown": term.Yellow})},
	{Name: "last change", Right: true},
	{Name: "next poll", Right: true},
	{Name: "priority", Wide: true, Right: true},
	{Name: "status", Wide: true},
}

func newListCmd(e *env) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list [NAME...]",
		Aliases: []string{"ls"},
		Short:   "List the catalogs of the cluster",
		Example: `  kubectl catalog list
  kubectl catalog list -o wide`,
	}
	out := newOutput(cmd)
	var selector, fields string
	cmd.Flags().StringVarP(&selector, "selector", "l", "", "only catalogs with these labels: key=value,...")
	cmd.Flags().StringVar(&fields, "field-selector", "", "only catalogs with these fields: metadata.name=value")
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		return e.list(cmd.Context(), out, names, selector, fields)
	}
	return cmd
}

func (e *env) list(ctx context.Context, out *output, names []string, selector, fields string) error {
	catalogs, err := e.catalogs(ctx, names, selector, fields)
	if err != nil {
		return err
	}
	if len(catalogs) == 0 && out.isTable() {
		_, err := fmt.Fprintln(e.stderr, "There are no catalogs. Add one: kubectl catalog add NAME IMAGE")
		return err
	}
	var polls map[string]pollTimes
	if out.isTable() {
		polls = e.polls(ctx)
	}
	rows := make([]row, 0, len(catalogs))
	for i := range catalogs {
		r, err := catalogRow(&catalogs[i], polls[catalogs[i].Name], time.Now())
		if err != nil {
			return err
		}
		rows = append(rows, r)
	}
	return out.print(e.stdout, catalogColumns, rows, len(names) == 1)
}

// catalogs returns the CatalogSources of these names, or those that the selectors match.
func (e *env) catalogs(ctx context.Context, names []string, selector, fields string) ([]v1beta1.CatalogSource, error) {
	if len(names) > 0 {
		var catalogs []v1beta1.CatalogSource
		for _, name := range names {
			c, err := e.catalog(ctx, name)
			if err != nil {
				return nil, err
			}
			catalogs = append(catalogs, *c)
		}
		return catalogs, nil
	}
	c, err := e.client()
	if err != nil {
		return nil, err
	}
	var list v1beta1.CatalogSourceList
	err = c.List(ctx, &list, &client.ListOptions{Raw: &metav1.ListOptions{LabelSelector: selector, FieldSelector: fields}})
	return list.Items, err
}

// pollTimes are what the content service says of when a catalog is polled; the API server does not know.
type pollTimes struct {
	Name     string
	LastPoll time.Time
	NextPoll time.Time
}

// polls asks when catalogs are polled. Whoever may not read the content sees the rest of the list all the same.
func (e *env) polls(ctx context.Context) map[string]pollTimes {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	services, err := e.services(ctx)
	if err != nil {
		return nil
	}
	times := map[string]pollTimes{}
	for _, service := range services {
		var answer struct{ Catalogs []pollTimes }
		if err := service.JSON(ctx, "/catalogs", &answer); err != nil {
			continue
		}
		for _, c := range answer.Catalogs {
			times[c.Name] = c
		}
	}
	return times
}

func catalogRow(c *v1beta1.CatalogSource, polled pollTimes, now time.Time) (row, error) {
	c.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("CatalogSource"))
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c)
	if err != nil {
		return row{}, err
	}
	packages, changed := "", ""
	if c.Status.Content != nil {
		packages = fmt.Sprint(c.Status.Content.Packages)
	}
	if c.Status.Poll != nil && c.Status.Poll.LastChangeTime != nil {
		changed = duration.HumanDuration(now.Sub(c.Status.Poll.LastChangeTime.Time)) + " ago"
	}
	is := ready(c)
	return row{
		cells: []string{
			c.Name, imageOf(c), shortDigest(c.Status.Digest), packages, string(is.Status), changed, nextPoll(c, polled, now),
			fmt.Sprint(c.Spec.Priority), is.Message,
		},
		object: &unstructured.Unstructured{Object: object},
	}, nil
}

func nextPoll(c *v1beta1.CatalogSource, polled pollTimes, now time.Time) string {
	switch {
	case c.Spec.Suspend:
		return "suspended"
	case strings.Contains(imageOf(c), "@"):
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
