package channel_test

import (
	"cmp"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/operator-catalogs/catalogd/internal/channel"
)

// naiveWalk is a naive reading of a channel, independent of channel.Graph.
type naiveWalk struct {
	Channel channel.Channel
	Head    string
	Onto    map[string][]string // what each entry can be installed over
	Chain   []string            // what OLM offers, best first; nil if OLM rejects the channel
}

// newNaiveWalk reads a channel.
func newNaiveWalk(c channel.Channel) *naiveWalk {
	w := &naiveWalk{Channel: c, Onto: map[string][]string{}}
	for _, e := range c.Entries {
		w.Onto[e.Name] = append(append([]string{e.Replaces}, e.Skips...), covered(c, e)...)
	}
	if w.findHead() == 1 {
		w.findChain()
	}
	return w
}

// covered returns the other entries in the skipRange of an entry.
func covered(c channel.Channel, e channel.Entry) []string {
	var names []string
	contains, err := semver.ParseRange(e.SkipRange)
	if err != nil || e.SkipRange == "" {
		return nil
	}
	for _, other := range c.Entries {
		if v, err := semver.Parse(other.Version); err == nil && other.Name != e.Name && contains(v) {
			names = append(names, other.Name)
		}
	}
	return names
}

// findHead sets Head to the highest head and returns the number of heads.
func (w *naiveWalk) findHead() int {
	behind := map[string]bool{}
	for _, e := range w.Channel.Entries {
		behind[e.Replaces] = true
		for _, s := range e.Skips {
			behind[s] = true
		}
	}
	heads := 0
	var highest semver.Version
	for _, e := range w.Channel.Entries {
		if v, _ := semver.Parse(e.Version); !behind[e.Name] {
			if heads++; heads == 1 || v.GT(highest) {
				w.Head, highest = e.Name, v
			}
		}
	}
	return heads
}

// findChain follows replaces from the head, unless that is a cycle.
func (w *naiveWalk) findChain() {
	skipped, replaces := map[string]bool{}, map[string]string{}
	for _, e := range w.Channel.Entries {
		replaces[e.Name] = e.Replaces
		for _, s := range e.Skips {
			skipped[s] = true
		}
	}
	at, steps := w.Head, 0
	for ; isEntry(w.Channel, at) && steps <= len(w.Channel.Entries); steps++ {
		if !skipped[at] {
			w.Chain = append(w.Chain, at)
		}
		at = replaces[at]
	}
	if steps > len(w.Channel.Entries) {
		w.Chain = nil
	}
}

func isEntry(c channel.Channel, name string) bool {
	return slices.ContainsFunc(c.Entries, func(e channel.Entry) bool { return e.Name == name })
}

// distances returns the number of steps from each bundle to a target.
func (w *naiveWalk) distances(to string) map[string]int {
	distance := map[string]int{to: 0}
	for ring := []string{to}; len(ring) > 0; {
		var next []string
		for _, at := range ring {
			for _, from := range w.Onto[at] {
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

// olm returns the bundles on OLM's way from one bundle to another; nil if OLM does not get there.
func (w *naiveWalk) olm(from, to string) []string {
	var path []string
	for at := from; at != to; {
		if at == w.Head && at != from { // OLM stops there, even if a skipRange covers a newer version
			return nil
		}
		best := slices.IndexFunc(w.Chain, func(to string) bool { return to != at && slices.Contains(w.Onto[to], at) })
		if best < 0 || len(path) > len(w.Chain) {
			return nil
		}
		at = w.Chain[best]
		path = append(path, at)
	}
	return path
}

// readChannels returns the channels of the catalog directory $COMMUNITY_CATALOG or, if it is not set, of the quick start's sample.
func readChannels(t *testing.T) []channel.Channel {
	t.Helper()
	catalog, err := declcfg.LoadFS(t.Context(), os.DirFS(cmp.Or(os.Getenv("COMMUNITY_CATALOG"), "../../config/samples/catalog/configs")))
	if err != nil {
		t.Fatal(err)
	}
	versions := map[[2]string]string{}
	for _, b := range catalog.Bundles {
		for _, p := range b.Properties {
			var pkg property.Package
			if p.Type == property.TypePackage && json.Unmarshal(p.Value, &pkg) == nil {
				versions[[2]string{b.Package, b.Name}] = pkg.Version
			}
		}
	}
	var channels []channel.Channel
	for _, c := range catalog.Channels {
		ch := channel.Channel{Package: c.Package, Name: c.Name}
		for _, e := range c.Entries {
			version := versions[[2]string{c.Package, e.Name}]
			ch.Entries = append(ch.Entries, channel.Entry{
				Name: e.Name, Version: version, Replaces: e.Replaces, Skips: e.Skips, SkipRange: e.SkipRange,
			})
		}
		channels = append(channels, ch)
	}
	return channels
}
