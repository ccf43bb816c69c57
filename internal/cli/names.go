package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/content"
)

// hintTime is how long it may take to find out what was meant by a name.
const hintTime = 2 * time.Second

// placed is a package in a catalog, by which the one to show is found.
type placed struct {
	Name           string
	Version        string
	DefaultChannel named
	Catalog        struct {
		Name     string
		Priority int32
	}
	service *content.Service
}

// places finds packages of a name: that of the catalog with the highest priority first. PACKAGE.CATALOG, as OperatorPackages are called, is the
// package of one catalog, unless there is one of that very name.
func (e *env) places(ctx context.Context, name, catalog string) ([]placed, error) {
	const query = `query($filter: PackageFilter, $after: String) { packages(filter: $filter, first: 100, after: $after) {
		nodes { name version defaultChannel { name } catalog { name priority } } pageInfo { hasNextPage endCursor } } }`
	filter := given("catalog", catalog)
	filter["names"] = namesMeant(name)
	all, err := fromEach(ctx, e, catalog, func(service *content.Service) ([]placed, error) {
		found, err := content.All[placed](ctx, service, "", "", query, map[string]any{"filter": filter})
		for i := range found {
			found[i].service = service
		}
		return found, err
	})
	if err != nil {
		return nil, err
	}
	isWhole := slices.ContainsFunc(all, func(p placed) bool { return p.Name == name })
	all = slices.DeleteFunc(all, func(p placed) bool { return isWhole && p.Name != name || !isMeant(name, p.Name, p.Catalog.Name) })
	slices.SortStableFunc(all, func(a, b placed) int {
		return cmp.Or(cmp.Compare(b.Catalog.Priority, a.Catalog.Priority), cmp.Compare(a.Catalog.Name, b.Catalog.Name))
	})
	return all, nil
}

// place is places for a package that has to be there.
func (e *env) place(ctx context.Context, name, catalog string) ([]placed, error) {
	all, err := e.places(ctx, name, catalog)
	if err == nil && len(all) == 0 {
		err = e.noPackage(ctx, name, catalog)
	}
	return all, err
}

// namesMeant are the names that a package may have that is asked for by this one, which may be PACKAGE.CATALOG.
func namesMeant(name string) []string {
	pkg, _, _ := cutLast(name, ".")
	return slices.Compact(withoutEmpty([]string{name, pkg}))
}

// isMeant tells whether a package of a catalog is asked for by a name, which may be PACKAGE.CATALOG.
func isMeant(name, pkg, catalog string) bool { return name == pkg || name == pkg+"."+catalog }

// noPackage is the error of a package that is not in a catalog, or with an empty catalog in any.
func (e *env) noPackage(ctx context.Context, name, catalog string) error {
	if err := e.ifLeftOut(ctx, name, catalog); err != nil {
		return err
	}
	completions, err := e.packageNames(ctx, completionScope{catalog: catalog})
	if err != nil {
		return missing(err, catalog)
	}
	return notFoundf("there is no package %q%s%s", name, getOptions{catalog: catalog}.where(), e.packageHint(ctx, name, namesOf(completions)))
}

// packageHint ends the sentence on a package that is none of these.
func (e *env) packageHint(ctx context.Context, name string, names []string) string {
	near := didYouMean(name, names)
	if pkg, catalog, ok := cutLast(name, "."); ok && near == "" && e.isCatalog(ctx, catalog) {
		near = didYouMean(pkg, names)
	}
	if part := strings.Trim(name, "*?"); part != name && part != "" {
		return ": names are taken as they stand; kubectl catalog search " + part + " finds packages by parts of them"
	}
	list := fmt.Sprintf("kubectl catalog describe %s tells of it, kubectl catalog get packages -c %s lists its packages", name, name)
	return cmp.Or(e.orCatalog(ctx, name, list), near, ": kubectl catalog search WORDS finds packages")
}

// noCatalogs is the error of catalogs that do not exist; nil if there are no names.
func (e *env) noCatalogs(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	var known []string
	catalogs, _ := e.catalogs(ctx)
	for _, c := range catalogs {
		known = append(known, c.Name)
	}
	var all []error
	for _, name := range names {
		hint := cmp.Or(e.orPackage(ctx, name, "kubectl catalog show "+name), didYouMean(name, known), ": kubectl catalog list shows those there are")
		all = append(all, notFoundf("there is no catalog %q%s", name, hint))
	}
	return errors.Join(all...)
}

// isCatalog tells whether there is a catalog of a name, as far as that can be told.
func (e *env) isCatalog(ctx context.Context, name string) bool {
	if e.serverURL != "" { // which may be all that can be reached
		return false
	}
	catalogs, _ := e.catalogs(ctx)
	return slices.ContainsFunc(catalogs, func(c v1beta1.CatalogSource) bool { return c.Name == name })
}

// orCatalog ends the sentence on a name that something else was to have, and what to do with the catalog that has it; empty if there is none.
func (e *env) orCatalog(ctx context.Context, name, instead string) string {
	if !e.isCatalog(ctx, name) {
		return ""
	}
	return ", which is a catalog: " + instead
}

// orPackage is orCatalog for packages.
func (e *env) orPackage(ctx context.Context, name, instead string) string {
	ctx, cancel := context.WithTimeout(ctx, hintTime)
	defer cancel()
	if places, err := e.places(ctx, name, ""); err != nil || len(places) == 0 {
		return ""
	}
	return ", which is a package: " + instead
}
