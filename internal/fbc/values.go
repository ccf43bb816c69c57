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
	// maxValues limits the JSON values of a blob, and of each manifest in a bundle: decoding an empty object, of
	// three bytes, may create a struct of hundreds. Known texts have up to 23,320.
	maxValues = 120_000
	// maxCSVValues limits the values of a ClusterServiceVersion, because an empty deployment takes 920 bytes. Known
	// ones have up to 1,833, and 11,322 as olm.csv.metadata.
	maxCSVValues = 60_000
	// maxManifestBytes limits a manifest in a bundle. The largest known one has 1.1 MB; clusters accept up to 1.5
	// MiB.
	maxManifestBytes = 6 << 20
	// maxRangeBytes limits a range of versions, because its check takes a stack as deep as it has terms. Known ones
	// have up to 34 bytes.
	maxRangeBytes = 4096
)

// CheckValues returns an error if a blob (compact JSON), or a manifest in its olm.bundle.object properties, has
// too many values to be decoded: decoding may multiply its size by hundreds.
func CheckValues(blob []byte) error {
	if len(blob) <= maxValues {
		return nil // each value takes at least a byte
	}
	return checkValues(blob)
}

func checkValues(blob []byte) error {
	k, err := scan.ParseBlob(blob)
	if err != nil {
		return err
	}
	if n := scan.CountValues(blob); n > maxValues {
		return fmt.Errorf("%d JSON values in %s %q exceed the limit of %d", n, k.Schema, k.Name, maxValues)
	}
	if k.Schema != SchemaBundle {
		return nil
	}
	for manifest := range manifests(blob) {
		if len(manifest) > maxManifestBytes {
			return fmt.Errorf("a manifest of %d bytes in %s %q exceeds the limit of %d", len(manifest), k.Schema, k.Name, maxManifestBytes)
		}
		if n := manifestValues(manifest); n > maxValues {
			return fmt.Errorf("%d values in a manifest of %s %q exceed the limit of %d", n, k.Schema, k.Name, maxValues)
		}
	}
	return nil
}

// manifests returns the decoded olm.bundle.object properties of a bundle, except those too small to exceed a
// limit. It returns all values of duplicate keys, because a decoder may use any. It skips invalid base64, which
// fails on decoding.
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

// manifestValues returns the exact number of values if an estimate exceeds the limit and the manifest is JSON,
// else the estimate.
func manifestValues(text []byte) int {
	n := scan.EstimateValues(text)
	if n > maxValues && json.Valid(text) {
		return scan.CountValues(text)
	}
	return n
}
