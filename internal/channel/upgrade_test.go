package upgrade

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// channel makes a channel of package foo, of entries as "1.2.0 replaces 1.1.0 skips 1.0.1,1.0.2 range >=1.0.0 <1.2.0". The bundle of a version
// is called foo.v1.2.0; what is no version is a name.
func channel(entries ...string) Channel {
	c := Channel{Package: "foo", Name: "stable"}
	for _, text := range entries {
		text, skipRange, _ := strings.Cut(text, " range ")
		fields := strings.Fields(text)
		e := Entry{Name: bundle(fields[0]), SkipRange: skipRange}
		if e.Name != fields[0] {
			e.Version = fields[0]
		}
		for i := 1; i+1 < len(fields); i += 2 {
			switch fields[i] {
			case "replaces":
				e.Replaces = bundle(fields[i+1])
			case "skips":
				for name := range strings.SplitSeq(fields[i+1], ",") {
					e.Skips = append(e.Skips, bundle(name))
				}
			case "deprecated":
				e.Deprecated = fields[i+1]
			}
		}
		c.Entries = append(c.Entries, e)
	}
	return c
}

func bundle(version string) string {
	if parseVersion(version) == nil {
		return version
	}
	return "foo.v" + version
}

func TestEdges(t *testing.T) {
	tests := []struct {
		name    string
		channel Channel
		want    []string
	}{
		{"empty", channel(), nil},
		{"chain", channel("1.0.0", "1.1.0 replaces 1.0.0", "1.2.0 replaces 1.1.0"), []string{
			"foo.v1.1.0 -> foo.v1.2.0: replaces",
			"foo.v1.0.0 -> foo.v1.1.0: replaces",
		}},
		{"from need not be an entry", channel("1.1.0 replaces 1.0.0 skips 1.0.1,other"), []string{
			"foo.v1.0.0 -> foo.v1.1.0: replaces",
			"foo.v1.0.1 -> foo.v1.1.0: skips",
			"other -> foo.v1.1.0: skips",
		}},
		{"a skipRange covers entries only, never its own", channel("1.0.0 range <2.0.0", "1.1.0 replaces 1.0.0 range >=0.5.0 <=1.1.0"), []string{
			"foo.v1.0.0 -> foo.v1.1.0: replaces, skipRange >=0.5.0 <=1.1.0",
			"foo.v1.1.0 -> foo.v1.0.0: skipRange <2.0.0",
		}},
		{"all reasons of one edge", channel("1.0.0", "1.1.0 replaces 1.0.0 skips 1.0.0,1.0.0 range <1.1.0"), []string{
			"foo.v1.0.0 -> foo.v1.1.0: replaces, skips, skipRange <1.1.0",
		}},
		{"what cannot be read covers nothing", channel("1.0.0", "x", "1.1.0 range >=1.0.0 ||", "1.2.0 range lots"), nil},
		{"a pre-release is below its version", channel("1.0.0-rc.1", "1.0.0 range <1.0.0"), []string{
			"foo.v1.0.0-rc.1 -> foo.v1.0.0: skipRange <1.0.0",
		}},
		{"entries of one name", channel("1.0.0", "1.1.0 replaces 1.0.0", "1.1.0 replaces 0.9.0"), []string{
			"foo.v1.0.0 -> foo.v1.1.0: replaces",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, e := range New(tt.channel).Edges() {
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
		channel Channel
		want    string
	}{
		{"by version", channel("1.0.0", "1.10.0 replaces 1.9.0", "1.9.0 replaces 1.0.0"), "1.10.0 1.9.0 1.0.0"},
		{"the head first, though another is higher", channel("1.0.0", "2.0.0-rc.1", "1.1.0 replaces 1.0.0 skips 2.0.0-rc.1"), "1.1.0 2.0.0-rc.1 1.0.0"},
		{"what replaces stands above, though it is lower", channel("1.1.0", "1.0.9 replaces 1.1.0", "1.2.0 replaces 1.0.9"), "1.2.0 1.0.9 1.1.0"},
		{"a circle", channel("1.0.0 replaces 1.2.0", "1.1.0 replaces 1.0.0", "1.2.0 replaces 1.1.0"), "1.2.0 1.1.0 1.0.0"},
		{"itself", channel("1.0.0 replaces 1.0.0", "1.1.0"), "1.1.0 1.0.0"},
		{"without a version last", channel("a", "1.0.0 skips a,b", "b"), "1.0.0 b a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, r := range New(tt.channel).Layout().Rows {
				got = append(got, r.Label)
			}
			if got := strings.Join(got, " "); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestOrderDoesNotDependOnTheCatalogs(t *testing.T) {
	c := channel("1.0.0", "1.0.1", "1.1.0 replaces 1.0.0 skips 1.0.1", "1.1.0-rc.1 replaces 1.0.1", "1.2.0 replaces 1.1.0 skips 1.1.0-rc.1")
	want := New(c).Layout().Rows
	slices.Reverse(c.Entries)
	if diff := cmp.Diff(want, New(c).Layout().Rows); diff != "" {
		t.Errorf("the rows of the entries the other way round differ (-want +got):\n%s", diff)
	}
}
