package local

import (
	"slices"

	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

func (p *pkg) checkDeprecations() {
	for i, d := range p.deprecations {
		if i > 0 {
			p.fault(d.blob, "deprecation-duplicate", nil,
				"expected a maximum of one deprecation per package: the first of %s is in %s; move the entries there", quote(p.name), p.deprecations[0].file)
		}
		seen := map[declcfg.PackageScopedReference]bool{}
		for i, e := range d.says.Entries {
			if seen[e.Reference] {
				p.fault(d.blob, "deprecation-duplicate", []any{"entries", i, "reference"}, "%s %s is deprecated twice; keep one entry", e.Reference.Schema, quote(e.Reference.Name))
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
	case fbc.SchemaBundle:
		if found = slices.ContainsFunc(p.bundles, func(b *bundle) bool { return b.name == ref.Name }); !found {
			p.missing(b, "deprecation-reference", name, "cannot deprecate bundle %s: bundle not found; correct the name, or remove the entry", quote(ref.Name))
		}
	case fbc.SchemaChannel:
		if found = slices.ContainsFunc(p.channels, func(ch decoded[declcfg.Channel]) bool { return ch.name == ref.Name }); !found {
			p.missing(b, "deprecation-reference", name, "cannot deprecate channel %s: channel not found; correct the name, or remove the entry", quote(ref.Name))
		}
	case fbc.SchemaPackage:
		if found = ref.Name == ""; !found {
			p.fault(b, "deprecation-reference", name, "the reference to the package must have no name (it has %s): remove it", quote(ref.Name))
		}
	default:
		found = false
		p.fault(b, "deprecation-reference", append(slices.Clone(path), "reference"),
			"cannot deprecate what has the schema %s: it has to be olm.package, olm.channel or olm.bundle", quote(ref.Schema))
	}
	if found && e.Message == "" {
		p.fault(b, "deprecation-message", path, "the deprecation of %s %s has no message: say why, and what to use instead", e.Reference.Schema, quote(e.Reference.Name))
	}
}
