package catalogs

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/content"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
)

// maxLargest is how many of the largest packages are listed.
const maxLargest = 5

func (d *description) printInvalid(to *output.Terminal) error {
	if len(d.invalid) == 0 {
		return nil
	}
	if err := to.Title(fmt.Sprintf("Invalid packages (%d)", d.catalog.Status.Content.InvalidPackageCount)); err != nil {
		return err
	}
	var pairs [][2]string
	for _, p := range d.invalid {
		pairs = append(pairs, [2]string{output.Line(cmp.Or(p.Name, "(no package)")), cmp.Or(output.Line(p.Reason), "?")})
	}
	return to.Fields(0, pairs...)
}

// A sizedPackage is a package with the size of its bundles, which are nearly all of its content.
type sizedPackage struct {
	name    string
	bundles int
	bytes   int64
}

// largestPackages returns the largest packages of a served catalog, the largest first.
func largestPackages(ctx context.Context, s *session.Session, c *v1beta1.CatalogSource) ([]sizedPackage, error) {
	if c.Status.URLs == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookup.InvalidTime)
	defer cancel()
	sized, err := packageSizes(ctx, s, c.Name)
	slices.SortFunc(sized, func(a, b sizedPackage) int {
		return cmp.Or(cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.name, b.name))
	})
	return sized[:min(len(sized), maxLargest)], err
}

func (d *description) printLargest(to *output.Terminal) error {
	table := output.Table{Columns: []output.Column{{Name: "name"}, {Name: "size", Right: true}, {Name: "bundles", Right: true}}}
	for _, p := range d.largest {
		table.Rows = append(table.Rows, []string{p.name, output.Bytes(p.bytes), fmt.Sprint(p.bundles)})
	}
	return printTable(to, "Largest packages", table)
}

// packageSizes reads the sizes of all bundles: the first hundred of a package with the package, all of them if there are more.
func packageSizes(ctx context.Context, s *session.Session, catalog string) ([]sizedPackage, error) {
	service, err := lookup.Service(ctx, s, catalog)
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
	found, err := content.All[pkg](ctx, service, catalog, "", packages, nil)
	if err != nil {
		return nil, err
	}
	sized := make([]sizedPackage, 0, len(found))
	for _, p := range found {
		if p.Bundles.TotalCount > len(p.Bundles.Nodes) {
			of := map[string]any{"package": p.Name}
			if p.Bundles.Nodes, err = content.All[bundle](ctx, service, catalog, "", bundles, of); err != nil {
				return nil, err
			}
		}
		size := sizedPackage{name: p.Name, bundles: p.Bundles.TotalCount}
		for _, b := range p.Bundles.Nodes {
			size.bytes += b.Size
		}
		sized = append(sized, size)
	}
	return sized, nil
}
