// Package lookup resolves the names on a command line to catalogs, their content services and packages. It suggests names in errors and
// completes them in a shell.
package lookup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/operator-catalogs/catalogd/internal/cli/content"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
	"github.com/operator-catalogs/catalogd/internal/cli/status"
)

// A Scope is the part of the catalogs that a command is about. Empty fields select everything.
type Scope struct{ Catalog, Package, Channel string }

// String returns the scope for a sentence, with a leading space: ` in package "etcd"`.
func (s Scope) String() string {
	var b strings.Builder
	for _, part := range [][2]string{{"channel", s.Channel}, {"package", s.Package}, {"catalog", s.Catalog}} {
		if part[1] != "" {
			fmt.Fprintf(&b, " in %s %q", part[0], part[1])
		}
	}
	return b.String()
}

// Catalog returns an existing catalog, named NAME or TYPE/NAME.
func Catalog(ctx context.Context, s *session.Session, name string) (*status.Catalog, error) {
	found, err := Catalogs(ctx, s, []string{name})
	if err != nil {
		return nil, err
	}
	return &found[0], nil
}

// Catalogs returns existing catalogs.
func Catalogs(ctx context.Context, s *session.Session, names []string) ([]status.Catalog, error) {
	found, missing, err := s.Find(ctx, names)
	if err == nil {
		err = NoCatalogs(ctx, s, missing)
	}
	return found, err
}

// Named returns the existing catalog whose content has a name: of two catalogs of one name, the one that is served.
func Named(ctx context.Context, s *session.Session, name string) (*status.Catalog, error) {
	all, err := s.Named(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case len(all) == 0:
		return nil, NoCatalogs(ctx, s, []string{name})
	case len(all) > 1 && all[0].Status.URLs == nil:
		return &all[1], nil
	}
	return &all[0], nil
}

// Service returns the content service that serves a catalog.
func Service(ctx context.Context, s *session.Session, catalog string) (*content.Service, error) {
	if s.IsDirect() {
		return s.Direct()
	}
	c, err := Named(ctx, s, catalog)
	if err != nil {
		return nil, err
	}
	return s.ServiceOf(c)
}

// ServiceOf is Service for a catalog that was read.
func ServiceOf(s *session.Session, c *status.Catalog) (*content.Service, error) {
	if s.IsDirect() {
		return s.Direct()
	}
	return s.ServiceOf(c)
}

// Services returns the content service of a catalog or, without a name, those of all catalogs.
func Services(ctx context.Context, s *session.Session, catalog string) ([]*content.Service, error) {
	if catalog == "" {
		return s.Services(ctx)
	}
	service, err := Service(ctx, s, catalog)
	return []*content.Service{service}, err
}

// OnlyService returns the content service of a catalog or, without a name, the only one of the cluster.
func OnlyService(ctx context.Context, s *session.Session, catalog string) (*content.Service, error) {
	services, err := Services(ctx, s, catalog)
	switch {
	case err != nil:
		return nil, err
	case len(services) == 0:
		return nil, exit.NotFoundf("no catalog is served, so there is no content service")
	case len(services) > 1:
		return nil, exit.Usagef("the catalogs are served by %d installations of catalogd: choose one with --catalog", len(services))
	}
	return services[0], nil
}

// FromEach concatenates what the content services of Services return. If some fail, the others' results remain, with a warning.
func FromEach[T any](ctx context.Context, s *session.Session, catalog string,
	read func(*content.Service) ([]T, error),
) ([]T, error) {
	services, err := Services(ctx, s, catalog)
	if err != nil {
		return nil, err
	}
	var all []T
	var failed []error
	for _, service := range services {
		some, err := read(service)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			failed = append(failed, session.CatalogError(err, catalog))
			continue
		}
		all = append(all, some...)
	}
	return all, s.Tolerate(failed, len(services)-len(failed))
}

// EmptyCluster is printed when there are no catalogs.
const EmptyCluster = "No catalogs found. Add one: kubectl catalog add NAME IMAGE"

// Nothing prints that a list is empty, or that the cluster has no catalogs.
func Nothing(ctx context.Context, s *session.Session, text string) error {
	if !s.IsDirect() {
		if catalogs, err := s.Catalogs(ctx); err == nil && len(catalogs) == 0 {
			text = EmptyCluster
		}
	}
	_, err := fmt.Fprintln(s.Stderr, text)
	return err
}

