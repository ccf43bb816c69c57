package channel_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/channel/channeltest"
)

func TestEdges(t *testing.T) {
	tests := []struct {
		name    string
		channel channel.Channel
		want    []string
	}{
		{"empty", channeltest.Parse(), nil},
		{"chain", channeltest.Parse("1.0.0", "1.1.0 replaces 1.0.0", "1.2.0 replaces 1.1.0"), []string{
			"foo.v1.1.0 -> foo.v1.2.0: replaces",
			"foo.v1.0.0 -> foo.v1.1.0: replaces",
		}},
		{"from need not be an entry", channeltest.Parse("1.1.0 replaces 1.0.0 skips 1.0.1,other"), []string{
			"foo.v1.0.0 -> foo.v1.1.0: replaces",
			"foo.v1.0.1 -> foo.v1.1.0: skips",
			"other -> foo.v1.1.0: skips",
		}},
		{"a skipRange covers entries only, never its own", channeltest.Parse("1.0.0 range <2.0.0",
			"1.1.0 replaces 1.0.0 range >=0.5.0 <=1.1.0"), []string{
			"foo.v1.0.0 -> foo.v1.1.0: replaces, skipRange >=0.5.0 <=1.1.0",
			"foo.v1.1.0 -> foo.v1.0.0: skipRange <2.0.0",
		}},
		{"all reasons of one edge", channeltest.Parse("1.0.0", "1.1.0 replaces 1.0.0 skips 1.0.0,1.0.0 range <1.1.0"), []string{
			"foo.v1.0.0 -> foo.v1.1.0: replaces, skips, skipRange <1.1.0",
		}},
		{"an invalid range covers nothing", channeltest.Parse("1.0.0", "x", "1.1.0 range >=1.0.0 ||", "1.2.0 range lots"), nil},
		{"a pre-release is below its version", channeltest.Parse("1.0.0-rc.1", "1.0.0 range <1.0.0"), []string{
			"foo.v1.0.0-rc.1 -> foo.v1.0.0: skipRange <1.0.0",
		}},
		{"entries of one name", channeltest.Parse("1.0.0", "1.1.0 replaces 1.0.0", "1.1.0 replaces 0.9.0"), []string{
			"foo.v1.0.0 -> foo.v1.1.0: replaces",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, e := range channel.New(tt.channel).Edges() {
				var reasons []string
				for _, r := range e.Reasons {
					reasons = append(reasons, r.String())
				}
				got = append(got, e.From+" -> "+e.To+": "+strings.Join(reasons, ", "))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("the edges differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOrder(t *testing.T) {
	tests := []struct {
		name    string
		channel channel.Channel
		want    string
	}{
		{"by version", channeltest.Parse("1.0.0", "1.10.0 replaces 1.9.0", "1.9.0 replaces 1.0.0"), "1.10.0 1.9.0 1.0.0"},
		{
			"the head first, though another is higher",
			channeltest.Parse("1.0.0", "2.0.0-rc.1", "1.1.0 replaces 1.0.0 skips 2.0.0-rc.1"),
			"1.1.0 2.0.0-rc.1 1.0.0",
		},
		{
			"a replacing entry above, though it is lower",
			channeltest.Parse("1.1.0", "1.0.9 replaces 1.1.0", "1.2.0 replaces 1.0.9"),
			"1.2.0 1.0.9 1.1.0",
		},
		{"a cycle", channeltest.Parse("1.0.0 replaces 1.2.0", "1.1.0 replaces 1.0.0", "1.2.0 replaces 1.1.0"), "1.2.0 1.1.0 1.0.0"},
		{"itself", channeltest.Parse("1.0.0 replaces 1.0.0", "1.1.0"), "1.1.0 1.0.0"},
		{"entries without a version last", channeltest.Parse("a", "1.0.0 skips a,b", "b"), "1.0.0 b a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			g := channel.New(tt.channel)
			for _, e := range g.Entries() {
				got = append(got, g.Label(e.Name))
			}
			if got := strings.Join(got, " "); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestOrderIgnoresOrderOfCatalog(t *testing.T) {
	c := channeltest.Parse("1.0.0", "1.0.1", "1.1.0 replaces 1.0.0 skips 1.0.1", "1.1.0-rc.1 replaces 1.0.1",
		"1.2.0 replaces 1.1.0 skips 1.1.0-rc.1")
	want := channel.New(c).Entries()
	slices.Reverse(c.Entries)
	if diff := cmp.Diff(want, channel.New(c).Entries()); diff != "" {
		t.Errorf("the reversed entries give another order (-want +got):\n%s", diff)
	}
}

func TestIsDowngrade(t *testing.T) {
	for _, test := range []struct {
		from, to string
		want     bool
	}{
		{"1.9.5", "1.5.3", true},
		{"1.9.0", "1.10.0", false},
		{"1.0.1", "1.0.1-1", false},
		{"1.0.1-2", "1.0.1-1", false},
		{"1.0.2-1", "1.0.1", true},
		{"1.0.1", "1.0.1", false},
	} {
		if got := channel.IsDowngrade(semver.MustParse(test.from), semver.MustParse(test.to)); got != test.want {
			t.Errorf("from %s to %s: got %v", test.from, test.to, got)
		}
	}
}
