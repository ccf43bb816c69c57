package diff

import (
	"cmp"
	"slices"
)

// Channel is a channel, and the bundle that is its head.
type Channel struct {
	Hash, Head string
	Entries    map[string]Entry // by the names of their bundles
}

// Entry is what a bundle upgrades in a channel.
type Entry struct {
	Replaces  string
	Skips     []string
	SkipRange string
}

// ChannelDifference is a channel that differs. Of one that both have, the entries that differ are told; there are none where only its
// properties or the order of what is in it do.
type ChannelDifference struct {
	Name    string            `json:"name"`
	Change  Change            `json:"change"`
	Head    FromTo            `json:"head"`
	Entries []EntryDifference `json:"entries,omitempty"`
}

// EntryDifference is an entry that differs, and in what.
type EntryDifference struct {
	Name      string           `json:"name"`
	Change    Change           `json:"change"`
	Replaces  *FromTo          `json:"replaces,omitempty"`
	Skips     *SkipsDifference `json:"skips,omitempty"`
	SkipRange *FromTo          `json:"skipRange,omitempty"`
}

// SkipsDifference is which bundles are skipped that were not, and the other way round.
type SkipsDifference struct {
	Added   []string `json:"added,omitempty"`
	Removed []string `json:"removed,omitempty"`
}

// compareChannels tells how a channel differs. byVersion is an order of bundles.
func compareChannels(name string, change Change, a, b Channel, byVersion func(x, y string) int) ChannelDifference {
	c := ChannelDifference{Name: name, Change: change, Head: FromTo{a.Head, b.Head}}
	if change != Changed {
		return c
	}
	same := func(x, y Entry) bool { return compareEntries("", Changed, x, y) == EntryDifference{Change: Changed} }
	for name, change := range differing(a.Entries, b.Entries, byVersion, same) {
		c.Entries = append(c.Entries, compareEntries(name, change, a.Entries[name], b.Entries[name]))
	}
	return c
}

func compareEntries(name string, change Change, a, b Entry) EntryDifference {
	e := EntryDifference{Name: name, Change: change, Replaces: fromTo(a.Replaces, b.Replaces), SkipRange: fromTo(a.SkipRange, b.SkipRange)}
	skips := SkipsDifference{Added: without(b.Skips, a.Skips), Removed: without(a.Skips, b.Skips)}
	if len(skips.Added)+len(skips.Removed) > 0 {
		e.Skips = &skips
	}
	return e
}

// fromTo is nil where there is no difference.
func fromTo(a, b string) *FromTo {
	if a == b {
		return nil
	}
	return &FromTo{a, b}
}

// without are those of some names that are not among others, sorted.
func without(names, others []string) []string {
	left := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(others, name) })
	slices.SortFunc(left, cmp.Compare)
	return slices.Compact(left)
}
