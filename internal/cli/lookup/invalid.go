package lookup

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/content"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
	"github.com/operator-catalogs/catalogd/internal/cli/status"
)

// InvalidTime limits queries for optional information.
const InvalidTime = 15 * time.Second

// An InvalidPackage is a package that a catalog contains and catalogd does not publish.
type InvalidPackage struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// String returns a line on the package for a list of changes.
func (p InvalidPackage) String() string {
	return "! " + output.Line(cmp.Or(p.Name, "(no package)")+": invalid: "+strings.TrimSuffix(p.Reason, "."))
}

type invalidIn struct {
	Name            string
	InvalidPackages []InvalidPackage
}

// invalidOf returns the packages that fail validation: of a version of a catalog, of its served version, or of all catalogs.
func invalidOf(ctx context.Context, s *content.Service, catalog, version string) ([]invalidIn, error) {
	ctx, cancel := context.WithTimeout(ctx, InvalidTime)
	defer cancel()
	var answer struct{ Catalogs []invalidIn }
	err := s.Query(ctx, catalog, version, "{ catalogs { name invalidPackages { name reason } } }", nil, &answer)
	return answer.Catalogs, err
}

// Invalid returns the packages that catalogd does not publish, by name. The status lists only the first; the content service lists only
// those that fail validation. So Invalid reads both. With an error, it returns the packages of the status.
func Invalid(ctx context.Context, s *session.Session, c *status.Catalog) ([]InvalidPackage, error) {
	has, missing := c.Status.Content, false
	if has == nil {
		missing = c.Kind == status.ClusterCatalog && c.Status.URLs != nil // a ClusterCatalog has no numbers
		has = &v1beta1.CatalogContent{}
	}
	if has.InvalidPackageCount == 0 && !missing {
		return nil, nil
	}
	var all []InvalidPackage
	for _, p := range has.InvalidPackages {
		all = append(all, InvalidPackage{p.Name, p.Reason})
	}
	var err error
	if missing || int(has.InvalidPackageCount) > len(all) {
		var service *content.Service
		var found []invalidIn
		if service, err = ServiceOf(s, c); err == nil {
			found, err = invalidOf(ctx, service, c.Name, "")
		}
		for _, of := range found {
			all = append(all, of.InvalidPackages...)
		}
	}
	slices.SortStableFunc(all, func(a, b InvalidPackage) int { return cmp.Compare(a.Name, b.Name) })
	return slices.CompactFunc(all, func(a, b InvalidPackage) bool { return a.Name == b.Name }), err
}

// IfInvalid returns the error of a package that is missing because it is invalid. It is nil for other packages, or if that is unknown.
func IfInvalid(ctx context.Context, s *session.Session, name, catalog string) error {
	services, err := Services(ctx, s, catalog)
	if err != nil {
		return nil //nolint:nilerr // the package is missing in any case
	}
	for _, service := range services {
		found, _ := invalidOf(ctx, service, catalog, "")
		for _, in := range found {
			for _, p := range in.InvalidPackages {
				if Matches(name, p.Name, in.Name) {
					return exit.NotFoundf("package %q of catalog %q is invalid: %s; see kubectl catalog describe %s",
						p.Name, in.Name, p.Reason, in.Name)
				}
			}
		}
	}
	return nil
}

// SeparateInvalid moves invalid packages out of the changes of an update.
func SeparateInvalid(changes content.Changes, invalid []InvalidPackage) (content.Changes, []InvalidPackage) {
	var updated []InvalidPackage
	for _, p := range invalid {
		if slices.Contains(changes.Added, p.Name) || slices.Contains(changes.Changed, p.Name) {
			updated = append(updated, p)
		}
	}
	isInvalid := func(name string) bool {
		return slices.ContainsFunc(updated, func(p InvalidPackage) bool { return p.Name == name })
	}
	changes.Added = slices.DeleteFunc(slices.Clone(changes.Added), isInvalid)
	changes.Changed = slices.DeleteFunc(slices.Clone(changes.Changed), isInvalid)
	return changes, updated
}

// ChangesOf returns the changes of an event, and separately its invalid packages. If these are unknown, they count as changes.
func ChangesOf(ctx context.Context, s *content.Service, event content.Event) (*content.Changes, []InvalidPackage) {
	if event.Changes == nil || len(event.Added)+len(event.Changed) == 0 {
		return event.Changes, nil
	}
	changes, invalid := *event.Changes, []InvalidPackage(nil)
	found, _ := invalidOf(ctx, s, event.Catalog, event.ID)
	for _, in := range found {
		changes, invalid = SeparateInvalid(*event.Changes, in.InvalidPackages)
	}
	return &changes, invalid
}
