package fbc

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
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
	return g.Version != "" && g.Kind != "" && len(g.Group)+len(g.Version)+len(g.Kind)+len("//") <= scan.MaxKeyBytes &&
		!strings.Contains(g.Group, "/") && !strings.Contains(g.Version, "/") && !strings.Contains(g.Kind, "/")
}

func compareGVK(a, b GVK) int { return strings.Compare(a.String(), b.String()) }

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
	maxFactBytes = 3*scan.MaxKeyBytes + 100
)

// FactsOf returns the facts of an olm.bundle blob, without decoding the rest of it. Those of any other blob are zero.
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

// propertyOf reads the type of a property and cuts out its value; both are empty where it has none.
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
	if g, ok = plainGVK(value); !ok && json.Unmarshal(value, &g) != nil {
		return GVK{}, false
	}
	return g, g.isSound()
}

// plainGVK reads an API that is written as all are, and cheaply: the three keys, nothing escaped. Of any other it says
// false, and json.Unmarshal may read it.
func plainGVK(value []byte) (g GVK, ok bool) {
	for key, text := range scan.Members(value) {
		if text[0] != '"' || bytes.IndexByte(text, '\\') >= 0 {
			return GVK{}, false
		}
		switch string(key) {
		case `"group"`:
			g.Group = scan.Unquote(text)
		case `"version"`:
			g.Version = scan.Unquote(text)
		case `"kind"`:
			g.Kind = scan.Unquote(text)
		default:
			return GVK{}, false
		}
	}
	return g, true
}
