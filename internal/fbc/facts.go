package fbc

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/operator-framework/operator-registry/alpha/property"
)

// GVK names an API: a kind of a version of a group.
type GVK struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
}

// String gives "group/version/kind".
func (g GVK) String() string { return g.Group + "/" + g.Version + "/" + g.Kind }

// isSound tells whether the API has a version and a kind, and a String that ParseGVK reads.
func (g GVK) isSound() bool {
	same, ok := ParseGVK(g.String())
	return ok && same.Version != "" && same.Kind != "" && len(g.String()) <= maxKeyBytes
}

func compareGVK(a, b GVK) int { return strings.Compare(a.String(), b.String()) }

// ParseGVK reads what String gives of an API of which no part has a slash.
func ParseGVK(s string) (GVK, bool) {
	parts := strings.Split(s, "/")
	if len(parts) != 3 {
		return GVK{}, false
	}
	return GVK{Group: parts[0], Version: parts[1], Kind: parts[2]}, true
}

// BundleFacts are what an index keeps of a bundle beside its keys. What is malformed is left out, never an error: the
// bytes are served as they are, and whether they are sound is for LoadPackage to say.
type BundleFacts struct {
	Version    string   // of the first olm.package property, as it stands there
	Provides   []GVK    // of the olm.gvk properties, sorted, each once; version and kind are not empty
	Properties []string // the types of all properties, sorted, each once
}

const (
	// maxFacts bounds the types and the APIs of a bundle, each; what is beyond is left out. Known bundles have some
	// dozens.
	maxFacts = 1000
	// maxFactBytes bounds the value of a property that becomes a fact: the three strings of a GVK, or the name and
	// version of a package, each as long as a key may be.
	maxFactBytes = 3*maxKeyBytes + 100
)

// factsOf reads the facts of a bundle from the list of its properties: compact, valid JSON, or nothing. The rest of
// the list is passed over, not decoded.
func factsOf(properties []byte) BundleFacts {
	var facts BundleFacts
	types, provides := map[string]bool{}, map[GVK]bool{}
	for element := range elements(properties) {
		typ, value := propertyOf(element)
		if typ == "" || len(typ) > maxKeyBytes {
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

// propertyOf reads the type of a property and cuts out its value; both are empty where it has none.
func propertyOf(object []byte) (typ string, value []byte) {
	for key, v := range members(object) {
		if isKey(key, "type") && v[0] == '"' {
			typ = unquote(v)
		} else if isKey(key, "value") {
			value = v
		}
	}
	return typ, value
}

func versionOf(value []byte) string {
	var pkg struct {
		Version string `json:"version"`
	}
	if json.Unmarshal(value, &pkg) != nil || len(pkg.Version) > maxKeyBytes {
		return ""
	}
	return pkg.Version
}

func gvkOf(value []byte) (g GVK, ok bool) {
	if json.Unmarshal(value, &g) != nil {
		return GVK{}, false
	}
	return g, g.isSound()
}
