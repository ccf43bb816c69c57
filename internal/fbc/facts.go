package fbc

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// GVK identifies an API.
type GVK struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
}

// String returns "group/version/kind".
func (g GVK) String() string { return g.Group + "/" + g.Version + "/" + g.Kind }

// isValid reports whether the API has a version and a kind, and an unambiguous String.
func (g GVK) isValid() bool {
	return g.Version != "" && g.Kind != "" && len(g.Group)+len(g.Version)+len(g.Kind)+len("//") <= scan.MaxKeyBytes &&
		!strings.Contains(g.Group, "/") && !strings.Contains(g.Version, "/") && !strings.Contains(g.Kind, "/")
}

func compareGVK(a, b GVK) int { return strings.Compare(a.String(), b.String()) }

// BundleFacts is what an index keeps of a bundle besides its keys. Malformed properties are omitted, since
// LoadPackage reports them.
type BundleFacts struct {
	Version    string   // of the first olm.package property, unchanged
	Provides   []GVK    // of the olm.gvk properties, sorted, without duplicates; version and kind are not empty
	Properties []string // the types of all properties, sorted, without duplicates
}

const (
	// maxFacts limits the types and the APIs of a bundle, each; the rest is omitted. Known bundles have dozens.
	maxFacts = 1000
	// maxFactBytes limits the value of a property that becomes a fact: a GVK, or the name and version of a package,
	// with strings of MaxKeyBytes.
	maxFactBytes = 3*scan.MaxKeyBytes + 100
)

// FactsOf returns the facts of an olm.bundle blob without decoding the rest of it. Other blobs have none.
func FactsOf(b scan.Blob) BundleFacts {
	if b.Schema != SchemaBundle {
		return BundleFacts{}
	}
	var facts BundleFacts
	types, provides := map[string]bool{}, map[GVK]bool{}
	for element := range scan.Elements(b.Properties) {
		typ, value := propertyOf(element)
		if typ == "" || len(typ) > scan.MaxKeyBytes {
			continue
		}
		if len(types) < maxFacts {
			types[typ] = true
		}
		switch {
		case len(value) > maxFactBytes:
		case typ == property.TypePackage && facts.Version == "":
			facts.Version = versionOf(value)
		case typ == property.TypeGVK && len(provides) < maxFacts:
			if g, ok := gvkOf(value); ok {
				provides[g] = true
			}
		}
	}
	facts.Properties = slices.Sorted(maps.Keys(types))
	facts.Provides = slices.SortedFunc(maps.Keys(provides), compareGVK)
	return facts
}

// propertyOf returns the type and the raw value of a property; they are empty if it has none.
func propertyOf(object []byte) (typ string, value []byte) {
	for key, v := range scan.Members(object) {
		if scan.IsKey(key, "type") && v[0] == '"' {
			typ = scan.Unquote(v)
		} else if scan.IsKey(key, "value") {
			value = v
		}
	}
	return typ, value
}

func versionOf(value []byte) string {
	var pkg struct {
		Version string `json:"version"`
	}
	if json.Unmarshal(value, &pkg) != nil || len(pkg.Version) > scan.MaxKeyBytes {
		return ""
	}
	return pkg.Version
}

func gvkOf(value []byte) (g GVK, ok bool) {
	if json.Unmarshal(value, &g) != nil {
		return GVK{}, false
	}
	return g, g.isValid()
}
