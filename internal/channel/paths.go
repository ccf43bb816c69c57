package channel

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
)

// Bundle is the start or the end of a step.
type Bundle struct {
	Name        string       `json:"name,omitempty"` // may be unknown for an installed bundle
	Version     string       `json:"version,omitempty"`
	Deprecation *Deprecation `json:"deprecation,omitempty"`
}

// Step is an upgrade from one bundle to another.
type Step struct {
	From         Bundle   `json:"from"`
	To           Bundle   `json:"to"`
	Reasons      []Reason `json:"reasons"`
	Explanations []string `json:"-"` // the reasons as clauses without a full stop
	IsDowngrade  bool     `json:"isDowngrade,omitempty"`
}

// Paths are the ways from one bundle to another. There is at least one.
type Paths struct {
	// OLM is the path that OLM v0 takes: from each bundle to the successor nearest the head. If it does not lead to To,
	// OLM is nil and OLMNote states why.
	OLM     []Step
	OLMNote string

	// Shortest is nil if OLM's path is as short.
	Shortest []Step

	// Others counts the other paths. If MayBeMore, the count is a lower bound.
	Others    int
	MayBeMore bool

	Notes []string // assumptions about From, as sentences
}

// AnyShortest returns a shortest path. It is the path of OLM if no path is shorter.
func (p *Paths) AnyShortest() []Step {
	if p.Shortest != nil {
		return p.Shortest
	}
	return p.OLM
}

// maxPaths limits the count of paths; a dense graph has more.
const maxPaths = 1_000_000

// Paths returns the ways from one bundle to another, each given by name or version. An empty to means the head. From
// need not be an entry. If there is no path, the error is a *BlockedError.
func (g *Graph) Paths(from, to string) (*Paths, error) {
	if to == "" {
		to = g.Channel.Head
	}
	target, ok := g.find(to)
	if !ok {
		return nil, g.unknownTarget(to)
	}
	w := &walk{g: g, to: target, succ: map[int][]int{}}
	if w.from, ok = g.find(from); !ok {
		w.from, w.outside = len(g.nodes), g.outside(from)
	}
	if w.from == w.to {
		return nil, g.alreadyThere(target)
	}
	if w.isOutside() && len(w.next(w.from)) == 0 {
		return nil, g.unknownStart(from)
	}
	shortest, reached := w.shortest()
	if shortest == nil {
		return nil, w.blocked(reached)
	}
	p := &Paths{Notes: w.notes(from)}
	olm, note := w.olm()
	p.OLM, p.OLMNote = w.steps(olm), note
	shown := [][]int{olm}
	if len(olm) != len(shortest) {
		p.Shortest = w.steps(shortest)
		shown = append(shown, shortest)
	}
	p.Others, p.MayBeMore = w.others(shown, reached)
	return p, nil
}

// find returns the entry with a name or version.
func (g *Graph) find(text string) (int, bool) {
	if i, ok := g.index[text]; ok {
		return i, true
	}
	v := parseVersion(strings.TrimPrefix(text, "v"))
	if v == nil {
		return 0, false
	}
	i := slices.IndexFunc(g.nodes, func(n node) bool { return n.version != nil && n.version.String() == v.String() })
	if i < 0 {
		i = slices.IndexFunc(g.nodes, func(n node) bool { return n.version != nil && n.version.Compare(*v) == 0 }) // ignoring build metadata
	}
	return i, i >= 0
}

// outside returns a bundle that is not an entry. The name of a version is the name under which entries replace or skip
// it; the version of a name is its suffix. Either may be unknown.
func (g *Graph) outside(text string) node {
	name, v := text, parseVersion(strings.TrimPrefix(text, "v"))
	if v == nil {
		v = versionIn(text)
	} else {
		name = g.outsideName(v)
	}
	n := node{Entry: Entry{Name: name}, version: v}
	if v != nil {
		n.Version = v.String()
	}
	return n
}

// outsideName returns a name with a version that entries replace or skip and that is not an entry, or an empty string.
func (g *Graph) outsideName(v *semver.Version) string {
	for _, n := range g.nodes {
		for _, name := range append([]string{n.Replaces}, n.Entry.Skips...) {
			in := versionIn(name)
			if _, isEntry := g.index[name]; !isEntry && in != nil && in.String() == v.String() {
				return name
			}
		}
	}
	return ""
}

// walk searches paths through the graph. Bundles are indexes of nodes, or their number for a start that is not an entry.
type walk struct {
	g        *Graph
	from, to int
	outside  node          // a start that is not an entry
	succ     map[int][]int // results of next
}

func (w *walk) isOutside() bool { return w.from == len(w.g.nodes) }

func (w *walk) node(i int) *node {
	if i == len(w.g.nodes) {
		return &w.outside
	}
	return &w.g.nodes[i]
}

// next returns the entries that can be installed over a bundle, newest first.
func (w *walk) next(i int) []int {
	if s, ok := w.succ[i]; ok {
		return s
	}
	from := w.node(i)
	s := []int{}
	for to := range w.g.nodes {
		if to != i && len(w.g.nodes[to].reasons(from)) > 0 {
			s = append(s, to)
		}
	}
	w.succ[i] = s
	return s
}

