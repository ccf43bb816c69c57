package author

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/diff"
)

// Changed and removed entries of a channel come first, and the number of entries is limited. Removed packages take
// one line each.
func TestDifferenceText(t *testing.T) {
	var channel diff.ChannelDifference
	channel.Name, channel.Change, channel.Head = "stable", diff.Changed, diff.FromTo{From: "a.v1", To: "a.v9"}
	for i := 4; i <= 9; i++ {
		channel.Entries = append(channel.Entries, diff.EntryDifference{
			Name: fmt.Sprintf("a.v%d", i), Change: diff.Added, Replaces: &diff.FromTo{To: fmt.Sprintf("a.v%d", i-1)},
		})
	}
	channel.Entries = append(channel.Entries, diff.EntryDifference{Name: "a.v2", Change: diff.Removed, Replaces: &diff.FromTo{From: "a.v1"}},
		diff.EntryDifference{Name: "a.v3", Change: diff.Changed, Replaces: &diff.FromTo{From: "a.v2", To: "a.v1"},
			SkipRange: &diff.FromTo{From: "<3.0.0"},
			Skips:     &diff.SkipsDifference{Added: []string{"a", "b", "c", "d", "e"}, Removed: []string{"f"}}})
	var out strings.Builder
	err := printDifference(&output.Terminal{Writer: &out}, &diff.Difference{From: diff.Catalog{Name: "x"}, To: diff.Catalog{Name: "y"},
		Packages: []diff.PackageDifference{
			{Name: "a", Change: diff.Removed}, {Name: "b", Change: diff.Removed},
			{
				Name:     "c",
				Change:   diff.Changed,
				Channels: []diff.ChannelDifference{channel, {Name: "order", Change: diff.Changed, Head: diff.FromTo{From: "a", To: "a"}}},
			},
			{Name: "d", Change: diff.Removed}, {Name: "e", Change: diff.Removed},
		}})
	const want = `x -> y: packages: 0 added, 1 changed, 4 removed

- a
- b

~ c
    ~ channel stable: head a.v1 -> a.v9
        ~ a.v3: replaces a.v1, was a.v2; skips a, b, c and 2 more; no longer skips f; no skipRange, was <3.0.0
        - a.v2
        + a.v4: replaces a.v3
        + a.v5: replaces a.v4
        + a.v6: replaces a.v5
        and 3 more; -o json lists all
    ~ channel order: same head a and entries; properties or order differ

- d
- e
`
	if diff := cmp.Diff(want, out.String()); diff != "" || err != nil {
		t.Error(diff, err)
	}
}
