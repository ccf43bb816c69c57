package cli

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/content"
	term "github.com/operator-catalogs/catalogd/internal/cli/output"
)

// contentTime is how long the content service may take for what is told besides.
const contentTime = 15 * time.Second

// A leftOut is a package that a catalog has and that cannot be used.
type leftOut struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// unsoundIn are the packages that are left out of a catalog.
type unsoundIn struct {
	Name            string
	InvalidPackages []leftOut
}

// unsound asks for the packages that are not sound: of a catalog, at a version of it if one is given, or with an empty name of all.
func unsound(ctx context.Context, s *content.Service, catalog, version string) ([]unsoundIn, error) {
	ctx, cancel := context.WithTimeout(ctx, contentTime)
	defer cancel()
	var answer struct{ Catalogs []unsoundIn }
	err := s.Query(ctx, catalog, version, "{ catalogs { name invalidPackages { name reason } } }", nil, &answer)
	return answer.Catalogs, err
}

// leftOutOf lists what cannot be used of a catalog, by name. The status has only the first of many, and the content service only those that are
// not sound, not those that are and have nothing to show: so both are asked. With an error, the first of them are returned.
func (e *env) leftOutOf(ctx context.Context, c *v1beta1.CatalogSource) ([]leftOut, error) {
	has := c.Status.Content
	if has == nil || has.InvalidPackageCount == 0 {
		return nil, nil
	}
	var all []leftOut
	for _, p := range has.InvalidPackages {
		all = append(all, leftOut{p.Name, p.Reason})
	}
	var err error
	if int(has.InvalidPackageCount) > len(all) {
		var service *content.Service
		var found []unsoundIn
		if service, err = e.service(ctx, c.Name); err == nil {
			found, err = unsound(ctx, service, c.Name, "")
		}
		for _, of := range found {
			all = append(all, of.InvalidPackages...)
		}
	}
	slices.SortStableFunc(all, func(a, b leftOut) int { return cmp.Compare(a.Name, b.Name) })
	return slices.CompactFunc(all, func(a, b leftOut) bool { return a.Name == b.Name }), err
}

// ifLeftOut is the error of a package that is not found because a catalog leaves it out; nil if none does, or that is not known.
func (e *env) ifLeftOut(ctx context.Context, name, catalog string) error {
	services, err := e.servicesFor(ctx, catalog)
	if err != nil {
		return nil //nolint:nilerr // what was asked for is not there all the same
	}
	for _, service := range services {
		found, _ := unsound(ctx, service, catalog, "")
		for _, in := range found {
			for _, p := range in.InvalidPackages {
				if isMeant(name, p.Name, in.Name) {
					return notFoundf("package %q of catalog %q is left out: %s; see kubectl catalog describe %s", p.Name, in.Name, p.Reason, in.Name)
				}
			}
		}
	}
	return nil
}

// apart takes those that are left out from what an update added and changed.
func apart(changes content.Changes, all []leftOut) (content.Changes, []leftOut) {
	var of []leftOut
	for _, p := range all {
		if slices.Contains(changes.Added, p.Name) || slices.Contains(changes.Changed, p.Name) {
			of = append(of, p)
		}
	}
	isOf := func(name string) bool { return slices.ContainsFunc(of, func(p leftOut) bool { return p.Name == name }) }
	changes.Added = slices.DeleteFunc(slices.Clone(changes.Added), isOf)
	changes.Changed = slices.DeleteFunc(slices.Clone(changes.Changed), isOf)
	return changes, of
}

// words is a line on a package that an update leaves out.
func (p leftOut) words() string {
	return "! " + term.Line(cmp.Or(p.Name, "(of no package)")+": left out: "+strings.TrimSuffix(p.Reason, "."))
}

func leftOutNames(all []leftOut) []string {
	names := make([]string, len(all))
	for i, p := range all {
		names[i] = p.Name
	}
	return names
}
