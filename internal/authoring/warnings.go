package authoring

import (
	"errors"
	"fmt"
	"strings"

	"github.com/blang/semver/v4"

	"github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// addWarnings adds warnings about a valid package, at most one of a kind for its bundles.
func (p *pkg) addWarnings(valid *fbc.Package) error {
	of := p.packages[0]
	warn := func(b *blob, rule string, path []any, format string, args ...any) {
		p.pending = append(p.pending, p.about(b, Warning, rule, path, format, args...))
	}
	if icon := of.content.Icon; icon == nil || len(icon.Data) == 0 {
		warn(of.blob, "no-icon", nil, "package %s has no icon: lists show a placeholder", quote(p.name))
	} else if !strings.HasPrefix(icon.MediaType, "image/") {
		warn(of.blob, "no-icon", []any{"icon"}, "mediatype %s of the icon is not an image type: set it to, for example, image/svg+xml",
			quote(icon.MediaType))
	}
	description, err := p.checkHeads(valid, warn)
	if err != nil {
		return err
	}
	if !description {
		warn(of.blob, "no-description", nil, "package %s has no description, and the head of its default channel has none either", quote(p.name))
	}
	for i, d := range p.deprecations {
		for j, e := range d.content.Entries {
			if e.Reference.Schema == fbc.SchemaChannel && e.Reference.Name == valid.DefaultChannel {
				warn(p.deprecations[i].blob, "default-channel-deprecated", []any{"entries", j, "reference"},
					"the default channel %s is deprecated, and clients that select no channel get it: change the default", quote(valid.DefaultChannel))
			}
		}
	}
	p.checkDowngrades(warn)
	p.checkBundleStyle(warn)
	return nil
}

type warnFunc func(b *blob, rule string, path []any, format string, args ...any)

// checkHeads warns about channels that OperatorPackages omit. It reports whether the package has a description.
func (p *pkg) checkHeads(valid *fbc.Package, warn warnFunc) (described bool, err error) {
	described = valid.Description != ""
	hidden := 0
	for _, ch := range valid.Channels {
		text, err := p.bundleText(ch.Head)
		if err != nil {
			return false, err
		}
		csv, err := fbc.CSV(text, "")
		if err == nil {
			described = described || ch.Name == valid.DefaultChannel && csv.Spec.Description != ""
			continue
		}
		hidden++
		reason := "carries " + oneLine(err) + ": render the bundle again with opm"
		if !errors.Is(err, fbc.ErrNoCSV) {
			reason = "has a ClusterServiceVersion that cannot be used: " + oneLine(err)
		}
		warn(p.channel(ch.Name), "no-csv", nil, "channel %s is missing in the OperatorPackage: its head %s %s", quote(ch.Name), quote(ch.Head),
			reason)
	}
	if hidden == len(valid.Channels) {
		p.report.Hidden = append(p.report.Hidden, p.name)
		p.pending = append(p.pending, p.about(p.packages[0].blob, Warning, "package-no-csv", nil,
			"package %s will not be published: no channel has a head with a ClusterServiceVersion (olm.csv.metadata) that can be used; "+
				"render the bundles again with opm", quote(p.name)))
	}
	return described, nil
}

func (p *pkg) bundleText(name string) ([]byte, error) {
	for _, b := range p.bundles {
		if b.name == name {
			return p.catalog.text(b.blob)
		}
	}
	return nil, nil // impossible in a valid package
}

func (p *pkg) channel(name string) *blob {
	for _, ch := range p.channels {
		if ch.name == name {
			return ch.blob
		}
	}
	return p.packages[0].blob // impossible in a valid package
}

func (p *pkg) checkBundleStyle(warn warnFunc) {
	var tagged, objects *bundle
	tags, withObjects := 0, 0
	for _, b := range p.bundles {
		if b.tagged != nil {
			if tags++; tagged == nil {
				tagged = b
			}
		}
		if b.objects {
			if withObjects++; objects == nil {
				objects = b
			}
		}
	}
	if tags > 0 {
		p.tags.add(tags, p.about(tagged.blob, Warning, "image-tag", tagged.tagged, ""))
	}
	if withObjects > 0 {
		warn(objects.blob, "bundle-objects", []any{"properties"},
			"%d of %d bundles of package %s carry olm.bundle.object, which is deprecated and large, and no olm.csv.metadata: convert them "+
				"with opm render --migrate-level=bundle-object-to-csv-metadata",
			withObjects, len(p.bundles), quote(p.name))
	}
}

// tags counts image references by tag. A catalog gets one warning, because many catalogs use tags throughout.
type tags struct {
	packages, bundles int
	first             pending
}

func (t *tags) add(bundles int, first pending) {
	if t.packages++; t.packages == 1 {
		t.first = first
	}
	t.bundles += bundles
}

func (l *linter) checkTags() {
	if l.tags.packages == 0 {
		return
	}
	warning := l.tags.first
	warning.Message = fmt.Sprintf("images are referenced by tag, which can move: %s in %d of %s, the first here; reference them by digest",
		count(l.tags.bundles, "bundle"), l.tags.packages, count(l.report.Packages, "package"))
	l.pending = append(l.pending, warning)
}

// checkDowngrades warns about entries that replace a newer version, which OLM would downgrade.
func (p *pkg) checkDowngrades(warn warnFunc) {
	versions := map[string]string{}
	for _, b := range p.bundles {
		versions[b.name] = b.version
	}
	for _, ch := range p.channels {
		for i, e := range ch.content.Entries {
			replaced, known := versions[e.Replaces]
			if !known {
				replaced = versionInName(e.Replaces, e.Name, versions[e.Name])
			}
			from, errFrom := semver.Parse(replaced)
			to, errTo := semver.Parse(versions[e.Name])
			if errFrom == nil && errTo == nil && channel.IsDowngrade(from, to) {
				warn(ch.blob, "entry-downgrade", []any{"entries", i, "replaces"},
					"channel %s: entry %s replaces %s, which is newer, so this is a downgrade: replace an older entry, or omit replaces",
					quote(ch.name), quote(e.Name), quote(e.Replaces))
			}
		}
	}
}

// versionInName derives the version of an absent bundle from its name, if that has the same stem as other.
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
