package cli

import (
	"context"
	"maps"
	"reflect"
	"slices"

	"github.com/operator-catalogs/catalogd/cmd/kubectl-catalog/internal/content"
)

// watchPackages lists packages, and from then on those that change, until it is interrupted. One that is removed has a last row.
func (e *env) watchPackages(ctx context.Context, out *output, k kind, opts getOptions) error {
	if k.names[0] != packageKind.names[0] {
		return usagef("--watch is for packages; of %s, list those of the packages that kubectl catalog watch says have changed", k.names[0])
	}
	if opts.selector != "" || opts.fields != "" {
		return usagef("--watch does not go with selectors: kubectl get operatorpackages --watch takes both")
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
	show, err := out.stream(e.stdout, k.columns)
	if err != nil {
		return err
	}
	p := &packageWatch{opts: opts, show: show, known: map[string]map[string]listed{}}
	if err := p.first(found); err != nil {
		return err
	}
	return e.eachEvent(ctx, withoutEmpty([]string{opts.catalog}), p.changed)
}

// A packageWatch prints packages that differ from what it knows.
type packageWatch struct {
	opts  getOptions
	show  func([]row) error
	known map[string]map[string]listed // by catalog and name
}

// first prints what there is to begin with.
func (p *packageWatch) first(found []listed) error {
	rows := make([]row, len(found))
	for i, l := range found {
		rows[i] = l.row
		if p.known[l.catalog] == nil {
			p.known[l.catalog] = map[string]listed{}
		}
		p.known[l.catalog][l.name] = l
	}
	if err := sortRows(rows, p.opts.sortBy); err != nil || len(rows) == 0 {
		return err
	}
	return p.show(rows)
}

// changed prints what an event changes. It compares the whole catalog, as the event may be of a version before or after what is known.
func (p *packageWatch) changed(ctx context.Context, s *content.Service, event content.Event) error {
	opts := p.opts
	opts.catalog = event.Catalog
	now := map[string]listed{}
	if event.Type == content.Digest {
		found, err := listPackages(ctx, s, opts)
		if content.IsNotFound(err) {
			return nil // it has just been removed, which the next event says
		}
		if err != nil {
			return err
		}
		for _, l := range found {
			if len(opts.names) == 0 || slices.ContainsFunc(opts.names, l.is) {
				now[l.name] = l
			}
		}
	}
	was := p.known[event.Catalog]
	p.known[event.Catalog] = now
	var rows []row
	for _, name := range slices.Sorted(maps.Keys(now)) {
		told := event.Changes != nil && slices.Contains(event.Changed, name) // in what a row does not show
		if told || !reflect.DeepEqual(was[name].object, now[name].object) {
			rows = append(rows, now[name].row)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if _, ok := now[name]; !ok {
			rows = append(rows, removedPackage(was[name].row))
		}
	}
	if len(rows) == 0 {
		return nil
	}
	return p.show(rows)
}

// removedPackage is the last row of a package.
func removedPackage(r row) row {
	r.cells = slices.Clone(r.cells)
	for i, column := range packageKind.columns {
		if column.Name == note.Name {
			r.cells[i] = "removed"
		}
	}
	return r
}
