// Package depend finds what the bundles of a part of a catalog require of the rest: olm.package.required,
// olm.gvk.required and olm.constraint. It reads and writes nothing.
package depend

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/blang/semver/v4"

	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// Catalog holds the bundles of a catalog, their channels, and the default channels of packages. The zero Catalog is empty.
type Catalog struct {
	defaults map[string]string // default channels by package
	channels map[id][]string   // of bundles, in the order of the catalog
	bundles  []*bundle
}

// id identifies a bundle.
type id struct{ pkg, name string }

type bundle struct {
	id
	version  string
	semver   *semver.Version // nil: invalid
	provides []fbc.GVK
	requires []constraint
}

// Choice is a bundle that was chosen for a requirement.
type Choice struct {
	Requirement     string
	By              []string // the packages that have it, sorted
	Package, Bundle string
	Version         string
	Channel         string
	Others          []string // other packages that fulfill it, sorted
}

func (c Choice) String() string {
	text := fmt.Sprintf("%s, required by %s: %s %s of channel %q", c.Requirement, list(c.By), c.Package, c.Version, c.Channel)
	if len(c.Others) > 0 {
		text += "; also provided by " + list(c.Others)
	}
	return text
}

// Unmet is a requirement that nothing in the catalog is known to fulfill.
type Unmet struct {
	Requirement string
	By          []string // the packages that have it, sorted
	Reason      string
}

func (u Unmet) String() string {
	return fmt.Sprintf("%s, required by %s: %s", u.Requirement, list(u.By), u.Reason)
}

// Result is the closure of a part of a catalog.
type Result struct {
	Choices []Choice // in the order in which they were made
	Unmet   []Unmet  // sorted by requirement
}

// Add adds a blob. Malformed properties are no requirements; lint reports them.
func (c *Catalog) Add(b scan.Blob) error {
	if c.defaults == nil {
		c.defaults, c.channels = map[string]string{}, map[id][]string{}
	}
	switch b.Schema {
	case fbc.SchemaPackage:
		var content struct{ DefaultChannel string }
		if err := json.Unmarshal(b.JSON, &content); err != nil {
			return fmt.Errorf("reading package %q: %w", b.Name, err)
		}
		c.defaults[b.Name] = content.DefaultChannel
	case fbc.SchemaChannel:
		var content struct{ Entries []struct{ Name string } }
		if err := json.Unmarshal(b.JSON, &content); err != nil {
			return fmt.Errorf("reading channel %q of package %q: %w", b.Name, b.Package, err)
		}
		for _, e := range content.Entries {
			of := id{b.Package, e.Name}
			c.channels[of] = append(c.channels[of], b.Name)
		}
	case fbc.SchemaBundle:
		facts := fbc.FactsOf(b)
		found := &bundle{id: id{b.Package, b.Name}, version: facts.Version, provides: facts.Provides, requires: requirementsOf(b)}
		if v, err := semver.Parse(facts.Version); err == nil {
			found.semver = &v
		}
		c.bundles = append(c.bundles, found)
	}
	return nil
}

// channelOf returns the channel in which a bundle is installed by default, and whether that is the default channel.
func (c *Catalog) channelOf(b *bundle) (channel string, isDefault bool) {
	channels := c.channels[b.id]
	if slices.Contains(channels, c.defaults[b.pkg]) {
		return c.defaults[b.pkg], true
	}
	if len(channels) == 0 {
		return "", false
	}
	return channels[0], false
}

// Close returns what must be added to the kept bundles, so that the requirements of all are fulfilled. For each requirement
// that nothing kept fulfills, it chooses the highest version in a default channel, or else in any channel.
func (c *Catalog) Close(keeps func(pkg, bundle string) bool) Result {
	s := &solver{catalog: c, unmet: map[string]*Unmet{}}
	for _, b := range c.bundles {
		if keeps(b.pkg, b.name) {
			s.kept = append(s.kept, b)
		}
	}
	for i := 0; i < len(s.kept); i++ { // it grows
		for _, r := range s.kept[i].requires {
			s.require(r, s.kept[i].pkg)
		}
	}
	for i := range s.choices {
		s.choices[i].By = sorted(s.choices[i].By)
	}
	result := Result{Choices: s.choices}
	for _, text := range slices.Sorted(maps.Keys(s.unmet)) {
		u := *s.unmet[text]
		u.By = sorted(u.By)
		result.Unmet = append(result.Unmet, u)
	}
	return result
}

