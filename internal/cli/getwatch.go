package cli

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
	term "github.com/operator-catalogs/catalogd/internal/cli/output"
)

// getAndWatch lists what catalogs hold, and from then on what changes of it, until it is interrupted. What is removed has a last row.
func (e *env) getAndWatch(ctx context.Context, out *output, k kind, opts getOptions) error {
	if err := k.suits(opts); err != nil {
		return err
	}
	opts, err := e.scoped(ctx, opts)
	if err != nil {
		return err
	}
	found, err := e.find(ctx, k, opts)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		for _, name := range opts.names {
			return e.notListed(ctx, k, opts, name)
		}
	}
	columns := opts.known(k.columns)
	columns[k.tells()].Drop = 0 // where removals are told is left out last
	show, err := out.stream(e.stdout, columns)
	if err != nil {
		return err
	}
	w := &listWatch{kind: k, opts: opts, show: show, known: map[string]map[string]listed{}, selected: e.selectPublished}
	if err := w.first(found); err != nil {
		return err
	}
	return e.eachEvent(ctx, withoutEmpty([]string{opts.catalog}), w.changed, nil)
}

// A listWatch prints what differs from what it knows.
type listWatch struct {
	kind  kind
	opts  getOptions
	show  func([]row) error
	known map[string]map[string]listed // by catalog and key

	// selected tells which packages the selectors match, by catalog and name, once a version of a catalog is published; nil: all.
	selected func(context.Context, getOptions, content.Event) (map[[2]string]bool, error)
}

// key tells what is listed from the rest of its catalog.
func (l listed) key() string { return strings.Join([]string{l.pkg, l.name, l.part}, "\x00") }

// first prints what there is to begin with.
func (w *listWatch) first(found []listed) error {
	rows := make([]row, len(found))
	for i, l := range found {
		rows[i] = l.row
		if w.known[l.catalog] == nil {
			w.known[l.catalog] = map[string]listed{}
		}
		w.known[l.catalog][l.key()] = l
	}
	if err := sortRows(rows, w.opts.sortBy); err != nil || len(rows) == 0 {
		return err
	}
	return w.show(rows)
}

// changed lists the catalog of an event, and returns what prints how it differs from what is known: of the whole catalog, as the event may be of
// a version before or after that.
func (w *listWatch) changed(ctx context.Context, s *content.Service, event content.Event) (tell func() error, err error) {
	now, err := w.list(ctx, s, event)
	if content.IsNotFound(err) {
		return func() error { return nil }, nil // it has just been removed, which the next event says
	}
	return func() error { return w.tell(event, now) }, err
}

func (w *listWatch) tell(event content.Event, now map[string]listed) error {
	was := w.known[event.Catalog]
	w.known[event.Catalog] = now
	var rows []row
	for _, key := range slices.Sorted(maps.Keys(now)) {
		// A package may have changed in what its row does not show.
		told := w.kind.ofPackages && event.Changes != nil && slices.Contains(event.Changed, now[key].name)
		if told || !reflect.DeepEqual(was[key].object, now[key].object) {
			rows = append(rows, now[key].row)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(was)) {
		if _, ok := now[key]; !ok {
			rows = append(rows, w.kind.removed(was[key].row))
		}
	}
	if len(rows) == 0 {
		return nil
	}
	return w.show(rows)
}

// list is what a catalog holds after an event, by key.
func (w *listWatch) list(ctx context.Context, s *content.Service, event content.Event) (map[string]listed, error) {
	now := map[string]listed{}
	if event.Type != content.Digest {
		return now, nil
	}
	opts := w.opts
	opts.catalog = event.Catalog
	selected, err := w.selected(ctx, opts, event)
	if err != nil {
		return nil, err
	}
	found, err := w.kind.list(ctx, s, opts)
	for _, l := range opts.chosen(found, selected) {
		now[l.key()] = l
	}
	return now, err
}

// How long the packages of a version may take to be published after it is served, and how often it is looked.
const (
	publishTime = 2 * time.Minute
	publishLook = 500 * time.Millisecond
)

// selectPublished is selectPackages, once the packages of what an event tells of are published: their labels are those of OperatorPackages.
// What takes too long is selected as it is.
func (e *env) selectPublished(ctx context.Context, opts getOptions, event content.Event) (map[[2]string]bool, error) {
	if opts.selector == "" && opts.fields == "" {
		return nil, nil
	}
	for end := time.Now().Add(publishTime); time.Now().Before(end); {
		c, err := e.catalog(ctx, event.Catalog)
		if err != nil {
			return nil, err
		}
		if isPublished(c, event) {
			break
		}
		if err := sleep(ctx, publishLook); err != nil {
			return nil, err
		}
	}
	return e.selectPackages(ctx, opts)
}

// isPublished tells whether the status is about what an event tells of, or newer, and the packages of that are published.
func isPublished(c *v1beta1.CatalogSource, event content.Event) bool {
	return c.Status.Poll != nil && c.Status.Poll.LastChangeTime != nil &&
		!c.Status.Poll.LastChangeTime.Time.Before(event.LastModified.Truncate(time.Second)) &&
		condition(c, v1beta1.PackagesSyncedCondition).Status == metav1.ConditionTrue
}

// removed is the last row of something, which says so.
func (k kind) removed(r row) row {
	r.cells = slices.Clone(r.cells)
	r.cells[k.tells()] = "removed"
	return r
}

// tells is the column that tells what was removed: the note, or where there is none what stands last.
func (k kind) tells() int {
	at := slices.IndexFunc(k.columns, func(c term.Column) bool { return c.Name == note.Name })
	if at < 0 {
		at = len(k.columns) - 1
	}
	return at
}