// CutVersion splits CATALOG@VERSION. A version begins with the digest. The type in TYPE/NAME@VERSION is kept by the session.
func CutVersion(s *session.Session, ref string) (catalog, version string, err error) {
	catalog, version, _ = strings.Cut(ref, "@")
	catalog, err = s.Name(catalog)
	return catalog, version, err
}

// NoCatalogs returns the error of catalogs that do not exist, with suggestions. It is nil for no names.
func NoCatalogs(ctx context.Context, s *session.Session, names []string) error {
	if len(names) == 0 {
		return nil
	}
	var known []string
	catalogs, _ := s.Catalogs(ctx)
	for _, c := range catalogs {
		known = append(known, c.Arg())
	}
	var all []error
	for _, arg := range names {
		_, name, err := s.KindsOf(arg)
		if err != nil {
			return err
		}
		hint := cmp.Or(IfPackage(ctx, s, name, "kubectl catalog show "+name), DidYouMean(arg, known),
			"; kubectl catalog list shows all catalogs")
		all = append(all, exit.NotFoundf("catalog %q not found%s", arg, hint))
	}
	return errors.Join(all...)
}

// Selected returns selectors for a sentence, with a leading space.
func Selected(labels, fields string) string {
	text := ""
	if labels != "" {
		text += fmt.Sprintf(" with the labels %q", labels)
	}
	if fields != "" {
		text += fmt.Sprintf(" with the fields %q", fields)
	}
	return text
}

// ValidateSelectors checks the syntax of --selector and --field-selector.
func ValidateSelectors(selector, fieldSelector string) error {
	if _, err := labels.Parse(selector); err != nil {
		return exit.Usagef("--selector %q: %w", selector, err)
	}
	if _, err := fields.ParseSelector(fieldSelector); err != nil {
		return exit.Usagef("--field-selector %q: %w", fieldSelector, err)
	}
	return nil
}

// Limits of a suggestion and of a list of all names.
const (
	maxSuggested = 3
	maxListed    = 8
)

// DidYouMean returns the end of a sentence with the names that are similar to an unknown one. It is empty if none is.
func DidYouMean(name string, all []string) string {
	type candidate struct {
		name     string
		distance int
	}
	var sharing, near []candidate
	for _, other := range all {
		lower, asked := strings.ToLower(other), strings.ToLower(name)
		c := candidate{other, levenshtein.ComputeDistance(asked, lower)}
		first, _, isLonger := strings.Cut(lower, "-")
		switch {
		case len(name) > 2 && strings.Contains(lower, asked), len(other) > 2 && strings.Contains("-"+asked+"-", "-"+lower+"-"):
			sharing = append(sharing, c)
		case c.distance <= max(min(2, len(name)/2), len(name)/4),
			isLonger && len(name) > maxSuggested && levenshtein.ComputeDistance(asked, first) <= 1: // skuper: skupper-operator
			near = append(near, c)
		}
	}
	byDistance := func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.name, b.name))
	}
	slices.SortFunc(sharing, byDistance)
	slices.SortFunc(near, byDistance)
	near = slices.DeleteFunc(near, func(c candidate) bool { return c.distance > near[0].distance+1 }) // a typo means the nearest
	var quoted []string
	for _, c := range slices.Compact(append(sharing, near...)) {
		if len(quoted) < maxSuggested {
			quoted = append(quoted, fmt.Sprintf("%q", output.Line(c.name)))
		}
	}
	if len(quoted) == 0 {
		return ""
	}
	return ": did you mean " + strings.Join(quoted, " or ") + "?"
}

// OrListed is DidYouMean but, if no name is similar, lists the first of the existing names.
func OrListed(name string, all []string) string {
	if near := DidYouMean(name, all); near != "" || len(all) == 0 {
		return near
	}
	var distinct []string // several catalogs may have the same name
	for _, other := range all {
		if line := output.Line(other); !slices.Contains(distinct, line) {
			distinct = append(distinct, line)
		}
	}
	return "; it has " + output.First(distinct, maxListed)
}