func (w *walk) bundle(i int) Bundle {
	n := w.node(i)
	return Bundle{Name: n.Name, Version: n.Version, Deprecation: n.Deprecation}
}

// shortest returns a shortest path, preferring steps near the head, and the entries that are reachable without passing
// the target, newest first.
func (w *walk) shortest() (path, reached []int) {
	before := map[int]int{w.from: w.from}
	queue := []int{w.from}
	for len(queue) > 0 {
		i := queue[0]
		queue = queue[1:]
		if i == w.to {
			continue // ignore what lies beyond the target
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

// olm returns the path that OLM v0 takes, or nil and the reason if it does not lead to the target. OLM takes the
// successor nearest the head among those it offers: see getSubscriptionVariables in the file that offered cites.
func (w *walk) olm() (path []int, note string) {
	offered, err := w.g.offered()
	if err != nil {
		return nil, fmt.Sprintf("OLM v0 rejects the channel: %v", err)
	}
	path = []int{w.from}
	for i := w.from; i != w.to; {
		best := slices.IndexFunc(offered, func(to int) bool { return slices.Contains(w.next(i), to) })
		switch {
		case len(path) > 1 && w.g.nodes[i].Name == w.g.Channel.Head:
			return nil, fmt.Sprintf("OLM v0 does not stop at %s: it takes %s", w.label(w.to), w.route(path))
		case best < 0:
			return nil, fmt.Sprintf("OLM v0 offers no upgrade from %s: its successors (%s) are skipped by other entries "+
				"or are not on the replaces chain of the head", w.label(i), w.g.labels(w.next(i), 3))
		case slices.Contains(path, offered[best]):
			return nil, fmt.Sprintf("OLM v0 goes in a cycle: %s", w.route(append(path, offered[best])))
		}
		i = offered[best]
		path = append(path, i)
	}
	return path, ""
}

// others counts the paths except those shown. It counts only steps toward the head. A step the other way, by a
// skipRange that covers a newer version, makes the count a lower bound.
func (w *walk) others(shown [][]int, reached []int) (count int, mayBeMore bool) {
	ways := map[int]int{w.to: 1} // to the target, by steps toward the head
	for _, i := range reached {  // newest first, so the ways of successors are known
		if i != w.to {
			ways[i] = w.waysUp(i, ways)
		}
	}
	ways[w.from] = w.waysUp(w.from, ways)
	for _, i := range append(reached, w.from) {
		for _, next := range w.next(i) {
			mayBeMore = mayBeMore || i != w.to && next > i && next != w.from && ways[next] > 0
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
	return count, mayBeMore
}

// waysUp returns the sum of the ways of the successors, which must be known.
func (w *walk) waysUp(i int, ways map[int]int) int {
	n := 0
	for _, next := range w.next(i) {
		if next < i {
			n = min(n+ways[next], maxPaths)
		}
	}
	return n
}

func goesUp(path []int) bool {
	for k := 1; k < len(path); k++ {
		if path[k] > path[k-1] {
			return false
		}
	}
	return true
}

// steps returns the steps of a path.
func (w *walk) steps(path []int) []Step {
	var steps []Step
	for k := 1; k < len(path); k++ {
		from, to := w.node(path[k-1]), w.node(path[k])
		s := Step{From: w.bundle(path[k-1]), To: w.bundle(path[k]), Reasons: to.reasons(from)}
		s.IsDowngrade = from.version != nil && to.version != nil && IsDowngrade(*from.version, *to.version)
		for _, r := range s.Reasons {
			s.Explanations = append(s.Explanations, w.explain(path[k-1], path[k], r))
		}
		steps = append(steps, s)
	}
	return steps
}

// offered returns the entries that OLM v0 offers as upgrades, best first: the replaces chain of the head without
// skipped entries. The error is OLM's reason to reject the channel. See sortChannel in
// https://github.com/operator-framework/operator-lifecycle-manager/blob/master/pkg/controller/registry/resolver/resolver.go
func (g *Graph) offered() ([]int, error) {
	heads := Heads(g.Entries())
	if len(heads) == 0 {
		return nil, errors.New("every entry is replaced or skipped by another")
	}
	if len(heads) > 1 {
		return nil, errors.New("it has several heads: " + g.Labels(heads, 3))
	}
	skipped, seen := map[string]bool{}, map[int]bool{}
	for _, n := range g.nodes {
		for _, name := range n.Entry.Skips {
			skipped[name] = true
		}
	}
	var chain []int
	for i, ok := g.index[heads[0]]; ok; i, ok = g.index[g.nodes[i].Replaces] {
		if seen[i] {
			return nil, errors.New("entries replace each other in a cycle that includes " + g.Label(g.nodes[i].Name))
		}
		seen[i] = true
		if !skipped[g.nodes[i].Name] {
			chain = append(chain, i)
		}
	}
	return chain, nil
}
