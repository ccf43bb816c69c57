package channel_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/channel"
)

// FuzzGraph compares paths with the walk for any channel, valid or not.
func FuzzGraph(f *testing.F) {
	f.Add([]byte{0, 255, 0, 255, 1, 0, 0, 255, 2, 1, 4, 8}, "foo", "1.0.0", "")
	f.Add([]byte{2, 1, 0, 255, 1, 2, 0, 255, 0, 0, 2, 59}, `<"&]]>`, "foo.v1.1.0", "1.2.0")
	f.Add([]byte{255, 22, 255, 60, 3, 22, 255, 60}, "\x1b\u202e\n\xff漢", "9", "1.3.0")
	f.Fuzz(func(t *testing.T, data []byte, text, from, to string) {
		g := channel.New(fromBytes(data, text))
		checkGraph(t, g)
		_, err := g.Paths(from, to)
		var none *channel.BlockedError
		if err != nil && !errors.As(err, &none) {
			t.Errorf("from %q to %q: %v", from, to, err)
		}
	})
}

// TestRandomGraphs does the same as FuzzGraph for larger channels, most of them invalid.
func TestRandomGraphs(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)) // the same graphs each time
	for range 150 {
		data := make([]byte, 4*random.IntN(30))
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		g := channel.New(fromBytes(data, "foo"))
		checkGraph(t, g)
	}
}

// checkGraph compares the paths from every entry to the head, and to another entry, with the walk.
func checkGraph(t *testing.T, g *channel.Graph) {
	t.Helper()
	c := channel.Channel{Package: g.Channel.Package, Name: g.Channel.Name}
	c.Entries = g.Entries() // of each name the first
	o := newNaiveWalk(c)
	if o.Head != g.Channel.Head { // one of several with the highest version: OLM rejects the channel
		o.Head, o.Chain = g.Channel.Head, nil
	}
	checkPathsTo(t, g, o, o.Head)
	if len(c.Entries) > 0 {
		checkPathsTo(t, g, o, c.Entries[len(c.Entries)/2].Name)
	}
}

// fromBytes returns a channel with one entry per four bytes. They select what it replaces, skips and covers among at most 24 bundles, some
// of which have no version or no entry.
func fromBytes(data []byte, text string) channel.Channel {
	c := channel.Channel{Package: text, Name: text}
	name := func(b byte) string {
		if b %= 24; b < 22 {
			return fmt.Sprintf("foo.v1.%d.0", b)
		}
		return text
	}
	for i := 0; i+4 <= len(data) && i < 4*100; i += 4 {
		e := channel.Entry{Name: name(byte(i / 4))}
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
			e.SkipRange, e.Deprecation = text, &channel.Deprecation{Message: text}
		}
		c.Entries = append(c.Entries, e)
	}
	return c
}
