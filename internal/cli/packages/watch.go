package packages

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/content"
	"github.com/operator-catalogs/catalogd/internal/cli/follow"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
	"github.com/operator-catalogs/catalogd/internal/cli/status"
)

// getAndWatch prints a list, and then every change, until it is interrupted. A removed item has a last row.
func getAndWatch(ctx context.Context, s *session.Session, req getRequest, format *output.Format, sortBy string) error {
	found, err := find(ctx, s, req)
	if err != nil {
		return err
	}
	if len(found) == 0 && len(req.names) > 0 {
		return notFound(ctx, s, req, req.names[0])
	}
	columns := known(req.kind.columns, req.Scope)
	columns[req.kind.removalColumn()].Drop = 0
	write, err := format.Stream(s.Stdout, columns)
	if err != nil {
		return err
	}
	w := &listWatch{req: req, write: write, known: map[string]map[string]item{}, selected: func(
		ctx context.Context, req getRequest, event content.Event,
	) (map[[2]string]bool, error) {
		return selectPublished(ctx, s, req, event)
	}}
	if err := w.first(found, sortBy); err != nil {
		return err
	}
	return follow.Content(ctx, s, output.WithoutEmpty(req.Catalog), follow.Handler{Event: w.event})
}

// A listWatch prints the differences from the printed list.
type listWatch struct {
	req   getRequest
	write func([]output.Row) error
	known map[string]map[string]item // by catalog and key

	// selected returns the packages that the selectors match once the version of an event is published, by catalog and name; nil: all.
	selected func(context.Context, getRequest, content.Event) (map[[2]string]bool, error)
}

// key identifies an item within its catalog.
func (i item) key() string { return strings.Join([]string{i.pkg, i.name, i.part}, "\x00") }

// first prints the initial list.
func (w *listWatch) first(found []item, sortBy string) error {
	for _, i := range found {
		if w.known[i.catalog] == nil {
			w.known[i.catalog] = map[string]item{}
		}
		w.known[i.catalog][i.key()] = i
	}
	rows := rowsOf(found)
	if err := output.Sort(rows, sortBy); err != nil || len(rows) == 0 {
		return err
	}
	return w.write(rows)
}

// event lists the catalog of an event and returns a function that prints the differences. They are of the whole catalog, because the event
// may be older or newer than the known list.
func (w *listWatch) event(ctx context.Context, s *content.Service, event content.Event) (show func() error, err error) {
	now, err := w.list(ctx, s, event)
	if content.IsNotFound(err) {
		return func() error { return nil }, nil // the next event reports the removal of the catalog
	}
	return func() error { return w.print(event, now) }, err
}

func (w *listWatch) print(event content.Event, now map[string]item) error {
	was := w.known[event.Catalog]
	w.known[event.Catalog] = now
	var rows []output.Row
	for _, key := range slices.Sorted(maps.Keys(now)) {
		// A package may have changed in something that its row does not show.
		changed := w.req.kind.arePackages && event.Changes != nil && slices.Contains(event.Changed, now[key].name)
		if changed || !reflect.DeepEqual(was[key].Object, now[key].Object) {
			rows = append(rows, now[key].Row)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(was)) {
		if _, ok := now[key]; !ok {
			row := was[key].Row
			row.Cells = slices.Clone(row.Cells)
			row.Cells[w.req.kind.removalColumn()] = "removed"
			rows = append(rows, row)
		}
	}
	if len(rows) == 0 {
		return nil
	}
	return w.write(rows)
}

// list returns the content of a catalog after an event, by key.
func (w *listWatch) list(ctx context.Context, s *content.Service, event content.Event) (map[string]item, error) {
	now := map[string]item{}
	if event.Type != content.Digest {
		return now, nil
	}
	req := w.req
	req.Catalog = event.Catalog
	selected, err := w.selected(ctx, req, event)
	if err != nil {
		return nil, err
	}
	found, err := req.kind.list(ctx, s, req)
	for _, i := range req.filter(found, selected) {
		now[i.key()] = i
	}
	return now, err
}

// Limits of the wait for OperatorPackages.
const (
	publishTimeout  = 2 * time.Minute
	publishInterval = 500 * time.Millisecond
)

// selectPublished is selectPackages after the packages of an event's version are published, or a timeout.
func selectPublished(ctx context.Context, s *session.Session, req getRequest, event content.Event) (map[[2]string]bool, error) {
	if req.selector == "" && req.fields == "" {
		return nil, nil
	}
	for end := time.Now().Add(publishTimeout); time.Now().Before(end); {
		c, err := lookup.Named(ctx, s, event.Catalog)
		if err != nil {
			return nil, err
		}
		if isPublished(c, event) {
			break
		}
		select {
		case <-time.After(publishInterval):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return selectPackages(ctx, s, req)
}

// isPublished reports whether the packages of an event's version, or of a newer one, are published.
func isPublished(c *status.Catalog, event content.Event) bool {
	return c.Status.Poll != nil && c.Status.Poll.LastChangeTime != nil &&
		!c.Status.Poll.LastChangeTime.Time.Before(event.LastModified.Truncate(time.Second)) &&
		status.Condition(c, v1beta1.PackagesSyncedCondition).Status == metav1.ConditionTrue
}

// removalColumn returns the column that shows "removed" for a removed item: the note, or the last one.
func (k kind) removalColumn() int {
	at := slices.IndexFunc(k.columns, func(c output.Column) bool { return c.Name == note.Name })
	if at < 0 {
		at = len(k.columns) - 1
	}
	return at
}
