package local

import (
	"strings"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/model"
)

func (p *pkg) checkChannels() {
	known := map[string]bool{}
	for _, b := range p.bundles {
		known[b.name] = true
	}
	seen := map[string]*blob{}
	for _, ch := range p.channels {
		if ch.name == "" {
			p.fault(ch.blob, "channel-name", nil, "package %s has a channel with no name: set name", quote(p.name))
		} else if first := seen[ch.name]; first != nil {
			p.fault(ch.blob, "channel-duplicate", []any{"name"}, "duplicate channel %s: the first is in %s; keep one of them", quote(ch.name), first.file)
		} else {
			seen[ch.name] = ch.blob
		}
		if !ch.malformed {
			p.checkEntries(ch, known)
			p.checkGraph(ch)
		}
	}
}

func (p *pkg) checkEntries(ch decoded[declcfg.Channel], known map[string]bool) {
	if len(ch.says.Entries) == 0 {
		p.fault(ch.blob, "channel-empty", nil, "channel %s must contain at least one bundle: add entries, or remove the channel", quote(ch.name))
	}
	seen := map[string]bool{}
	for i, e := range ch.says.Entries {
		switch {
		case seen[e.Name]:
			p.fault(ch.blob, "entry-duplicate", []any{"entries", i, "name"}, "channel %s: duplicate entry %s; keep one of them", quote(ch.name), quote(e.Name))
		case !known[e.Name]:
			p.missing(ch.blob, "entry-unknown-bundle", []any{"entries", i, "name"},
				"channel %s: the package has no olm.bundle %s; add it, or remove the entry", quote(ch.name), quote(e.Name))
		}
		seen[e.Name] = true
		for j, skip := range e.Skips {
			if skip == "" {
				p.fault(ch.blob, "entry-skips", []any{"entries", i, "skips", j}, "channel %s: entry %s skips an empty name; remove it", quote(ch.name), quote(e.Name))
			}
		}
		if e.SkipRange == "" {
			continue
		}
		if _, err := semver.ParseRange(e.SkipRange); err != nil {
			p.fault(ch.blob, "entry-skip-range", []any{"entries", i, "skipRange"},
				"channel %s: entry %s has the invalid skipRange %s: %s; write it like \">=1.0.0 <1.2.0\"", quote(ch.name), quote(e.Name), quote(e.SkipRange), oneLine(err))
		}
	}
}

// graphRules are the rules that operator-registry has for the graph of a channel: how its error begins, and what to do.
var graphRules = []struct{ begins, rule, remedy string }{
	{noHead, "channel-head", "each entry is replaced or skipped by another; remove the edge that makes this a circle"},
	{"multiple channel heads", "channel-head", "have one of them replace or skip the others, or remove them"},
	{"detected cycle", "channel-cycle", "remove one of these edges"},
	{"channel contains one or more stranded", "channel-stranded", "have an entry on the way from the head replace or skip them"},
}

const noHead = "no channel head"

// circle names entries that replace each other in a circle, as the error about others has them; empty if it takes skips to make one.
func circle(entries []declcfg.ChannelEntry) string {
	replaces := map[string]string{}
	for _, e := range entries {
		replaces[e.Name] = e.Replaces
	}
	for _, e := range entries {
		names := []string{e.Name}
		for at := replaces[e.Name]; at != "" && len(names) <= len(entries); at = replaces[at] {
			names = append(names, at)
			if at == e.Name {
				return ": " + strings.Join(names, " -> ")
			}
		}
	}
	return ""
}

// checkGraph asks operator-registry about the graph alone: the bundles of the channel that it gets are sound.
func (p *pkg) checkGraph(ch decoded[declcfg.Channel]) {
	if ch.name == "" || len(ch.says.Entries) == 0 {
		return
	}
	of := &model.Package{Name: p.name}
	graph := &model.Channel{Package: of, Name: ch.name, Bundles: map[string]*model.Bundle{}}
	for _, e := range ch.says.Entries {
		if graph.Bundles[e.Name] != nil {
			return // which of the two counts is not known
		}
		graph.Bundles[e.Name] = &model.Bundle{
			Package: of, Channel: graph, Name: e.Name, Image: "image", Replaces: e.Replaces, Skips: e.Skips,
			Properties: soundProperties,
		}
	}
	err := graph.Validate()
	if err == nil {
		return
	}
	for line := range strings.Lines(err.Error()) {
		text := strings.TrimSpace(strings.TrimLeft(line, "│├└─ "))
		for _, r := range graphRules {
			if strings.HasPrefix(text, r.begins) {
				if r.begins == noHead {
					text += circle(ch.says.Entries)
				}
				p.fault(ch.blob, r.rule, []any{"entries"}, "channel %s: %s; %s", quote(ch.name), text, r.remedy)
			}
		}
	}
}
