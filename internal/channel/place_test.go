package channel

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// entry parses "VERSION [replaces VERSION] [skips VERSION,VERSION]".
func entry(text string) Entry {
	words := strings.Fields(text)
	e := Entry{Name: "v" + words[0], Version: words[0]}
	for i := 1; i < len(words); i += 2 {
		names := strings.Split(words[i+1], ",")
		for j := range names {
			names[j] = "v" + names[j]
		}
		if words[i] == "replaces" {
			e.Replaces = names[0]
		} else {
			e.Skips = names
		}
	}
	return e
}

func entries(lines ...string) (all []Entry) {
	for _, line := range lines {
		all = append(all, entry(line))
	}
	return all
}

// TestPlace has the cases in which opm fails or loses something. e2e compares the others with opm.
func TestPlace(t *testing.T) {
	for name, test := range map[string]struct {
		mode      Mode
		have      []Entry
		add       string
		elsewhere map[string]Entry
		want      []Entry
		err       string
	}{
		"first":                       {ModeHead, nil, "1.0.0 replaces 0.9.0", nil, entries("1.0.0"), ""},
		"head":                        {ModeHead, entries("1.0.0"), "1.1.0 replaces 0.9.0 skips 1.0.1", nil, entries("1.0.0", "1.1.0 replaces 1.0.0 skips 1.0.1"), ""},
		"lower than the head":         {ModeHead, entries("1.0.0"), "0.9.0", nil, nil, "version 0.9.0 is lower than that of the head, 1.0.0"},
		"two heads":                   {ModeHead, entries("1.0.0", "1.1.0"), "1.2.0", nil, nil, "it has 2 heads (v1.0.0, v1.1.0)"},
		"version exists":              {ModeSemver, []Entry{{Name: "a", Version: "1.0.0"}}, "1.0.0", nil, nil, `bundle "a" already has version 1.0.0`},
		"name exists":                 {ModeReplaces, entries("1.0.0"), "1.0.0", nil, nil, `bundle "v1.0.0" is already in it`},
		"invalid version":             {ModeSemver, nil, "one", nil, nil, `version "one" of bundle "vone" is invalid`},
		"replaces an absent one":      {ModeReplaces, entries("1.0.0"), "1.1.0 replaces 1.0.9", nil, nil, `replaces "v1.0.9", which the package does not have`},
		"prunes":                      {ModeReplaces, entries("1.0.0", "1.1.0 replaces 1.0.0"), "1.2.0 replaces 1.0.0", nil, entries("1.0.0", "1.2.0 replaces 1.0.0"), ""},
		"is pruned":                   {ModeReplaces, entries("1.0.0", "1.2.0 replaces 1.0.0"), "1.1.0 replaces 1.0.0", nil, nil, `the head, "v1.2.0", does not lead to bundle "v1.1.0"`},
		"keeps an absent tail":        {ModeReplaces, entries("1.0.0 replaces 0.9.0"), "1.1.0 replaces 1.0.0", nil, entries("1.0.0 replaces 0.9.0", "1.1.0 replaces 1.0.0"), ""},
		"takes from another":          {ModeReplaces, nil, "1.1.0 replaces 1.0.0", map[string]Entry{"v1.0.0": entry("1.0.0 replaces 0.1.0")}, entries("1.1.0 replaces 1.0.0", "1.0.0 replaces 0.1.0"), ""},
		"between":                     {ModeSemver, entries("1.0.0", "1.2.0 replaces 1.0.0 skips 1.0.5"), "1.1.0 skips 1.0.1", nil, entries("1.0.0", "1.2.0 replaces 1.1.0 skips 1.0.5", "1.1.0 replaces 1.0.0"), ""},
		"lowest, absent tail":         {ModeSemver, entries("1.2.0 replaces 0.1.0"), "1.1.0", nil, entries("1.2.0 replaces 1.1.0", "1.1.0 replaces 0.1.0"), ""},
		"comes back":                  {ModeSemver, entries("1.1.0 replaces 1.0.0"), "1.0.0", nil, entries("1.1.0 replaces 1.0.0", "1.0.0"), ""},
		"patches, lower minor":        {ModeSkipPatch, entries("1.0.0", "1.1.0 replaces 1.0.0"), "1.1.1", nil, entries("1.0.0", "1.1.0", "1.1.1 replaces 1.0.0 skips 1.1.0"), ""},
		"patches, absent tail":        {ModeSkipPatch, entries("1.1.0 replaces 0.1.0"), "1.1.1", nil, entries("1.1.0", "1.1.1 replaces 0.1.0 skips 1.1.0"), ""},
		"patches, higher one present": {ModeSkipPatch, entries("1.1.0", "1.1.3 skips 1.1.0"), "1.1.2", nil, entries("1.1.0", "1.1.3 replaces 1.1.2", "1.1.2 skips 1.1.0"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Place(test.mode, test.have, entry(test.add), test.elsewhere)
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Fatalf("got error %v, want %q", err, test.err)
			}
			if diff := cmp.Diff(test.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
