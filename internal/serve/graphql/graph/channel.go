package graph

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// channels are siblings in the reply; they and their bundles are read together.
type channels struct {
	list    []*Channel
	heads   func() (bundleSet, error)
	entries func() (bundleSet, error) // bundles of all entries
}

func newChannels(b *batch) *channels {
	cs := &channels{}
	for _, n := range b.nodes() {
		cs.list = append(cs.list, &Channel{n, cs})
	}
	cs.heads = sync.OnceValues(func() (bundleSet, error) {
		return cs.bundles(func(c *Channel) ([]string, error) {
			head, err := c.headName()
			return []string{head}, err
		})
	})
	cs.entries = sync.OnceValues(func() (bundleSet, error) { return cs.bundles((*Channel).entryNames) })
	return cs
}

// bundles returns the bundles that pick names for each channel.
func (cs *channels) bundles(pick func(*Channel) ([]string, error)) (bundleSet, error) {
	names := map[*packageFacts][]string{}
	var order []*packageFacts
	for _, c := range cs.list {
		picked, err := pick(c)
		if err != nil {
			return nil, err
		}
		p := c.pkg()
		if names[p] == nil {
			order = append(order, p)
		}
		names[p] = append(names[p], picked...)
	}
	return findBundles(order, func(p *packageFacts) ([]string, error) { return names[p], nil })
}

func (c *Channel) entryNames() ([]string, error) {
	blob, err := decode[declcfg.Channel](c.node)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(blob.Entries))
	for i, e := range blob.Entries {
		names[i] = e.Name
	}
	return names, nil
}

// entriesOf returns the entries of a channel, with versions if they are given.
func entriesOf(blob *declcfg.Channel, versions map[string]string) []channel.Entry {
	entries := make([]channel.Entry, len(blob.Entries))
	for i, e := range blob.Entries {
		entries[i] = channel.Entry{Name: e.Name, Version: versions[e.Name], Replaces: e.Replaces, Skips: e.Skips, SkipRange: e.SkipRange}
	}
	return entries
}

// Channel is a channel of a valid package.
type Channel struct {
	node
	siblings *channels
}

// Name is its name.
func (c *Channel) Name() string { return c.entry.Name }

// Package is the one it belongs to.
func (c *Channel) Package() *Package { return c.pkg().alone() }

// Deprecation is nil unless the channel is deprecated.
func (c *Channel) Deprecation() (*Deprecation, error) {
	return c.pkg().deprecationOf(fbc.SchemaChannel, c.entry.Name)
}

// Head is the bundle that no other entry replaces or skips.
func (c *Channel) Head() (*Bundle, error) {
	heads, err := c.siblings.heads()
	if err != nil {
		return nil, err
	}
	head, err := c.headName()
	return heads[bundleKey{c.pkg(), head}], err
}

// Properties are the channel's own.
func (c *Channel) Properties() ([]*Property, error) {
	blob, err := decode[declcfg.Channel](c.node)
	if err != nil {
		return nil, err
	}
	return propertiesOf(blob.Properties, nil), nil
}

// ChannelEntry is a bundle's place in a channel.
type ChannelEntry struct {
	of      *Channel
	blob    declcfg.ChannelEntry
	Version string
}

// Entries are in the order of the catalog.
func (c *Channel) Entries() ([]*ChannelEntry, error) {
	blob, err := decode[declcfg.Channel](c.node)
	if err != nil {
		return nil, err
	}
	versions := c.pkg().versions()
	out := make([]*ChannelEntry, len(blob.Entries))
	for i, e := range blob.Entries {
		out[i] = &ChannelEntry{c, e, versions[e.Name]}
	}
	return out, nil
}

// Name is that of the bundle.
func (e *ChannelEntry) Name() string { return e.blob.Name }

// Replaces is the bundle that this one replaces.
func (e *ChannelEntry) Replaces() *string { return orNull(e.blob.Replaces) }

// Skips are the bundles that this one may be installed over.
func (e *ChannelEntry) Skips() []string { return e.blob.Skips }

