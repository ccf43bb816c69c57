// Package diff compares two catalogs by names and hashes. It loads only the packages whose hashes differ.
package diff

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// Change is the kind of a difference.
type Change string

// The changes from one catalog to the other.
const (
	Added   Change = "added"
	Removed Change = "removed"
	Changed Change = "changed"
)

// Catalog is the outline of a catalog.
type Catalog struct {
	Name     string             `json:"name"`             // as given by the user
	Digest   string             `json:"digest,omitempty"` // of its image, if any
	Packages map[string]Package `json:"-"`
}

// Package is the outline of a package.
type Package struct {
	Hash string

	// Load reads the package. Compare calls it concurrently for several packages.
	Load func(context.Context) (*Details, error)
}

// Details is the content of a package.
type Details struct {
	Invalid        string // why validation failed; if not empty, all other fields are ignored
	DefaultChannel string
	Channels       map[string]Channel
	Bundles        map[string]Bundle
	Deprecations   map[Reference]string // messages
}

// NewDetails returns empty details.
func NewDetails() *Details {
	return &Details{Channels: map[string]Channel{}, Bundles: map[string]Bundle{}, Deprecations: map[Reference]string{}}
}

// Add adds the content of a blob (JSON). It ignores bundles, which are compared by hash.
func (d *Details) Add(schema, name, hash string, blob []byte) error {
	switch schema {
	case fbc.SchemaPackage:
		var content struct{ DefaultChannel string }
		err := json.Unmarshal(blob, &content)
		d.DefaultChannel = content.DefaultChannel
		return err
	case fbc.SchemaChannel:
		var content struct{ Entries []channel.Entry }
		err := json.Unmarshal(blob, &content)
		d.Channels[name] = NewChannel(hash, content.Entries)
		return err
	case fbc.SchemaDeprecations:
		var content struct {
			Entries []struct {
				Reference struct{ Schema, Name string }
				Message   string
			}
		}
		err := json.Unmarshal(blob, &content)
		for _, e := range content.Entries {
			d.Deprecations[Reference{Kind: strings.TrimPrefix(e.Reference.Schema, "olm."), Name: e.Reference.Name}] = e.Message
		}
		return err
	}
	return nil
}

// Bundle is a bundle.
type Bundle struct{ Hash, Version string }

// Reference names a deprecated package, channel or bundle.
type Reference struct {
	Kind string `json:"kind"`
	Name string `json:"name,omitempty"`
}

// Difference is the difference of two catalogs.
type Difference struct {
	From     Catalog             `json:"from"`
	To       Catalog             `json:"to"`
	Packages []PackageDifference `json:"packages"`
}

// PackageDifference is the difference of a package.
type PackageDifference struct {
	Name           string                  `json:"name"`
	Change         Change                  `json:"change"`
	Invalid        bool                    `json:"unsound,omitempty"` // in the new catalog
	Note           string                  `json:"note,omitempty"`    // in place of details
	DefaultChannel *FromTo                 `json:"defaultChannel,omitempty"`
	Channels       []ChannelDifference     `json:"channels,omitempty"`
	Bundles        []BundleDifference      `json:"bundles,omitempty"`
	Deprecations   []DeprecationDifference `json:"deprecations,omitempty"`
}

// FromTo is a value in both catalogs; empty where it is absent.
type FromTo struct {
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// BundleDifference is the difference of a bundle, with its new version (or the old one, if it was removed).
type BundleDifference struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Change  Change `json:"change"`
}

// DeprecationDifference is the difference of a deprecation, with its new message.
type DeprecationDifference struct {
	Reference
	Change  Change `json:"change"`
	Message string `json:"message,omitempty"`
}

