package catalogs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/content"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/follow"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
	"github.com/operator-catalogs/catalogd/internal/cli/status"
)

// columns returns the columns of a list. If all catalogs are ready, it needs no reasons.
func columns(allReady, kinds bool) []output.Column {
	all := []output.Column{
		{Name: "name"},
		{Name: "kind", Drop: 6},
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
	if !kinds {
		all = slices.Delete(all, 1, 2)
	}
	return all
}

var statusStyle = output.ByValue(map[string]output.Style{
	"True": output.Green, "False": output.Red, "Unknown": output.Yellow,
})

// A listRequest selects the catalogs to list.
type listRequest struct {
	names            []string
	selector, fields string
	sortBy           string
	watch            bool
}

func newListCommand(s *session.Session) *cobra.Command {
	var req listRequest
	cmd := &cobra.Command{
		Use:     "list [NAME...]",
		Aliases: []string{"ls"},
		Short:   "List the catalogs of the cluster",
		Example: `  kubectl catalog list
  kubectl catalog list -o wide
  kubectl catalog list --watch
  kubectl catalog list --sort-by .status.content.bytes`,
		ValidArgsFunction: lookup.CompleteCatalogs(s),
	}
	format := output.NewFormat(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&req.selector, "selector", "l", "", "only catalogs with these labels: key=value,...")
	flags.StringVar(&req.fields, "field-selector", "", "only catalogs with these fields: metadata.name=value")
	flags.StringVar(&req.sortBy, "sort-by", "", "sort by a `field` of the objects, as a JSONPath: .spec.priority")
	flags.BoolVarP(&req.watch, "watch", "w", false, "after the list, print a row for each catalog that changes, until interrupted")
	flags.BoolP("all-namespaces", "A", false, "no effect: catalogs have no namespace")
	_ = flags.MarkHidden("all-namespaces")
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		req.names = names
		if err := req.validate(); err != nil {
			return err
		}
		rows := &rowReader{session: s, table: format.IsTable(), sortBy: req.sortBy}
		if req.watch {
			return watchList(cmd.Context(), rows, req, format)
		}
		catalogs, missing, err := list(cmd.Context(), s, req)
		switch {
		case err != nil:
			return err
		case len(catalogs) == 0 && missing != nil:
			return missing
		case len(catalogs) == 0 && format.IsTable():
			return printNone(cmd.Context(), s, req)
		}
		return errors.Join(missing, printList(cmd.Context(), rows, catalogs, req, format))
	}
	return cmd
}

func (r listRequest) validate() error {
	if len(r.names) > 0 && r.selector+r.fields != "" {
		return exit.Usagef("specify names, or --selector and --field-selector, not both")
	}
	return lookup.ValidateSelectors(r.selector, r.fields)
}

// list returns the catalogs of a request, and the error of names that do not exist.
func list(ctx context.Context, s *session.Session, req listRequest) (catalogs []status.Catalog, missing, err error) {
	if len(req.names) == 0 {
		catalogs, err = s.Select(ctx, req.selector, req.fields)
		return catalogs, nil, err
	}
	catalogs, names, err := s.Find(ctx, req.names)
	return catalogs, lookup.NoCatalogs(ctx, s, names), err
}

func printNone(ctx context.Context, s *session.Session, req listRequest) error {
	text := lookup.EmptyCluster
	if req.selector+req.fields != "" {
		text = "No catalogs found" + lookup.Selected(req.selector, req.fields) + "."
	}
	return lookup.Nothing(ctx, s, text)
}

func printList(ctx context.Context, rows *rowReader, catalogs []status.Catalog, req listRequest, format *output.Format) error {
	rows.kinds = haveBothKinds(catalogs)
	found, err := rows.read(ctx, catalogs)
	if err != nil {
		return err
	}
	allReady := !slices.ContainsFunc(catalogs, func(c status.Catalog) bool { return !status.IsReady(&c) })
	return format.Print(rows.session.Stdout, columns(allReady, rows.kinds), found, len(req.names) == 1)
}

func haveBothKinds(catalogs []status.Catalog) bool {
	return slices.ContainsFunc(catalogs, func(c status.Catalog) bool { return c.Kind != catalogs[0].Kind })
}

// watchList prints the list, and then every change. A deleted catalog has a last row, as in kubectl get --watch.
func watchList(ctx context.Context, rows *rowReader, req listRequest, format *output.Format) error {
	s := rows.session
	named, err := lookup.Catalogs(ctx, s, req.names)
	if err != nil {
		return err
	}
	var write func([]output.Row) error
	var pending []status.Catalog // the first list is printed as a whole, so that its columns fit
	listed := false
	flush := func() (err error) {
		now := pending
		if pending, listed = nil, true; len(now) == 0 {
			return nil
		}
		if write == nil {
			rows.kinds = haveBothKinds(now)
			if write, err = format.Stream(s.Stdout, columns(false, rows.kinds)); err != nil {
				return err
			}
		}
		found, err := rows.read(ctx, now)
		if err != nil {
			return err
		}
		return write(found)
	}
	api, err := s.Client()
	if err != nil {
		return err
	}
	f := &follow.Catalogs{
		API: api, List: metav1.ListOptions{LabelSelector: req.selector, FieldSelector: req.fields}, Synced: flush,
	}
	f.Each = func(_ watch.EventType, c *status.Catalog) error {
		if len(named) > 0 && !slices.ContainsFunc(named, func(n status.Catalog) bool { return n.Kind == c.Kind && n.Name == c.Name }) {
			return nil
		}
		pending = append(pending, *c)
		if !listed {
			return nil
		}
		return flush()
	}
	err = session.SelectorError(f.Run(ctx), session.CatalogFields)
	if ctx.Err() != nil {
		return nil // an interrupt is the normal end
	}
	return err
}

