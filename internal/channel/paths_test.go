package upgrade

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// route is a path as "1.0.0 > 1.1.0".
func route(steps []Step) string {
	var b strings.Builder
	for i, s := range steps {
		if i == 0 {
			b.WriteString(s.From.Version)
		}
		sign := " > "
		if s.IsDown {
			sign = " down to "
		}
		b.WriteString(sign + s.To.Version)
	}
	return b.String()
}

func TestPaths(t *testing.T) {
	chain := channel("1.0.0", "1.1.0 replaces 1.0.0", "1.2.0 replaces 1.1.0", "1.3.0 replaces 1.2.0")
	ranges := channel("1.0.0", "1.1.0 replaces 1.0.0", "1.2.0 replaces 1.1.0 range >=1.0.0 <1.2.0", "1.3.0 replaces 1.2.0 range >=1.1.0 <1.3.0")
	branch := channel("1.0.0", "1.0.1", "1.1.0 replaces 1.0.0 skips 1.0.1", "1.2.0 replaces 1.0.0 skips 1.1.0")
	tests := []struct {
		name     string
		channel  Channel
		from, to string
		want     string // OLM's path; the shortest; how many others
	}{
		{"a chain, by version", chain, "1.0.0", "", "1.0.0 > 1.1.0 > 1.2.0 > 1.3.0;;0"},
		{"by name", chain, "foo.v1.1.0", "foo.v1.2.0", "1.1.0 > 1.2.0;;0"},
		{"by version with a v", chain, "v1.1.0", "v1.2.0", "1.1.0 > 1.2.0;;0"},
		{"OLM takes the nearest to the head, which is not always the shortest",
			channel("1.0.0", "1.1.0 replaces 1.0.0", "1.2.0 replaces 1.1.0 range <1.1.0", "1.3.0 replaces 1.2.0", "1.4.0 replaces 1.3.0 skips 1.1.0"),
			"1.0.0", "", "1.0.0 > 1.2.0 > 1.3.0 > 1.4.0;1.0.0 > 1.1.0 > 1.4.0;1"},
		{"others", ranges, "1.0.0", "", "1.0.0 > 1.2.0 > 1.3.0;;2"},
		{"OLM goes past", ranges, "1.1.0", "1.2.0", ";1.1.0 > 1.2.0;0"},
		{"OLM does not offer what is skipped", branch, "1.0.1", "", ";1.0.1 > 1.1.0 > 1.2.0;0"},
		{"no entry, but replaced", channel("1.1.0 replaces 1.0.0"), "1.0.0", "", "1.0.0 > 1.1.0;;0"},
		{"no entry, but skipped, by name", channel("1.1.0 skips 1.0.5"), "foo.v1.0.5", "", "1.0.5 > 1.1.0;;0"},
		{"no entry, but covered", ranges, "1.0.7", "", "1.0.7 > 1.2.0 > 1.3.0;;0"},
		{"no entry, by a name whose version is covered", ranges, "foo.v1.0.7", "", "1.0.7 > 1.2.0 > 1.3.0;;0"},
		{"a circle", channel("1.0.0 replaces 1.1.0", "1.1.0 replaces 1.0.0", "1.2.0 replaces 1.1.0"), "1.0.0", "", ";1.0.0 > 1.1.0 > 1.2.0;0"},
		{"two heads", channel("1.0.0", "1.1.0 replaces 1.0.0", "2.0.0"), "1.0.0", "1.1.0", ";1.0.0 > 1.1.0;0"},
		{"down, as a range covers what is newer", channel("1.0.0 range <9.0.0", "1.1.0 replaces 1.0.0"), "1.1.0", "1.0.0", "1.1.0 down to 1.0.0;;0+"},
		{"down, as an entry replaces what is newer and no entry", channel("1.5.3 replaces 1.9.5", "1.6.0 replaces 1.5.3"), "1.9.5", "", "1.9.5 down to 1.5.3 > 1.6.0;;0"},
		{"not down, but published again", channel("1.0.1", "1.0.1-1 replaces 1.0.1"), "1.0.1", "", "1.0.1 > 1.0.1-1;;0"},
		{"what lies behind the target does not count", channel("1.0.0", "1.1.0 replaces 1.0.0 range >1.1.0", "1.2.0 replaces 1.1.0"), "1.0.0", "1.1.0",
			"1.0.0 > 1.1.0;;0"},
		{"a version apart from its build", channel("1.0.0+1", "1.1.0 replaces 1.0.0+1"), "1.0.0", "", "1.0.0+1 > 1.1.0;;0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := New(tt.channel).Paths(tt.from, tt.to)
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprintf("%s;%s;%d", route(p.OLM), route(p.Shortest), p.Others)
			if p.Uncounted {
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

func TestPathsWords(t *testing.T) {
	c := channel("1.0.0", "1.1.0 replaces 1.0.0 skips 1.0.0,1.0.1 range >=0.9.0 <1.1.0", "1.2.0 replaces 1.0.0 skips 1.1.0", "1.3.0 replaces 1.2.0 range >=1.1.0 <1.3.0",
		"1.4.0 replaces 1.3.0")
	type words struct {
		Steps     []string
		OLM       string
		Notes     []string
		Others    int
		Uncounted bool
	}
	tests := []struct {
		name     string
		from, to string
		want     words
	}{
		{"each reason", "1.0.0", "1.1.0", words{
			Steps: []string{"1.1.0 replaces 1.0.0", "1.1.0 skips 1.0.0", `the skipRange of 1.1.0, ">=0.9.0 <1.1.0", covers 1.0.0`},
			OLM:   "OLM v0 does not stop at 1.1.0 by itself: it goes 1.0.0 → 1.2.0 → 1.3.0 → 1.4.0",
		}},
		{"a range covers a version that is no entry", "0.9.5", "1.1.0", words{
			Steps: []string{`the skipRange of 1.1.0, ">=0.9.0 <1.1.0", covers 0.9.5`},
			OLM:   "OLM v0 offers no upgrade from 0.9.5: what could take over, 1.1.0, is not on the chain of replaces from the head, or another entry skips it",
			Notes: []string{`0.9.5 is no entry of the channel; skipRanges cover it.`},
		}},
		{"a version that entries name", "1.0.1", "1.1.0", words{
			Steps: []string{"1.1.0 skips 1.0.1", `the skipRange of 1.1.0, ">=0.9.0 <1.1.0", covers 1.0.1`},
			OLM:   "OLM v0 offers no upgrade from 1.0.1: what could take over, 1.1.0, is not on the chain of replaces from the head, or another entry skips it",
			Notes: []string{`1.0.1 is no entry of the channel; it is taken to be foo.v1.0.1, which entries of it name.`},
		}},
		{"a name that ends with a version", "foo.v0.9.5", "1.1.0", words{
			Steps: []string{`the skipRange of 1.1.0, ">=0.9.0 <1.1.0", covers 0.9.5`},
			OLM:   "OLM v0 offers no upgrade from 0.9.5: what could take over, 1.1.0, is not on the chain of replaces from the head, or another entry skips it",
			Notes: []string{`foo.v0.9.5 is no entry of the channel; its version is taken from its name: 0.9.5.`},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := New(c).Paths(tt.from, tt.to)
			if err != nil {
				t.Fatal(err)
			}
			got := words{OLM: p.OLMNote, Notes: p.Notes, Others: p.Others, Uncounted: p.Uncounted}
			for _, s := range p.Shortest {
				got.Steps = append(got.Steps, s.Words...)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("the words differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBlocked(t *testing.T) {
	chain := channel("1.0.0", "1.1.0 replaces 1.0.0", "1.2.0 replaces 1.1.0")
	broken := channel("1.0.0", "1.1.0 replaces 1.0.0", "2.0.0 replaces 1.9.0 range >=1.5.0 <2.0.0", "2.1.0 replaces 2.0.0 skips 1.8.0")
	over := channel("1.0.0", "1.0.1 replaces 0.9.0", "1.1.0 replaces 1.0.0 skips 1.0.1")
	tests := []struct {
		name     string
		channel  Channel
		from, to string
		block    Block
		want     string
	}{
		{"unknown version", chain, "1.0.5", "", UnknownFrom,
			`"1.0.5" is unknown to channel "stable" of package "foo": no entry has this name or version, replaces or skips it, or has a skipRange that covers it; the nearest are 1.0.0, 1.1.0`},
		{"unknown name", chain, "bar", "", UnknownFrom,
			`"bar" is unknown to channel "stable" of package "foo": no entry has this name or version, replaces or skips it, or has a skipRange that covers it; the newest are 1.2.0, 1.1.0, 1.0.0`},
		{"unknown target", chain, "1.0.0", "3.0.0", UnknownTo, `channel "stable" of package "foo" has no entry of the name or version "3.0.0"; the nearest is 1.2.0`},
		{"nothing there", channel(), "1.0.0", "", UnknownTo, `channel "stable" of package "foo" has no entries`},
		{"no head", channel("1.0.0 replaces 1.1.0", "1.1.0 replaces 1.0.0"), "1.0.0", "", UnknownTo,
			`channel "stable" of package "foo" has no head: every entry is replaced or skipped by another`},
		{"newest", chain, "1.2.0", "", Already, `1.2.0 is the newest of channel "stable" of package "foo" already`},
		{"there already", chain, "1.1.0", "foo.v1.1.0", Already, `1.1.0 is where the upgrade starts and where it is to end`},
		{"newer", chain, "1.2.0", "1.0.0", Newer, `1.2.0 is newer than 1.0.0, and no upgrade leads back`},
		{"dead end", broken, "1.1.0", "2.1.0", DeadEnd,
			`nothing in channel "stable" of package "foo" replaces or skips 1.1.0 or has a skipRange that covers it; the nearest after it: 2.0.0 (replaces 1.9.0, skipRange ">=1.5.0 <2.0.0"), 2.1.0 (replaces 2.0.0, skips 1.8.0)`},
		{"reached only to", broken, "1.0.0", "2.1.0", DeadEnd,
			`from 1.0.0 upgrades lead only as far as 1.1.0: nothing in channel "stable" of package "foo" replaces or skips 1.1.0 or has a skipRange that covers it; the nearest after it: 2.0.0 (replaces 1.9.0, skipRange ">=1.5.0 <2.0.0"), 2.1.0 (replaces 2.0.0, skips 1.8.0)`},
		{"passed over", over, "1.0.0", "1.0.1", PassedOver, `no upgrade from 1.0.0 leads to 1.0.1: it goes to 1.1.0, while 1.0.1 replaces 0.9.0`},
		{"passed over later", channel("0.9.0", "1.0.0 replaces 0.9.0", "1.0.1", "1.1.0 replaces 1.0.0 skips 1.0.1"), "0.9.0", "1.0.1", PassedOver,
			`from 0.9.0 upgrades lead only as far as 1.0.0: no upgrade from 1.0.0 leads to 1.0.1: it goes to 1.1.0, while 1.0.1 replaces nothing`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := New(tt.channel).Paths(tt.from, tt.to)
			var blocked *BlockedError
			if !errors.As(err, &blocked) {
				t.Fatalf("got the error %v, want a BlockedError", err)
			}
			if diff := cmp.Diff(tt.want, blocked.Error()); diff != "" || blocked.Block != tt.block {
				t.Errorf("got the block %s, want %s; the words differ (-want +got):\n%s", blocked.Block, tt.block, diff)
			}
		})
	}
}

// TestPathsEnd holds Paths against a dense graph, where paths are beyond counting, as each entry may be installed over any below it.
func TestPathsEnd(t *testing.T) {
	var entries []string
	for i := range 300 {
		entries = append(entries, fmt.Sprintf("1.%d.0 replaces 1.%d.0 range <1.%d.0", i, i-1, i))
	}
	p, err := New(channel(entries...)).Paths("1.0.0", "")
	if err != nil {
		t.Fatal(err)
	}
	if got := route(p.OLM); got != "1.0.0 > 1.299.0" || p.Others != maxPaths || !p.Uncounted {
		t.Errorf("got the path %s and %d others, want one step, and more than can be counted", got, p.Others)
	}
}
