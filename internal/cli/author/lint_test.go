package author

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/authoring"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
)

var faulty = &authoring.Report{Source: "dir", Faults: []authoring.Fault{
	{Severity: authoring.Warning, Rule: "no-package", Message: "none"},
	{File: "dir/a.json", Severity: authoring.Error, Rule: "not-a-file", Message: "a pipe"},
	{File: "dir/b.json", Line: 3, Severity: authoring.Error, Rule: "syntax", Message: "odd"},
	{File: "dir/b.json", Line: 12, Column: 7, Severity: authoring.Warning, Rule: "no-icon", Message: "blank\x1b[2J"},
}}

// On terminals, faults are grouped by file. Elsewhere, each line has the file.
func TestReportIsGroupedByFileOnTerminals(t *testing.T) {
	for name, test := range map[string]struct {
		live bool
		want string
	}{
		"terminal": {true, "dir\n" +
			"           warning none no-package\n\n" +
			"dir/a.json\n" +
			"           error   a pipe not-a-file\n\n" +
			"dir/b.json\n" +
			"  3        error   odd syntax\n" +
			"  12:7     warning blank\ufffd[2J no-icon\n"},
		"file": {false, "dir: warning: none [no-package]\n" +
			"dir/a.json: error: a pipe [not-a-file]\n" +
			"dir/b.json:3: error: odd [syntax]\n" +
			"dir/b.json:12:7: warning: blank\x1b[2J [no-icon]\n"}, // Lint itself leaves none in messages
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			to := &output.Terminal{Writer: &out, Live: test.live}
			if err := printReport(to, faulty, "text"); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, out.String()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestReportHasNoControlCharactersOnTerminals(t *testing.T) {
	for _, format := range authoring.Formats {
		var out strings.Builder
		if err := printReport(&output.Terminal{Writer: &out, Live: true}, faulty, format); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsRune(out.String(), '\x1b') || out.Len() == 0 {
			t.Errorf("%s: got %q", format, out.String())
		}
	}
}

func TestColorsOfFaults(t *testing.T) {
	var out strings.Builder
	if err := printReport(&output.Terminal{Writer: &out, Live: true, Colors: true}, faulty, "text"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\x1b[1mdir/b.json\x1b[0m", "\x1b[31merror  \x1b[0m", "\x1b[33mwarning\x1b[0m"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in %q", want, out.String())
		}
	}
}
