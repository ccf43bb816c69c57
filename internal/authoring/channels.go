package authoring

import (
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/model"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

func (p *pkg) checkChannels() {
	known := map[string]bool{}
	for _, b := range p.bundles {
		known[b.name] = true
	}
	for _, ch := range p.channels {
		if ch.name == "" {
			p.fault(ch.blob, "channel-name", nil, "package %q has a channel with no name: set name", p.name)
		}
		if !ch.malformed {
			p.checkEntries(ch, known)
			p.checkGraph(ch)
		}
	}
}

func (p *pkg) checkEntries(ch decoded[declcfg.Channel], known map[string]bool) {
	if len(ch.content.Entries) == 0 {
		p.fault(ch.blob, "channel-empty", nil, "channel %q must contain at least one bundle: add entries, or remove the channel", ch.name)
	}
	seen := map[string]bool{}
	for i, e := range ch.content.Entries {
		switch {
		case seen[e.Name]:
			p.fault(ch.blob, "entry-duplicate", []any{"entries", i, "name"}, "channel %q: duplicate entry %q; keep one of them", ch.name, e.Name)
		case !known[e.Name]:
			p.missing(ch.blob, "entry-unknown-bundle", []any{"entries", i, "name"},
				"channel %q: the package has no olm.bundle %q; add it, or remove the entry", ch.name, e.Name)
		}
		seen[e.Name] = true
		for j, skip := range e.Skips {
			if skip == "" {
				p.fault(ch.blob, "entry-skips", []any{"entries", i, "skips", j}, "channel %q: entry %q skips an empty name; remove it",
					ch.name, e.Name)
			}
		}
		if e.SkipRange == "" {
			continue
		}
		if _, err := semver.ParseRange(e.SkipRange); err != nil {
			p.fault(ch.blob, "entry-skip-range", []any{"entries", i, "skipRange"},
				"channel %q: entry %q has the invalid skipRange %q: %s; write it like \">=1.0.0 <1.2.0\"", ch.name, e.Name,
				e.SkipRange, oneLine(err))
		}
	}
}

// graphRules maps prefixes of operator-registry's graph errors to rules and remedies.
var graphRules = []struct{ begins, rule, remedy string }{
	{noHead, "channel-head", "each entry is replaced or skipped by another; remove an edge of this cycle"},
	{"multiple channel heads", "channel-head", "have one of them replace or skip the others, or remove them"},
	{"detected cycle", "channel-cycle", "remove one of these edges"},
	{"channel contains one or more stranded", "channel-stranded", "let an entry that the head reaches replace or skip them"},
}

const noHead = "no channel head"

// replacesCycle returns a cycle of replaces in the form of operator-registry's errors, "" if it needs skips.
func replacesCycle(entries []declcfg.ChannelEntry) string {
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

// checkGraph validates the graph with operator-registry, using bundles that are valid otherwise.
func (p *pkg) checkGraph(ch decoded[declcfg.Channel]) {
	if ch.name == "" || len(ch.content.Entries) == 0 {
		return
	}
	of := &model.Package{Name: p.name}
	graph := &model.Channel{Package: of, Name: ch.name, Bundles: map[string]*model.Bundle{}}
	for _, e := range ch.content.Entries {
		if graph.Bundles[e.Name] != nil {
			return // ambiguous: reported as a duplicate
		}
		graph.Bundles[e.Name] = &model.Bundle{
			Package: of, Channel: graph, Name: e.Name, Image: "image", Replaces: e.Replaces, Skips: e.Skips,
			Properties: validProperties,
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
					text += replacesCycle(ch.content.Entries)
				}
				p.fault(ch.blob, r.rule, []any{"entries"}, "channel %q: %s; %s", ch.name, text, r.remedy)
			}
		}
	}
}

func (p *pkg) checkDeprecations() {
	for i, d := range p.deprecations {
		if i > 0 {
			p.fault(d.blob, "deprecation-duplicate", nil,
				"expected a maximum of one deprecation per package: the first of %q is in %s; move the entries there", p.name,
				p.deprecations[0].file)
		}
		seen := map[declcfg.PackageScopedReference]bool{}
		for i, e := range d.content.Entries {
			if seen[e.Reference] {
				p.fault(d.blob, "deprecation-duplicate", []any{"entries", i, "reference"}, "%s %q is deprecated twice; keep one entry",
					e.Reference.Schema, e.Reference.Name)
			}
			seen[e.Reference] = true
			p.checkDeprecation(d.blob, e, []any{"entries", i})
		}
	}
}

func (p *pkg) checkDeprecation(b *blob, e declcfg.DeprecationEntry, path []any) {
	name := append(slices.Clone(path), "reference", "name")
	var found bool
	switch ref := e.Reference; ref.Schema {
	case fbc.SchemaBundle, fbc.SchemaChannel:
		if found = p.blob(ref.Schema, ref.Name) != nil; !found {
			p.missing(b, "deprecation-reference", name, "cannot deprecate %s %q: %[1]s not found; correct the name, or remove the entry",
				strings.TrimPrefix(ref.Schema, "olm."), ref.Name)
		}
	case fbc.SchemaPackage:
		if found = ref.Name == ""; !found {
			p.fault(b, "deprecation-reference", name, "the reference to the package must have no name (it has %q): remove it", ref.Name)
		}
	default:
		found = false
		p.fault(b, "deprecation-reference", append(slices.Clone(path), "reference"),
			"cannot deprecate schema %q: use olm.package, olm.channel or olm.bundle", ref.Schema)
	}
	if found && e.Message == "" {
		p.fault(b, "deprecation-message", path, "the deprecation of %s %q has no message: say why, and what to use instead", e.Reference.Schema,
			e.Reference.Name)
	}
}
