// Package upgrade reads the entries of a channel as an upgrade graph: which bundle may be installed over which, and why; the path from
// one to another; and pictures of the whole as text, SVG, DOT and Mermaid.
//
// An edge means what it means to OLM: https://olm.operatorframework.io/docs/concepts/olm-architecture/operator-catalog/creating-an-update-graph/.
package upgrade

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
)

// Channel is what a catalog says of a channel.
type Channel struct {
	Catalog string // may be empty: pictures name it
	Package string
	Name    string
	Head    string // the name of the newest bundle; where it is no entry, the highest that no other replaces or skips
	Entries []Entry
}

// Entry is a bundle's place in a channel.
type Entry struct {
	Name       string
	Version    string // may be empty or no version at all; no skipRange covers it then
	Replaces   string
	Skips      []string
	SkipRange  string
	Deprecated string // the message, empty if it is not deprecated
}

// Kind is a way in which one bundle allows to be installed over another.
type Kind string

// The kinds, named as the fields of an entry.
const (
	Replaces  Kind = "replaces"
	Skips     Kind = "skips"
	SkipRange Kind = "skipRange"
)

// Reason is why there is an edge.
type Reason struct {
	Kind  Kind
	Range string // of a SkipRange, as the catalog has it
}

// String gives the reason as a label: "replaces", "skips", "skipRange >=1.0.0 <1.2.0".
func (r Reason) String() string {
	if r.Kind == SkipRange {
		return "skipRange " + clean(r.Range)
	}
	return string(r.Kind)
}

// Edge says that the bundle To may be installed over From. To is an entry; From need not be one.
type Edge struct {
	From, To string
	Reasons  []Reason // at least one, in the order of the constants
}

// Graph is the upgrade graph of a channel.
type Graph struct {
	Channel Channel
	nodes   []node // newest first
	index   map[string]int
	stem    string // what the name of the head begins with, up to its version
}

// node is an entry, read.
type node struct {
	Entry
	version *semver.Version // nil if it has none that can be read
	covers  semver.Range    // nil if there is no skipRange that can be read
	skips   map[string]bool
}

// New reads a channel. Of entries of one name the first counts, and what cannot be read says nothing: whether a catalog is sound is not
// asked here.
func New(c Channel) *Graph {
	g := &Graph{Channel: c, index: map[string]int{}}
	ranges := map[string]semver.Range{} // many entries have the same
	for _, e := range c.Entries {
		if _, ok := g.index[e.Name]; ok || e.Name == "" {
			continue
		}
		g.index[e.Name] = 0
		n := node{Entry: e, version: parseVersion(e.Version), skips: map[string]bool{}}
		for _, name := range e.Skips {
			n.skips[name] = name != ""
		}
		if _, ok := ranges[e.SkipRange]; !ok {
			ranges[e.SkipRange] = parseRange(e.SkipRange)
		}
		n.covers = ranges[e.SkipRange]
		g.nodes = append(g.nodes, n)
	}
	if _, ok := g.index[c.Head]; !ok {
		g.Channel.Head = g.guessHead()
	}
	g.sort()
	if len(g.nodes) > 0 {
		head := g.nodes[0].Entry
		g.stem = strings.TrimSuffix(strings.TrimSuffix(head.Name, head.Version), "v")
	}
	return g
}

func parseVersion(text string) *semver.Version {
	v, err := semver.Parse(text)
	if err != nil {
		return nil
	}
	return &v
}

// maxRange bounds the text of a skipRange that is read, as the content service does: each of its terms becomes a call within a call.
const maxRange = 4096

// parseRange gives nil for what cannot be read.
func parseRange(text string) semver.Range {
	if text == "" || len(text) > maxRange {
		return nil
	}
	for part := range strings.SplitSeq(text, "||") {
		if strings.TrimSpace(part) == "" {
			return nil // ParseRange makes of it a range that panics when it is asked
		}
	}
	holds, err := semver.ParseRange(text)
	if err != nil {
		return nil
	}
	return holds
}

// heads are the entries that no other replaces or skips, in the order of the catalog. A sound channel has one.
func (g *Graph) heads() []string {
	behind := map[string]bool{}
	for _, n := range g.nodes {
		behind[n.Replaces] = true
		for name := range n.skips {
			behind[name] = true
		}
	}
	var heads []string
	for _, n := range g.nodes {
		if !behind[n.Name] {
			heads = append(heads, n.Name)
		}
	}
	return heads
}

// guessHead is the head, or the highest where there are several; empty if there is none.
func (g *Graph) guessHead() string {
	heads := g.heads()
	if len(heads) == 0 {
		return ""
	}
	versions := map[string]*semver.Version{}
	for _, n := range g.nodes {
		versions[n.Name] = n.version
	}
	return slices.MaxFunc(heads, func(a, b string) int {
		return cmp.Or(compareVersions(versions[a], versions[b]), cmp.Compare(a, b))
	})
}

