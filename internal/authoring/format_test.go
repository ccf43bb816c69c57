package authoring

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func sampleReport() *Report {
	return &Report{
		Source: "my catalog", Files: 3, Blobs: 9, Packages: 3, Invalid: []string{"foo"}, Hidden: []string{"bar"},
		Faults: []Fault{
			{Severity: Warning, Rule: "empty", Message: "nothing there"},
			{File: "my catalog/a:b,c.json", Severity: Error, Rule: "syntax", Message: "100% wrong: a, b"},
			{File: "my catalog/foo/c.json", Line: 4, Severity: Error, Rule: "no-schema", Message: "m"},
			{File: "/abs/c.json", Line: 4, Column: 7, Severity: Error, Rule: "channel-head", Package: "foo", Message: "\u00e9"},
		},
	}
}

func TestFormats(t *testing.T) {
	for format, want := range map[string]string{
		"text": "my catalog: warning: nothing there [empty]\n" +
			"my catalog/a:b,c.json: error: 100% wrong: a, b [syntax]\n" +
			"my catalog/foo/c.json:4: error: m [no-schema]\n" +
			"/abs/c.json:4:7: error: é [channel-head]\n",
		"github": "::warning title=empty::nothing there\n" +
			"::error file=my catalog/a%3Ab%2Cc.json,title=syntax::100%25 wrong: a, b\n" +
			"::error file=my catalog/foo/c.json,line=4,title=no-schema::m\n" +
			"::error file=/abs/c.json,line=4,col=7,title=channel-head::é\n",
	} {
		var out strings.Builder
		if err := sampleReport().Write(&out, format); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", format, diff)
		}
	}
	if err := sampleReport().Write(&strings.Builder{}, "yaml"); err == nil || !strings.Contains(err.Error(), "text, github, sarif, json") {
		t.Errorf("got error %v for a format that there is not", err)
	}
}

func TestJSON(t *testing.T) {
	var out strings.Builder
	if err := sampleReport().Write(&out, "json"); err != nil {
		t.Fatal(err)
	}
	var got Report
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(*sampleReport(), got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	_, sound := lintTree(t, map[string]string{
		"c.json": fooPackage + fooChannel + strings.Replace(fooBundle, `"image":"i"`, `"image":"i@sha256:`+strings.Repeat("0", 64)+`"`, 1),
	})
	out.Reset()
	if err := sound.Write(&out, "json"); err != nil || !strings.Contains(out.String(), `"faults": []`) {
		t.Errorf("got %v and %s, want an empty list of faults", err, out.String())
	}
}

// TestSARIF checks the requirements of SARIF 2.1.0.
func TestSARIF(t *testing.T) {
	var out strings.Builder
	if err := sampleReport().Write(&out, "sarif"); err != nil {
		t.Fatal(err)
	}
	var log struct {
		Version string
		Runs    []struct {
			ColumnKind string
			Tool       struct {
				Driver struct {
					Name  string
					Rules []struct {
						ID                   string
						ShortDescription     struct{ Text string }
						DefaultConfiguration struct{ Level string }
					}
				}
			}
			Results []struct {
				RuleID    string
				RuleIndex int
				Level     string
				Message   struct{ Text string }
				Locations []any
			}
		}
	}
	if err := json.Unmarshal([]byte(out.String()), &log); err != nil {
		t.Fatal(err)
	}
	if log.Version != "2.1.0" || len(log.Runs) != 1 || log.Runs[0].ColumnKind != "unicodeCodePoints" || log.Runs[0].Tool.Driver.Name == "" {
		t.Fatalf("got %s", out.String())
	}
	run := log.Runs[0]
	var locations []any
	for i, result := range run.Results {
		want := sampleReport().Faults[i]
		if rule := run.Tool.Driver.Rules[result.RuleIndex]; rule.ID != want.Rule ||
			result.RuleID != want.Rule || rule.ShortDescription.Text != Rules[want.Rule].Asks ||
			rule.DefaultConfiguration.Level != string(Rules[want.Rule].Severity) {
			t.Errorf("result %d has the rule %s, which is %s at its index; want %s", i, result.RuleID, rule.ID, want.Rule)
		}
		if result.Level != string(want.Severity) || result.Message.Text != want.Message {
			t.Errorf("got %s %q, want %s %q", result.Level, result.Message.Text, want.Severity, want.Message)
		}
		locations = append(locations, result.Locations...)
	}
	at := func(uri string, region map[string]any) any {
		physical := map[string]any{"artifactLocation": map[string]any{"uri": uri}}
		if region != nil {
			physical["region"] = region
		}
		return map[string]any{"physicalLocation": physical}
	}
	want := []any{
		at("my%20catalog/a:b,c.json", nil),
		at("my%20catalog/foo/c.json", map[string]any{"startLine": 4.0}),
		at("file:///abs/c.json", map[string]any{"startLine": 4.0, "startColumn": 7.0}),
	}
	if diff := cmp.Diff(want, locations); diff != "" {
		t.Errorf("locations (-want +got):\n%s", diff)
	}
}

func TestSummary(t *testing.T) {
	for want, r := range map[string]Report{
		"3 errors, 1 warning in 3 files; catalogd would serve it and publish 1 OperatorPackage; not published: foo, bar": *sampleReport(),
		"0 errors, 0 warnings in 1 file; catalogd would serve it and publish 2 OperatorPackages":                         {Files: 1, Packages: 2},
		"1 error, 0 warnings in 2 files; catalogd would reject an image with this catalog": {
			Files: 2, Refused: true, Faults: []Fault{{Severity: Error}}, Invalid: []string{"foo"},
		},
		`0 errors, 0 warnings in 0 files; catalogd would serve it and publish 0 OperatorPackages; not published: "", b, c, d, e, f, g, h, ` +
			`i, j, …`: {
			Packages: 11, Invalid: []string{"", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"},
		},
	} {
		if got := r.Summary(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
