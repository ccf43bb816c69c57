package subset

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseReadsSelections(t *testing.T) {
	for arg, want := range map[string]Include{
		"foo":                        {Package: "foo"},
		"foo/stable":                 {Package: "foo", Channels: []string{"stable"}},
		"foo/stable-1.2@1.2.0..":     {Package: "foo", Channels: []string{"stable-1.2"}, MinVersion: "1.2.0"},
		"foo@>=1.2.0-rc.1":           {Package: "foo", MinVersion: "1.2.0-rc.1"},
		"foo@..2.0.0+build.5":        {Package: "foo", MaxVersion: "2.0.0+build.5"},
		"foo@<=2.0.0":                {Package: "foo", MaxVersion: "2.0.0"},
		"foo@1.0.0..2.0.0":           {Package: "foo", MinVersion: "1.0.0", MaxVersion: "2.0.0"},
		"foo@=1.0.0":                 {Package: "foo", MinVersion: "1.0.0", MaxVersion: "1.0.0"},
		"foo/a/b@heads":              {Package: "foo", Channels: []string{"a/b"}, OnlyHeads: true},
		"foo/candidate,fast@1.0.0..": {Package: "foo", Channels: []string{"candidate,fast"}, MinVersion: "1.0.0"},
	} {
		got, err := Parse([]string{arg})
		if diff := cmp.Diff([]Include{want}, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", arg, err, diff)
		}
	}
}

func TestParseExplainsInvalidSelections(t *testing.T) {
	for arg, want := range map[string]string{
		"":                 "the package is empty",
		"/stable":          "the package is empty",
		"foo/":             "the channel is empty",
		"foo/@heads":       "the channel is empty",
		"foo@":             `"@" is not a range`,
		"foo@1.2.0":        `"@1.2.0" is not a range: @=VERSION selects one version, and @VERSION.. it and all later ones`,
		"foo@>1.2.0":       "bounds are inclusive: use >= or <=",
		"foo@..":           "the version is missing",
		"foo@=":            "the version is missing",
		"foo@1.2..":        `invalid version "1.2"`,
		"foo@v1.2.0..":     `invalid version "v1.2.0"`,
		"foo@2.0.0..1.0.0": "the lowest version 2.0.0 is higher than the highest version 1.0.0",
	} {
		_, err := Parse([]string{"ok", arg})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `invalid selection "`+arg+`"`) {
			t.Errorf("%s: got %v, want %s", arg, err, want)
		}
	}
}

func TestSetDefaultChannels(t *testing.T) {
	rules, err := Parse([]string{"foo/a", "foo/b", "bar"})
	if err != nil {
		t.Fatal(err)
	}
	if err := SetDefaultChannels(rules, []string{"foo=b", "foo=b", "bar=x=y"}); err != nil || rules[0].DefaultChannel != "b" || rules[2].DefaultChannel != "x=y" {
		t.Errorf("got %+v %v", rules, err)
	}
	for text, want := range map[string]string{
		"foo":    `invalid default channel "foo": write it like foo=stable`,
		"=a":     `invalid default channel "=a": write it like foo=stable`,
		"none=a": `default channel "none=a": package "none" is not selected`,
		"foo=c":  `package "foo" has two default channels, "b" and "c": specify one`,
	} {
		if err := SetDefaultChannels(rules, []string{text}); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

func TestFingerprintIgnoresOrder(t *testing.T) {
	a := filterOf(t, `{"include":[{"package":"a","channels":["x","y","x"]},{"package":"b","onlyHeads":true}],"exclude":[{"package":"c"}]}`)
	b := filterOf(t, `{"exclude":[{"package":"c"}],"include":[{"package":"b","onlyHeads":true},{"package":"a","channels":["y","x"]},{"package":"b","onlyHeads":true}]}`)
	if a.Fingerprint() != b.Fingerprint() || len(a.Fingerprint()) != 32 {
		t.Errorf("got %s and %s", a.Fingerprint(), b.Fingerprint())
	}
	if got := a.Include[0].Channels; len(got) != 3 {
		t.Errorf("the filter changed: %v", got)
	}
	if (Filter{}).Fingerprint() != "" {
		t.Error("the zero filter has a fingerprint")
	}
	seen := map[string]string{}
	for _, text := range []string{
		`{"include":[{"package":"a"}]}`, `{"exclude":[{"package":"a"}]}`, `{"include":[{"package":"b"}]}`,
		`{"include":[{"package":"a","channels":["x"]}]}`, `{"include":[{"package":"a","minVersion":"1.0.0"}]}`,
		`{"include":[{"package":"a","maxVersion":"1.0.0"}]}`, `{"include":[{"package":"a","onlyHeads":true}]}`,
		`{"include":[{"package":"a","defaultChannel":"x"}]}`, `{"include":[{"package":"a"},{"package":"b"}]}`,
		`{"include":[{"package":"a"}],"exclude":[{"package":"b"}]}`,
	} {
		is := filterOf(t, text).Fingerprint()
		if seen[is] != "" {
			t.Errorf("%s and %s have the same fingerprint", text, seen[is])
		}
		seen[is] = text
	}
}

// TestResultMatchesEngineVersion fails when the result of a filter changes. Stores have earlier results under the fingerprint of
// the filter: then raise engineVersion, and update the values here.
func TestResultMatchesEngineVersion(t *testing.T) {
	const want = "1 03b7fc1048132f6d"
	if got := resultsHash(t); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
