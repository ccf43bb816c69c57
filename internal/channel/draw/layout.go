// Package draw draws the upgrade graph of a channel as text, SVG, DOT or Mermaid.
package draw

import (
	"slices"
	"strings"

	"github.com/operator-catalogs/catalogd/internal/channel"
)

// layout places entries as `git log --graph` does commits: one row each, newest on top, with lanes down to the replaced entries.
type layout struct {
	graph *channel.Graph
	rows  []row
	lanes int
}

// maxThrough limits the lanes that pass rows, in all rows: their number can be quadratic in that of the entries.
const maxThrough = 1_000_000

// row is the row of an entry.
type row struct {
	channel.Entry
	Row
	label  string
	isHead bool
}

// Row has the lanes in the row of an entry. Lanes count from 0 at the left.
type Row struct {
	Lane    int   // of the node; -1 if there is no node
	Above   bool  // the lane continues above the node
	Below   bool  // the lane continues below it
	Joins   []int // lanes from above that end in the node, all to the right of it
	Through []int // lanes that pass; missing in later rows of an absurdly broad graph
}

// Lanes returns the rows of the entries of a graph, newest first, and the number of lanes.
func Lanes(g *channel.Graph) (rows []Row, lanes int) {
	l := newLayout(g)
	for i := range l.rows {
		rows = append(rows, l.rows[i].Row)
	}
	return rows, l.lanes
}

func newLayout(g *channel.Graph) *layout {
	l := &layout{graph: g}
	var lanes []string // the entry that each lane leads to; empty if the lane is free
	through := 0
	for i, e := range g.Entries() {
		r := row{Entry: e, label: g.Label(e.Name), isHead: e.Name == g.Channel.Head, Row: Row{Lane: -1}}
		r.Skips = g.NewestFirst(e.Skips)
		for lane, to := range lanes {
			switch {
			case to == "":
			case to != e.Name:
				if through++; through <= maxThrough {
					r.Through = append(r.Through, lane)
				}
			case r.Lane < 0:
				r.Lane, r.Above = lane, true
			default:
				r.Joins = append(r.Joins, lane)
				lanes[lane] = ""
			}
		}
		if r.Lane < 0 {
			r.Lane = slices.Index(lanes, "")
		}
		if r.Lane < 0 {
			r.Lane = len(lanes)
			lanes = append(lanes, "")
		}
		lanes[r.Lane] = ""
		if to, ok := g.Index(e.Replaces); ok && to > i {
			lanes[r.Lane], r.Below = e.Replaces, true
		}
		l.rows = append(l.rows, r)
	}
	l.lanes = len(lanes)
	return l
}

// remarks returns what the lanes of a row do not show: an unconventional name, and the ways in except the lane.
func (l *layout) remarks(r *row) []string {
	var out []string
	if r.label != channel.Clean(r.Name) && !l.graph.IsConventional(r.Name, r.label) {
		out = append(out, channel.Clean(r.Name))
	}
	if r.Replaces != "" && !r.Below {
		place := " (no entry)"
		if _, ok := l.graph.Index(r.Replaces); ok {
			place = " (above)"
		}
		out = append(out, "replaces "+l.graph.Label(r.Replaces)+place)
	}
	if len(r.Skips) > 0 {
		out = append(out, "skips "+l.graph.Labels(r.Skips, len(r.Skips)))
	}
	if r.SkipRange != "" {
		out = append(out, "from "+channel.Clean(r.SkipRange))
	}
	return out
}

func (r *row) tags() []string { return tags(r.Entry, r.isHead) }

func tags(e channel.Entry, isHead bool) []string {
	var out []string
	if isHead {
		out = append(out, "head")
	}
	if e.Deprecation != nil {
		out = append(out, "deprecated")
	}
	return out
}

// caption returns the label of a bundle with its tags.
func caption(g *channel.Graph, entries []channel.Entry, name string) string {
	i, ok := g.Index(name)
	if !ok {
		return g.Label(name) + " (no entry)"
	}
	if t := tags(entries[i], name == g.Channel.Head); len(t) > 0 {
		return g.Label(name) + " (" + strings.Join(t, ", ") + ")"
	}
	return g.Label(name)
}

// outsiders returns the bundles that edges lead from and that are not entries.
func outsiders(g *channel.Graph, edges []channel.Edge) []string {
	var out []string
	seen := map[string]bool{}
	for _, e := range edges {
		if _, ok := g.Index(e.From); !ok && !seen[e.From] {
			seen[e.From] = true
			out = append(out, e.From)
		}
	}
	return out
}

func reasons(e channel.Edge) string {
	texts := make([]string, len(e.Reasons))
	for i, r := range e.Reasons {
		texts[i] = r.String()
	}
	return strings.Join(texts, ", ")
}
