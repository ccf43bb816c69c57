package local

import (
	"errors"
	"fmt"
	"strings"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// warn tells what could be better in a sound package. What holds for many bundles is told once.
func (p *pkg) warn(sound *fbc.Package) error {
	of := p.packages[0]
	warn := func(b *blob, rule string, path []any, format string, args ...any) {
		p.pending = append(p.pending, p.about(b, Warning, rule, path, format, args...))
	}
	if icon := of.says.Icon; icon == nil || len(icon.Data) == 0 {
		warn(of.blob, "no-icon", nil, "package %s has no icon: lists show a neutral one", quote(p.name))
	} else if !strings.HasPrefix(icon.MediaType, "image/") {
		warn(of.blob, "no-icon", []any{"icon"}, "the icon says that it is %s, which is no image: set mediatype, for instance to image/svg+xml", quote(icon.MediaType))
	}
	description, err := p.warnOfHeads(sound, warn)
	if err != nil {
		return err
	}
	if !description {
		warn(of.blob, "no-description", nil, "package %s has no description, and the head of its default channel has none either", quote(p.name))
	}
	for i, d := range p.deprecations {
		for j, e := range d.says.Entries {
			if e.Reference.Schema == fbc.SchemaChannel && e.Reference.Name == sound.DefaultChannel {
				warn(p.deprecations[i].blob, "default-channel-deprecated", []any{"entries", j, "reference"},
					"the default channel %s is deprecated, so whoever names no channel gets it: make another the default", quote(sound.DefaultChannel))
			}
		}
	}
	p.warnOfDowngrades(warn)
	p.warnOfBundles(warn)
	return nil
}

type warner func(b *blob, rule string, path []any, format string, args ...any)

// warnOfHeads warns of channels that are left out of OperatorPackages, and tells whether the package is described.
func (p *pkg) warnOfHeads(sound *fbc.Package, warn warner) (described bool, err error) {
	described = sound.Description != ""
	hidden := 0
	for _, ch := range sound.Channels {
		text, err := p.bundleText(ch.Head)
		if err != nil {
			return false, err
		}
		csv, err := fbc.CSV(text, "")
		if err == nil {
			described = described || ch.Name == sound.DefaultChannel && csv.Spec.Description != ""
			continue
		}
		hidden++
		reason := "carries " + oneLine(err) + ": render the bundle again with opm"
		if !errors.Is(err, fbc.ErrNoCSV) {
			reason = "has a ClusterServiceVersion that cannot be used: " + oneLine(err)
		}
		warn(p.channel(ch.Name), "no-csv", nil, "channel %s will not be in the OperatorPackage: its head %s %s", quote(ch.Name), quote(ch.Head), reason)
	}
	if hidden == len(sound.Channels) {
		p.report.Hidden = append(p.report.Hidden, p.name)
		p.pending = append(p.pending, p.about(p.packages[0].blob, Warning, "package-no-csv", nil,
			"package %s will not be published: no channel has a head with a ClusterServiceVersion (olm.csv.metadata) that can be used; render the bundles again with opm", quote(p.name)))
	}
	return described, nil
}

func (p *pkg) bundleText(name string) ([]byte, error) {
	for _, b := range p.bundles {
		if b.name == name {
			return p.catalog.text(b.blob)
		}
	}
	return nil, nil // not in a sound package
}

func (p *pkg) channel(name string) *blob {
	for _, ch := range p.channels {
		if ch.name == name {
			return ch.blob
		}
	}
	return p.packages[0].blob // not in a sound package
}

func (p *pkg) warnOfBundles(warn warner) {
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
			"%d of %d bundles of package %s carry olm.bundle.object, which is deprecated and large, and no olm.csv.metadata: opm render --migrate-level=bundle-object-to-csv-metadata makes these of them",
			withObjects, len(p.bundles), quote(p.name))
	}
}

// tags counts what names images by tag. Many catalogs do throughout, so that one warning a package would hide all others.
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

func (l *linter) warnOfTags() {
	if l.tags.packages == 0 {
		return
	}
	warning := l.tags.first
	warning.Message = fmt.Sprintf("images are named by tag, of which nobody knows what they will be: in %s of %d of %s, of which this is the first; name them by digest",
		count(l.tags.bundles, "bundle"), l.tags.packages, count(l.report.Packages, "package"))
	l.pending = append(l.pending, warning)
}
