package upgrade

import (
	"slices"
	"strings"

	"github.com/blang/semver/v4"
)

// Layout places the entries of a channel as git does commits: a row each, the newest on top, and lanes that lead down from each to the one it
// replaces.
type Layout struct {
	graph *Graph
	Rows  []Row
	Lanes int // how many there are side by side
}

// Row is an entry's.
type Row struct {
	Entry
	Label  string // the version, or the name of an entry without one
	IsHead bool

	Lane    int   // where its node is
	Above   bool  // the lane leads up from the node
	Below   bool  // the lane leads down from it
	Joins   []int // the lanes from above that end in the node, all to the right of it
	Through []int // the lanes that pass
}

// Layout places the entries.
func (g *Graph) Layout() *Layout {
	l := &Layout{graph: g}
	var lanes []string // which entry each lane leads down to; empty if it is free
	for i, n := range g.nodes {
		row := Row{Entry: n.Entry, Label: g.label(n.Name), IsHead: n.Name == g.Channel.Head, Lane: -1}
		row.Skips = g.newestFirst(n.Entry.Skips)
		for lane, to := range lanes {
			switch {
			case to == "":
			case to != n.Name:
				row.Through = append(row.Through, lane)
			case row.Lane < 0:
				row.Lane, row.Above = lane, true
			default:
				row.Joins = append(row.Joins, lane)
				lanes[lane] = ""
			}
		}
		if row.Lane < 0 {
			row.Lane = slices.Index(lanes, "")
		}
		if row.Lane < 0 {
			row.Lane = len(lanes)
			lanes = append(lanes, "")
		}
		lanes[row.Lane] = ""
		if to, ok := g.index[n.Replaces]; ok && to > i {
			lanes[row.Lane], row.Below = n.Replaces, true
		}
		l.Rows = append(l.Rows, row)
	}
	l.Lanes = len(lanes)
	return l
}

// newestFirst sorts names of bundles by their versions, which may be known only from how the names end. Those without one are last.
func (g *Graph) newestFirst(names []string) []string {
	version := func(name string) *semver.Version {
		if i, ok := g.index[name]; ok {
			return g.nodes[i].version
		}
		return versionIn(name)
	}
	return slices.SortedStableFunc(slices.Values(names), func(a, b string) int { return compareVersions(version(b), version(a)) })
}

// remarks say of a row what its lanes do not: its name unless it follows from the version, and its ways in beside the lane.
func (l *Layout) remarks(r *Row) []string {
	var out []string
	if r.Label != clean(r.Name) && !l.graph.isConventional(r.Name, r.Label) {
		out = append(out, clean(r.Name))
	}
	if r.Replaces != "" && !r.Below {
		out = append(out, "replaces "+l.graph.label(r.Replaces)+l.whereabouts(r.Replaces))
	}
	if len(r.Skips) > 0 {
		out = append(out, "skips "+l.graph.labels(r.Skips, len(r.Skips)))
	}
	if r.SkipRange != "" {
		out = append(out, "from "+clean(r.SkipRange))
	}
	return out
}

// whereabouts says where a replaced bundle is to which no lane leads.
func (l *Layout) whereabouts(name string) string {
	if _, ok := l.graph.index[name]; ok {
		return " (above)"
	}
	return " (no entry)"
}

// tags are the marks of a row.
func (r *Row) tags() []string {
	var out []string
	if r.IsHead {
		out = append(out, "head")
	}
	if r.Deprecated != "" {
		out = append(out, "deprecated")
	}
	return out
}

// cell is what stands at a lane of a row, and to the right of it.
type cell struct {
	glyph rune
	line  bool // a line leads on to the right
}

// glyphs are the signs that text is drawn with, of which ASCII has its own.
type glyphs struct {
	node, head, pass, cross, joinMiddle, joinLast, line rune
	more                                                string
}

var (
	unicodeGlyphs = glyphs{node: '○', head: '●', pass: '│', cross: '┼', joinMiddle: '┴', joinLast: '╯', line: '─', more: "…"}
	asciiGlyphs   = glyphs{node: 'o', head: '*', pass: '|', cross: '+', joinMiddle: '+', joinLast: '\'', line: '-', more: "..."}
)

// cells are those of a row up to its last lane that is not free. A row without a node has the Lane -1.
func (r *Row) cells(g glyphs) []cell {
	last := r.Lane // as far as the line from the node goes
	if len(r.Joins) > 0 {
		last = r.Joins[len(r.Joins)-1]
	}
	end := last
	if len(r.Through) > 0 {
		end = max(end, r.Through[len(r.Through)-1])
	}
	cells := make([]cell, end+1)
	for i := range cells {
		cells[i] = cell{' ', i >= r.Lane && i < last}
		if i > r.Lane && i < last {
			cells[i].glyph = g.line
		}
	}
	for _, i := range r.Through {
		cells[i].glyph = g.pass
		if i > r.Lane && i < last {
			cells[i].glyph = g.cross
		}
	}
	for _, i := range r.Joins {
		cells[i].glyph = g.joinMiddle
		if i == last {
			cells[i].glyph = g.joinLast
		}
	}
	switch {
	case r.Lane < 0:
	case r.IsHead:
		cells[r.Lane].glyph = g.head
	default:
		cells[r.Lane].glyph = g.node
	}
	return cells
}

// prefix draws the lanes of a row.
func (r *Row) prefix(g glyphs) string {
	var b strings.Builder
	cells := r.cells(g)
	for i, c := range cells {
		b.WriteRune(c.glyph)
		switch {
		case i == len(cells)-1:
		case c.line:
			b.WriteRune(g.line)
		default:
			b.WriteByte(' ')
		}
	}
	return b.String()
}
