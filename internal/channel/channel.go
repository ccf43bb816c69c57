// Package channel models the upgrade graph of an OLM channel: its edges, its head, the paths between bundles, and what blocks a path.
//
// Edges have OLM's meaning:
// https://olm.operatorframework.io/docs/concepts/olm-architecture/operator-catalog/creating-an-update-graph/.
package channel

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/blang/semver/v4"
)

// Channel is the definition of a channel in a catalog.
type Channel struct {
	Catalog string // may be empty; drawings show it
	Package string
	Name    string
	Head    string // a bundle name; unless it is an entry, the graph uses the highest of Heads
	Entries []Entry
}

// Entry is the place of a bundle in a channel.
type Entry struct {
	Name        string       `json:"name"`
	Version     string       `json:"version"` // if it is not a semantic version, no skipRange covers the entry
	Replaces    string       `json:"replaces,omitempty"`
	Skips       []string     `json:"skips,omitempty"`
	SkipRange   string       `json:"skipRange,omitempty"`
	Deprecation *Deprecation `json:"deprecation,omitempty"`
}

// Deprecation marks a deprecated bundle.
type Deprecation struct {
	Message string `json:"message"`
}

// Graph is the upgrade graph of a channel.
type Graph struct {
	Channel   Channel
	nodes     []node // newest first
	byVersion []int  // indexes of nodes, lowest version first
	index     map[string]int
	stem      string // the name of the newest entry without its version
}

// node is a parsed entry.
type node struct {
	Entry
	version *semver.Version // nil if invalid
	covers  semver.Range    // nil if there is no valid skipRange
	skips   map[string]bool
}

// New returns the graph of a channel, which need not be valid. Of several entries with the same name the first counts. Invalid versions
// and ranges are ignored.
func New(c Channel) *Graph {
	g := &Graph{Channel: c, index: map[string]int{}}
	ranges := map[string]semver.Range{} // entries often share a range
	for _, e := range c.Entries {
		if _, ok := g.index[e.Name]; ok || e.Name == "" {
			continue
		}
		covers, ok := ranges[e.SkipRange]
		if !ok {
			covers, _ = ParseRange(e.SkipRange)
			ranges[e.SkipRange] = covers
		}
		n := node{Entry: e, version: parseVersion(e.Version), covers: covers, skips: make(map[string]bool, len(e.Skips))}
		for _, name := range e.Skips {
			n.skips[name] = name != ""
		}
		g.index[e.Name] = len(g.nodes)
		g.nodes = append(g.nodes, n)
	}
	if _, ok := g.index[c.Head]; !ok {
		g.Channel.Head = g.highestHead()
	}
	g.sort()
	if len(g.nodes) > 0 {
		newest := g.nodes[0]
		g.stem = strings.TrimSuffix(strings.TrimSuffix(newest.Name, newest.Version), "v")
	}
	return g
}

// Entries returns the entries of the graph. The head is first, then the highest version whose replacing entries are all listed.
func (g *Graph) Entries() []Entry {
	entries := make([]Entry, len(g.nodes))
	for i, n := range g.nodes {
		entries[i] = n.Entry
	}
	return entries
}

// Index returns the position of an entry in Entries.
func (g *Graph) Index(name string) (int, bool) {
	i, ok := g.index[name]
	return i, ok
}

// Heads returns the names of the entries that no entry replaces or skips, in order. A valid channel has one head.
func Heads(entries []Entry) []string {
	behind := map[string]bool{}
	for _, e := range entries {
		behind[e.Replaces] = true
		for _, name := range e.Skips {
			behind[name] = true
		}
	}
	var heads []string
	for _, e := range entries {
		if !behind[e.Name] {
			heads = append(heads, e.Name)
		}
	}
	return heads
}

// highestHead returns the head with the highest version, or an empty string.
func (g *Graph) highestHead() string {
	heads := Heads(g.Entries())
	if len(heads) == 0 {
		return ""
	}
	return slices.MaxFunc(heads, func(a, b string) int {
		return cmp.Or(compareVersions(g.versionOf(a), g.versionOf(b)), cmp.Compare(a, b))
	})
}

