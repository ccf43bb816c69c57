package channel_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/channel/channeltest"
)

// route is a path as "1.0.0 > 1.1.0".
func route(steps []channel.Step) string {
	var b strings.Builder
	for i, s := range steps {
		if i == 0 {
			b.WriteString(s.From.Version)
		}
		sign := " > "
		if s.IsDowngrade {
			sign = " down to "
		}
		b.WriteString(sign + s.To.Version)
	}
	return b.String()
}

func TestPaths(t *testing.T) {
	chain := channeltest.Parse("1.0.0", "1.1.0 replaces 1.0.0", "1.2.0 replaces 1.1.0", "1.3.0 replaces 1.2.0")
	ranges := channeltest.Parse("1.0.0", "1.1.0 replaces 1.0.0", "1.2.0 replaces 1.1.0 range >=1.0.0 <1.2.0",
		"1.3.0 replaces 1.2.0 range >=1.1.0 <1.3.0")
	branch := channeltest.Parse("1.0.0", "1.0.1", "1.1.0 replaces 1.0.0 skips 1.0.1", "1.2.0 replaces 1.0.0 skips 1.1.0")
	tests := []struct {
		name     string
		channel  channel.Channel
		from, to string
		want     string // OLM's path; the shortest; how many others
	}{
		{"a chain, by version", chain, "1.0.0", "", "1.0.0 > 1.1.0 > 1.2.0 > 1.3.0;;0"},
		{"by name", chain, "foo.v1.1.0", "foo.v1.2.0", "1.1.0 > 1.2.0;;0"},
		{"by version with a v", chain, "v1.1.0", "v1.2.0", "1.1.0 > 1.2.0;;0"},
		{"OLM takes the nearest to the head, which is not always the shortest",
			channeltest.Parse("1.0.0", "1.1.0 replaces 1.0.0", "1.2.0 replaces 1.1.0 range <1.1.0", "1.3.0 replaces 1.2.0",
				"1.4.0 replaces 1.3.0 skips 1.1.0"),
			"1.0.0", "", "1.0.0 > 1.2.0 > 1.3.0 > 1.4.0;1.0.0 > 1.1.0 > 1.4.0;1"},
		{"others", ranges, "1.0.0", "", "1.0.0 > 1.2.0 > 1.3.0;;2"},
		{"OLM goes past", ranges, "1.1.0", "1.2.0", ";1.1.0 > 1.2.0;0"},
		{"OLM does not offer skipped entries", branch, "1.0.1", "", ";1.0.1 > 1.1.0 > 1.2.0;0"},
		{"no entry, but replaced", channeltest.Parse("1.1.0 replaces 1.0.0"), "1.0.0", "", "1.0.0 > 1.1.0;;0"},
		{"no entry, but skipped, by name", channeltest.Parse("1.1.0 skips 1.0.5"), "foo.v1.0.5", "", "1.0.5 > 1.1.0;;0"},
		{"no entry, but covered", ranges, "1.0.7", "", "1.0.7 > 1.2.0 > 1.3.0;;0"},
		{"no entry, by a name whose version is covered", ranges, "foo.v1.0.7", "", "1.0.7 > 1.2.0 > 1.3.0;;0"},
		{
			"a circle",
			channeltest.Parse("1.0.0 replaces 1.1.0", "1.1.0 replaces 1.0.0", "1.2.0 replaces 1.1.0"),
			"1.0.0",
			"",
			";1.0.0 > 1.1.0 > 1.2.0;0",
		},
		{"two heads", channeltest.Parse("1.0.0", "1.1.0 replaces 1.0.0", "2.0.0"), "1.0.0", "1.1.0", ";1.0.0 > 1.1.0;0"},
		{
			"downgrade by a skipRange that covers a newer version",
			channeltest.Parse("1.0.0 range <9.0.0", "1.1.0 replaces 1.0.0"),
			"1.1.0",
			"1.0.0",
			"1.1.0 down to 1.0.0;;0+",
		},
		{
			"downgrade by replacing a newer bundle that is not an entry",
			channeltest.Parse("1.5.3 replaces 1.9.5", "1.6.0 replaces 1.5.3"),
			"1.9.5",
			"",
			"1.9.5 down to 1.5.3 > 1.6.0;;0",
		},
		{"not down, but published again", channeltest.Parse("1.0.1", "1.0.1-1 replaces 1.0.1"), "1.0.1", "", "1.0.1 > 1.0.1-1;;0"},
		{"what lies behind the target does not count", channeltest.Parse("1.0.0", "1.1.0 replaces 1.0.0 range >1.1.0",
			"1.2.0 replaces 1.1.0"), "1.0.0", "1.1.0",
			"1.0.0 > 1.1.0;;0"},
		{"a version apart from its build", channeltest.Parse("1.0.0+1", "1.1.0 replaces 1.0.0+1"), "1.0.0", "", "1.0.0+1 > 1.1.0;;0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := channel.New(tt.channel).Paths(tt.from, tt.to)
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprintf("%s;%s;%d", route(p.OLM), route(p.Shortest), p.Others)
			if p.MayBeMore {
				got += "+"
			}
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if (p.OLM == nil) != (p.OLMNote != "") {
				t.Errorf("OLM's path is %v, and the note %q", p.OLM, p.OLMNote)
			}
		})
	}
}

