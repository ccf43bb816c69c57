package fbc

import (
	"bytes"
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
	return g.Version != "" && g.Kind != "" && len(g.Group)+len(g.Version)+len(g.Kind)+len("//") <= maxKeyBytes &&
		!strings.Contains(g.Group, "/") && !strings.Contains(g.Version, "/") && !strings.Contains(g.Kind, "/")
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
	var c factCollector
	for element := range elements(properties) {
		c.add(propertyOf(element))
	}
	return c.facts()
}

// factCollector gathers the facts of one bundle after the other.
type factCollector struct {
	version  string
	types    map[string]bool
	provides map[GVK]bool
}

// reset forgets what was gathered.
func (c *factCollector) reset() {
	c.version = ""
	clear(c.types)
	clear(c.provides)
}

// add gathers the facts of a property.
func (c *factCollector) add(typ string, value []byte) {
	if typ == "" || len(typ) > maxKeyBytes {
		return
	}
	if c.types == nil {
		c.types, c.provides = map[string]bool{}, map[GVK]bool{}
	}
	if len(c.types) < maxFacts {
		c.types[typ] = true
	}
	switch {
	case len(value) > maxFactBytes:
	case typ == property.TypePackage && c.version == "":
		c.version = versionOf(value)
	case typ == property.TypeGVK && len(c.provides) < maxFacts:
		if g, ok := gvkOf(value); ok {
			c.provides[g] = true
		}
	}
}

func (c *factCollector) facts() BundleFacts {
	return BundleFacts{
		Version:    c.version,
		Properties: slices.Sorted(maps.Keys(c.types)),
		Provides:   slices.SortedFunc(maps.Keys(c.provides), compareGVK),
	}
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
	if g, ok = plainGVK(value); !ok && json.Unmarshal(value, &g) != nil {
		return GVK{}, false
	}
	return g, g.isSound()
}

// plainGVK reads an API that is written as all are, and cheaply: the three keys, nothing escaped. Of any other it says
// false, and json.Unmarshal may read it.
func plainGVK(value []byte) (g GVK, ok bool) {
	for key, text := range members(value) {
		if text[0] != '"' || bytes.IndexByte(text, '\\') >= 0 {
			return GVK{}, false
		}
		switch string(key) {
		case `"group"`:
			g.Group = unquote(text)
		case `"version"`:
			g.Version = unquote(text)
		case `"kind"`:
			g.Kind = unquote(text)
		default:
			return GVK{}, false
		}
	}
	return g, true
}
