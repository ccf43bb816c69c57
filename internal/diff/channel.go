package diff

import (
	"cmp"
	"slices"

	"github.com/operator-catalogs/catalogd/internal/channel"
)

// Channel is a channel of a package.
type Channel struct {
	Hash, Head string
	Entries    map[string]channel.Entry // by name
}

// NewChannel returns a channel. Without exactly one head, Head is empty.
func NewChannel(hash string, entries []channel.Entry) Channel {
	c := Channel{Hash: hash, Entries: make(map[string]channel.Entry, len(entries))}
	for _, e := range entries {
		c.Entries[e.Name] = e
	}
	if heads := channel.Heads(entries); len(heads) == 1 {
		c.Head = heads[0]
	}
	return c
}

// ChannelDifference is the difference of a channel. Entries is empty if only properties or the order of the content differ, and for a
// channel that is added or removed.
type ChannelDifference struct {
	Name    string            `json:"name"`
	Change  Change            `json:"change"`
	Head    FromTo            `json:"head"`
	Entries []EntryDifference `json:"entries,omitempty"`
}

// EntryDifference is the difference of an entry.
type EntryDifference struct {
	Name      string           `json:"name"`
	Change    Change           `json:"change"`
	Replaces  *FromTo          `json:"replaces,omitempty"`
	Skips     *SkipsDifference `json:"skips,omitempty"`
	SkipRange *FromTo          `json:"skipRange,omitempty"`
}

// SkipsDifference is the difference of the skipped bundles.
type SkipsDifference struct {
	Added   []string `json:"added,omitempty"`
	Removed []string `json:"removed,omitempty"`
}

// compareChannels returns the difference of a channel, its entries in the order of byVersion.
func compareChannels(name string, change Change, a, b Channel, byVersion func(x, y string) int) ChannelDifference {
	c := ChannelDifference{Name: name, Change: change, Head: FromTo{a.Head, b.Head}}
	if change != Changed {
		return c
	}
	same := func(x, y channel.Entry) bool {
		return compareEntries("", Changed, x, y) == EntryDifference{Change: Changed}
	}
	for name, change := range differing(a.Entries, b.Entries, byVersion, same) {
		c.Entries = append(c.Entries, compareEntries(name, change, a.Entries[name], b.Entries[name]))
	}
	return c
}

func compareEntries(name string, change Change, a, b channel.Entry) EntryDifference {
	e := EntryDifference{Name: name, Change: change, Replaces: fromTo(a.Replaces, b.Replaces), SkipRange: fromTo(a.SkipRange, b.SkipRange)}
	skips := SkipsDifference{Added: without(b.Skips, a.Skips), Removed: without(a.Skips, b.Skips)}
	if len(skips.Added)+len(skips.Removed) > 0 {
		e.Skips = &skips
	}
	return e
}

// fromTo returns nil for equal values.
func fromTo(a, b string) *FromTo {
	if a == b {
		return nil
	}
	return &FromTo{a, b}
}

// without returns the names that are not among others, sorted.
func without(names, others []string) []string {
	left := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(others, name) })
	slices.SortFunc(left, cmp.Compare)
	return slices.Compact(left)
}