func TestPathsText(t *testing.T) {
	c := channeltest.Parse("1.0.0", "1.1.0 replaces 1.0.0 skips 1.0.0,1.0.1 range >=0.9.0 <1.1.0", "1.2.0 replaces 1.0.0 skips 1.1.0",
		"1.3.0 replaces 1.2.0 range >=1.1.0 <1.3.0",
		"1.4.0 replaces 1.3.0")
	type texts struct {
		Steps     []string
		OLM       string
		Notes     []string
		Others    int
		MayBeMore bool
	}
	tests := []struct {
		name     string
		from, to string
		want     texts
	}{
		{"each reason", "1.0.0", "1.1.0", texts{
			Steps: []string{"1.1.0 replaces 1.0.0", "1.1.0 skips 1.0.0", `the skipRange of 1.1.0, ">=0.9.0 <1.1.0", covers 1.0.0`},
			OLM:   "OLM v0 does not stop at 1.1.0: it takes 1.0.0 → 1.2.0 → 1.3.0 → 1.4.0",
		}},
		{"a range covers a version that is no entry", "0.9.5", "1.1.0", texts{
			Steps: []string{`the skipRange of 1.1.0, ">=0.9.0 <1.1.0", covers 0.9.5`},
			OLM: "OLM v0 offers no upgrade from 0.9.5: its successors (1.1.0) are skipped by other entries or are not on the replaces " +
				"chain of the head",
			Notes: []string{`0.9.5 is not an entry of the channel; skipRanges cover it.`},
		}},
		{"a version that entries name", "1.0.1", "1.1.0", texts{
			Steps: []string{"1.1.0 skips 1.0.1", `the skipRange of 1.1.0, ">=0.9.0 <1.1.0", covers 1.0.1`},
			OLM: "OLM v0 offers no upgrade from 1.0.1: its successors (1.1.0) are skipped by other entries or are not on the replaces " +
				"chain of the head",
			Notes: []string{`1.0.1 is not an entry of the channel; assuming foo.v1.0.1, which entries replace or skip.`},
		}},
		{"a name that ends with a version", "foo.v0.9.5", "1.1.0", texts{
			Steps: []string{`the skipRange of 1.1.0, ">=0.9.0 <1.1.0", covers 0.9.5`},
			OLM: "OLM v0 offers no upgrade from 0.9.5: its successors (1.1.0) are skipped by other entries or are not on the replaces " +
				"chain of the head",
			Notes: []string{`foo.v0.9.5 is not an entry of the channel; assuming version 0.9.5, as in its name.`},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := channel.New(c).Paths(tt.from, tt.to)
			if err != nil {
				t.Fatal(err)
			}
			got := texts{OLM: p.OLMNote, Notes: p.Notes, Others: p.Others, MayBeMore: p.MayBeMore}
			for _, s := range p.Shortest {
				got.Steps = append(got.Steps, s.Explanations...)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("the texts differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBlocked(t *testing.T) {
	chain := channeltest.Parse("1.0.0", "1.1.0 replaces 1.0.0", "1.2.0 replaces 1.1.0")
	broken := channeltest.Parse("1.0.0", "1.1.0 replaces 1.0.0", "2.0.0 replaces 1.9.0 range >=1.5.0 <2.0.0",
		"2.1.0 replaces 2.0.0 skips 1.8.0")
	over := channeltest.Parse("1.0.0", "1.0.1 replaces 0.9.0", "1.1.0 replaces 1.0.0 skips 1.0.1")
	tests := []struct {
		name     string
		channel  channel.Channel
		from, to string
		block    channel.Block
		want     string
	}{
		{"unknown version", chain, "1.0.5", "", channel.UnknownFrom,
			`"1.0.5" not found in channel "stable" of package "foo": no entry has this name or version, replaces or skips it, or has a ` +
				`skipRange that covers it; the nearest are 1.0.0, 1.1.0`},
		{"unknown name", chain, "bar", "", channel.UnknownFrom,
			`"bar" not found in channel "stable" of package "foo": no entry has this name or version, replaces or skips it, or has a ` +
				`skipRange that covers it; the newest are 1.2.0, 1.1.0, 1.0.0`},
		{
			"unknown target",
			chain,
			"1.0.0",
			"3.0.0",
			channel.UnknownTo,
			`channel "stable" of package "foo" has no entry with name or version "3.0.0"; the nearest is 1.2.0`,
		},
		{"nothing there", channeltest.Parse(), "1.0.0", "", channel.UnknownTo, `channel "stable" of package "foo" has no entries`},
		{"no head", channeltest.Parse("1.0.0 replaces 1.1.0", "1.1.0 replaces 1.0.0"), "1.0.0", "", channel.UnknownTo,
			`channel "stable" of package "foo" has no head: every entry is replaced or skipped by another`},
		{"newest", chain, "1.2.0", "", channel.Already, `1.2.0 is already the head of channel "stable" of package "foo"`},
		{"there already", chain, "1.1.0", "foo.v1.1.0", channel.Already, `1.1.0 is both the start and the target of the upgrade`},
		{"newer", chain, "1.2.0", "1.0.0", channel.Newer, `1.2.0 is newer than 1.0.0, and no upgrade leads back`},
		{"dead end", broken, "1.1.0", "2.1.0", channel.DeadEnd,
			`no entry of channel "stable" of package "foo" replaces or skips 1.1.0 or has a skipRange that covers it; the next entries: ` +
				`2.0.0 (replaces 1.9.0, skipRange ">=1.5.0 <2.0.0"), 2.1.0 (replaces 2.0.0, skips 1.8.0)`},
		{"reached only to", broken, "1.0.0", "2.1.0", channel.DeadEnd,
			`upgrades from 1.0.0 end at 1.1.0: no entry of channel "stable" of package "foo" replaces or skips 1.1.0 or has a skipRange ` +
				`that covers it; the next entries: 2.0.0 (replaces 1.9.0, skipRange ">=1.5.0 <2.0.0"), 2.1.0 (replaces 2.0.0, skips 1.8.0)`},
		{
			"passed over",
			over,
			"1.0.0",
			"1.0.1",
			channel.PassedOver,
			`no upgrade from 1.0.0 leads to 1.0.1: 1.0.0 upgrades to 1.1.0, and 1.0.1 replaces 0.9.0`,
		},
		{"passed over later", channeltest.Parse("0.9.0", "1.0.0 replaces 0.9.0", "1.0.1",
			"1.1.0 replaces 1.0.0 skips 1.0.1"), "0.9.0", "1.0.1", channel.PassedOver,
			`upgrades from 0.9.0 end at 1.0.0: no upgrade from 1.0.0 leads to 1.0.1: 1.0.0 upgrades to 1.1.0, and 1.0.1 replaces nothing`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := channel.New(tt.channel).Paths(tt.from, tt.to)
			var blocked *channel.BlockedError
			if !errors.As(err, &blocked) {
				t.Fatalf("got the error %v, want a BlockedError", err)
			}
			if diff := cmp.Diff(tt.want, blocked.Error()); diff != "" || blocked.Block != tt.block {
				t.Errorf("got the block %s, want %s; the texts differ (-want +got):\n%s", blocked.Block, tt.block, diff)
			}
		})
	}
}

// TestPathsOfDenseGraph checks a graph with too many paths to count: each entry upgrades all entries below it.
func TestPathsOfDenseGraph(t *testing.T) {
	var entries []string
	for i := range 300 {
		entries = append(entries, fmt.Sprintf("1.%d.0 replaces 1.%d.0 range <1.%d.0", i, i-1, i))
	}
	p, err := channel.New(channeltest.Parse(entries...)).Paths("1.0.0", "")
	if err != nil {
		t.Fatal(err)
	}
	if got := route(p.OLM); got != "1.0.0 > 1.299.0" || p.Others != 1_000_000 || !p.MayBeMore {
		t.Errorf("got the path %s and %d others, want one step, and more than can be counted", got, p.Others)
	}
}
