package subset

import (
	"cmp"
	"slices"

	"github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// graph is the upgrade graph of a channel of which some entries stay.
type graph struct {
	entries []entry
	keep    []bool
	at      map[string]int // the first entry of a name
	top     int            // the first entry that stays on the way of replaces from the head of the whole channel; -1: none
}

// newGraph returns the graph of a channel. Of a valid one, it keeps less than asked for if the rest would not be valid.
func newGraph(entries []entry, keep []bool) *graph {
	g := &graph{entries: entries, keep: make([]bool, len(entries)), at: map[string]int{}, top: -1}
	for i, e := range entries {
		g.keep[i] = true
		if _, ok := g.at[e.Name]; !ok {
			g.at[e.Name] = i
		}
	}
	way, sound := g.outline()
	g.keep = slices.Clone(keep)
	if !sound {
		return g
	}
	if i := slices.IndexFunc(way, func(i int) bool { return keep[i] }); i >= 0 {
		g.top = way[i]
	}
	g.repair()
	return g
}

// outline returns the entries on the way of replaces from the head, and whether the channel is valid.
func (g *graph) outline() (way []int, sound bool) {
	v := g.view()
	if len(g.entries) > fbc.MaxEntries || len(g.at) < len(g.entries) || len(v.heads) != 1 || len(v.stranded(v.heads[0])) > 0 {
		return nil, false
	}
	for i := v.heads[0]; i >= 0 && !v.skipped[g.entries[i].Name]; i = v.next(i) {
		way = append(way, i)
	}
	return way, true
}

// view is the graph of the entries that stay, with their links.
type view struct {
	*graph
	links   []string        // what each entry replaces
	skipped map[string]bool // names
	heads   []int
}

func (g *graph) view() view {
	v := view{graph: g, links: g.links(), skipped: map[string]bool{}}
	var kept []channel.Entry
	for i, e := range g.entries {
		if !g.keep[i] {
			continue
		}
		kept = append(kept, channel.Entry{Name: e.Name, Replaces: v.links[i], Skips: e.Skips})
		for _, name := range e.Skips {
			v.skipped[name] = true
		}
	}
	for _, name := range channel.Heads(kept) {
		v.heads = append(v.heads, g.at[name])
	}
	return v
}

// links returns what each entry replaces: what it names or, if that goes and another entry behind it stays, that one.
func (g *graph) links() []string {
	const unknown = -2
	behind := make([]int, len(g.entries)) // the entry that stays at or behind each; -1: none
	for i := range behind {
		behind[i] = unknown
	}
	for i := range g.entries {
		var way []int
		at, ok := i, true
		for ok && behind[at] == unknown && !g.keep[at] {
			behind[at] = -1 // also ends a circle
			way = append(way, at)
			at, ok = g.at[g.entries[at].Replaces]
		}
		found := -1
		if ok && g.keep[at] {
			found = at
		} else if ok {
			found = behind[at]
		}
		for _, j := range way {
			behind[j] = found
		}
	}
	links := make([]string, len(g.entries))
	for i, e := range g.entries {
		links[i] = e.Replaces
		if to, ok := g.at[e.Replaces]; ok && !g.keep[to] && behind[to] >= 0 {
			links[i] = g.entries[behind[to]].Name
		}
	}
	return g.withoutCircles(links)
}

// withoutCircles takes back links that close a circle: what a skipped entry replaces may be newer than that.
func (g *graph) withoutCircles(links []string) []string {
	if len(g.entries) > fbc.MaxEntries {
		return links // invalid, and too many to look at
	}
	for i, e := range g.entries {
		if links[i] == e.Replaces || !g.keep[i] {
			continue
		}
		at, ok := g.at[links[i]]
		for n := 0; ok && at != i && n < len(links); n++ {
			at, ok = g.at[links[at]]
		}
		if ok && at == i {
			links[i] = e.Replaces
		}
	}
	return links
}

// next returns the entry that stays and that another replaces, -1 if there is none.
func (v view) next(i int) int {
	if to, ok := v.at[v.links[i]]; ok && v.keep[to] {
		return to
	}
	return -1
}

// stranded returns the entries that make the channel invalid if one is its head: those that are not skipped and not on the way of
// replaces from the head, which a skipped entry ends. If the way is a circle, they are those of the circle.
func (v view) stranded(head int) (out []int) {
	place := map[int]int{}
	var way []int
	for i := head; i >= 0; i = v.next(i) {
		if first, ok := place[i]; ok {
			return way[first:]
		}
		place[i] = len(way)
		way = append(way, i)
		if v.skipped[v.links[i]] {
			break
		}
	}
	for i, e := range v.entries {
		if _, reached := place[i]; v.keep[i] && !reached && !v.skipped[e.Name] {
			out = append(out, i)
		}
	}
	return out
}

// repair removes entries that would make the channel invalid. The whole channel had them skipped by entries that are gone.
func (g *graph) repair() {
	for slices.Contains(g.keep, true) {
		v := g.view()
		drop := v.excess()
		if len(drop) == 0 {
			return
		}
		for _, i := range drop {
			g.keep[i] = false
		}
	}
}

// excess returns entries that make the channel invalid. Its head is the one that leads to the top or, without that, the one of the
// highest version.
func (v view) excess() []int {
	heads := v.heads
	if v.top >= 0 {
		heads = slices.DeleteFunc(slices.Clone(heads), func(i int) bool { return !v.reachesTop(i) })
	}
	switch {
	case len(heads) > 0:
		return v.stranded(slices.MaxFunc(heads, v.compareVersions))
	case v.top >= 0:
		return v.above(v.top)
	}
	var kept []int
	for i, keep := range v.keep {
		if keep {
			kept = append(kept, i)
		}
	}
	return v.above(slices.MaxFunc(kept, v.compareVersions))
}

func (v view) compareVersions(a, b int) int {
	x, y := v.entries[a], v.entries[b]
	switch {
	case x.version != nil && y.version != nil:
		return cmp.Or(x.version.Compare(*y.version), cmp.Compare(x.Name, y.Name))
	case x.version != nil:
		return 1
	case y.version != nil:
		return -1
	}
	return cmp.Compare(x.Name, y.Name)
}

// reachesTop reports whether replaces and skips lead from an entry to the top.
func (v view) reachesTop(from int) bool {
	seen := map[int]bool{from: true}
	for open := []int{from}; len(open) > 0; {
		i := open[len(open)-1]
		open = open[:len(open)-1]
		if i == v.top {
			return true
		}
		for _, name := range append([]string{v.links[i]}, v.entries[i].Skips...) {
			if to, ok := v.at[name]; ok && v.keep[to] && !seen[to] {
				seen[to] = true
				open = append(open, to)
			}
		}
	}
	return false
}

// above returns the entries that replace or skip another.
func (v view) above(i int) (out []int) {
	name := v.entries[i].Name
	for j, e := range v.entries {
		if v.keep[j] && (v.links[j] == name || slices.Contains(e.Skips, name)) {
			out = append(out, j)
		}
	}
	return out
}

// heads returns which entries are heads.
func (g *graph) heads() []bool {
	heads := make([]bool, len(g.entries))
	for _, i := range g.view().heads {
		heads[i] = true
	}
	return heads
}

// cut returns which entries stay, and the edit of the channel.
func (g *graph) cut() ([]bool, Edit) {
	e := Edit{replaces: map[int]string{}}
	for i, link := range g.links() {
		switch {
		case !g.keep[i]:
			e.drop = append(e.drop, i)
		case link != g.entries[i].Replaces:
			e.replaces[i] = link
		}
	}
	return g.keep, e
}
