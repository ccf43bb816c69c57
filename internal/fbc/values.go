package fbc

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

const (
	// maxValues bounds the JSON values of a blob, and of each manifest in a bundle: an empty object, of three bytes in a
	// list, becomes a struct of hundreds where it is decoded. Known texts have up to 23,320.
	maxValues = 120_000
	// maxCSVValues bounds those of a manifest that is a ClusterServiceVersion, as an empty deployment takes 920 bytes. Known
	// ones have up to 1,833; and 11,322 as olm.csv.metadata.
	maxCSVValues = 60_000
	// maxManifestBytes bounds a manifest in a bundle. The largest known one has 1.1 MB; more than 1.5 MiB no cluster takes.
	maxManifestBytes = 6 << 20
	// maxRangeBytes bounds a range of versions: what checks it takes a stack as deep as it has terms. Known ones have up
	// to 34 bytes.
	maxRangeBytes = 4096
)

// CheckValues tells, without decoding it, whether the compact JSON of a blob and the manifests that it carries as
// olm.bundle.object are small enough to be decoded: into structs they may grow by a factor of hundreds.
func CheckValues(blob []byte) error {
	if len(blob) <= maxValues {
		return nil // each value takes a byte, be it of the blob or, where that is base64, of a manifest
	}
	return checkValues(blob)
}

func checkValues(blob []byte) error {
	k, err := scan.ParseBlob(blob)
	if err != nil {
		return err
	}
	if n := scan.CountValues(blob); n > maxValues {
		return fmt.Errorf("%d JSON values in %s %q, more than the %d that are accepted", n, k.Schema, k.Name, maxValues)
	}
	if k.Schema != SchemaBundle {
		return nil
	}
	for manifest := range manifests(blob) {
		if len(manifest) > maxManifestBytes {
			return fmt.Errorf("a manifest of %d bytes in %s %q, more than the %d that are accepted", len(manifest), k.Schema, k.Name, maxManifestBytes)
		}
		if n := manifestValues(manifest); n > maxValues {
			return fmt.Errorf("%d values in a manifest of %s %q, more than the %d that are accepted", n, k.Schema, k.Name, maxValues)
		}
	}
	return nil
}

// manifests gives the decoded olm.bundle.object properties of a bundle, but those that are too small to be beyond any bound. Where keys
// stand twice it gives all, as any may be what a decoder takes; what is no base64 fails where it is decoded.
func manifests(bundle []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for key, list := range scan.Members(bundle) {
			if !scan.IsKey(key, "properties") {
				continue
			}
			for element := range scan.Elements(list) {
				if typ, _ := propertyOf(element); typ == property.TypeBundleObject && !yieldData(element, yield) {
					return
				}
			}
		}
	}
}

func yieldData(object []byte, yield func([]byte) bool) bool {
	for key, value := range scan.Members(object) {
		if !scan.IsKey(key, "value") {
			continue
		}
		for key, data := range scan.Members(value) {
			if !scan.IsKey(key, "data") || data[0] != '"' || len(data) <= maxValues {
				continue
			}
			text, err := base64.StdEncoding.DecodeString(scan.Unquote(data))
			if err == nil && !yield(text) {
				return false
			}
		}
	}
	return true
}

// manifestValues counts the values of a manifest where an estimate is too many, and it is JSON; else it will be read as YAML.
func manifestValues(text []byte) int {
	n := scan.EstimateValues(text)
	if n > maxValues && json.Valid(text) {
		return scan.CountValues(text)
	}
	return n
}
