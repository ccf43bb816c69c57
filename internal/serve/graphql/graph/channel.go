package graph

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// channels are siblings in the reply; they and their bundles are read together.
type channels struct {
	list    []*Channel
	heads   func() (bundleSet, error)
	entries func() (bundleSet, error) // bundles of all entries
}

func newChannels(b *batch) *channels {
	cs := emptyChannels()
	for _, n := range b.nodes() {
		cs.add(n)
	}
	return cs
}

func emptyChannels() *channels {
	cs := &channels{}
	cs.heads = sync.OnceValues(func() (bundleSet, error) {
		return cs.bundles(func(c *Channel) ([]string, error) {
			head, err := c.headName()
			return []string{head}, err
		})
	})
	cs.entries = sync.OnceValues(func() (bundleSet, error) { return cs.bundles((*Channel).entryNames) })
	return cs
}

func (cs *channels) add(n node) *Channel {
	c := &Channel{n, cs}
	cs.list = append(cs.list, c)
	return c
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

func (c *Channel) read() (declcfg.Channel, error) { return decode[declcfg.Channel](c.node) }

func (c *Channel) entryNames() ([]string, error) {
	blob, err := c.read()
	names := make([]string, len(blob.Entries))
	for i, e := range blob.Entries {
		names[i] = e.Name
	}
	return names, err
}

// entriesOf returns the entries of a channel, with versions if they are given.
func entriesOf(blob declcfg.Channel, versions map[string]string) []channel.Entry {
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

// Deprecation returns nil unless the channel is deprecated.
func (c *Channel) Deprecation() (*Deprecation, error) {
	return c.pkg().deprecationOf(fbc.SchemaChannel, c.Name)
}

// Head returns the bundle that no entry replaces or skips.
func (c *Channel) Head() (*Bundle, error) {
	heads, err := c.siblings.heads()
	if err != nil {
		return nil, err
	}
	head, err := c.headName()
	return heads[bundleKey{c.pkg(), head}], err
}

// Properties returns the properties of the channel.
func (c *Channel) Properties() ([]*Property, error) {
	blob, err := c.read()
	return propertiesOf(blob.Properties, nil), err
}

// ChannelEntry is the place of a bundle in a channel.
type ChannelEntry struct {
	of *Channel
	declcfg.ChannelEntry
	Version string
}

// Entries returns the entries, in the order of the catalog.
func (c *Channel) Entries() ([]*ChannelEntry, error) {
	blob, err := c.read()
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

// Replaces returns the name of the bundle that this one replaces.
func (e *ChannelEntry) Replaces() *string { return orNull(e.ChannelEntry.Replaces) }

// SkipRange returns the range of versions that this bundle can be installed over.
func (e *ChannelEntry) SkipRange() *string { return orNull(e.ChannelEntry.SkipRange) }

// Deprecation returns nil unless the bundle is deprecated.
func (e *ChannelEntry) Deprecation() (*Deprecation, error) {
	return e.of.pkg().deprecationOf(fbc.SchemaBundle, e.Name)
}

// Bundle returns the bundle of the entry, nil if the package has none.
func (e *ChannelEntry) Bundle() (*Bundle, error) {
	bundles, err := e.of.siblings.entries()
	return bundles[bundleKey{e.of.pkg(), e.Name}], err
}

// upgradeKinds are the kinds of edges in the schema.
var upgradeKinds = map[channel.Kind]UpgradeKind{
	channel.Replaces: UpgradeKindReplaces, channel.Skips: UpgradeKindSkips, channel.SkipRange: UpgradeKindSkipRange,
}

// Upgrades returns the edges of the upgrade graph, entry by entry.
func (c *Channel) Upgrades(ctx context.Context) ([]*Upgrade, error) {
	blob, err := c.read()
	if err != nil {
		return nil, err
	}
	versions := c.pkg().versions()
	entries := entriesOf(blob, versions)
	graph := channel.New(channel.Channel{Package: c.Entry.Package, Name: c.Name, Entries: entries})
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
				"derive it from entries", c.Entry.Name, c.Entry.Package, limit)}
		}
	}
	return upgrades, nil
}

// propertiesOf returns the properties of some types, or all. A missing value is null.
func propertiesOf(all []property.Property, types []string) []*Property {
	out := []*Property{}
	for _, p := range all {
		if len(p.Value) == 0 {
			p.Value = json.RawMessage("null")
		}
		if types == nil || slices.Contains(types, p.Type) {
			out = append(out, &Property{p.Type, JSON(p.Value)})
		}
	}
	return out
}