// solver has the state of Close.
type solver struct {
	catalog *Catalog
	kept    []*bundle // with the chosen ones
	choices []Choice
	unmet   map[string]*Unmet
}

// require makes choices for a requirement of a package.
func (s *solver) require(r constraint, by string) {
	if s.isMet(r) {
		for i, c := range s.choices { // another reason for an earlier choice
			if c.Requirement == r.String() {
				s.choices[i].By = append(c.By, by)
			}
		}
		return
	}
	switch {
	case r.All != nil:
		for _, part := range r.All.Constraints {
			s.require(part, by)
		}
		return
	case r.Any != nil:
		for _, part := range r.Any.Constraints {
			if s.canMeet(part) {
				s.require(part, by)
				return
			}
		}
	case r.isSimple() && s.canMeet(r):
		s.choose(r, by)
		return
	}
	u := s.unmet[r.String()]
	if u == nil {
		u = &Unmet{Requirement: r.String(), Reason: s.reason(r)}
		s.unmet[r.String()] = u
	}
	u.By = append(u.By, by)
}

// isMet reports whether the kept bundles fulfill a constraint. A catalog may have what one of its bundles forbids.
func (s *solver) isMet(r constraint) bool {
	switch {
	case r.All != nil:
		return !slices.ContainsFunc(r.All.Constraints, func(part constraint) bool { return !s.isMet(part) })
	case r.Any != nil:
		return slices.ContainsFunc(r.Any.Constraints, s.isMet)
	case r.Not != nil:
		return true
	}
	return slices.ContainsFunc(s.kept, r.matches)
}

// canMeet reports whether the catalog can fulfill a constraint.
func (s *solver) canMeet(r constraint) bool {
	switch {
	case s.isMet(r):
		return true
	case r.All != nil:
		return !slices.ContainsFunc(r.All.Constraints, func(part constraint) bool { return !s.canMeet(part) })
	case r.Any != nil:
		return slices.ContainsFunc(r.Any.Constraints, s.canMeet)
	}
	return slices.ContainsFunc(s.catalog.bundles, func(b *bundle) bool { return r.matches(b) && s.catalog.isInstallable(b) })
}

// isInstallable reports whether a bundle is in a channel.
func (c *Catalog) isInstallable(b *bundle) bool { return len(c.channels[b.id]) > 0 }

// choose keeps the best bundle for a package or an API.
func (s *solver) choose(r constraint, by string) {
	best := map[string]*bundle{} // by package
	for _, b := range s.catalog.bundles {
		if r.matches(b) && s.catalog.isInstallable(b) && (best[b.pkg] == nil || s.compare(b, best[b.pkg]) > 0) {
			best[b.pkg] = b
		}
	}
	packages := slices.SortedFunc(maps.Keys(best), func(a, b string) int {
		return cmp.Or(-compareBool(s.isDefault(best[a]), s.isDefault(best[b])), cmp.Compare(a, b))
	})
	b := best[packages[0]]
	channel, _ := s.catalog.channelOf(b)
	s.kept = append(s.kept, b)
	s.choices = append(s.choices, Choice{
		Requirement: r.String(), By: []string{by},
		Package: b.pkg, Channel: channel, Bundle: b.name, Version: b.version,
		Others: slices.Sorted(slices.Values(packages[1:])),
	})
}

func (s *solver) isDefault(b *bundle) bool {
	_, isDefault := s.catalog.channelOf(b)
	return isDefault
}

// compare orders bundles of a package: first those of the default channel, then by version.
func (s *solver) compare(a, b *bundle) int {
	return cmp.Or(compareBool(s.isDefault(a), s.isDefault(b)), fbc.CompareVersions(a.version, b.version))
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// reason returns why a constraint cannot be fulfilled.
func (s *solver) reason(r constraint) string {
	switch {
	case r.CEL != nil:
		return "CEL expressions are not evaluated"
	case r.Any != nil:
		return "the catalog fulfills none of the alternatives"
	case r.Package != nil && r.Package.problem != "":
		return r.Package.problem
	case r.Package != nil:
		for _, b := range s.catalog.bundles {
			if b.pkg == r.Package.Name {
				return "no version of the package in the catalog is in the range"
			}
		}
		return "the catalog does not have the package"
	case r.GVK != nil:
		return "no package of the catalog provides it"
	}
	return "unknown type of constraint"
}

func sorted(names []string) []string { return slices.Compact(slices.Sorted(slices.Values(names))) }
