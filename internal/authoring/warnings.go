package authoring

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// addWarnings adds warnings about a valid package, at most one of a kind for its bundles.
func (p *pkg) addWarnings(valid *fbc.Package) error {
	of := p.packages[0]
	if icon := of.content.Icon; icon == nil || len(icon.Data) == 0 {
		p.fault(of.blob, "no-icon", nil, "package %q has no icon: lists show a placeholder", p.name)
	} else if !strings.HasPrefix(icon.MediaType, "image/") {
		p.fault(of.blob, "no-icon", []any{"icon"}, "mediatype %q of the icon is not an image type: set it to, for example, image/svg+xml",
			icon.MediaType)
	}
	description, err := p.checkHeads(valid)
	if err != nil {
		return err
	}
	if !description {
		p.fault(of.blob, "no-description", nil, "package %q has no description, and the head of its default channel has none either", p.name)
	}
	for _, d := range p.deprecations {
		for i, e := range d.content.Entries {
			if e.Reference.Schema == fbc.SchemaChannel && e.Reference.Name == valid.DefaultChannel {
				p.fault(d.blob, "default-channel-deprecated", []any{"entries", i, "reference"},
					"the default channel %q is deprecated, and clients that select no channel get it: change the default", valid.DefaultChannel)
			}
		}
	}
	p.checkDowngrades()
	p.checkBundleStyle()
	return nil
}

// checkHeads warns about channels that OperatorPackages omit. It reports whether the package has a description.
func (p *pkg) checkHeads(valid *fbc.Package) (described bool, err error) {
	described = valid.Description != ""
	hidden := 0
	for _, ch := range valid.Channels {
		text, err := p.catalog.text(p.blob(fbc.SchemaBundle, ch.Head))
		if err != nil {
			return false, err
		}
		csv, err := fbc.CSV(text, "")
		if err == nil {
			described = described || ch.Name == valid.DefaultChannel && csv.Spec.Description != ""
			continue
		}
		hidden++
		reason := "carries " + oneLine(err) + ": render the bundle again with kubectl catalog render"
		if !errors.Is(err, fbc.ErrNoCSV) {
			reason = "has a ClusterServiceVersion that cannot be used: " + oneLine(err)
		}
		p.fault(p.blob(fbc.SchemaChannel, ch.Name), "no-csv", nil,
			"channel %q is missing in the OperatorPackage: its head %q %s", ch.Name, ch.Head, reason)
	}
	if hidden == len(valid.Channels) {
		p.report.Hidden = append(p.report.Hidden, p.name)
		p.fault(p.packages[0].blob, "package-no-csv", nil,
			"package %q will not be published: no channel has a head with a ClusterServiceVersion (olm.csv.metadata) that can be used; "+
				"render the bundles again with kubectl catalog render", p.name)
	}
	return described, nil
}

func (p *pkg) checkBundleStyle() {
	var objects []*bundle
	for _, b := range p.bundles {
		if b.tagged != nil {
			p.tagged = append(p.tagged, newFault(b.blob, p.name, "image-tag", b.tagged, ""))
		}
		if b.types[property.TypeBundleObject] > 0 && b.types[property.TypeCSVMetadata] == 0 {
			objects = append(objects, b)
		}
	}
	if len(objects) > 0 && !slices.ContainsFunc(p.targets, Target.BundleObjects) {
		p.fault(objects[0].blob, "bundle-objects", []any{"properties"},
			"%d of %d bundles of package %q carry olm.bundle.object, which is deprecated and large, and no olm.csv.metadata: render them "+
				"again with kubectl catalog render",
			len(objects), len(p.bundles), p.name)
	}
}

// checkTags warns once about image references by tag, because many catalogs use tags throughout.
func (l *linter) checkTags() {
	if len(l.tagged) == 0 {
		return
	}
	packages := map[string]bool{}
	for _, f := range l.tagged {
		packages[f.Package] = true
	}
	warning := l.tagged[0]
	warning.Message = fmt.Sprintf("images are referenced by tag, which can move: %s in %d of %s, the first here; reference them by digest",
		count(len(l.tagged), "bundle"), len(packages), count(l.report.Packages, "package"))
	l.faults = append(l.faults, warning)
}

// checkDowngrades warns about entries that replace a newer version, which OLM would downgrade.
func (p *pkg) checkDowngrades() {
	versions := p.versions()
	for _, ch := range p.channels {
		for i, e := range ch.content.Entries {
			replaced, known := versions[e.Replaces]
			if !known {
				replaced = versionInName(e.Replaces, e.Name, versions[e.Name])
			}
			from, errFrom := semver.Parse(replaced)
			to, errTo := semver.Parse(versions[e.Name])
			if errFrom == nil && errTo == nil && channel.IsDowngrade(from, to) {
				p.fault(ch.blob, "entry-downgrade", []any{"entries", i, "replaces"},
					"channel %q: entry %q replaces %q, which is newer, so this is a downgrade: replace an older entry, or omit replaces",
					ch.name, e.Name, e.Replaces)
			}
		}
	}
}

// versions returns the versions of the bundles by name.
func (p *pkg) versions() map[string]string {
	versions := map[string]string{}
	for _, b := range p.bundles {
		versions[b.name] = b.version
	}
	return versions
}

// versionInName derives the version of an absent bundle from its name, if that has the same stem as other.
func versionInName(name, other, version string) string {
	stem, hasVersion := strings.CutSuffix(other, version)
	text, hasStem := strings.CutPrefix(name, stem)
	if !hasVersion || !hasStem || version == "" {
		return ""
	}
	return text
}