// A servedCatalog is what the content service knows of a catalog: the times of polls, and the numbers that the status of a ClusterCatalog
// lacks.
type servedCatalog struct {
	Name, Digest                       string
	LastPoll, NextPoll                 time.Time
	Packages, Channels, Bundles, Blobs int32
	Bytes                              int64
	InvalidPackages                    int32
}

// readServed returns what the content services know of catalogs, by name. Users who may not read the content get nothing, and no error.
func readServed(ctx context.Context, s *session.Session) (map[string]servedCatalog, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	services, err := s.Services(ctx)
	if err != nil {
		return nil, err
	}
	served := map[string]servedCatalog{}
	var failed []error
	for _, service := range services {
		var answer struct{ Catalogs []servedCatalog }
		if err := service.JSON(ctx, "/catalogs", nil, &answer); err != nil {
			if !content.IsRefused(err) {
				failed = append(failed, err)
			}
			continue
		}
		for _, c := range answer.Catalogs {
			served[c.Name] = c
		}
	}
	return served, errors.Join(failed...)
}

// addContent adds the numbers of the served content to the status of a catalog that lacks them.
func addContent(c *status.Catalog, served servedCatalog) {
	if c.Status.Content != nil || served.Digest == "" || served.Digest != c.Status.Digest {
		return
	}
	c.Status.Content = &v1beta1.CatalogContent{
		Packages: served.Packages, Channels: served.Channels, Bundles: served.Bundles, Blobs: served.Blobs, Bytes: served.Bytes,
		InvalidPackageCount: served.InvalidPackages,
	}
}

// A rowReader makes rows of catalogs. It warns once if the content services do not answer.
type rowReader struct {
	session *session.Session
	table   bool   // whether rows have cells
	kinds   bool   // whether these have the kind
	sortBy  string // a JSONPath; empty: as read
	warned  bool
}

func (r *rowReader) read(ctx context.Context, catalogs []status.Catalog) ([]output.Row, error) {
	var served map[string]servedCatalog
	if r.table && len(catalogs) > 0 {
		var err error
		if served, err = readServed(ctx, r.session); err != nil && ctx.Err() == nil && !r.warned {
			r.warned = true
			r.session.Stderr.Warnf("poll times are unknown: %v", err)
		}
	}
	rows := make([]output.Row, len(catalogs))
	for i := range catalogs {
		c := &catalogs[i]
		c.Object.GetObjectKind().SetGroupVersionKind(c.Kind.GVK())
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c.Object)
		if err != nil {
			return nil, err
		}
		// Our type omits a priority of 0, the API server does not.
		if err := unstructured.SetNestedField(object, int64(c.Spec.Priority), "spec", "priority"); err != nil {
			return nil, err
		}
		known := served[c.Name]
		if c.Shared && c.Status.URLs == nil {
			known = servedCatalog{} // the other's
		}
		addContent(c, known)
		cells := cells(c, known, time.Now())
		if r.kinds {
			cells = slices.Insert(cells, 1, string(c.Kind))
		}
		rows[i] = output.Row{Cells: cells, Object: &unstructured.Unstructured{Object: object}}
	}
	return rows, output.Sort(rows, r.sortBy)
}

func cells(c *status.Catalog, polled servedCatalog, now time.Time) []string {
	packages, changed, reason := "", "", ""
	if c.Status.Content != nil {
		packages = fmt.Sprint(c.Status.Content.Packages)
		if n := c.Status.Content.InvalidPackageCount; n > 0 {
			packages += fmt.Sprintf(" (%d invalid)", n)
		}
	}
	if c.Status.Poll != nil && c.Status.Poll.LastChangeTime != nil {
		changed = duration.HumanDuration(now.Sub(c.Status.Poll.LastChangeTime.Time)) + " ago"
	}
	ready := status.Ready(c)
	if ready.Status != metav1.ConditionTrue {
		reason = ready.Reason
	}
	return []string{
		c.Name, status.Image(c), output.ShortDigest(c.Status.Digest), packages, string(ready.Status), reason, changed,
		nextPoll(c, polled, now), fmt.Sprint(c.Spec.Priority), status.Sentence(c, ready.Message),
	}
}

func nextPoll(c *status.Catalog, polled servedCatalog, now time.Time) string {
	isRetried := status.Condition(c, v1beta1.ProgressingCondition).Reason == v1beta1.RetryingReason
	switch {
	case c.Spec.Suspend:
		return "suspended"
	case (c.Once || strings.Contains(status.Image(c), "@")) && !isRetried:
		return "never"
	case polled.NextPoll.IsZero():
		return ""
	case polled.NextPoll.Before(now):
		return "now"
	}
	return "in " + duration.HumanDuration(polled.NextPoll.Sub(now))
}
