package authoring

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// brokenDir returns the corpus of catalogs with one fault each.
func brokenDir() string {
	if dir := os.Getenv("BROKEN_CATALOGS"); dir != "" {
		return dir
	}
	return filepath.Join("..", "..", "internal", "fbc", "testdata", "broken")
}

// judged is the result of Lint.
type judged struct {
	refused bool
	invalid string // packages
	errors  string // "file:line:column rule", in order
	// warnings omits those common to the whole corpus.
	warnings string
}

func TestBrokenCatalogs(t *testing.T) {
	entries, err := os.ReadDir(brokenDir())
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, entry := range entries {
		if !entry.IsDir() || entry.Name() == "archives" {
			continue
		}
		seen++
		t.Run(entry.Name(), func(t *testing.T) {
			want, ok := broken[entry.Name()]
			if !ok {
				t.Fatal("there is no verdict for it in this file")
			}
			dir := filepath.Join(brokenDir(), entry.Name())
			report := lintDir(t, dir)
			if diff := cmp.Diff(want, judge(t, dir, report), cmp.AllowUnexported(judged{})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			compareWithOPM(t, entry.Name(), dir, report)
		})
	}
	if seen != len(broken) {
		t.Errorf("there are %d catalogs, and verdicts for %d", seen, len(broken))
	}
}

func lintDir(t *testing.T, dir string, targets ...Target) *Report {
	t.Helper()
	s, err := Open(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	report, err := Lint(t.Context(), s, targets...)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func judge(t *testing.T, dir string, r *Report) judged {
	t.Helper()
	got := judged{refused: r.Refused, invalid: strings.Join(r.Invalid, ",")}
	var errors, warnings []string
	for _, f := range r.Faults {
		if Rules[f.Rule].Severity != f.Severity {
			t.Errorf("the %s %q is not one of Rules", f.Severity, f.Rule)
		}
		if f.Message == "" || strings.Contains(f.Message, "\n") {
			t.Errorf("the message %q is not one line", f.Message)
		}
		file := strings.TrimPrefix(f.File, filepath.ToSlash(filepath.Clean(dir))+"/")
		text := fmt.Sprintf("%s:%d:%d %s", file, f.Line, f.Column, f.Rule)
		switch {
		case f.Rule == "package-no-csv": // most of them are bare
		case f.Severity == Error:
			errors = append(errors, text)
		case f.Rule != "no-csv" && f.Rule != "image-tag":
			warnings = append(warnings, text)
		}
	}
	got.errors, got.warnings = strings.Join(errors, "\n"), strings.Join(warnings, "\n")
	return got
}

// opmDiffers has the catalogs that opm judges differently, with the reason.
var opmDiffers = map[string]string{
	"only-comments": "opm takes a document without content for a blob",
	"utf8-bom":      "opm takes the stream behind a byte order mark for one YAML document",
}

func compareWithOPM(t *testing.T, name, dir string, r *Report) {
	t.Helper()
	opm := os.Getenv("OPM")
	if opm == "" {
		return
	}
	out, err := exec.CommandContext(t.Context(), opm, "validate", dir).CombinedOutput()
	accepts := err == nil
	if other := accepts != (r.Errors() == 0); other != (opmDiffers[name] != "") {
		t.Errorf("opm accepts it: %t; we find %d errors; known to differ: %t\n%s", accepts, r.Errors(), opmDiffers[name] != "", out)
	}
}

// TestLintReportsFaultsOfEachFile lints the whole corpus as one catalog.
func TestLintReportsFaultsOfEachFile(t *testing.T) {
	report := lintDir(t, brokenDir())
	found := map[string]bool{}
	for _, f := range report.Faults {
		file, _ := filepath.Rel(brokenDir(), filepath.FromSlash(f.File))
		name, _, _ := strings.Cut(filepath.ToSlash(file), "/")
		found[name] = found[name] || f.Severity == Error
	}
	var hidden []string
	for name, want := range broken {
		if want.refused && !found[name] {
			hidden = append(hidden, name)
		}
	}
	slices.Sort(hidden)
	if len(hidden) > 0 {
		t.Errorf("no fault is told of %v", hidden)
	}
}

func TestLintStopsWhenCanceled(t *testing.T) {
	s, err := Open(t.Context(), brokenDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Lint(ctx, s); err == nil {
		t.Error("got no error")
	}
}

// Messages use the terms of catalogs, not those of libraries.
func TestMessagesUseCatalogTerms(t *testing.T) {
	for name, want := range map[string]string{
		"entries-wrong-type": `channel "stable": entries must be a list`,
		"bad-icon-base64":    `package "foo": base64data of the icon is not base64`,
		"invalid-yaml":       "invalid YAML: did not find expected '-' indicator",
		"cyclic-replaces": `channel "stable": no channel head found in graph: foo.v0.1.0 -> foo.v0.2.0 -> foo.v0.1.0; ` +
			"each entry is replaced or skipped by another; remove an edge of this cycle",
	} {
		var said []string
		for _, f := range lintDir(t, filepath.Join(brokenDir(), name)).Faults {
			if f.Severity == Error {
				said = append(said, f.Message)
			}
		}
		if diff := cmp.Diff([]string{want}, said); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