// sort puts the nodes newest first: the head, then the highest version whose replacers have all gone before, so that what replaces a bundle
// stands above it. Where entries replace each other in a circle, the highest version breaks it.
func (g *Graph) sort() {
	slices.SortStableFunc(g.nodes, func(a, b node) int {
		return cmp.Or(g.isHead(b)-g.isHead(a), compareVersions(b.version, a.version), cmp.Compare(b.Name, a.Name))
	})
	replacers := map[string]int{}
	for _, n := range g.nodes {
		if n.Replaces != n.Name {
			replacers[n.Replaces]++
		}
	}
	left := g.nodes
	g.nodes = make([]node, 0, len(left))
	for len(left) > 0 {
		next := 0
		if len(g.nodes) > 0 { // the head is first, whatever replaces it
			next = max(0, slices.IndexFunc(left, func(n node) bool { return replacers[n.Name] == 0 }))
		}
		n := left[next]
		left = slices.Delete(left, next, next+1)
		if n.Replaces != n.Name {
			replacers[n.Replaces]--
		}
		g.index[n.Name] = len(g.nodes)
		g.nodes = append(g.nodes, n)
	}
}

func (g *Graph) isHead(n node) int {
	if n.Name == g.Channel.Head {
		return 1
	}
	return 0
}

// compareVersions puts an unknown version below all others.
func compareVersions(a, b *semver.Version) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return a.Compare(*b)
}

// reasons are why n may be installed over the bundle of a name and version; none if it may not.
func (n *node) reasons(name string, version *semver.Version) []Reason {
	var rs []Reason
	if name != "" && n.Replaces == name {
		rs = append(rs, Reason{Kind: Replaces})
	}
	if n.skips[name] {
		rs = append(rs, Reason{Kind: Skips})
	}
	if n.isCovered(name, version) {
		rs = append(rs, Reason{SkipRange, n.SkipRange})
	}
	return rs
}

func (n *node) isCovered(name string, version *semver.Version) bool {
	return version != nil && n.covers != nil && n.Name != name && n.covers(*version)
}

// Edges are all edges of the graph, those to the newest entry first; of one entry those from the bundle it replaces, from those it skips, and
// from the entries that its skipRange covers, lowest first.
func (g *Graph) Edges() []Edge {
	var edges []Edge
	for to := range g.nodes {
		edges = append(edges, g.edgesTo(to)...)
	}
	return edges
}

func (g *Graph) edgesTo(to int) []Edge {
	n := &g.nodes[to]
	var froms []string
	seen := map[string]bool{"": true}
	add := func(name string) {
		if !seen[name] {
			seen[name] = true
			froms = append(froms, name)
		}
	}
	add(n.Replaces)
	for _, name := range n.Entry.Skips {
		add(name)
	}
	for i := len(g.nodes) - 1; i >= 0 && n.covers != nil; i-- {
		if from := &g.nodes[i]; n.isCovered(from.Name, from.version) {
			add(from.Name)
		}
	}
	edges := make([]Edge, len(froms))
	for i, from := range froms {
		edges[i] = Edge{from, n.Name, n.reasons(from, g.versionOf(from))}
	}
	return edges
}

// versionOf is the version of an entry; nil if it has none or is no entry.
func (g *Graph) versionOf(name string) *semver.Version {
	if i, ok := g.index[name]; ok {
		return g.nodes[i].version
	}
	return nil
}

// offered are the entries that OLM v0 offers as upgrades, the most wanted first: the chain of replaces from the head down, without those that
// any entry skips. It is an error if OLM refuses the channel. See sortChannel in
// https://github.com/operator-framework/operator-lifecycle-manager/blob/master/pkg/controller/registry/resolver/resolver.go
func (g *Graph) offered() ([]int, error) {
	heads := g.heads()
	if len(heads) == 0 {
		return nil, errors.New("every entry is replaced or skipped by another")
	}
	if len(heads) > 1 {
		return nil, errors.New("more than one entry is replaced and skipped by no other: " + g.labels(heads, 3))
	}
	skipped, seen := map[string]bool{}, map[int]bool{}
	for _, n := range g.nodes {
		for name := range n.skips {
			skipped[name] = true
		}
	}
	var chain []int
	for i, ok := g.index[heads[0]]; ok; i, ok = g.index[g.nodes[i].Replaces] {
		if seen[i] {
			return nil, errors.New("entries replace each other in a circle, one of them " + g.label(g.nodes[i].Name))
		}
		seen[i] = true
		if !skipped[g.nodes[i].Name] {
			chain = append(chain, i)
		}
	}
	return chain, nil
}
