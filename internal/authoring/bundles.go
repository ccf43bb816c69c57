package authoring

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/model"
	"github.com/operator-framework/operator-registry/alpha/property"
	"go.podman.io/image/v5/docker/reference"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// validProperties pass the model's validation of a bundle.
var validProperties = []property.Property{property.MustBuildPackage("p", "1.0.0")}

// bundle is a checked olm.bundle blob.
type bundle struct {
	*blob
	version string         // with the release; "" if missing or invalid
	tagged  []any          // path to the first image referenced by tag
	types   map[string]int // number of properties by type
}

// readBundle checks a single bundle.
func (p *pkg) readBundle(b *blob, text []byte) *bundle {
	out := &bundle{blob: b}
	wrong := fbc.CheckBlob(text)
	var content declcfg.Bundle
	if fbc.CheckValues(text) != nil || json.Unmarshal(text, &content) != nil {
		path, words := malformed[declcfg.Bundle](text, wrong)
		p.fault(b, "blob-malformed", path, "%s: %s", b.describe(), words)
		return out
	}
	before := len(p.faults)
	p.checkImages(out, content)
	out.types = p.checkProperties(b, content.Properties)
	if wrong != nil && len(p.faults) == before {
		p.fault(b, "blob-malformed", nil, "%s", oneLine(wrong))
	}
	if b.name == "" {
		p.fault(b, "bundle-name", nil, "the bundle has no name: set name")
	}
	if content.Image == "" && out.types[property.TypeBundleObject] == 0 {
		p.fault(b, "bundle-image", nil, "bundle %q: bundle image must be set", b.name)
	}
	p.checkPackageProperty(out, content.Properties)
	return out
}

func (p *pkg) checkImages(b *bundle, content declcfg.Bundle) {
	check := func(image string, path ...any) {
		if image == "" {
			return // occurs in published catalogs
		}
		named, err := reference.ParseNormalizedNamed(image)
		if err != nil {
			p.fault(b.blob, "image-reference", path, "bundle %q: invalid image pull spec %q: %s", b.name, image, oneLine(err))
		} else if _, ok := named.(reference.Digested); !ok && b.tagged == nil {
			b.tagged = path
		}
	}
	check(content.Image, "image")
	for i, r := range content.RelatedImages {
		check(r.Image, "relatedImages", i, "image")
	}
}

// checkProperties checks each property and returns their number by type.
func (p *pkg) checkProperties(b *blob, properties []property.Property) map[string]int {
	found := map[string]int{}
	for i, one := range properties {
		found[one.Type]++
		if len(one.Value) == 0 {
			p.fault(b, "property-malformed", []any{"properties", i}, "bundle %q: property %d of type %q has no value", b.name, i, one.Type)
			continue
		}
		if _, err := property.Parse([]property.Property{one}); err != nil {
			text := strings.Replace(oneLine(err), "parse property[0]", "property", 1)
			p.fault(b, "property-malformed", []any{"properties", i, "value"}, "bundle %q: %s", b.name, text)
		}
	}
	return found
}

// checkPackageProperty checks the olm.package property.
func (p *pkg) checkPackageProperty(b *bundle, properties []property.Property) {
	var at []int
	for i, one := range properties {
		if one.Type == property.TypePackage {
			at = append(at, i)
		}
	}
	if len(at) != 1 {
		var path []any
		if len(at) > 1 {
			path = []any{"properties"}
		}
		p.fault(b.blob, "bundle-package", path, "bundle %q must have exactly 1 \"olm.package\" property, found %d", b.name, len(at))
	}
	if len(at) == 0 {
		return
	}
	var content property.Package
	if json.Unmarshal(properties[at[0]].Value, &content) != nil {
		return // reported by checkProperties
	}
	value := []any{"properties", at[0], "value"}
	if content.PackageName != b.pkg {
		p.fault(b.blob, "bundle-package", append(value, "packageName"),
			"bundle %q: package %q does not match \"olm.package\" property %q; make them the same", b.name, b.pkg,
			content.PackageName)
	}
	p.checkVersion(b, content, value)
}

// maxVersionBytes is the length limit of parsed versions; CheckBlob reports longer ones.
const maxVersionBytes = 4096

func (p *pkg) checkVersion(b *bundle, content property.Package, path []any) {
	if max(len(content.Version), len(content.Release)) > maxVersionBytes {
		return
	}
	path = slices.Clone(path)
	version, err := semver.Parse(content.Version)
	if err != nil {
		p.fault(b.blob, "bundle-version", append(path, "version"),
			"bundle %q: version %q is not a semantic version: %s; write it like 1.2.3", b.name, content.Version, oneLine(err))
		return
	}
	one := model.Bundle{Package: &model.Package{Name: p.name}, Name: b.name, Version: version}
	if content.Release != "" {
		release, err := model.NewRelease(content.Release)
		if err != nil {
			p.fault(b.blob, "bundle-version", append(path, "release"), "bundle %q: release %q: %s", b.name, content.Release, oneLine(err))
			return
		}
		one.Release = semver.Version{Pre: release}
		if want := p.name + "-v" + one.VersionString(); b.name != "" && b.name != want {
			p.fault(b.blob, "bundle-name", []any{"name"}, "name %q does not match normalized name %q, which a release requires", b.name, want)
		}
		if len(version.Build) > 0 {
			p.fault(b.blob, "bundle-version", append(path, "version"), "bundle %q: a version with a release must not have build metadata (%q)",
				b.name, content.Version)
		}
	}
	b.version = one.VersionString()
}

// checkBundles reports bundles in no channel.
func (p *pkg) checkBundles() {
	listed, unknown := map[string]bool{}, len(p.channels) == 0 // checkDefault reports missing channels
	for _, ch := range p.channels {
		for _, e := range ch.content.Entries {
			listed[e.Name] = true
		}
		unknown = unknown || ch.malformed
	}
	for _, b := range p.bundles {
		if !listed[b.name] && !unknown {
			p.missing(b.blob, "bundle-no-channel", []any{"name"}, "bundle %q not found in any channel entries; add an entry, or remove the bundle",
				b.name)
		}
	}
}

// checkVersions reports bundles with the same version.
func (p *pkg) checkVersions() {
	first := map[string]*bundle{}
	for _, b := range p.bundles {
		if b.version == "" {
			continue
		}
		if other := first[b.version]; other == nil {
			first[b.version] = b
		} else if other.name != b.name {
			p.fault(b.blob, "version-duplicate", []any{"properties"}, "duplicate version %s: bundle %q has the same; change one of them",
				b.version, other.name)
		}
	}
}
