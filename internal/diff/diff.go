// Package diff tells what differs between two catalogs of which only names and hashes are known, and looks only into packages whose hashes
// differ.
package diff

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

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
	Hash string

	// Look looks into it. Those of several packages may be called at a time.
	Look func(context.Context) (*Details, error)
}

// Details is what is in a package.
type Details struct {
	Unsound        string // why it is not sound, in which case nothing else is told; empty if it is
	DefaultChannel string
	Channels       map[string]Channel
	Bundles        map[string]Bundle
	Deprecations   map[Reference]string // messages
}

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
	Unsound        bool                    `json:"unsound,omitempty"` // now
	Note           string                  `json:"note,omitempty"`    // what there is to say instead of details
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

// atOnce is how many packages are looked into at a time: a look is to wait for a service, mostly.
const atOnce = 8

// Compare compares two catalogs, or of these some packages.
func Compare(ctx context.Context, from, to Catalog, only []string) (*Difference, error) {
	d := &Difference{From: from, To: to, Packages: []PackageDifference{}}
	same := func(a, b Package) bool { return a.Hash == b.Hash }
	for name, change := range differing(from.Packages, to.Packages, cmp.Compare, same) {
		if len(only) == 0 || slices.Contains(only, name) {
			d.Packages = append(d.Packages, PackageDifference{Name: name, Change: change})
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range d.Packages {
		p := &d.Packages[i]
		group.Go(func() error { return p.look(ctx, from.Packages[p.Name], to.Packages[p.Name]) })
	}
	return d, group.Wait()
}

// look finds out what differs in a package.
func (p *PackageDifference) look(ctx context.Context, from, to Package) error {
	if p.Change == Removed || ctx.Err() != nil {
		return ctx.Err()
	}
	b, err := to.Look(ctx)
	if err != nil {
		return err
	}
	if b.Unsound != "" {
		p.Unsound, p.Note = true, "not sound: "+b.Unsound
		return nil
	}
	a := &Details{}
	if p.Change == Changed {
		if a, err = from.Look(ctx); err != nil {
			return err
		}
	}
	if a.Unsound != "" {
		p.Note = "sound now, which it was not: " + a.Unsound
		return nil
	}
	p.compare(a, b)
	if p.DefaultChannel == nil && p.Channels == nil && p.Bundles == nil && p.Deprecations == nil {
		p.Note = "the same channels, bundles and deprecations; what differs is its icon or description, blobs of other schemas, or the order of its blobs"
	}
	return nil
}

func (p *PackageDifference) compare(a, b *Details) {
	p.DefaultChannel = fromTo(a.DefaultChannel, b.DefaultChannel)
	bundle := func(name string) Bundle { return cmp.Or(b.Bundles[name], a.Bundles[name]) }
	byVersion := func(x, y string) int {
		return cmp.Or(fbc.CompareVersions(bundle(x).Version, bundle(y).Version), cmp.Compare(x, y))
	}
	for name, change := range differing(a.Channels, b.Channels, cmp.Compare, func(x, y Channel) bool { return x.Hash == y.Hash }) {
		p.Channels = append(p.Channels, compareChannels(name, change, a.Channels[name], b.Channels[name], byVersion))
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
