package fbc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	"go.podman.io/image/v5/docker/reference"
	"sigs.k8s.io/yaml"

	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// loadBundle validates a bundle (compact JSON) and keeps what the model needs. Decoding is slow, so it decodes
// only bundles with a possible error, to report it.
func loadBundle(blob []byte) (declcfg.Bundle, error) {
	if b, ok := skimBundle(blob); ok {
		return b, nil
	}
	b, _, err := decodeBundle(blob)
	if err == nil {
		err = checkAndSlim(&b)
	}
	return b, err
}

// decodeBundle does what declcfg.LoadSlice does for a bundle, but does not parse all manifests for the
// ClusterServiceVersion. In b, oneObject replaces the manifests. csvs has those that may be a
// ClusterServiceVersion.
func decodeBundle(blob []byte) (b declcfg.Bundle, csvs []property.Property, err error) {
	if err := json.Unmarshal(blob, &b); err != nil {
		return b, nil, fmt.Errorf("parse bundle: %w", err)
	}
	var rest []property.Property
	for i, p := range b.Properties {
		if p.Type != property.TypeBundleObject {
			rest = append(rest, p)
			continue
		}
		var object property.BundleObject
		if err := json.Unmarshal(p.Value, &object); err != nil {
			return b, nil, fmt.Errorf("read bundle objects: package %q, bundle %q: parse property at index %d as bundle object: %w", b.Package,
				b.Name, i, err)
		}
		if !beginsObject(object.Data) {
			if object.Data, err = yaml.YAMLToJSON(object.Data); err != nil {
				return b, nil, fmt.Errorf("read bundle objects: package %q, bundle %q: convert bundle object property at index %d to JSON: %w",
					b.Package, b.Name, i, err)
			}
		}
		if mayBeCSV(object.Data) {
			csvs = append(csvs, p)
		}
	}
	if len(rest) < len(b.Properties) {
		b.Objects = oneObject
	}
	b.Properties = rest
	return b, csvs, nil
}

// oneObject replaces the manifests of a bundle: the model only checks whether there are any.
var oneObject = []string{""}

func beginsObject(manifest []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeftFunc(manifest, unicode.IsSpace), []byte("{"))
}

// isKept reports whether the model or a list of entries needs a property.
func isKept(p property.Property) bool {
	return p.Type == property.TypePackage || p.Type == propertyDeprecated
}

// checkVersion limits a version before it is parsed, because that takes memory for each of its parts.
func checkVersion(bundle string, p property.Package) error {
	if n := max(len(p.Version), len(p.Release)); n > scan.MaxKeyBytes {
		return fmt.Errorf("bundle %q: a version of %d bytes exceeds the limit of %d", bundle, n, scan.MaxKeyBytes)
	}
	return nil
}

// checkAndSlim checks all properties of a bundle and keeps only those that the model needs.
func checkAndSlim(b *declcfg.Bundle) error {
	props, err := property.Parse(b.Properties)
	if err != nil {
		return fmt.Errorf("parse properties for bundle %q: %w", b.Name, err)
	}
	for _, p := range props.Packages {
		if err := checkVersion(b.Name, p); err != nil {
			return err
		}
	}
	var keep []property.Property
	for _, p := range b.Properties {
		if isKept(p) {
			keep = append(keep, p)
		}
	}
	b.Properties = keep
	for i, r := range b.RelatedImages {
		if r.Image == "" {
			continue // real catalogs have empty images, and the model accepts them
		}
		if _, err := reference.ParseNormalizedNamed(r.Image); err != nil {
			return fmt.Errorf("package %q bundle %q relatedImages[%d].image: invalid image pull spec %q: %w", b.Package, b.Name, i, r.Image, err)
		}
	}
	b.RelatedImages = nil
	return nil
}
