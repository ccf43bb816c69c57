package graph

import (
	"slices"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
)

// A range of a catalog that cannot be asked holds nothing. In a sound package there is none, but this is not what has to tell.
func TestInRange(t *testing.T) {
	entries := []declcfg.ChannelEntry{{Name: "v3"}, {Name: "v2"}, {Name: "v1"}, {Name: "odd"}}
	g := &upgradeGraph{versions: map[string]string{"v1": "1.0.0", "v2": "2.0.0", "v3": "3.0.0", "odd": "one"}}
	for text, want := range map[string][]string{
		"":                 nil,
		">=1.0.0":          {"v1", "v2"},
		"1.0.0 || 2.0.0":   {"v1", "v2"},
		"9.0.0 || ||1.0.0": nil,
		"9.0.0||||1.0.0":   nil,
		"|| 1.0.0":         nil,
		"1.0.0 ||":         nil,
		"latest":           nil,
		">=1.0.0" + strings.Repeat(" ", maxSkipRange-7): {"v1", "v2"},
		">=1.0.0" + strings.Repeat(" ", maxSkipRange-6): nil,
	} {
		if got := g.inRange(declcfg.ChannelEntry{Name: "v3", SkipRange: text}, entries); !slices.Equal(got, want) {
			t.Errorf("%.40q: got %q, want %q", text, got, want)
		}
	}
}

// FuzzParseRange holds that what is accepted can be asked.
func FuzzParseRange(f *testing.F) {
	for _, seed := range []string{">=1.0.0 <2.0.0", "1.x || 2.x", "9.0.0 || || 2.0.0", "9.0.0||||2.0.0", "!=1.0.0", "", " ", "||", "1||\u00a0||2"} {
		f.Add(seed)
	}
	versions := []semver.Version{{}, semver.MustParse("1.2.3"), semver.MustParse("1.2.3-rc.1+build")}
	f.Fuzz(func(_ *testing.T, text string) {
		if len(text) > maxSkipRange {
			return
		}
		if holds, err := parseRange(text); err == nil {
			for _, v := range versions {
				holds(v)
			}
		}
	})
}