// sort puts the head first, then the highest version whose replacing entries are all placed. In a cycle of replaces, the highest version
// goes first.
func (g *Graph) sort() {
	slices.SortStableFunc(g.nodes, func(a, b node) int {
		return cmp.Or(g.isHead(b)-g.isHead(a), compareVersions(b.version, a.version), cmp.Compare(b.Name, a.Name))
	})
	sorted := g.nodes
	for i, n := range sorted {
		g.index[n.Name] = i
	}
	replacers := make([]int, len(sorted)) // of each node, those that are not placed yet
	for _, n := range sorted {
		if i, ok := g.index[n.Replaces]; ok && n.Replaces != n.Name {
			replacers[i]++
		}
	}
	order := placementOrder(sorted, g.index, replacers)
	g.nodes = make([]node, len(sorted))
	for at, i := range order {
		g.nodes[at] = sorted[i]
		g.index[sorted[i].Name] = at
	}
	g.byVersion = make([]int, len(g.nodes))
	for i := range g.byVersion {
		g.byVersion[i] = i
	}
	slices.SortFunc(g.byVersion, func(a, b int) int {
		x, y := g.nodes[a], g.nodes[b]
		return cmp.Or(compareVersions(x.version, y.version), cmp.Compare(x.Name, y.Name))
	})
}

// placementOrder returns the indexes of nodes in the order of sort: index 0, then always the lowest index without replacers.
func placementOrder(nodes []node, index map[string]int, replacers []int) []int {
	order := make([]int, 0, len(nodes))
	placed := make([]bool, len(nodes))
	var free []int // ascending
	for i, n := range replacers {
		if n == 0 && i > 0 {
			free = append(free, i)
		}
	}
	for lowest, next := 0, 0; len(order) < len(nodes); {
		placed[next] = true
		order = append(order, next)
		if i, ok := index[nodes[next].Replaces]; ok && i != next {
			if replacers[i]--; replacers[i] == 0 && !placed[i] {
				at, _ := slices.BinarySearch(free, i)
				free = slices.Insert(free, at, i)
			}
		}
		for lowest < len(nodes) && placed[lowest] {
			lowest++
		}
		next = lowest
		if len(free) > 0 {
			next, free = free[0], free[1:]
		}
	}
	return order
}

func (g *Graph) isHead(n node) int {
	if n.Name == g.Channel.Head {
		return 1
	}
	return 0
}

// versionOf returns the version of an entry, or nil.
func (g *Graph) versionOf(name string) *semver.Version {
	if i, ok := g.index[name]; ok {
		return g.nodes[i].version
	}
	return nil
}

// Clean returns a text from a catalog as one line without control characters.
func Clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(text, string(unicode.ReplacementChar)))
}

// Label returns the version of a bundle, or its name if the version is unknown.
func (g *Graph) Label(name string) string {
	if i, ok := g.index[name]; ok {
		if g.nodes[i].version != nil {
			return g.nodes[i].Version
		}
		return Clean(name)
	}
	if v := versionIn(name); v != nil && g.IsConventional(name, v.String()) {
		return v.String()
	}
	return Clean(name)
}

// Labels returns the labels of the first limit bundles and the number of the others: "1.0.0, 1.1.0 and 3 more".
func (g *Graph) Labels(names []string, limit int) string {
	labels := make([]string, 0, limit)
	for _, name := range names[:min(limit, len(names))] {
		labels = append(labels, g.Label(name))
	}
	text := strings.Join(labels, ", ")
	if more := len(names) - limit; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// IsConventional reports whether a bundle name is a version after the package name, or after the prefix of the head's name.
func (g *Graph) IsConventional(name, version string) bool {
	stem := strings.TrimSuffix(strings.TrimSuffix(name, version), "v")
	return stem != name && (stem == g.Channel.Package+"." || stem == g.stem)
}

// NewestFirst sorts bundle names by version. The version of a bundle that is not an entry is the suffix of its name;
// bundles without a version are last.
func (g *Graph) NewestFirst(names []string) []string {
	version := func(name string) *semver.Version {
		if i, ok := g.index[name]; ok {
			return g.nodes[i].version
		}
		return versionIn(name)
	}
	return slices.SortedStableFunc(slices.Values(names), func(a, b string) int { return compareVersions(version(b), version(a)) })
}

// versionIn returns the version at the end of a bundle name such as foo.v1.2.0, or nil.
func versionIn(name string) *semver.Version {
	for i, r := range name {
		if r != '.' && r != '-' {
			continue
		}
		if v := parseVersion(strings.TrimPrefix(name[i+1:], "v")); v != nil {
			return v
		}
	}
	return nil
}
