package channel_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/channel/channeltest"
)

// FuzzGraph compares paths with the walk for any channel, valid or not.
func FuzzGraph(f *testing.F) {
	f.Add([]byte{0, 255, 0, 255, 1, 0, 0, 255, 2, 1, 4, 8}, "foo", "1.0.0", "")
	f.Add([]byte{2, 1, 0, 255, 1, 2, 0, 255, 0, 0, 2, 59}, `<"&]]>`, "foo.v1.1.0", "1.2.0")
	f.Add([]byte{255, 22, 255, 60, 3, 22, 255, 60}, "\x1b\u202e\n\xff漢", "9", "1.3.0")
	f.Fuzz(func(t *testing.T, data []byte, text, from, to string) {
		g := channel.New(channeltest.FromBytes(data, text))
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
		g := channel.New(channeltest.FromBytes(data, "foo"))
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
