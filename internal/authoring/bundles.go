package local

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

// soundProperties are those of a bundle about which the model has nothing to say.
var soundProperties = []property.Property{property.MustBuildPackage("p", "1.0.0")}

// bundle is what is kept of an olm.bundle blob.
type bundle struct {
	*blob
	version string // with the release; "" if it has none, or a wrong one
	tagged  []any  // leads to the first image that is named by tag
	objects bool   // it carries manifests, and no olm.csv.metadata
}

// readBundle checks a bundle by itself.
func (p *pkg) readBundle(b *blob, text []byte) *bundle {
	out := &bundle{blob: b}
	wrong := fbc.CheckBlob(text)
	var says declcfg.Bundle
	if fbc.CheckValues(text) != nil || json.Unmarshal(text, &says) != nil {
		path, words := malformed[declcfg.Bundle](text, wrong)
		p.fault(b, "blob-malformed", path, "%s: %s", b.describe(), words)
		return out
	}
	before := len(p.faults)
	p.checkImages(out, says)
	found := p.checkProperties(b, says.Properties)
	if wrong != nil && len(p.faults) == before {
		p.fault(b, "blob-malformed", nil, "%s", oneLine(wrong))
	}
	if b.name == "" {
		p.fault(b, "bundle-name", nil, "the bundle has no name: set name")
	}
	if says.Image == "" && found[property.TypeBundleObject] == 0 {
		p.fault(b, "bundle-image", nil, "bundle %s: bundle image must be set", quote(b.name))
	}
	out.objects = found[property.TypeBundleObject] > 0 && found[property.TypeCSVMetadata] == 0
	p.checkPackageProperty(out, says.Properties)
	return out
}

func (p *pkg) checkImages(b *bundle, says declcfg.Bundle) {
	check := func(image string, path ...any) {
		if image == "" {
			return // real catalogs have it
		}
		named, err := reference.ParseNormalizedNamed(image)
		if err != nil {
			p.fault(b.blob, "image-reference", path, "bundle %s: invalid image pull spec %s: %s", quote(b.name), quote(image), oneLine(err))
		} else if _, ok := named.(reference.Digested); !ok && b.tagged == nil {
			b.tagged = path
		}
	}
	check(says.Image, "image")
	for i, r := range says.RelatedImages {
		check(r.Image, "relatedImages", i, "image")
	}
}

// checkProperties checks each property, and counts them by type.
func (p *pkg) checkProperties(b *blob, properties []property.Property) map[string]int {
	found := map[string]int{}
	for i, one := range properties {
		found[one.Type]++
		if len(one.Value) == 0 {
			p.fault(b, "property-malformed", []any{"properties", i}, "bundle %s: property %d of type %s has no value", quote(b.name), i, quote(one.Type))
			continue
		}
		if _, err := property.Parse([]property.Property{one}); err != nil {
			text := strings.Replace(oneLine(err), "parse property[0]", "property", 1)
			p.fault(b, "property-malformed", []any{"properties", i, "value"}, "bundle %s: %s", quote(b.name), text)
		}
	}
	return found
}

// checkPackageProperty checks the property that names the package and has the version.
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
	var says property.Package
	if json.Unmarshal(properties[at].Value, &says) != nil {
		return // told already
	}
	value := []any{"properties", at, "value"}
	if says.PackageName != b.pkg {
		p.fault(b.blob, "bundle-package", append(value, "packageName"),
			"bundle %s: package %s does not match \"olm.package\" property %s; make them the same", quote(b.name), quote(b.pkg), quote(says.PackageName))
	}
	p.checkVersion(b, says, value)
}

func isPackage(one property.Property) bool { return one.Type == property.TypePackage }

// maxVersionBytes bounds what is parsed as a version; of what is longer, CheckBlob has told.
const maxVersionBytes = 4096

func (p *pkg) checkVersion(b *bundle, says property.Package, path []any) {
	if max(len(says.Version), len(says.Release)) > maxVersionBytes {
		return
	}
	path = slices.Clone(path)
	version, err := semver.Parse(says.Version)
	if err != nil {
		p.fault(b.blob, "bundle-version", append(path, "version"),
			"bundle %s: version %s is no semantic version: %s; write it like 1.2.3", quote(b.name), quote(says.Version), oneLine(err))
		return
	}
	one := model.Bundle{Package: &model.Package{Name: p.name}, Name: b.name, Version: version}
	if says.Release != "" {
		release, err := model.NewRelease(says.Release)
		if err != nil {
			p.fault(b.blob, "bundle-version", append(path, "release"), "bundle %s: release %s: %s", quote(b.name), quote(says.Release), oneLine(err))
			return
		}
		one.Release = semver.Version{Pre: release}
		if want := p.name + "-v" + one.VersionString(); b.name != "" && b.name != want {
			p.fault(b.blob, "bundle-name", []any{"name"}, "name %s does not match normalized name %s, which a release asks for", quote(b.name), quote(want))
		}
		if len(version.Build) > 0 {
			p.fault(b.blob, "bundle-version", append(path, "version"), "bundle %s: a version with a release can have no build metadata (%s)", quote(b.name), quote(says.Version))
		}
	}
	b.version = one.VersionString()
}

// checkBundles checks bundles against each other and against the channels.
func (p *pkg) checkBundles() {
	listed, unknown := map[string]bool{}, len(p.channels) == 0 // of which checkDefault has told
	for _, ch := range p.channels {
		for _, e := range ch.says.Entries {
			listed[e.Name] = true
		}
		unknown = unknown || ch.malformed
	}
	seen := map[string]*blob{}
	for _, b := range p.bundles {
		if first := seen[b.name]; first != nil {
			p.fault(b.blob, "bundle-duplicate", []any{"name"}, "duplicate bundle %s: the first is in %s; keep one of them", quote(b.name), first.file)
			continue
		}
		seen[b.name] = b.blob
		if !listed[b.name] && !unknown {
			p.missing(b.blob, "bundle-no-channel", []any{"name"}, "bundle %s not found in any channel entries; add an entry, or remove the bundle", quote(b.name))
		}
	}
}

// checkVersions looks for bundles of the same version.
func (p *pkg) checkVersions() {
	first := map[string]*bundle{}
	for _, b := range p.bundles {
		if b.version == "" {
			continue
		}
		if other := first[b.version]; other == nil {
			first[b.version] = b
		} else if other.name != b.name {
			p.fault(b.blob, "version-duplicate", []any{"properties"}, "duplicate version %s: bundle %s has it too; give one of them another", b.version, quote(other.name))
		}
	}
}
