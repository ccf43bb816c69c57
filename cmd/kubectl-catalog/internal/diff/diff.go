// Package diff tells what differs between two catalogs of which only names and hashes are known, and looks only into packages whose hashes
// differ.
package diff

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// Change is how something differs.
type Change string

// The changes from one catalog to the other.
const (
	Added   Change = "added"
	Removed Change = "removed"
	Changed Change = "changed"
)

// Catalog is what is in a catalog, by names and hashes, in as far as it is needed to tell what differs.
type Catalog struct {
	Name     string             `json:"name"`             // as it was given
	Digest   string             `json:"digest,omitempty"` // of its image, if it has one
	Packages map[string]Package `json:"-"`
}

// Package is what is known of a package without looking into it.
type Package struct {
	Hash    string
	Unsound string                   // why it is not sound; empty if it is
	Look    func() (*Details, error) // is not called where it is not sound
}

// Details is what is in a package.
type Details struct {
	DefaultChannel string
	Channels       map[string]Channel
	Bundles        map[string]Bundle
	Deprecations   map[Reference]string // messages
}

// Channel is a channel, and the bundle that is its head.
type Channel struct{ Hash, Head string }

// Bundle is a bundle.
type Bundle struct{ Hash, Version string }

// Reference says what is deprecated: the package itself, a channel or a bundle.
type Reference struct {
	Kind string `json:"kind"`
	Name string `json:"name,omitempty"`
}

// Difference is what differs between two catalogs.
type Difference struct {
	From     Catalog             `json:"from"`
	To       Catalog             `json:"to"`
	Packages []PackageDifference `json:"packages"`
}

// PackageDifference is what differs in a package.
type PackageDifference struct {
	Name           string                  `json:"name"`
	Change         Change                  `json:"change"`
	Note           string                  `json:"note,omitempty"` // what there is to say instead of details
	DefaultChannel *FromTo                 `json:"defaultChannel,omitempty"`
	Channels       []ChannelDifference     `json:"channels,omitempty"`
	Bundles        []BundleDifference      `json:"bundles,omitempty"`
	Deprecations   []DeprecationDifference `json:"deprecations,omitempty"`
}

// FromTo is what one catalog has, and what the other; empty where it has nothing.
type FromTo struct {
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// ChannelDifference is a channel that differs, by its entries or properties where both heads are the same.
type ChannelDifference struct {
	Name   string `json:"name"`
	Change Change `json:"change"`
	Head   FromTo `json:"head"`
}

// BundleDifference is a bundle that differs, with the version that it has now, or had.
type BundleDifference struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Change  Change `json:"change"`
}

// DeprecationDifference is a deprecation that differs, with the message that it has now.
type DeprecationDifference struct {
	Reference
	Change  Change `json:"change"`
	Message string `json:"message,omitempty"`
}

// Compare compares two catalogs, or of these some packages.
func Compare(from, to Catalog, only []string) (*Difference, error) {
	d := &Difference{From: from, To: to, Packages: []PackageDifference{}}
	same := func(a, b Package) bool { return a.Hash == b.Hash }
	for name, change := range differing(from.Packages, to.Packages, cmp.Compare, same) {
		if len(only) > 0 && !slices.Contains(only, name) {
			continue
		}
		p, err := comparePackages(name, change, from.Packages[name], to.Packages[name])
		if err != nil {
			return nil, err
		}
		d.Packages = append(d.Packages, p)
	}
	return d, nil
}

func comparePackages(name string, change Change, from, to Package) (PackageDifference, error) {
	p := PackageDifference{Name: name, Change: change}
	switch {
	case to.Unsound != "":
		p.Note = "not sound: " + to.Unsound
	case from.Unsound != "" && change == Changed:
		p.Note = "sound now, which it was not: " + from.Unsound
	}
	if p.Note != "" || change == Removed {
		return p, nil
	}
	a := &Details{}
	if change == Changed {
		var err error
		if a, err = from.Look(); err != nil {
			return p, err
		}
	}
	b, err := to.Look()
	if err != nil {
		return p, err
	}
	p.compare(a, b)
	if p.DefaultChannel == nil && p.Channels == nil && p.Bundles == nil && p.Deprecations == nil {
		p.Note = "the same channels, bundles and deprecations; what differs is its icon or description, blobs of other schemas, or the order of its blobs"
	}
	return p, nil
}

func (p *PackageDifference) compare(a, b *Details) {
	if a.DefaultChannel != b.DefaultChannel {
		p.DefaultChannel = &FromTo{a.DefaultChannel, b.DefaultChannel}
	}
	for name, change := range differing(a.Channels, b.Channels, cmp.Compare, func(x, y Channel) bool { return x.Hash == y.Hash }) {
		p.Channels = append(p.Channels, ChannelDifference{name, change, FromTo{a.Channels[name].Head, b.Channels[name].Head}})
	}
	bundle := func(name string) Bundle { return cmp.Or(b.Bundles[name], a.Bundles[name]) }
	byVersion := func(x, y string) int {
		return cmp.Or(fbc.CompareVersions(bundle(x).Version, bundle(y).Version), cmp.Compare(x, y))
	}
	for name, change := range differing(a.Bundles, b.Bundles, byVersion, func(x, y Bundle) bool { return x.Hash == y.Hash }) {
		p.Bundles = append(p.Bundles, BundleDifference{name, bundle(name).Version, change})
	}
	byName := func(x, y Reference) int { return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Name, y.Name)) }
	for of, change := range differing(a.Deprecations, b.Deprecations, byName, func(x, y string) bool { return x == y }) {
		p.Deprecations = append(p.Deprecations, DeprecationDifference{of, change, b.Deprecations[of]})
	}
}

// differing are the names of what differs between two sets, in the order of compare. same tells whether two of the same name are equal.
func differing[K comparable, V any](from, to map[K]V, compare func(a, b K) int, same func(a, b V) bool) iter.Seq2[K, Change] {
	return func(yield func(K, Change) bool) {
		all := map[K]V{}
		maps.Copy(all, from)
		maps.Copy(all, to)
		for _, name := range slices.SortedFunc(maps.Keys(all), compare) {
			a, before := from[name]
			b, after := to[name]
			change := Changed
			switch {
			case !before:
				change = Added
			case !after:
				change = Removed
			case same(a, b):
				continue
			}
			if !yield(name, change) {
				return
			}
		}
	}
}
