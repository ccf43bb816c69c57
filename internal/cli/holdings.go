package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/operator-catalogs/catalogd/internal/cli/content"
	term "github.com/operator-catalogs/catalogd/internal/cli/output"
)

// fewLargest is how many of the largest packages are listed.
const fewLargest = 5

// invalidPackages lists what cannot be used.
func (d *description) invalidPackages(ctx context.Context) error {
	all, err := d.leftOutOf(ctx, d.catalog)
	if len(all) == 0 {
		return nil
	}
	count := d.catalog.Status.Content.InvalidPackageCount
	if err != nil {
		d.warn("of %d packages that cannot be used only %d are shown: %v", count, len(all), err)
	}
	var pairs [][2]string
	for _, p := range all {
		pairs = append(pairs, [2]string{term.Line(cmp.Or(p.Name, "(of no package)")), cmp.Or(term.Line(p.Reason), "?")})
	}
	if err := d.title(fmt.Sprintf("Packages that cannot be used (%d)", count)); err != nil {
		return err
	}
	return d.stdout.Fields(0, pairs...)
}

// A sizedPackage is a package by the bytes of its bundles, which are nearly all of it.
type sizedPackage struct {
	name    string
	bundles int
	bytes   int64
}

func (d *description) largestPackages(ctx context.Context) error {
	if d.catalog.Status.URLs == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, contentTime)
	defer cancel()
	sized, err := d.sizes(ctx)
	if err != nil {
		d.warn("the largest packages are not shown: %v", err)
		return nil
	}
	if len(sized) == 0 {
		return nil
	}
	slices.SortFunc(sized, func(a, b sizedPackage) int { return cmp.Or(cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.name, b.name)) })
	table := term.Table{Columns: []term.Column{{Name: "name"}, {Name: "size", Right: true}, {Name: "bundles", Right: true}}}
	for _, p := range sized[:min(len(sized), fewLargest)] {
		table.Rows = append(table.Rows, []string{p.name, term.Bytes(p.bytes), fmt.Sprint(p.bundles)})
	}
	if err := d.title("Largest packages"); err != nil {
		return err
	}
	return d.stdout.Print(table, term.Options{})
}

// sizes asks for the bytes of all bundles: of those of a package for the first hundred in one go, and for all where there are more.
func (d *description) sizes(ctx context.Context) ([]sizedPackage, error) {
	s, err := d.service(ctx, d.catalog.Name)
	if err != nil {
		return nil, err
	}
	type bundle struct{ Size int64 }
	type pkg struct {
		Name    string
		Bundles struct {
			TotalCount int
			Nodes      []bundle
		}
	}
	const packages = `query($after: String) { packages(first: 50, after: $after) {
		nodes { name bundles(first: 100) { totalCount nodes { size } } } pageInfo { hasNextPage endCursor } } }`
	const bundles = `query($package: String, $after: String) { bundles(filter: {package: $package}, first: 100, after: $after) {
		nodes { size } pageInfo { hasNextPage endCursor } } }`
	found, err := content.All[pkg](ctx, s, d.catalog.Name, "", packages, nil)
	if err != nil {
		return nil, err
	}
	sized := make([]sizedPackage, 0, len(found))
	for _, p := range found {
		if p.Bundles.TotalCount > len(p.Bundles.Nodes) {
			if p.Bundles.Nodes, err = content.All[bundle](ctx, s, d.catalog.Name, "", bundles, map[string]any{"package": p.Name}); err != nil {
				return nil, err
			}
		}
		of := sizedPackage{name: p.Name, bundles: p.Bundles.TotalCount}
		for _, b := range p.Bundles.Nodes {
			of.bytes += b.Size
		}
		sized = append(sized, of)
	}
	return sized, nil
}
