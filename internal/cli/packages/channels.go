package packages

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/cli/content"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
)

// A channelsRequest selects channels of a package: one, the default one, or all.
type channelsRequest struct {
	lookup.Scope
	all bool
}

// channelDetails are a channel with its entries.
type channelDetails struct{ channel.Details }

const channelsQuery = `query($name: String!, $catalog: String!) { package(name: $name, catalog: $catalog) {
	defaultChannel { name }
	channels { name deprecation { message } head { name }
		entries { name version replaces skips skipRange deprecation { message } } } } }`

// readChannels returns channels of a package, the requested or the default channel first. If several catalogs have the
// package, it uses the one with the highest priority and names the others on the error stream.
func readChannels(ctx context.Context, s *session.Session, req channelsRequest) ([]channelDetails, error) {
	type pkg struct {
		DefaultChannel content.Named
		Channels       []channelDetails
	}
	p, found, err := queryPackage[pkg](ctx, s, &req.Scope, channelsQuery)
	if err != nil {
		return nil, err
	}
	name := cmp.Or(req.Channel, p.DefaultChannel.Name)
	var names []string
	for i := range p.Channels {
		c := &p.Channels[i]
		c.Package.Name, c.Catalog.Name, c.IsDefault = req.Package, req.Catalog, c.Name == p.DefaultChannel.Name
		names = append(names, c.Name)
	}
	at := slices.Index(names, name)
	if at < 0 {
		return nil, noChannel(name, names, req.Scope)
	}
	channels := p.Channels[at : at+1]
	if req.all {
		channels = slices.Concat(channels, p.Channels[:at], p.Channels[at+1:])
	}
	return channels, printChoice(s, found)
}

// noChannel returns the error of a channel that a package does not have. names are its channels.
func noChannel(name string, names []string, in lookup.Scope) error {
	in.Channel = ""
	return exit.NotFoundf("channel %q not found%s%s", name, in, lookup.OrListed(name, names))
}

// printChoice prints which catalog was chosen, if several have the package.
func printChoice(s *session.Session, found []lookup.Package) error {
	if len(found) < 2 {
		return nil
	}
	var others []string
	for _, p := range found[1:] {
		others = append(others, output.Line(p.Catalog.Name))
	}
	_, err := fmt.Fprintf(s.Stderr, "Using package %s of catalog %s; other catalogs with this package (see --catalog): %s.\n",
		output.Line(found[0].Name), output.Line(found[0].Catalog.Name), strings.Join(others, ", "))
	return err
}

// title returns the name with notes: "stable (default)".
func (c *channelDetails) title() string {
	text := c.Name
	if note := notes(c.IsDefault, c.Deprecation); note != "" {
		text += " (" + note + ")"
	}
	return output.Line(text)
}
