package upgrade

import (
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/blang/semver/v4"
)

// TestAgainstWalk holds Paths against an independent walk of every channel of a catalog: the sample's, or that at COMMUNITY_CATALOG.
func TestAgainstWalk(t *testing.T) {
	dir := sampleCatalog
	if d := os.Getenv("COMMUNITY_CATALOG"); d != "" {
		dir = d
	}
	ways, blocked := 0, 0
	for _, c := range readCatalog(t, dir) {
		g := New(c)
		o := newOracle(c)
		if g.Channel.Head != o.head {
			t.Errorf("%s/%s: the head is %s, want %s", c.Package, c.Name, g.Channel.Head, o.head)
			continue
		}
		for _, to := range targets(c, o.head) {
			w, b := checkPathsTo(t, g, o, to)
			ways, blocked = ways+w, blocked+b
		}
	}
	t.Logf("%d ways and %d blocked", ways, blocked)
	if ways < 50 {
		t.Errorf("the catalog has %d ways only", ways)
	}
}

// targets are the head of a channel and, to bound the time, at most some ten of its other entries.
func targets(c Channel, head string) []string {
	to := []string{head}
	for i := 0; i < len(c.Entries); i += 1 + len(c.Entries)/10 {
		if name := c.Entries[i].Name; name != head {
			to = append(to, name)
		}
	}
	return to
}

// checkPathsTo holds the paths from all entries to one against the walk. It tells from how many there was one, and from how many none.
func checkPathsTo(t *testing.T, g *Graph, o *oracle, to string) (ways, blocked int) {
	t.Helper()
	c := o.channel
	distance := o.distances(to)
	for _, e := range c.Entries {
		if e.Name == to {
			continue
		}
		p, err := g.Paths(e.Name, to)
		d, reachable := distance[e.Name]
		var none *BlockedError
		switch {
		case err != nil && !errors.As(err, &none):
			t.Errorf("%s/%s: from %s to %s: %v", c.Package, c.Name, e.Name, to, err)
		case (err == nil) != reachable:
			t.Errorf("%s/%s: from %s to %s: %v; the walk says %v", c.Package, c.Name, e.Name, to, err, reachable)
		case err != nil:
			blocked++
		default:
			ways++
			checkPaths(t, o, e.Name, to, p, d)
		}
	}
	return ways, blocked
}

// checkPaths holds the paths from one entry to another against the walk, which found the shortest to have a length.
func checkPaths(t *testing.T, o *oracle, from, to string, p *Paths, shortest int) {
	t.Helper()
	got := p.OLM
	if p.Shortest != nil {
		got = p.Shortest
	}
	if len(got) != shortest {
		t.Errorf("%s: from %s: the shortest path has %d steps, want %d", o.channel.Package, from, len(got), shortest)
	}
	for _, path := range [][]Step{p.OLM, p.Shortest} {
		at := from
		for _, s := range path {
			if s.From.Name != at || !slices.Contains(o.onto[s.To.Name], at) {
				t.Errorf("%s: the path from %s has a step from %s to %s, which is no edge", o.channel.Package, from, s.From.Name, s.To.Name)
			}
			at = s.To.Name
		}
		if len(path) > 0 && at != to {
			t.Errorf("%s: the path from %s ends at %s", o.channel.Package, from, at)
		}
	}
	if want := o.olm(from, to); !slices.Equal(want, names(p.OLM)) {
		t.Errorf("%s: from %s OLM goes %v, want %v", o.channel.Package, from, names(p.OLM), want)
	}
}

func names(steps []Step) []string {
	var out []string
	for _, s := range steps {
		out = append(out, s.To.Name)
	}
	return out
}

// oracle is a channel read in the plainest way, from the fields of its entries alone.
type oracle struct {
	channel Channel
	head    string
	onto    map[string][]string // what each entry may be installed over
	chain   []string            // what OLM offers, best first; nil if it refuses the channel
}

func newOracle(c Channel) *oracle {
	o := &oracle{channel: c, onto: map[string][]string{}}
	behind, skipped, replaces := map[string]bool{}, map[string]bool{}, map[string]string{}
	for _, e := range c.Entries {
		behind[e.Replaces], replaces[e.Name] = true, e.Replaces
		for _, s := range e.Skips {
			behind[s], skipped[s] = true, true
		}
		o.onto[e.Name] = append([]string{e.Replaces}, e.Skips...)
		if holds, err := semver.ParseRange(e.SkipRange); err == nil && e.SkipRange != "" {
			for _, other := range c.Entries {
				if v, err := semver.Parse(other.Version); err == nil && other.Name != e.Name && holds(v) {
					o.onto[e.Name] = append(o.onto[e.Name], other.Name)
				}
			}
		}
	}
	heads := 0
	var highest semver.Version
	for _, e := range c.Entries {
		if v, _ := semver.Parse(e.Version); !behind[e.Name] {
			if heads++; heads == 1 || v.GT(highest) {
				o.head, highest = e.Name, v
			}
		}
	}
	if heads != 1 {
		return o
	}
	at, steps := o.head, 0
	for ; isEntry(c, at) && steps <= len(c.Entries); steps++ {
		if !skipped[at] {
			o.chain = append(o.chain, at)
		}
		at = replaces[at]
	}
	if steps > len(c.Entries) { // in a circle
		o.chain = nil
	}
	return o
}

func isEntry(c Channel, name string) bool {
	return slices.ContainsFunc(c.Entries, func(e Entry) bool { return e.Name == name })
}

// distances are the fewest steps from each bundle to one, found backwards.
func (o *oracle) distances(to string) map[string]int {
	distance := map[string]int{to: 0}
	for ring := []string{to}; len(ring) > 0; {
		var next []string
		for _, at := range ring {
			for _, from := range o.onto[at] {
				if _, ok := distance[from]; !ok {
					distance[from] = distance[at] + 1
					next = append(next, from)
				}
			}
		}
		ring = next
	}
	return distance
}

// olm is where OLM goes from one bundle on its way to the head, until it comes to another; nil if it does not.
func (o *oracle) olm(from, to string) []string {
	var path []string
	for at := from; at != to; {
		if at == o.head && at != from { // where it ends, though a skipRange may cover what is newer
			return nil
		}
		best := slices.IndexFunc(o.chain, func(to string) bool { return to != at && slices.Contains(o.onto[to], at) })
		if best < 0 || len(path) > len(o.chain) {
			return nil
		}
		at = o.chain[best]
		path = append(path, at)
	}
	return path
}
