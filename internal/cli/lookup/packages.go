package lookup

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/operator-catalogs/catalogd/internal/cli/content"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
	"github.com/operator-catalogs/catalogd/internal/cli/status"
)

// hintTime limits the search for a suggestion.
const hintTime = 2 * time.Second

// A Package is a package in a catalog.
type Package struct {
	Name           string
	Version        string
	DefaultChannel content.Named
	Catalog        struct {
		Name     string
		Priority int32
	}
	Service *content.Service `json:"-"`
}

// Packages returns the packages of a name, by the priority of their catalogs. The name may be PACKAGE.CATALOG, as of an OperatorPackage,
// which is the package of one catalog unless a package has that very name.
func Packages(ctx context.Context, s *session.Session, name, catalog string) ([]Package, error) {
	const query = `query($filter: PackageFilter, $after: String) { packages(filter: $filter, first: 100, after: $after) {
		nodes { name version defaultChannel { name } catalog { name priority } } pageInfo { hasNextPage endCursor } } }`
	filter := content.Variables("catalog", catalog)
	filter["names"] = PossibleNames(name)
	all, err := FromEach(ctx, s, catalog, func(service *content.Service) ([]Package, error) {
		found, err := content.All[Package](ctx, service, "", "", query, map[string]any{"filter": filter})
		for i := range found {
			found[i].Service = service
		}
		return found, err
	})
	if err != nil {
		return nil, err
	}
	isWhole := slices.ContainsFunc(all, func(p Package) bool { return p.Name == name })
	all = slices.DeleteFunc(all, func(p Package) bool {
		return isWhole && p.Name != name || !Matches(name, p.Name, p.Catalog.Name)
	})
	slices.SortStableFunc(all, func(a, b Package) int {
		return cmp.Or(cmp.Compare(b.Catalog.Priority, a.Catalog.Priority), cmp.Compare(a.Catalog.Name, b.Catalog.Name))
	})
	return all, nil
}

// ExistingPackages is Packages for a package that must exist.
func ExistingPackages(ctx context.Context, s *session.Session, name, catalog string) ([]Package, error) {
	all, err := Packages(ctx, s, name, catalog)
	if err == nil && len(all) == 0 {
		err = NoPackage(ctx, s, name, catalog)
	}
	return all, err
}

// PossibleNames returns the names of a package that is named NAME or PACKAGE.CATALOG.
func PossibleNames(name string) []string {
	pkg, _, _ := strings.Cut(name, ".") // names of catalogs may have dots, those of packages do not
	return slices.Compact(output.WithoutEmpty(name, pkg))
}

// Matches reports whether name, which may be PACKAGE.CATALOG, names a package of a catalog.
func Matches(name, pkg, catalog string) bool { return name == pkg || name == pkg+"."+catalog }

// NoPackage returns the error of a package that a catalog, or with an empty name every catalog, lacks.
func NoPackage(ctx context.Context, s *session.Session, name, catalog string) error {
	if err := IfInvalid(ctx, s, name, catalog); err != nil {
		return err
	}
	completions, err := packageNames(ctx, s, Scope{Catalog: catalog})
	if err != nil {
		return session.CatalogError(err, catalog)
	}
	return exit.NotFoundf("package %q not found%s%s", name, Scope{Catalog: catalog},
		PackageHint(ctx, s, name, namesOf(completions)))
}

// PackageHint returns the end of the sentence on a package that does not exist. names are the existing ones.
func PackageHint(ctx context.Context, s *session.Session, name string, names []string) string {
	if part := strings.Trim(name, "*?"); part != name && part != "" {
		return ": wildcards are not supported; kubectl catalog search " + part + " finds packages by parts of their names"
	}
	near := DidYouMean(name, names)
	if pkg, catalog, ok := strings.Cut(name, "."); ok && near == "" && isCatalog(ctx, s, catalog) {
		near = DidYouMean(pkg, names)
	}
	describe := "kubectl catalog describe " + name + " shows it, kubectl catalog get packages -c " + name + " lists its packages"
	return cmp.Or(IfCatalog(ctx, s, name, describe), near, "; kubectl catalog search WORDS finds packages")
}

// isCatalog reports whether a catalog exists, as far as that is known.
func isCatalog(ctx context.Context, s *session.Session, name string) bool {
	if s.IsDirect() { // the API server may be out of reach
		return false
	}
	catalogs, _ := s.Catalogs(ctx)
	return slices.ContainsFunc(catalogs, func(c status.Catalog) bool { return c.Name == name })
}

// IfCatalog returns a hint if a name that should be something else is a catalog's.
func IfCatalog(ctx context.Context, s *session.Session, name, instead string) string {
	if !isCatalog(ctx, s, name) {
		return ""
	}
	return "; it is a catalog: " + instead
}

// IfPackage returns a hint if a name that should be something else is a package's.
func IfPackage(ctx context.Context, s *session.Session, name, instead string) string {
	ctx, cancel := context.WithTimeout(ctx, hintTime)
	defer cancel()
	if found, err := Packages(ctx, s, name, ""); err != nil || len(found) == 0 {
		return ""
	}
	return "; it is a package: " + instead
}
