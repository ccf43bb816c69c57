package graph

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// channels are siblings in the answer: read together, and so are the bundles they lead to.
type channels struct {
	list    []*Channel
	heads   func() (bundleSet, error)
	entries func() (bundleSet, error) // the bundles of all entries
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

// bundles finds the bundles that pick names of each channel.
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

// headOf is the entry that no other replaces or skips, as operator-registry's model has it. In a sound package there is one.
func headOf(blob *declcfg.Channel) string {
	behind := map[string]bool{}
	for _, e := range blob.Entries {
		behind[e.Replaces] = true
		for _, skipped := range e.Skips {
			behind[skipped] = true
		}
	}
	for _, e := range blob.Entries {
		if !behind[e.Name] {
			return e.Name
		}
	}
	return ""
}

// Channel is a channel of a sound package.
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

// Upgrades are the edges of the channel's upgrade graph: of each entry the one it replaces, those it skips, and the other entries whose
// versions lie in its range.
func (c *Channel) Upgrades(ctx context.Context) ([]*Upgrade, error) {
	blob, err := decode[declcfg.Channel](c.node)
	if err != nil {
		return nil, err
	}
	g := &upgradeGraph{channel: c, versions: c.pkg().versions()}
	for _, e := range blob.Entries {
		if err := c.src.r.check(ctx); err != nil {
			return nil, err
		}
		if e.Replaces != "" {
			g.add(e, e.Replaces, UpgradeKindReplaces)
		}
		for _, skipped := range e.Skips {
			g.add(e, skipped, UpgradeKindSkips)
		}
		for _, from := range g.inRange(e, blob.Entries) {
			g.add(e, from, UpgradeKindSkipRange)
		}
		if most := c.src.r.Limits.Edges; len(g.edges) > most {
			return nil, &Error{CodeLimit, fmt.Sprintf("the upgrade graph of channel %q of package %q has more than %d edges, the most that are given: "+
				"make it of entries, whose replaces, skips and skipRange say the same", c.entry.Name, c.entry.Package, most)}
		}
	}
	return g.edges, nil
}

type upgradeGraph struct {
	channel  *Channel
	versions map[string]string
	edges    []*Upgrade
}

func (g *upgradeGraph) add(to declcfg.ChannelEntry, from string, kind UpgradeKind) {
	edge := &Upgrade{From: from, FromVersion: orNull(g.versions[from]), To: to.Name, ToVersion: g.versions[to.Name], Kind: kind}
	if kind == UpgradeKindSkipRange {
		edge.Range = &to.SkipRange
	}
	g.edges = append(g.edges, edge)
}

// inRange are the names of the other entries whose versions lie in the range of e, lowest first. A range or version that cannot be read
// holds nothing: in a sound package there is none.
func (g *upgradeGraph) inRange(e declcfg.ChannelEntry, entries []declcfg.ChannelEntry) []string {
	if e.SkipRange == "" || len(e.SkipRange) > maxSkipRange {
		return nil
	}
	holds, err := parseRange(e.SkipRange)
	if err != nil {
		return nil
	}
	type candidate struct {
		name    string
		version semver.Version
	}
	var in []candidate
	for _, other := range entries {
		v, err := semver.Parse(g.versions[other.Name])
		if err == nil && other.Name != e.Name && holds(v) {
			in = append(in, candidate{other.Name, v})
		}
	}
	slices.SortStableFunc(in, func(a, b candidate) int { return cmp.Or(a.version.Compare(b.version), cmp.Compare(a.name, b.name)) })
	names := make([]string, len(in))
	for i, c := range in {
		names[i] = c.name
	}
	return names
}

// Property is a property of a bundle or channel.
type Property struct {
	Type  string
	Value JSON
}

// newProperty takes no value for null.
func newProperty(p property.Property) *Property {
	if len(p.Value) == 0 {
		return &Property{p.Type, JSON("null")}
	}
	return &Property{p.Type, JSON(p.Value)}
}

// propertiesOf are those of the types wanted, or all.
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

// bundleSet are bundles that are read together.
type bundleSet map[bundleKey]*Bundle

// findBundles finds the bundles of packages that names tells of each. Nothing is read.
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
