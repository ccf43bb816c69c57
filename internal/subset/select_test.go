package subset

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// parse returns the blobs of a catalog: JSON lines.
func parse(t testing.TB, text string) []scan.Blob {
	t.Helper()
	var blobs []scan.Blob
	for object := range strings.Lines(text) {
		err := scan.Objects([]byte(object), 1<<20, func(compact []byte) error {
			b, err := scan.ParseBlob([]byte(string(compact)))
			blobs = append(blobs, b)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return blobs
}

func lines(blobs []scan.Blob) string {
	var out strings.Builder
	for _, b := range blobs {
		out.Write(b.JSON)
		out.WriteByte('\n')
	}
	return out.String()
}

// filterOf parses a filter in JSON.
func filterOf(t testing.TB, text string) Filter {
	t.Helper()
	var f Filter
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		t.Fatal(err)
	}
	return f
}

// foo has channels stable (3 replaces 2 replaces 1, skipping 1-rc) and beta (3 replaces 2), a number over 2^53 and unknown fields.
const foo = `{"schema":"olm.package","name":"foo","x":{"n":9007199254740993.10},"defaultChannel":"stable"}
{"schema":"olm.channel","package":"foo","name":"stable","entries":[{"name":"foo.v1","x":1e2},{"name":"foo.v2","replaces":"foo.v1"},{"skips":["foo.v1-rc"],"y":[{}],"replaces":"foo.v2","name":"foo.v3","n":9007199254740993}],"z":null}
{"schema":"olm.channel","package":"foo","name":"beta","entries":[{"name":"foo.v2"},{"name":"foo.v3","replaces":"foo.v2"}]}
{"schema":"olm.bundle","package":"foo","name":"foo.v1","image":"i:1","properties":[{"type":"olm.package","value":{"packageName":"foo","version":"1.0.0"}}]}
{"schema":"olm.bundle","package":"foo","name":"foo.v2","image":"i:2","properties":[{"type":"olm.package","value":{"packageName":"foo","version":"2.0.0"}}]}
{"schema":"olm.bundle","package":"foo","name":"foo.v3","image":"i:3","properties":[{"type":"olm.package","value":{"packageName":"foo","version":"3.0.0"}}]}
{"schema":"olm.deprecations","package":"foo","entries":[{"reference":{"schema":"olm.bundle","name":"foo.v1"},"message":"old"},{"reference":{"schema":"olm.channel","name":"beta"},"message":"unstable"}]}
{"schema":"custom","package":"foo","name":"c"}
`

const bar = `{"schema":"olm.package","name":"bar","defaultChannel":"a"}
{"schema":"olm.channel","package":"bar","name":"a","entries":[{"name":"bar.v1"}]}
{"schema":"olm.bundle","package":"bar","name":"bar.v1","image":"i:1","properties":[{"type":"olm.package","value":{"packageName":"bar","version":"1.0.0"}}]}
`

const loose = `{"schema":"custom","name":"of the catalog"}
`

// without returns a text without its lines that have one of these parts.
func without(text string, parts ...string) string {
	var out strings.Builder
next:
	for line := range strings.Lines(text) {
		for _, p := range parts {
			if strings.Contains(line, p) {
				continue next
			}
		}
		out.WriteString(line)
	}
	return out.String()
}

func replace(t testing.TB, text string, oldNew ...string) string {
	t.Helper()
	for i := 0; i < len(oldNew); i += 2 {
		if !strings.Contains(text, oldNew[i]) {
			t.Fatalf("no %s", oldNew[i])
		}
		text = strings.Replace(text, oldNew[i], oldNew[i+1], 1)
	}
	return text
}

func TestApplyLeavesWhatTheFilterSelects(t *testing.T) {
	const (
		stable  = `"package":"foo","name":"stable"`
		beta    = `"package":"foo","name":"beta"`
		v1      = `"name":"foo.v1","image"`
		v2      = `"name":"foo.v2","image"`
		depBeta = `,{"reference":{"schema":"olm.channel","name":"beta"},"message":"unstable"}`
		depV1   = `{"reference":{"schema":"olm.bundle","name":"foo.v1"},"message":"old"},`
	)
	onlyStable := replace(t, without(foo, beta), depBeta, "")
	onlyBeta := replace(t, without(foo, stable, v1), `"defaultChannel":"stable"`, `"defaultChannel":"beta"`, depV1, "")
	from2 := replace(t, without(foo, v1), `{"name":"foo.v1","x":1e2},`, "", depV1, "")
	for name, tc := range map[string]struct {
		filter, want string
		unmatched    []string
	}{
		"a package":              {`{"include":[{"package":"foo"}]}`, foo, nil},
		"packages in any order":  {`{"include":[{"package":"bar"},{"package":"foo"}]}`, foo + bar, nil},
		"all but a package":      {`{"exclude":[{"package":"bar"}]}`, foo + loose, nil},
		"all but a channel":      {`{"exclude":[{"package":"foo","channels":["beta"]}]}`, onlyStable + bar + loose, nil},
		"both":                   {`{"include":[{"package":"foo"},{"package":"bar"}],"exclude":[{"package":"bar"}]}`, foo, nil},
		"a channel":              {`{"include":[{"package":"foo","channels":["stable"]}]}`, onlyStable, nil},
		"not the default one":    {`{"include":[{"package":"foo","channels":["beta"]}]}`, onlyBeta, nil},
		"exclude the default":    {`{"exclude":[{"package":"foo","channels":["stable"]},{"package":"bar"}]}`, onlyBeta + loose, nil},
		"a new default":          {`{"include":[{"package":"foo","defaultChannel":"beta"}]}`, replace(t, foo, `"defaultChannel":"stable"`, `"defaultChannel":"beta"`), nil},
		"the same default":       {`{"include":[{"package":"foo","defaultChannel":"stable"}]}`, foo, nil},
		"from a version":         {`{"include":[{"package":"foo","minVersion":"2.0.0"}]}`, from2, nil},
		"from a version between": {`{"include":[{"package":"foo","minVersion":"1.0.1"}]}`, from2, nil},
		"up to a version": {
			`{"include":[{"package":"foo","maxVersion":"2.9.9"}]}`,
			replace(t, without(foo, `"name":"foo.v3","image"`), `,{"skips":["foo.v1-rc"],"y":[{}],"replaces":"foo.v2","name":"foo.v3","n":9007199254740993}`, "", `,{"name":"foo.v3","replaces":"foo.v2"}`, ""), nil,
		},
		"heads": {
			`{"include":[{"package":"foo","onlyHeads":true}]}`,
			replace(t, without(foo, v1, v2), `{"name":"foo.v1","x":1e2},{"name":"foo.v2","replaces":"foo.v1"},`, "", `{"name":"foo.v2"},`, "", depV1, ""), nil,
		},
		"heads up to a version": {
			`{"include":[{"package":"foo","onlyHeads":true,"maxVersion":"2.0.0"}]}`,
			replace(t, without(foo, v1, `"name":"foo.v3","image"`), `{"name":"foo.v1","x":1e2},`, "", `,{"skips":["foo.v1-rc"],"y":[{}],"replaces":"foo.v2","name":"foo.v3","n":9007199254740993}`, "", `,{"name":"foo.v3","replaces":"foo.v2"}`, "", depV1, ""), nil,
		},
		"all rules of a package count, and links lead past what goes": {
			`{"include":[{"package":"foo","channels":["stable"],"maxVersion":"1.0.0"},{"package":"foo","channels":["stable"],"minVersion":"3.0.0"}]}`,
			replace(t, without(foo, beta, v2), `{"name":"foo.v2","replaces":"foo.v1"},`, "", `"replaces":"foo.v2","name":"foo.v3"`, `"replaces":"foo.v1","name":"foo.v3"`, depBeta, ""), nil,
		},
		"a channel that gets empty goes": {
			`{"include":[{"package":"foo","maxVersion":"1.0.0"}]}`,
			replace(t, without(foo, beta, v2, `"name":"foo.v3","image"`), `,{"name":"foo.v2","replaces":"foo.v1"},{"skips":["foo.v1-rc"],"y":[{}],"replaces":"foo.v2","name":"foo.v3","n":9007199254740993}`, "", depBeta, ""), nil,
		},
		"deprecations without entries go": {
			`{"include":[{"package":"foo","channels":["stable"],"minVersion":"2.0.0"}]}`,
			without(replace(t, foo, `{"name":"foo.v1","x":1e2},`, ""), beta, v1, "olm.deprecations"), nil,
		},
		"what is not found is reported": {
			`{"include":[{"package":"foo"},{"package":"none"},{"package":"bar","channels":["a","z"]}],"exclude":[{"package":"other"},{"package":"bar","channels":["y"]}]}`,
			foo + bar, []string{`package "none"`, `channel "z" of package "bar"`, `channel "y" of package "bar"`, `package "other"`},
		},
		"versions that are not found are reported": {
			`{"include":[{"package":"foo","channels":["stable","beta"],"maxVersion":"1.5.0"},{"package":"bar","minVersion":"2.0.0"}]}`,
			replace(t, without(foo, beta, v2, `"name":"foo.v3","image"`), `,{"name":"foo.v2","replaces":"foo.v1"},{"skips":["foo.v1-rc"],"y":[{}],"replaces":"foo.v2","name":"foo.v3","n":9007199254740993}`, "", depBeta, ""),
			[]string{`versions ..1.5.0 of channel "beta" of package "foo"`, `versions 2.0.0.. of package "bar"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			all := parse(t, foo+bar+loose)
			got, report, err := filterOf(t, tc.filter).Apply(all)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, lines(got)); diff != "" {
				t.Error(diff)
			}
			if want := len(all) - len(got); report.LeftOut.Blobs != want {
				t.Errorf("left out %+v, want %d blobs", report.LeftOut, want)
			}
			var unmatched []string
			for _, u := range report.Unmatched {
				unmatched = append(unmatched, u.String())
			}
			if diff := cmp.Diff(tc.unmatched, unmatched); diff != "" {
				t.Error(diff)
			}
			checkValid(t, got)
		})
	}
}

// checkValid fails the test if a package is invalid.
func checkValid(t testing.TB, blobs []scan.Blob) {
	t.Helper()
	for name, err := range validate(blobs) {
		if err != nil {
			t.Errorf("package %s: %v\n%s", name, err, lines(blobs))
		}
	}
}

// validate returns the error of each package.
func validate(blobs []scan.Blob) map[string]error {
	texts := map[string][][]byte{}
	for _, b := range blobs {
		if name, _ := fbc.PackageOf(b.Schema, b.Package, b.Name); name != "" {
			texts[name] = append(texts[name], b.JSON)
		}
	}
	errs := map[string]error{}
	for name, of := range texts {
		_, errs[name] = fbc.LoadPackage(name, sequence(of))
	}
	return errs
}

func sequence(blobs [][]byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, b := range blobs {
			if !yield(b, nil) {
				return
			}
		}
	}
}

func TestApplyRefusesFiltersThatCannotApply(t *testing.T) {
	three := strings.Replace(foo, `{"schema":"olm.channel","package":"foo","name":"beta"`, `{"schema":"olm.channel","package":"foo","name":"old","entries":[{"name":"foo.v1"}]}
{"schema":"olm.channel","package":"foo","name":"beta"`, 1)
	for name, tc := range map[string]struct{ catalog, filter, want string }{
		"nothing left":              {foo, `{"include":[{"package":"a"},{"package":"foo","channels":["b"]}]}`, `the filter leaves no package of the catalog; not found: package "a", channel "b" of package "foo"`},
		"all excluded":              {foo, `{"exclude":[{"package":"foo"}]}`, "the filter leaves no package of the catalog: its exclude rules remove all of them"},
		"all of it excluded":        {foo, `{"include":[{"package":"foo"}],"exclude":[{"package":"foo","channels":["stable","beta"]}]}`, "the filter leaves no package of the catalog: its exclude rules remove all of them"},
		"of an empty catalog":       {"", `{"include":[{"package":"foo"}]}`, `the filter leaves no package of the catalog; not found: package "foo"`},
		"default channel goes":      {three, `{"include":[{"package":"foo","channels":["old","beta"]}]}`, `package "foo": the filter leaves out the default channel "stable" and keeps the channels beta, old: set the default channel to one of them`},
		"default channel not there": {foo, `{"include":[{"package":"foo","channels":["beta"],"defaultChannel":"stable"}]}`, `package "foo": the default channel "stable" of the filter is not among the channels that stay: set it to one of beta`},
		"a key twice": {
			strings.Replace(foo, `"entries":[`, `"entries":[],"Entries":[`, 1), `{"include":[{"package":"foo","minVersion":"2.0.0"}]}`,
			`package "foo": olm.channel "stable" cannot be filtered: key "Entries" occurs twice; select the whole package, or leave it out`,
		},
		"invalid version": {foo, `{"include":[{"package":"foo","minVersion":"2"}]}`, `invalid filter: package "foo": invalid version "2": No Major.Minor.Patch elements found; write it like 1.2.0`},
		"versions reversed": {foo, `{"include":[{"package":"foo","minVersion":"2.0.0","maxVersion":"1.0.0"}]}`,
			`invalid filter: package "foo": the lowest version 2.0.0 is higher than the highest version 1.0.0`},
		"no package":   {foo, `{"exclude":[{"channels":["a"]}]}`, "invalid filter: a rule names no package"},
		"two defaults": {foo, `{"include":[{"package":"foo","defaultChannel":"a"},{"package":"foo","defaultChannel":"b"}]}`, `invalid filter: package "foo": two rules set different default channels, "a" and "b"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := filterOf(t, tc.filter).Apply(parse(t, tc.catalog))
			if _, ok := errors.AsType[*Error](err); !ok || err.Error() != tc.want {
				t.Errorf("got %v (%T)\nwant %s", err, err, tc.want)
			}
		})
	}
}

func TestApplyOfTheZeroFilterKeepsAll(t *testing.T) {
	all := parse(t, foo+bar+loose)
	got, report, err := Filter{}.Apply(all)
	if diff := cmp.Diff(lines(all), lines(got)); err != nil || diff != "" || report.LeftOut != (Counts{}) {
		t.Error(err, report, diff)
	}
}

func TestApplyKeepsUnreadablePackagesWhole(t *testing.T) {
	broken := strings.Replace(foo, `"entries":[`, `"entries":[5,`, 1)
	got, report, err := filterOf(t, `{"include":[{"package":"foo","channels":["beta"]},{"package":"bar"}]}`).Apply(parse(t, broken+bar))
	if diff := cmp.Diff(broken+bar, lines(got)); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if len(report.Unreadable) != 1 || report.Unreadable[0].Package != "foo" || !strings.Contains(report.Unreadable[0].Reason, `olm.channel "stable"`) {
		t.Errorf("report %+v", report)
	}
}

func TestApplyKeepsBundlesThatNoChannelHad(t *testing.T) {
	text := strings.ReplaceAll(bar, `"entries":[{"name":"bar.v1"}]`, `"entries":[{"name":"bar.v2"}]`) +
		`{"schema":"olm.bundle","package":"bar","name":"bar.v2","image":"i:1","properties":[{"type":"olm.package","value":{"packageName":"bar","version":"2.0.0"}}]}` + "\n"
	got, _, err := filterOf(t, `{"include":[{"package":"bar","minVersion":"2.0.0"}]}`).Apply(parse(t, text))
	if diff := cmp.Diff(text, lines(got)); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

// channelOf returns a package with one channel. An entry is "VERSION[ replaces VERSION][ skips VERSION]...".
func channelOf(entries ...string) string {
	var out strings.Builder
	var all []map[string]any
	for _, text := range entries {
		words := strings.Fields(text)
		e := map[string]any{"name": "foo.v" + words[0]}
		var skips []string
		for i := 1; i < len(words); i += 2 {
			if words[i] == "replaces" {
				e["replaces"] = "foo.v" + words[i+1]
			} else {
				skips = append(skips, "foo.v"+words[i+1])
			}
		}
		if skips != nil {
			e["skips"] = skips
		}
		all = append(all, e)
		fmt.Fprintf(&out, `{"schema":"olm.bundle","package":"foo","name":"foo.v%s","image":"i","properties":[{"type":"olm.package","value":{"packageName":"foo","version":"%[1]s"}}]}`+"\n", words[0])
	}
	list, _ := json.Marshal(all)
	return fmt.Sprintf(`{"schema":"olm.package","name":"foo","defaultChannel":"a"}
{"schema":"olm.channel","package":"foo","name":"a","entries":%s}
`, list) + out.String()
}

func TestApplyKeepsChannelsValid(t *testing.T) {
	for name, tc := range map[string]struct {
		channel []string
		include string
		want    []string
	}{
		"a patch release that skips the ones before": {
			[]string{"1.1.0", "1.2.0 replaces 1.1.0", "1.2.1 replaces 1.1.0 skips 1.2.0"}, `"maxVersion":"1.2.0"`,
			[]string{"1.1.0", "1.2.0 replaces 1.1.0"},
		},
		"what the new head would not replace or skip": {
			[]string{"1.1.0", "1.2.0", "1.3.0 replaces 1.1.0 skips 1.2.0"}, `"maxVersion":"1.2.0"`,
			[]string{"1.1.0"},
		},
		"only what was skipped is left": {
			[]string{"1.1.0", "1.2.0", "1.3.0 replaces 1.1.0 skips 1.2.0"}, `"minVersion":"1.2.0","maxVersion":"1.2.0"`,
			[]string{"1.2.0"},
		},
		"a circle of what was skipped": {
			[]string{"1.0.0 replaces 1.1.0", "1.1.0 replaces 1.0.0", "1.2.0 skips 1.0.0 skips 1.1.0"}, `"maxVersion":"1.1.0"`,
			[]string{"1.1.0 replaces 1.0.0"},
		},
		"a missing bundle is still replaced": {
			[]string{"1.0.0", "1.1.0 replaces 1.0.0", "1.2.0 replaces 1.1.0"}, `"minVersion":"1.2.0"`,
			[]string{"1.2.0 replaces 1.1.0"},
		},
		"an invalid channel is only cut": {
			[]string{"1.0.0", "1.1.0", "1.2.0"}, `"minVersion":"1.1.0"`,
			[]string{"1.1.0", "1.2.0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, err := filterOf(t, `{"include":[{"package":"foo",`+tc.include+`}]}`).Apply(parse(t, channelOf(tc.channel...)))
			if diff := cmp.Diff(channelOf(tc.want...), lines(got)); err != nil || diff != "" {
				t.Error(err, diff)
			}
		})
	}
}

func FuzzSelect(f *testing.F) {
	f.Add([]byte(foo+bar+loose), []byte(`{"include":[{"package":"foo","channels":["beta"],"minVersion":"2.0.0","onlyHeads":true}]}`))
	f.Add([]byte(channelOf("1.1.0", "1.2.0", "1.3.0 replaces 1.1.0 skips 1.2.0")), []byte(`{"include":[{"package":"foo","maxVersion":"1.2.0"}]}`))
	f.Add([]byte(foo), []byte(`{"exclude":[{"package":"foo","channels":["stable"],"defaultChannel":"beta"}]}`))
	f.Fuzz(func(t *testing.T, catalog, rules []byte) {
		var filter Filter
		if json.Unmarshal(rules, &filter) != nil || filter.IsZero() {
			return
		}
		var blobs []scan.Blob
		_ = scan.ReadFile(fstest.MapFS{"c.json": {Data: catalog}}, "c.json", 1<<20, func(b scan.Blob) error {
			b.JSON = []byte(string(b.JSON))
			again, err := scan.ParseBlob(b.JSON)
			blobs = append(blobs, again)
			return err
		})
		before := lines(blobs)
		got, report, err := filter.Apply(blobs)
		if before != lines(blobs) {
			t.Fatal("the input changed")
		}
		if err == nil {
			checkResult(t, blobs, got, report)
		}
	})
}

// checkResult fails the test if an invalid package was valid before, or a blob that stays is not an original or an edit of one.
func checkResult(t testing.TB, all, got []scan.Blob, report Report) {
	t.Helper()
	before := validate(all)
	for name, err := range validate(got) {
		if err != nil && before[name] == nil {
			t.Errorf("package %q was valid before: %v\nbefore: %safter: %s", name, err, lines(all), lines(got))
		}
	}
	if len(all)-len(got) != report.LeftOut.Blobs {
		t.Errorf("left out %+v of %d, got %d", report.LeftOut, len(all), len(got))
	}
	at := 0
	for _, b := range got {
		for at < len(all) && (all[at].Schema != b.Schema || all[at].Package != b.Package || all[at].Name != b.Name) {
			at++
		}
		if at == len(all) {
			t.Fatalf("%s is not a blob of the catalog", b.JSON)
		}
		if b.Schema == fbc.SchemaBundle || fbc.IsCustom(b.Schema) {
			if string(all[at].JSON) != string(b.JSON) {
				t.Fatalf("%s was %s", b.JSON, all[at].JSON)
			}
		}
		at++
	}
}
