package subset

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/blang/semver/v4"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// plan is what a filter does to a package.
type plan struct {
	name           string
	whole          extent
	excluded       bool
	include        []Include       // empty: all of it
	without        map[string]bool // excluded channels
	defaultChannel string          // empty: unchanged
	blobs          []int

	// run sets the rest.
	packages []packageBlob
	channels []*channelBlob
	versions map[string]*semver.Version // of bundles; without invalid ones
}

// extent is how much of a package stays.
type extent uint8

const (
	part extent = iota
	nothing
	everything
)

// packageBlob is an olm.package blob.
type packageBlob struct {
	blob           int
	defaultChannel string
}

// channelBlob is a channel and what stays of it.
type channelBlob struct {
	blob    int
	name    string
	entries []entry
	keep    []bool // of entries
	stays   bool
}

// entry is an entry of a channel.
type entry struct {
	Name     string
	Replaces string
	Skips    []string
	version  *semver.Version // nil if unknown
}

// unreadable is a blob that does not fit its schema.
type unreadable struct{ reason string }

func (e *unreadable) Error() string { return e.reason }

// run applies the plan to the blobs of the package. A package that cannot be read stays whole.
func (p *plan) run(s *Selection) error {
	if p.whole != part {
		return nil
	}
	deprecated, err := p.read(s.catalog)
	if problem, ok := errors.AsType[*unreadable](err); ok {
		s.Unreadable = append(s.Unreadable, Problem{Package: p.name, Reason: problem.reason})
		return nil
	}
	if err != nil {
		return err
	}
	p.selectEntries(s)
	kept := map[string]bool{} // channels
	for _, ch := range p.channels {
		if ch.cut(s); ch.stays {
			kept[ch.name] = true
		}
	}
	switch {
	case len(kept) > 0:
	case len(p.channels) == 0 && len(p.include) == 0:
		return nil // no channel to exclude
	default:
		for _, i := range p.blobs {
			s.dropped[i] = true
			delete(s.edits, i)
		}
		return nil
	}
	gone := p.dropBundles(s)
	if err := p.setDefault(s, kept); err != nil {
		return err
	}
	p.undeprecate(s, deprecated, gone, kept)
	return nil
}

