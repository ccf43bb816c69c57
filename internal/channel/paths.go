package upgrade

import (
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// Bundle is an end of a step.
type Bundle struct {
	Name       string // may be empty: of an installed bundle only the version may be known
	Version    string
	Deprecated string
	IsEntry    bool // of the channel
}

// Step is an upgrade from one bundle to another.
type Step struct {
	From, To Bundle
	Reasons  []Reason
	Words    []string // the reasons as sentences without a full stop
	IsDown   bool     // the version that it leads to is lower, as fbc.IsDowngrade has it
}

// Paths are the ways from one bundle to another. There is at least one.
type Paths struct {
	From, To Bundle

	// OLM is the path that OLM v0 takes by itself: from each bundle to the best of its successors, which is the one nearest the head. It is
	// nil if it does not lead to To; OLMNote says why then.
	OLM     []Step
	OLMNote string

	// Shortest is nil if OLM's path is as short.
	Shortest []Step

	// Others counts the paths beside those two. If Uncounted, there may be more.
	Others    int
	Uncounted bool

	Notes []string // what else is to be known, a sentence each
}

// maxPaths is where the counting of paths ends: in a dense graph they are more than anybody wants to know.
const maxPaths = 1_000_000

// Paths finds the ways from one bundle to another, each given by name or version. An empty to means the head. From need not be an entry of the
// channel. If there is no way the error is a *BlockedError.
func (g *Graph) Paths(from, to string) (*Paths, error) {
	if to == "" {
		to = g.Channel.Head
	}
	target, ok := g.find(to)
	if !ok {
		return nil, g.unknownTarget(to)
	}
	w := &walk{g: g, to: target, succ: map[int][]int{}}
	start, ok := g.find(from)
	if ok {
		w.from, w.fromName, w.fromVersion = start, g.nodes[start].Name, g.nodes[start].version
	} else {
		w.from = outside
		w.fromName, w.fromVersion = g.findOutside(from)
	}
	if w.from == w.to {
		return nil, g.already(target)
	}
	if len(w.next(w.from)) == 0 && w.from == outside {
		return nil, g.unknown(from)
	}
	shortest, reached := w.shortest()
	if shortest == nil {
		return nil, w.blocked(reached)
	}
	p := &Paths{From: w.bundle(w.from), To: w.bundle(w.to), Notes: w.notes(from)}
	olm, note := w.olm()
	p.OLM, p.OLMNote = w.steps(olm), note
	shown := [][]int{olm}
	if len(olm) != len(shortest) {
		p.Shortest = w.steps(shortest)
		shown = append(shown, shortest)
	}
	p.Others, p.Uncounted = w.others(shown, reached)
	return p, nil
}

// find is the entry of a name or version.
func (g *Graph) find(text string) (int, bool) {
	if i, ok := g.index[text]; ok {
		return i, true
	}
	i := slices.IndexFunc(g.nodes, func(n node) bool { return n.version != nil && n.Version == text })
	if i >= 0 {
		return i, true
	}
	v := parseVersion(strings.TrimPrefix(text, "v"))
	if v == nil {
		return 0, false
	}
	i = slices.IndexFunc(g.nodes, func(n node) bool { return n.version != nil && n.version.String() == v.String() })
	if i < 0 {
		i = slices.IndexFunc(g.nodes, func(n node) bool { return n.version != nil && n.version.Compare(*v) == 0 }) // apart from the build
	}
	return i, i >= 0
}

// findOutside tells name and version of a bundle that is no entry, as far as they can be told: of a version the name is the one under which
// entries replace or skip it, of a name the version is the one that it ends with.
func (g *Graph) findOutside(text string) (string, *semver.Version) {
	if v := parseVersion(strings.TrimPrefix(text, "v")); v != nil {
		for _, n := range g.nodes {
			for _, name := range append([]string{n.Replaces}, n.Entry.Skips...) {
				in := versionIn(name)
				if _, isEntry := g.index[name]; !isEntry && in != nil && in.String() == v.String() {
					return name, v
				}
			}
		}
		return "", v
	}
	return text, versionIn(text)
}

// walk looks for ways through the graph. Bundles are numbered as the nodes are; outside is the bundle it starts from, where that is no entry.
type walk struct {
	g           *Graph
	from, to    int
	fromName    string
	fromVersion *semver.Version
	succ        map[int][]int
}

const outside = -1

// next are the bundles that may be installed over one, newest first.
func (w *walk) next(i int) []int {
	if s, ok := w.succ[i]; ok {
		return s
	}
	name, version := w.identity(i)
	s := []int{}
	for to := range w.g.nodes {
		if to != i && len(w.g.nodes[to].reasons(name, version)) > 0 {
			s = append(s, to)
		}
	}
	w.succ[i] = s
	return s
}

func (w *walk) identity(i int) (string, *semver.Version) {
	if i == outside {
		return w.fromName, w.fromVersion
	}
	return w.g.nodes[i].Name, w.g.nodes[i].version
}

func (w *walk) bundle(i int) Bundle {
	if i != outside {
		n := w.g.nodes[i]
		return Bundle{Name: n.Name, Version: n.Version, Deprecated: n.Deprecated, IsEntry: true}
	}
	b := Bundle{Name: w.fromName}
	if w.fromVersion != nil {
		b.Version = w.fromVersion.String()
	}
	return b
}

// shortest is a shortest path, of several the one that goes nearest the head first; and, newest first, what can be reached without passing it.
func (w *walk) shortest() (path, reached []int) {
	before := map[int]int{w.from: w.from}
	queue := []int{w.from}
	for len(queue) > 0 {
		i := queue[0]
		queue = queue[1:]
		if i == w.to {
			continue // what lies behind is not asked for
		}
		for _, next := range w.next(i) {
			if _, ok := before[next]; !ok {
				before[next] = i
				queue = append(queue, next)
				reached = append(reached, next)
			}
		}
	}
	slices.Sort(reached)
	if _, ok := before[w.to]; !ok {
		return nil, reached
	}
	for i := w.to; i != w.from; i = before[i] {
		path = append(path, i)
	}
	path = append(path, w.from)
	slices.Reverse(path)
	return path, reached
}

// olm is the path that OLM v0 takes; nil and why if it does not lead to the target. OLM prefers, of the entries it offers that may be installed
// over the present one, the one nearest the head: getSubscriptionVariables in the file that offered names.
func (w *walk) olm() (path []int, note string) {
	offered, err := w.g.offered()
	if err != nil {
		return nil, fmt.Sprintf("OLM v0 refuses the channel: %v", err)
	}
	path = []int{w.from}
	for i := w.from; i != w.to; {
		best := slices.IndexFunc(offered, func(to int) bool { return slices.Contains(w.next(i), to) })
		switch {
		case len(path) > 1 && w.g.nodes[i].Name == w.g.Channel.Head:
			return nil, fmt.Sprintf("OLM v0 does not stop at %s by itself: it goes %s", w.label(w.to), w.route(path))
		case best < 0:
			return nil, fmt.Sprintf("OLM v0 offers no upgrade from %s: what could take over, %s, is not on the chain of replaces from the head, or another entry skips it",
				w.label(i), w.labels(w.next(i), 3))
		case slices.Contains(path, offered[best]):
			return nil, fmt.Sprintf("OLM v0 goes in a circle: %s", w.route(append(path, offered[best])))
		}
		i = offered[best]
		path = append(path, i)
	}
	return path, ""
}

// others counts the paths beside those shown. Only steps towards the head are counted; a step the other way (a skipRange may cover what is
// newer) makes the count a lower bound.
func (w *walk) others(shown [][]int, reached []int) (count int, uncounted bool) {
	ways := map[int]int{w.to: 1} // from a bundle to the target, going up only
	for _, i := range reached {  // newest first, so what follows is known
		if i != w.to {
			ways[i] = w.waysUp(i, ways)
		}
	}
	ways[w.from] = w.waysUp(w.from, ways)
	for _, i := range append(reached, w.from) {
		for _, next := range w.next(i) {
			uncounted = uncounted || i != w.to && !isUp(i, next) && next != w.from && ways[next] > 0
		}
	}
	count = ways[w.from]
	for _, path := range shown {
		if len(path) > 0 && goesUp(path) {
			count--
		}
	}
	if ways[w.from] == maxPaths {
		return maxPaths, true
	}
	return count, uncounted
}

// waysUp adds up the ways of what follows, which has to be known.
func (w *walk) waysUp(i int, ways map[int]int) int {
	n := 0
	for _, next := range w.next(i) {
		if isUp(i, next) {
			n = min(n+ways[next], maxPaths)
		}
	}
	return n
}

func isUp(from, to int) bool { return from == outside || to < from }

func goesUp(path []int) bool {
	for k := 1; k < len(path); k++ {
		if !isUp(path[k-1], path[k]) {
			return false
		}
	}
	return true
}

// steps tells a path.
func (w *walk) steps(path []int) []Step {
	var steps []Step
	for k := 1; k < len(path); k++ {
		name, version := w.identity(path[k-1])
		to := &w.g.nodes[path[k]]
		s := Step{From: w.bundle(path[k-1]), To: w.bundle(path[k]), Reasons: to.reasons(name, version)}
		s.IsDown = version != nil && to.version != nil && fbc.IsDowngrade(*version, *to.version)
		for _, r := range s.Reasons {
			s.Words = append(s.Words, w.words(path[k-1], path[k], r))
		}
		steps = append(steps, s)
	}
	return steps
}
