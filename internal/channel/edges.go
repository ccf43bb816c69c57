package channel

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
)

// Kind is the field of an entry that allows an upgrade.
type Kind string

// The kinds.
const (
	Replaces  Kind = "replaces"
	Skips     Kind = "skips"
	SkipRange Kind = "skipRange"
)

// Reason is the cause of an edge.
type Reason struct {
	Kind  Kind   `json:"kind"`
	Range string `json:"range,omitempty"` // of a SkipRange, as in the catalog
}

// String returns the reason as a label: "replaces", "skips" or "skipRange >=1.0.0 <1.2.0".
func (r Reason) String() string {
	if r.Kind == SkipRange {
		return "skipRange " + Clean(r.Range)
	}
	return string(r.Kind)
}

// Upgrade is one reason to upgrade from a bundle, which need not be an entry, to an entry.
type Upgrade struct {
	From, To string
	Reason
}

// Edge is all reasons to upgrade from a bundle, which need not be an entry, to an entry.
type Edge struct {
	From    string   `json:"from"`
	To      string   `json:"to"`
	Reasons []Reason `json:"reasons"` // at least one, in the order of the kinds
}

// Has reports whether a kind is among the reasons.
func (e Edge) Has(kind Kind) bool {
	return slices.ContainsFunc(e.Reasons, func(r Reason) bool { return r.Kind == kind })
}

// Edges returns all edges, those to the newest entry first.
func (g *Graph) Edges() []Edge {
	var edges []Edge
	for to := range g.nodes {
		edges = append(edges, g.EdgesTo(to)...)
	}
	return edges
}

// EdgesTo returns the edges to entry i: from the bundle it replaces, from those it skips, and from the entries that its skipRange covers,
// lowest version first.
func (g *Graph) EdgesTo(i int) []Edge {
	var edges []Edge
	at := map[string]int{}
	for _, u := range g.UpgradesTo(i) {
		k, ok := at[u.From]
		if !ok {
			k = len(edges)
			at[u.From] = k
			edges = append(edges, Edge{From: u.From, To: u.To})
		}
		edges[k].Reasons = append(edges[k].Reasons, u.Reason)
	}
	return edges
}

// UpgradesTo returns the upgrades to entry i by kind, those of its skipRange lowest version first.
func (g *Graph) UpgradesTo(i int) []Upgrade {
	n := &g.nodes[i]
	var upgrades []Upgrade
	add := func(from string, reason Reason) { upgrades = append(upgrades, Upgrade{from, n.Name, reason}) }
	if n.Replaces != "" {
		add(n.Replaces, Reason{Kind: Replaces})
	}
	seen := map[string]bool{"": true}
	for _, name := range n.Entry.Skips {
		if !seen[name] {
			seen[name] = true
			add(name, Reason{Kind: Skips})
		}
	}
	if n.covers == nil {
		return upgrades
	}
	for _, k := range g.byVersion {
		if from := &g.nodes[k]; n.covered(from) {
			add(from.Name, Reason{SkipRange, n.SkipRange})
		}
	}
	return upgrades
}

// reasons returns why n can be installed over a bundle, whose name or version may be unknown.
func (n *node) reasons(from *node) []Reason {
	var rs []Reason
	if from.Name != "" && n.Replaces == from.Name {
		rs = append(rs, Reason{Kind: Replaces})
	}
	if n.skips[from.Name] {
		rs = append(rs, Reason{Kind: Skips})
	}
	if n.covered(from) {
		rs = append(rs, Reason{SkipRange, n.SkipRange})
	}
	return rs
}

// covered reports whether a bundle is in the skipRange.
func (n *node) covered(from *node) bool {
	return from.version != nil && n.covers != nil && n.Name != from.Name && n.covers(*from.version)
}

// maxRange limits the text of a range, in bytes, because each of its terms becomes a nested call.
const maxRange = 4096

// ParseRange parses a version range. Unlike semver.ParseRange, it returns an error for an empty alternative: semver's range panics on use.
func ParseRange(text string) (semver.Range, error) {
	if len(text) > maxRange {
		return nil, fmt.Errorf("%d bytes exceed the limit of %d", len(text), maxRange)
	}
	for part := range strings.SplitSeq(text, "||") {
		if strings.TrimSpace(part) == "" {
			return nil, errors.New("empty version range")
		}
	}
	return semver.ParseRange(text)
}

// IsDowngrade reports whether an upgrade leads to a lower version. Pre-release tags of the same version do not count: some catalogs
// publish 1.0.1 again as 1.0.1-1.
func IsDowngrade(from, to semver.Version) bool {
	return to.FinalizeVersion() != from.FinalizeVersion() && to.LT(from)
}

func parseVersion(text string) *semver.Version {
	v, err := semver.Parse(text)
	if err != nil {
		return nil
	}
	return &v
}

// compareVersions sorts an unknown version below all others.
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
