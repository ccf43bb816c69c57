package channel_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/channel"
)

// TestAgainstWalk compares Paths with an independent walk of every channel of a catalog (see readChannels).
func TestAgainstWalk(t *testing.T) {
	ways, blocked := 0, 0
	for _, c := range readChannels(t) {
		g := channel.New(c)
		o := newNaiveWalk(c)
		if g.Channel.Head != o.Head {
			t.Errorf("%s/%s: the head is %s, want %s", c.Package, c.Name, g.Channel.Head, o.Head)
			continue
		}
		for _, to := range targets(c, o.Head) {
			w, b := checkPathsTo(t, g, o, to)
			ways, blocked = ways+w, blocked+b
		}
	}
	t.Logf("%d ways and %d blocked", ways, blocked)
	if ways < 50 {
		t.Errorf("the catalog has %d ways only", ways)
	}
}

// targets returns the head of a channel and, to limit the time, about ten of its other entries.
func targets(c channel.Channel, head string) []string {
	to := []string{head}
	for i := 0; i < len(c.Entries); i += 1 + len(c.Entries)/10 {
		if name := c.Entries[i].Name; name != head {
			to = append(to, name)
		}
	}
	return to
}

// checkPathsTo compares the paths from all entries to one with the walk, and returns how many entries have a path and how many have none.
func checkPathsTo(t *testing.T, g *channel.Graph, o *naiveWalk, to string) (ways, blocked int) {
	t.Helper()
	c := o.Channel
	distance := o.distances(to)
	for _, e := range c.Entries {
		if e.Name == to {
			continue
		}
		p, err := g.Paths(e.Name, to)
		d, reachable := distance[e.Name]
		var none *channel.BlockedError
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

// checkPaths compares the paths from one entry to another with the walk, whose shortest path has the given length.
func checkPaths(t *testing.T, o *naiveWalk, from, to string, p *channel.Paths, shortest int) {
	t.Helper()
	got := p.OLM
	if p.Shortest != nil {
		got = p.Shortest
	}
	if len(got) != shortest {
		t.Errorf("%s: from %s: the shortest path has %d steps, want %d", o.Channel.Package, from, len(got), shortest)
	}
	for _, path := range [][]channel.Step{p.OLM, p.Shortest} {
		at := from
		for _, s := range path {
			if s.From.Name != at || !slices.Contains(o.Onto[s.To.Name], at) {
				t.Errorf("%s: the path from %s has a step from %s to %s, which is no edge", o.Channel.Package, from, s.From.Name, s.To.Name)
			}
			at = s.To.Name
		}
		if len(path) > 0 && at != to {
			t.Errorf("%s: the path from %s ends at %s", o.Channel.Package, from, at)
		}
	}
	if want := o.olm(from, to); !slices.Equal(want, names(p.OLM)) {
		t.Errorf("%s: from %s OLM goes %v, want %v", o.Channel.Package, from, names(p.OLM), want)
	}
}

func names(steps []channel.Step) []string {
	var out []string
	for _, s := range steps {
		out = append(out, s.To.Name)
	}
	return out
}
