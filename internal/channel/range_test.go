package channel_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/blang/semver/v4"

	"github.com/operator-catalogs/catalogd/internal/channel"
)

// TestInvalidSkipRangeCoversNothing also checks that the limit of a range's text is 4096 bytes.
func TestInvalidSkipRangeCoversNothing(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                      nil,
		">=1.0.0":                               {"v1", "v2"},
		"1.0.0 || 2.0.0":                        {"v1", "v2"},
		"9.0.0 || ||1.0.0":                      nil,
		"9.0.0||||1.0.0":                        nil,
		"|| 1.0.0":                              nil,
		"1.0.0 ||":                              nil,
		"latest":                                nil,
		">=1.0.0" + strings.Repeat(" ", 4096-7): {"v1", "v2"},
		">=1.0.0" + strings.Repeat(" ", 4096-6): nil,
	} {
		g := channel.New(channel.Channel{Entries: []channel.Entry{
			{
				Name: "v3", Version: "3.0.0", SkipRange: text,
			}, {Name: "v2", Version: "2.0.0"}, {Name: "v1", Version: "1.0.0"}, {Name: "odd", Version: "one"},
		}})
		i, _ := g.Index("v3")
		var got []string
		for _, u := range g.UpgradesTo(i) {
			got = append(got, u.From)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%.40q: got %q, want %q", text, got, want)
		}
	}
}

// FuzzParseRange checks that a parsed range does not panic.
func FuzzParseRange(f *testing.F) {
	for _, seed := range []string{
		">=1.0.0 <2.0.0", "1.x || 2.x", "9.0.0 || || 2.0.0", "9.0.0||||2.0.0", "!=1.0.0", "", " ", "||", "1||\u00a0||2",
	} {
		f.Add(seed)
	}
	versions := []semver.Version{{}, semver.MustParse("1.2.3"), semver.MustParse("1.2.3-rc.1+build")}
	f.Fuzz(func(_ *testing.T, text string) {
		if contains, err := channel.ParseRange(text); err == nil {
			for _, v := range versions {
				contains(v)
			}
		}
	})
}
