package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	upgrade "github.com/operator-catalogs/catalogd/internal/channel"
	term "github.com/operator-catalogs/catalogd/internal/cli/output"
)

// upgradesOptions say of what to read the upgrades.
type upgradesOptions struct {
	pkg, catalog string
	channel      string // empty: the default channel
	all          bool   // all channels, the default channel first
}

// channelUpgrades are what makes the upgrade graph of a channel.
type channelUpgrades struct {
	Name        string       `json:"name"`
	Package     named        `json:"package"`
	Catalog     named        `json:"catalog"`
	IsDefault   bool         `json:"isDefault"`
	Deprecation *deprecation `json:"deprecation,omitempty"`
	Head        named        `json:"head"`
	Entries     []struct {
		Name        string       `json:"name"`
		Version     string       `json:"version"`
		Replaces    string       `json:"replaces,omitempty"`
		Skips       []string     `json:"skips,omitempty"`
		SkipRange   string       `json:"skipRange,omitempty"`
		Deprecation *deprecation `json:"deprecation,omitempty"`
	} `json:"entries"`
}

const upgradesQuery = `query($name: String!, $catalog: String!, $channel: String!, $all: Boolean!) {
	package(name: $name, catalog: $catalog) {
		defaultChannel { name } names: channels { name }
		channel(name: $channel) @skip(if: $all) { ...upgrades } channels @include(if: $all) { ...upgrades } } }
	fragment upgrades on Channel { name deprecation { message } head { name }
		entries { name version replaces skips skipRange deprecation { message } } }`

// upgrades reads the channels of a package: of the catalog with the highest priority that has it, unless one is named. Others that have it are
// named on the error stream.
func (e *env) upgrades(ctx context.Context, opts upgradesOptions) ([]channelUpgrades, error) {
	places, err := e.place(ctx, opts.pkg, opts.catalog)
	if err != nil {
		return nil, err
	}
	at := places[0]
	opts.pkg = at.Name
	catalog, channel := at.Catalog.Name, cmp.Or(opts.channel, at.DefaultChannel.Name)
	var answer struct {
		Package *struct {
			DefaultChannel named
			Names          []named
			Channel        *channelUpgrades
			Channels       []channelUpgrades
		}
	}
	variables := map[string]any{"name": opts.pkg, "catalog": catalog, "channel": channel, "all": opts.all}
	if err := at.service.Query(ctx, "", "", upgradesQuery, variables, &answer); err != nil {
		return nil, err
	}
	p := answer.Package
	if p == nil {
		return nil, e.noPackage(ctx, opts.pkg, catalog) // it has just been removed
	}
	if !slices.Contains(p.Names, named{channel}) {
		return nil, noChannel(channel, p.Names, opts.pkg, catalog)
	}
	channels := p.Channels
	if p.Channel != nil {
		channels = []channelUpgrades{*p.Channel}
	}
	for i := range channels {
		c := &channels[i]
		c.Package.Name, c.Catalog.Name, c.IsDefault = opts.pkg, catalog, c.Name == p.DefaultChannel.Name
	}
	slices.SortStableFunc(channels, func(a, b channelUpgrades) int { return a.order() - b.order() })
	return channels, e.sayAlso(opts.pkg, places)
}

func (c *channelUpgrades) order() int {
	if c.IsDefault {
		return 0
	}
	return 1
}

// noChannel is the error of a channel that a package does not have.
func noChannel(name string, all []named, pkg, catalog string) error {
	var names []string
	for _, n := range all {
		names = append(names, n.Name)
	}
	return notFoundf("package %q of catalog %q has no channel %q%s", pkg, catalog, name, orListed(name, names))
}

// sayAlso tells of which catalog a package is taken, if several have it.
func (e *env) sayAlso(pkg string, places []placed) error {
	if len(places) < 2 {
		return nil
	}
	var others []string
	for _, p := range places[1:] {
		others = append(others, term.Line(p.Catalog.Name))
	}
	_, err := fmt.Fprintf(e.stderr, "Package %s is taken from catalog %s; --catalog chooses another that has it: %s.\n",
		term.Line(pkg), term.Line(places[0].Catalog.Name), strings.Join(others, ", "))
	return err
}

// graph is the upgrade graph.
func (c *channelUpgrades) graph() *upgrade.Graph {
	channel := upgrade.Channel{Catalog: c.Catalog.Name, Package: c.Package.Name, Name: c.Name, Head: c.Head.Name}
	for _, e := range c.Entries {
		entry := upgrade.Entry{Name: e.Name, Version: e.Version, Replaces: e.Replaces, Skips: e.Skips, SkipRange: e.SkipRange}
		if e.Deprecation != nil {
			entry.Deprecated = cmp.Or(e.Deprecation.Message, "deprecated")
		}
		channel.Entries = append(channel.Entries, entry)
	}
	return upgrade.New(channel)
}

// title names the channel: "stable (default)".
func (c *channelUpgrades) title() string {
	text := c.Name
	if note := notes(c.IsDefault, c.Deprecation); note != "" {
		text += " (" + note + ")"
	}
	return term.Line(text)
}

// where says which channel it is, and whose.
func (c *channelUpgrades) where() string {
	return term.Line(fmt.Sprintf("channel %s of package %s in catalog %s", c.title(), c.Package.Name, c.Catalog.Name))
}