// read reads packages, channels, and the versions of bundles. It returns the deprecations.
func (p *plan) read(c Catalog) ([]deprecations, error) {
	var all []deprecations
	p.versions = map[string]*semver.Version{}
	for _, i := range p.blobs {
		var err error
		switch b := c.Blob(i); b.Schema {
		case fbc.SchemaBundle:
			if v, err := semver.Parse(b.Version); err == nil {
				p.versions[b.Name] = &v
			}
		case fbc.SchemaPackage:
			var content struct{ DefaultChannel string }
			err = decode(c, i, &content)
			p.packages = append(p.packages, packageBlob{i, content.DefaultChannel})
		case fbc.SchemaChannel:
			ch := &channelBlob{blob: i, name: b.Name}
			ch.entries, err = decodeEntries[entry](c, i)
			ch.keep = make([]bool, len(ch.entries))
			p.channels = append(p.channels, ch)
		case fbc.SchemaDeprecations:
			d := deprecations{blob: i}
			d.entries, err = decodeEntries[deprecation](c, i)
			all = append(all, d)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, ch := range p.channels {
		for i := range ch.entries {
			ch.entries[i].version = p.versions[ch.entries[i].Name]
		}
	}
	return all, nil
}

func decodeEntries[E any](c Catalog, i int) ([]E, error) {
	var content struct{ Entries []E }
	err := decode(c, i, &content)
	return content.Entries, err
}

func decode(c Catalog, i int, into any) error {
	text, err := c.JSON(i)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		b := c.Blob(i)
		return &unreadable{fmt.Sprintf("%s %q: %s", b.Schema, b.Name, err)}
	}
	return nil
}

// selectEntries marks what the rules select. It reports parts of rules that match nothing.
func (p *plan) selectEntries(s *Selection) {
	for _, r := range p.include {
		p.markRule(s, r)
	}
	if len(p.include) == 0 {
		for _, ch := range p.channels {
			ch.mark(Include{}, nil, nil)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.without)) {
		if !p.has(name) {
			s.Unmatched = append(s.Unmatched, Unmatched{Package: p.name, Channel: name})
		}
	}
	for _, ch := range p.channels {
		if p.without[ch.name] {
			ch.stays = false
			clear(ch.keep)
		}
	}
}

// markRule marks what one rule selects.
func (p *plan) markRule(s *Selection, r Include) {
	lowest, highest, _ := r.versions() // Validate has checked them
	matched := map[string]bool{}
	for _, ch := range p.channels {
		if len(r.Channels) == 0 || slices.Contains(r.Channels, ch.name) {
			matched[ch.name] = ch.mark(r, lowest, highest) || matched[ch.name]
		}
	}
	unmatched := func(channel, versions string) {
		s.Unmatched = append(s.Unmatched, Unmatched{Package: p.name, Channel: channel, Versions: versions})
	}
	for _, name := range r.Channels {
		if !p.has(name) {
			unmatched(name, "")
		} else if !matched[name] {
			unmatched(name, r.Versions())
		}
	}
	if len(r.Channels) == 0 && !r.IsWhole() && !slices.Contains(slices.Collect(maps.Values(matched)), true) {
		unmatched("", r.Versions())
	}
}

// has reports whether the package has a channel.
func (p *plan) has(name string) bool {
	return slices.ContainsFunc(p.channels, func(ch *channelBlob) bool { return ch.name == name })
}

// mark marks the entries that a rule selects. It reports whether there are any. Without bounds, an empty channel stays.
func (ch *channelBlob) mark(r Include, lowest, highest *semver.Version) bool {
	selected := make([]bool, len(ch.entries))
	for i, e := range ch.entries {
		selected[i] = covers(lowest, highest, e.version)
	}
	if r.OnlyHeads {
		selected = newGraph(ch.entries, selected).heads()
	}
	matched := slices.Contains(selected, true) || len(selected) == 0 && lowest == nil && highest == nil
	for i := range selected {
		ch.keep[i] = ch.keep[i] || selected[i]
	}
	ch.stays = ch.stays || matched
	return matched
}

// covers reports whether a version is within bounds. An unknown version is within none.
func covers(lowest, highest, v *semver.Version) bool {
	switch {
	case lowest == nil && highest == nil:
		return true
	case v == nil:
		return false
	}
	return (lowest == nil || v.GTE(*lowest)) && (highest == nil || v.LTE(*highest))
}

// cut removes the other entries of the channel, or all of it.
func (ch *channelBlob) cut(s *Selection) {
	if ch.stays && slices.Contains(ch.keep, false) {
		var e Edit
		ch.keep, e = newGraph(ch.entries, ch.keep).cut()
		s.edits[ch.blob] = e
		ch.stays = slices.Contains(ch.keep, true)
	}
	if !ch.stays {
		clear(ch.keep)
		s.dropped[ch.blob] = true
		delete(s.edits, ch.blob)
	}
}

// dropBundles removes bundles that only left channels, or none of their entries, had. It returns the names.
func (p *plan) dropBundles(s *Selection) (gone map[string]bool) {
	gone = map[string]bool{}
	kept := map[string]bool{}
	for _, ch := range p.channels {
		for i, e := range ch.entries {
			gone[e.Name] = true
			if ch.keep[i] {
				kept[e.Name] = true
			}
		}
	}
	maps.DeleteFunc(gone, func(name string, _ bool) bool { return kept[name] })
	for _, i := range p.blobs {
		if b := s.catalog.Blob(i); b.Schema == fbc.SchemaBundle && gone[b.Name] {
			s.dropped[i] = true
		}
	}
	return gone
}

// setDefault sets the default channel, if the rules do, or if it goes.
func (p *plan) setDefault(s *Selection, kept map[string]bool) error {
	names := slices.Sorted(maps.Keys(kept))
	if p.defaultChannel != "" && !kept[p.defaultChannel] {
		return &Error{Package: p.name, Kept: names, Reason: fmt.Sprintf(
			"the default channel %q of the filter is not among the channels that stay: set it to one of %s",
			p.defaultChannel, strings.Join(names, ", "))}
	}
	for _, b := range p.packages {
		to := p.defaultChannel
		if to == "" && p.has(b.defaultChannel) && !kept[b.defaultChannel] {
			if len(names) > 1 {
				return &Error{Package: p.name, Kept: names, Reason: fmt.Sprintf(
					"the filter leaves out the default channel %q and keeps the channels %s: set the default channel to one of them",
					b.defaultChannel, strings.Join(names, ", "))}
			}
			to = names[0]
		}
		if cmp.Or(to, b.defaultChannel) != b.defaultChannel {
			s.edits[b.blob] = Edit{defaultChannel: to}
		}
	}
	return nil
}

// deprecations is an olm.deprecations blob.
type deprecations struct {
	blob    int
	entries []deprecation
}

// deprecation is an entry of it.
type deprecation struct {
	Reference struct{ Schema, Name string }
}

// undeprecate removes the deprecations of channels and bundles that go, and blobs that have no others.
func (p *plan) undeprecate(s *Selection, all []deprecations, goneBundles, keptChannels map[string]bool) {
	for _, d := range all {
		var drop []int
		for i, e := range d.entries {
			ref := e.Reference
			if ref.Schema == fbc.SchemaBundle && goneBundles[ref.Name] ||
				ref.Schema == fbc.SchemaChannel && p.has(ref.Name) && !keptChannels[ref.Name] {
				drop = append(drop, i)
			}
		}
		switch {
		case len(drop) == 0:
		case len(drop) == len(d.entries):
			s.dropped[d.blob] = true
		default:
			s.edits[d.blob] = Edit{drop: drop}
		}
	}
}
