package graphql

import (
	"os"
	"slices"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/channel/channeltest"
)

// TestUpgradesMatchWalk compares heads and upgrades with an independent walk of every channel of a catalog (see channeltest.Dir).
func TestUpgradesMatchWalk(t *testing.T) {
	dir := channeltest.Dir(t)
	st := emptyStore(t, t.TempDir())
	commit(t, st, "main", "1", os.DirFS(dir))
	url := startServer(t, config(), st)
	channels := map[string][]channel.Channel{}
	for _, c := range channeltest.Read(t, dir) {
		channels[c.Package] = append(channels[c.Package], c)
	}
	edges := 0
	for pkg, list := range channels {
		const query = `query($p: String!) { package(name: $p) { channels { name head { name } upgrades { from to kind } } } }`
		got := ask[struct {
			Package *struct {
				Channels []struct {
					Name     string
					Head     struct{ Name string }
					Upgrades []struct{ From, To, Kind string }
				}
			}
		}](t, url, query, "p", pkg)
		if got.Package == nil {
			continue // invalid
		}
		for _, c := range got.Package.Channels {
			walk := channeltest.NewWalk(list[slices.IndexFunc(list, func(l channel.Channel) bool { return l.Name == c.Name })])
			if c.Head.Name != walk.Head {
				t.Errorf("%s/%s: got head %s, want %s", pkg, c.Name, c.Head.Name, walk.Head)
			}
			onto := map[string][]string{}
			for _, u := range c.Upgrades {
				onto[u.To] = append(onto[u.To], u.From)
			}
			for _, e := range walk.Channel.Entries {
				want := slices.DeleteFunc(walk.Onto[e.Name], func(from string) bool { return from == "" })
				slices.Sort(want)
				slices.Sort(onto[e.Name])
				if !slices.Equal(want, onto[e.Name]) {
					t.Errorf("%s/%s: %s upgrades %q, want %q", pkg, c.Name, e.Name, onto[e.Name], want)
				}
				edges += len(want)
			}
		}
	}
	if edges < 50 {
		t.Errorf("the catalog has only %d edges", edges)
	}
}
