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
	version string // with the release; "" if missing or invalid
	tagged  []any  // path to the first image referenced by tag
	objects bool   // has olm.bundle.object, but no olm.csv.metadata
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
	found := p.checkProperties(b, content.Properties)
	if wrong != nil && len(p.faults) == before {
		p.fault(b, "blob-malformed", nil, "%s", oneLine(wrong))
	}
	if b.name == "" {
		p.fault(b, "bundle-name", nil, "the bundle has no name: set name")
	}
	if content.Image == "" && found[property.TypeBundleObject] == 0 {
		p.fault(b, "bundle-image", nil, "bundle %s: bundle image must be set", quote(b.name))
	}
	out.objects = found[property.TypeBundleObject] > 0 && found[property.TypeCSVMetadata] == 0
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
			p.fault(b.blob, "image-reference", path, "bundle %s: invalid image pull spec %s: %s", quote(b.name), quote(image), oneLine(err))
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
			p.fault(b, "property-malformed", []any{"properties", i}, "bundle %s: property %d of type %s has no value", quote(b.name), i,
				quote(one.Type))
			continue
		}
		if _, err := property.Parse([]property.Property{one}); err != nil {
			text := strings.Replace(oneLine(err), "parse property[0]", "property", 1)
			p.fault(b, "property-malformed", []any{"properties", i, "value"}, "bundle %s: %s", quote(b.name), text)
		}
	}
	return found
}

// checkPackageProperty checks the olm.package property.
func (p *pkg) checkPackageProperty(b *bundle, properties []property.Property) {
	at := slices.IndexFunc(properties, isPackage)
	count := 0
	for _, one := range properties {
		if isPackage(one) {
			count++
		}
	}
	if count != 1 {
		var path []any
		if count > 1 {
			path = []any{"properties"}
		}
		p.fault(b.blob, "bundle-package", path, "bundle %s must have exactly 1 \"olm.package\" property, found %d", quote(b.name), count)
	}
	if count == 0 {
		return
	}
	var content property.Package
	if json.Unmarshal(properties[at].Value, &content) != nil {
		return // reported by checkProperties
	}
	value := []any{"properties", at, "value"}
	if content.PackageName != b.pkg {
		p.fault(b.blob, "bundle-package", append(value, "packageName"),
			"bundle %s: package %s does not match \"olm.package\" property %s; make them the same", quote(b.name), quote(b.pkg),
			quote(content.PackageName))
	}
	p.checkVersion(b, content, value)
}

func isPackage(one property.Property) bool { return one.Type == property.TypePackage }

// maxVersionBytes limits what is parsed as a version; CheckBlob reports longer ones.
const maxVersionBytes = 4096

func (p *pkg) checkVersion(b *bundle, content property.Package, path []any) {
	if max(len(content.Version), len(content.Release)) > maxVersionBytes {
		return
	}
	path = slices.Clone(path)
	version, err := semver.Parse(content.Version)
	if err != nil {
		p.fault(b.blob, "bundle-version", append(path, "version"),
			"bundle %s: version %s is not a semantic version: %s; write it like 1.2.3", quote(b.name), quote(content.Version), oneLine(err))
		return
	}
	one := model.Bundle{Package: &model.Package{Name: p.name}, Name: b.name, Version: version}
	if content.Release != "" {
		release, err := model.NewRelease(content.Release)
		if err != nil {
			p.fault(b.blob, "bundle-version", append(path, "release"), "bundle %s: release %s: %s", quote(b.name), quote(content.Release),
				oneLine(err))
			return
		}
		one.Release = semver.Version{Pre: release}
		if want := p.name + "-v" + one.VersionString(); b.name != "" && b.name != want {
			p.fault(b.blob, "bundle-name", []any{"name"}, "name %s does not match normalized name %s, which a release requires", quote(b.name),
				quote(want))
		}
		if len(version.Build) > 0 {
			p.fault(b.blob, "bundle-version", append(path, "version"), "bundle %s: a version with a release must not have build metadata (%s)",
				quote(b.name), quote(content.Version))
		}
	}
	b.version = one.VersionString()
}

// checkBundles reports duplicate bundles, and those in no channel.
func (p *pkg) checkBundles() {
	listed, unknown := map[string]bool{}, len(p.channels) == 0 // checkDefault reports missing channels
	for _, ch := range p.channels {
		for _, e := range ch.content.Entries {
			listed[e.Name] = true
		}
		unknown = unknown || ch.malformed
	}
	seen := map[string]*blob{}
	for _, b := range p.bundles {
		if first := seen[b.name]; first != nil {
			p.fault(b.blob, "bundle-duplicate", []any{"name"}, "duplicate bundle %s: the first is in %s; keep one of them", quote(b.name),
				first.file)
			continue
		}
		seen[b.name] = b.blob
		if !listed[b.name] && !unknown {
			p.missing(b.blob, "bundle-no-channel", []any{"name"}, "bundle %s not found in any channel entries; add an entry, or remove the bundle",
				quote(b.name))
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
			p.fault(b.blob, "version-duplicate", []any{"properties"}, "duplicate version %s: bundle %s has the same; change one of them",
				b.version, quote(other.name))
		}
	}
}