// SkipRange is a range of versions that this one may be installed over.
func (e *ChannelEntry) SkipRange() *string { return orNull(e.blob.SkipRange) }

// Deprecation is nil unless the bundle is deprecated.
func (e *ChannelEntry) Deprecation() (*Deprecation, error) {
	return e.of.pkg().deprecationOf(fbc.SchemaBundle, e.blob.Name)
}

// Bundle is the blob of the entry.
func (e *ChannelEntry) Bundle() (*Bundle, error) {
	bundles, err := e.of.siblings.entries()
	return bundles[bundleKey{e.of.pkg(), e.blob.Name}], err
}

// Upgrade is an edge of the upgrade graph.
type Upgrade struct {
	From        string
	FromVersion *string
	To          string
	ToVersion   string
	Kind        UpgradeKind
	Range       *string
}

// upgradeKinds are the kinds of edges in the schema.
var upgradeKinds = map[channel.Kind]UpgradeKind{
	channel.Replaces: UpgradeKindReplaces, channel.Skips: UpgradeKindSkips, channel.SkipRange: UpgradeKindSkipRange,
}

// Upgrades returns the edges of the upgrade graph, entry by entry.
func (c *Channel) Upgrades(ctx context.Context) ([]*Upgrade, error) {
	blob, err := decode[declcfg.Channel](c.node)
	if err != nil {
		return nil, err
	}
	versions := c.pkg().versions()
	entries := entriesOf(blob, versions)
	graph := channel.New(channel.Channel{Package: c.entry.Package, Name: c.entry.Name, Entries: entries})
	upgrades := []*Upgrade{}
	for _, e := range entries {
		if err := c.src.r.check(ctx); err != nil {
			return nil, err
		}
		i, _ := graph.Index(e.Name)
		for _, u := range graph.UpgradesTo(i) {
			upgrades = append(upgrades, &Upgrade{
				From: u.From, FromVersion: orNull(versions[u.From]), To: u.To, ToVersion: versions[u.To],
				Kind: upgradeKinds[u.Kind], Range: orNull(u.Range),
			})
		}
		if limit := c.src.r.Limits.Edges; len(upgrades) > limit {
			return nil, &Error{CodeLimit, fmt.Sprintf("the upgrade graph of channel %q of package %q exceeds the limit of %d edges; "+
				"derive it from entries", c.entry.Name, c.entry.Package, limit)}
		}
	}
	return upgrades, nil
}

// Property is a property of a bundle or channel.
type Property struct {
	Type  string
	Value JSON
}

// newProperty returns a property; a missing value is null.
func newProperty(p property.Property) *Property {
	if len(p.Value) == 0 {
		return &Property{p.Type, JSON("null")}
	}
	return &Property{p.Type, JSON(p.Value)}
}

// propertiesOf returns the properties of some types, or all.
func propertiesOf(all []property.Property, types []string) []*Property {
	out := []*Property{}
	for _, p := range all {
		if types == nil || slices.Contains(types, p.Type) {
			out = append(out, newProperty(p))
		}
	}
	return out
}

// bundleKey names a bundle within a request.
type bundleKey struct {
	pkg  *packageFacts
	name string
}

// bundleSet is a set of bundles that are read together.
type bundleSet map[bundleKey]*Bundle

// findBundles returns the named bundles of packages, without reading them.
func findBundles(of []*packageFacts, names func(*packageFacts) ([]string, error)) (bundleSet, error) {
	b := &batch{}
	for _, p := range of {
		list, err := names(p)
		if err != nil {
			return nil, err
		}
		wanted := make(map[string]bool, len(list))
		for _, name := range list {
			wanted[name] = true
		}
		b.parts = append(b.parts, part{p.src, p.src.keep(p.all(fbc.SchemaBundle), func(e store.Entry) bool { return wanted[e.Name] })})
	}
	set := bundleSet{}
	for _, n := range b.nodes() {
		set[bundleKey{n.pkg(), n.entry.Name}] = &Bundle{n}
	}
	return set, nil
}