// Compare compares two catalogs. If only is not empty, it compares only these packages. It loads at most loads packages concurrently.
func Compare(ctx context.Context, from, to Catalog, only []string, loads int) (*Difference, error) {
	d := &Difference{From: from, To: to, Packages: []PackageDifference{}}
	same := func(a, b Package) bool { return a.Hash == b.Hash }
	for name, change := range differing(from.Packages, to.Packages, cmp.Compare, same) {
		if len(only) == 0 || slices.Contains(only, name) {
			d.Packages = append(d.Packages, PackageDifference{Name: name, Change: change})
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(loads)
	for i := range d.Packages {
		p := &d.Packages[i]
		group.Go(func() error { return p.load(ctx, from.Packages[p.Name], to.Packages[p.Name]) })
	}
	return d, group.Wait()
}

// load reads both versions of a package and compares them.
func (p *PackageDifference) load(ctx context.Context, from, to Package) error {
	if p.Change == Removed || ctx.Err() != nil {
		return ctx.Err()
	}
	b, err := to.Load(ctx)
	if err != nil {
		return err
	}
	if b.Invalid != "" {
		p.Invalid, p.Note = true, "invalid: "+b.Invalid
		return nil
	}
	a := &Details{}
	if p.Change == Changed {
		if a, err = from.Load(ctx); err != nil {
			return err
		}
	}
	if a.Invalid != "" {
		p.Note = "valid now; it was invalid before: " + a.Invalid
		return nil
	}
	p.compare(a, b)
	if p.DefaultChannel == nil && p.Channels == nil && p.Bundles == nil && p.Deprecations == nil {
		p.Note = "channels, bundles and deprecations are equal; its icon, its description, blobs of other schemas or the order of blobs differ"
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

// differing returns the keys that differ between two maps, in the order of compare.
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

// Channel is a channel of a package.
type Channel struct {
	Hash, Head string
	Entries    map[string]channel.Entry // by name
}

// NewChannel returns a channel. Without exactly one head, Head is empty.
func NewChannel(hash string, entries []channel.Entry) Channel {
	c := Channel{Hash: hash, Entries: make(map[string]channel.Entry, len(entries))}
	for _, e := range entries {
		c.Entries[e.Name] = e
	}
	if heads := channel.Heads(entries); len(heads) == 1 {
		c.Head = heads[0]
	}
	return c
}

// ChannelDifference is the difference of a channel. Entries is empty if only properties or the order of the content differ, and for a
// channel that is added or removed.
type ChannelDifference struct {
	Name    string            `json:"name"`
	Change  Change            `json:"change"`
	Head    FromTo            `json:"head"`
	Entries []EntryDifference `json:"entries,omitempty"`
}

// EntryDifference is the difference of an entry.
type EntryDifference struct {
	Name      string           `json:"name"`
	Change    Change           `json:"change"`
	Replaces  *FromTo          `json:"replaces,omitempty"`
	Skips     *SkipsDifference `json:"skips,omitempty"`
	SkipRange *FromTo          `json:"skipRange,omitempty"`
}

// SkipsDifference is the difference of the skipped bundles.
type SkipsDifference struct {
	Added   []string `json:"added,omitempty"`
	Removed []string `json:"removed,omitempty"`
}

// compareChannels returns the difference of a channel, its entries in the order of byVersion.
func compareChannels(name string, change Change, a, b Channel, byVersion func(x, y string) int) ChannelDifference {
	c := ChannelDifference{Name: name, Change: change, Head: FromTo{a.Head, b.Head}}
	if change != Changed {
		return c
	}
	same := func(x, y channel.Entry) bool {
		return compareEntries("", Changed, x, y) == EntryDifference{Change: Changed}
	}
	for name, change := range differing(a.Entries, b.Entries, byVersion, same) {
		c.Entries = append(c.Entries, compareEntries(name, change, a.Entries[name], b.Entries[name]))
	}
	return c
}

func compareEntries(name string, change Change, a, b channel.Entry) EntryDifference {
	e := EntryDifference{Name: name, Change: change, Replaces: fromTo(a.Replaces, b.Replaces), SkipRange: fromTo(a.SkipRange, b.SkipRange)}
	skips := SkipsDifference{Added: without(b.Skips, a.Skips), Removed: without(a.Skips, b.Skips)}
	if len(skips.Added)+len(skips.Removed) > 0 {
		e.Skips = &skips
	}
	return e
}

// fromTo returns nil for equal values.
func fromTo(a, b string) *FromTo {
	if a == b {
		return nil
	}
	return &FromTo{a, b}
}

// without returns the names that are not among others, sorted.
func without(names, others []string) []string {
	left := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(others, name) })
	slices.SortFunc(left, cmp.Compare)
	return slices.Compact(left)
}
