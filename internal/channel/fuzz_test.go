package upgrade

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

// fuzzChannel makes a channel of bytes: each entry takes four, which choose what it replaces, skips and covers of at most 24 bundles, some of
// which have no version or no entry.
func fuzzChannel(data []byte, text string) Channel {
	c := Channel{Package: text, Name: text}
	name := func(b byte) string {
		if b %= 24; b < 22 {
			return fmt.Sprintf("foo.v1.%d.0", b)
		}
		return text
	}
	for i := 0; i+4 <= len(data) && i < 4*100; i += 4 {
		e := Entry{Name: name(byte(i / 4))}
		if i/4 >= 22 {
			e.Name = fmt.Sprintf("%s.%d", text, i)
		}
		if data[i] < 250 {
			e.Version = fmt.Sprintf("1.%d.0", data[i]%24)
		}
		if data[i+1] < 200 {
			e.Replaces = name(data[i+1])
		}
		for n := range data[i+2] % 4 {
			e.Skips = append(e.Skips, name(data[i+2]/4+n))
		}
		switch b := data[i+3]; {
		case b < 60:
			e.SkipRange = fmt.Sprintf(">=1.%d.0 <1.%d.0", b%8, b/4)
		case b == 60:
			e.SkipRange, e.Deprecated = text, text
		}
		c.Entries = append(c.Entries, e)
	}
	return c
}

// FuzzGraph holds paths against the walk, and pictures against what is promised of them, for any channel, sound or not.
func FuzzGraph(f *testing.F) {
	f.Add([]byte{0, 255, 0, 255, 1, 0, 0, 255, 2, 1, 4, 8}, "foo", "1.0.0", "")
	f.Add([]byte{2, 1, 0, 255, 1, 2, 0, 255, 0, 0, 2, 59}, `<"&]]>`, "foo.v1.1.0", "1.2.0")
	f.Add([]byte{255, 22, 255, 60, 3, 22, 255, 60}, "\x1b\u202e\n\xff漢", "9", "1.3.0")
	f.Fuzz(func(t *testing.T, data []byte, text, from, to string) {
		g := New(fuzzChannel(data, text))
		checkRendered(t, g)
		checkGraph(t, g)
		_, err := g.Paths(from, to)
		var none *BlockedError
		if err != nil && !errors.As(err, &none) {
			t.Errorf("from %q to %q: %v", from, to, err)
		}
	})
}

// TestRandomGraphs does as the fuzz target on graphs of some size, most of them unsound.
func TestRandomGraphs(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)) // the same graphs each time
	for range 150 {
		data := make([]byte, 4*random.IntN(30))
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		g := New(fuzzChannel(data, "foo"))
		checkRendered(t, g)
		checkGraph(t, g)
	}
}

// checkGraph holds the paths from every entry to the head, and to another, against the walk.
func checkGraph(t *testing.T, g *Graph) {
	t.Helper()
	c := Channel{Package: g.Channel.Package, Name: g.Channel.Name}
	for _, n := range g.nodes { // of each name the first, as the graph has it
		c.Entries = append(c.Entries, n.Entry)
	}
	o := newOracle(c)
	if o.head != g.Channel.Head { // one of several of the highest version: OLM refuses them
		o.head, o.chain = g.Channel.Head, nil
	}
	checkPathsTo(t, g, o, o.head)
	if len(c.Entries) > 0 {
		checkPathsTo(t, g, o, c.Entries[len(c.Entries)/2].Name)
	}
}
