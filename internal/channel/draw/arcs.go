package draw

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/operator-catalogs/catalogd/internal/channel"
)

// arc is an edge, or the edges of a skipRange from consecutive rows, drawn from the farthest of them.
type arc struct {
	kind channel.Kind
	from []int // rows, nearest first
}

// findArcs finds the arcs of each row. An edge with a lane or another arc gets none; the remarks list its other reasons.
func (s *svg) findArcs() {
	s.arcList = make([][]arc, len(s.rows))
	s.neighbors = make([]strings.Builder, len(s.rows))
	total := 0
	for i := range s.rows {
		var covered []int
		alone := map[int]bool{} // rows covered by the skipRange only
		for _, e := range s.graph.EdgesTo(i) {
			from, ok := s.graph.Index(e.From)
			if !ok || from == i {
				continue
			}
			total++
			fmt.Fprintf(&s.neighbors[i], " u%d", from)
			fmt.Fprintf(&s.neighbors[from], " d%d", i)
			if e.Has(channel.Skips) && !e.Has(channel.Replaces) {
				s.arcList[i] = append(s.arcList[i], arc{channel.Skips, []int{from}})
			}
			if e.Has(channel.SkipRange) {
				covered = append(covered, from)
				alone[from] = len(e.Reasons) == 1
			}
		}
		for _, run := range runs(i, covered) {
			if slices.ContainsFunc(run, func(r int) bool { return alone[r] }) {
				s.arcList[i] = append(s.arcList[i], arc{channel.SkipRange, run})
			}
		}
	}
	s.highlights = 2*total <= maxHighlights
	if !s.highlights {
		s.neighbors = make([]strings.Builder, len(s.rows))
	}
	for i := range s.arcList {
		for _, a := range s.arcList[i] {
			s.longest = max(s.longest, span(i, a))
		}
	}
	if s.longest > 0 {
		s.reach = math.Min(svgArcs, 16+10*float64(s.longest))
	}
}

// runs splits rows into runs of consecutive rows, each on one side of row at and nearest to it first.
func runs(at int, rows []int) [][]int {
	slices.Sort(rows)
	var out [][]int
	for i, r := range rows {
		if i == 0 || r != rows[i-1]+1 {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], r)
	}
	for _, run := range out {
		if run[0] < at {
			slices.Reverse(run)
		}
	}
	return out
}

func span(to int, a arc) int {
	d := a.from[len(a.from)-1] - to
	return max(d, -d)
}

// arcs draws the arcs that end at row i, with arrows. Longer arcs extend farther to the left.
func (s *svg) arcs(i int) {
	for _, a := range s.arcList[i] {
		far := a.from[len(a.from)-1]
		out := 12 + (s.reach-12)*math.Sqrt(float64(span(i, a))/float64(s.longest))
		x, y, fromY := s.arcs0, s.y(i), s.y(far)
		s.p(`<path class="e %s%s" d="M%s %sC%s %[4]s %[5]s %[6]s %[3]s %[6]s"/>`, a.kind, s.ends(i, a.from), px(x), px(fromY), px(x-out*4/3),
			px(y))
		s.p(`<path class="tip %s%s" d="M%s %sl-6-3v6z"/>`+"\n", a.kind, s.ends(i, a.from), px(x+2), px(y))
	}
}

// highlightStyle highlights the edges and neighbors of the row under the pointer.
func (s *svg) highlightStyle() string {
	var b strings.Builder
	for i := range s.rows {
		fmt.Fprintf(&b, "svg:has(#r%d:hover) .e%[1]d{stroke-width:2.5;stroke-opacity:1}\n", i)
		if s.highlights {
			fmt.Fprintf(&b, "svg:has(#r%d:hover) .u%[1]d{fill:#1a7f37;fill-opacity:.12}\nsvg:has(#r%[1]d:hover) .d%[1]d{fill-opacity:.08}\n", i)
		}
	}
	return b.String()
}

// svgStyle has no CSS variables, because some SVG renderers do not support them.
const svgStyle = `text{font-family:system-ui,-apple-system,"Segoe UI","Helvetica Neue",Arial,sans-serif}
.bg{fill:#fff}
.h1{font-size:24px;font-weight:700;fill:#1f2328}
.h2{font-size:15px;fill:#59636e}
.v{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:13px;font-weight:600;fill:#1f2328}
.gone{text-decoration:line-through;font-weight:400;fill:#59636e}
.note{font-size:12px;fill:#59636e}
.e{fill:none;pointer-events:none}
.tip{stroke:none;pointer-events:none}
.guide{fill:none;stroke:#d1d9e0;stroke-width:1;pointer-events:none}
path.replaces{stroke:#0969da;stroke-width:2.5}
path.skips{stroke:#8250df;stroke-width:1.2;stroke-opacity:.75}
path.skipRange{stroke:#0a7f86;stroke-width:1;stroke-opacity:.55}
.tip.skips{fill:#8250df;stroke:none}
.tip.skipRange{fill:#0a7f86;stroke:none}
.node{fill:#fff;stroke:#0969da;stroke-width:2.5}
.node.top{fill:#1a7f37;stroke:#1a7f37}
.node.old{stroke:#bc4c00}
.hit{fill:#0969da;fill-opacity:0}
.row:hover .hit{fill-opacity:.16}
rect.tag{fill-opacity:.14}
rect.head{fill:#1a7f37}
rect.deprecated{fill:#bc4c00}
.tagtext{font-size:11px;font-weight:600;text-anchor:middle}
text.head{fill:#1a7f37}
text.deprecated{fill:#bc4c00}
@media (prefers-color-scheme:dark){
.bg,.node{fill:#0d1117}
.h1,.v{fill:#e6edf3}
.h2,.note,.gone{fill:#9198a1}
.guide{stroke:#2a313c}
path.replaces,.node{stroke:#4493f8}
path.skips{stroke:#ab7df8}
path.skipRange{stroke:#39c5cf}
.tip.skips{fill:#ab7df8;stroke:none}
.tip.skipRange{fill:#39c5cf;stroke:none}
.node.top{fill:#3fb950;stroke:#3fb950}
.node.old{stroke:#f0883e}
.hit{fill:#4493f8}
rect.head,text.head{fill:#3fb950}
rect.deprecated,text.deprecated{fill:#f0883e}
}
`
