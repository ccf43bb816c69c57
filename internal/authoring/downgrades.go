package local

import (
	"strings"

	"github.com/blang/semver/v4"

	"github.com/operator-catalogs/catalogd/internal/channel"
)

// warnOfDowngrades warns of entries that replace what is newer. Catalogs have such slips, which are sound: OLM then leads those who have that
// back to the lower version.
func (p *pkg) warnOfDowngrades(warn warner) {
	versions := map[string]string{}
	for _, b := range p.bundles {
		versions[b.name] = b.version
	}
	for _, ch := range p.channels {
		for i, e := range ch.says.Entries {
			replaced, known := versions[e.Replaces]
			if !known {
				replaced = versionInName(e.Replaces, e.Name, versions[e.Name])
			}
			from, errFrom := semver.Parse(replaced)
			to, errTo := semver.Parse(versions[e.Name])
			if errFrom == nil && errTo == nil && channel.IsDowngrade(from, to) {
				warn(ch.blob, "entry-downgrade", []any{"entries", i, "replaces"},
					"channel %s: entry %s replaces %s, which is newer, so that its upgrade is a downgrade: name an older one, or leave replaces out",
					quote(ch.name), quote(e.Name), quote(e.Replaces))
			}
		}
	}
}

// versionInName is the version of a bundle that there is not, by its name, as far as another one shows how the package names its bundles.
func versionInName(name, other, version string) string {
	stem, ok := strings.CutSuffix(other, version)
	if !ok || version == "" {
		return ""
	}
	text, ok := strings.CutPrefix(name, stem)
	if !ok {
		return ""
	}
	return text
}
