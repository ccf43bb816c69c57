package channeltest

import (
	"slices"

	"github.com/blang/semver/v4"

	"github.com/operator-catalogs/catalogd/internal/channel"
)

// Walk is a naive reading of a channel, independent of channel.Graph.
type Walk struct {
	Channel channel.Channel
	Head    string
	Onto    map[string][]string // what each entry can be installed over
	Chain   []string            // what OLM offers, best first; nil if OLM rejects the channel
}

// NewWalk reads a channel.
func NewWalk(c channel.Channel) *Walk {
	w := &Walk{Channel: c, Onto: map[string][]string{}}
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
func (w *Walk) findHead() int {
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
func (w *Walk) findChain() {
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

// Distances returns the number of steps from each bundle to a target.
func (w *Walk) Distances(to string) map[string]int {
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

// OLM returns the bundles on OLM's way from one bundle to another; nil if OLM does not get there.
func (w *Walk) OLM(from, to string) []string {
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
