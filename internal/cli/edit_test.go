package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// copySample returns a copy of the sample catalog.
func copySample(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must.Succeed(t, os.CopyFS(dir, os.DirFS("../../config/samples/catalog/configs")))
	return dir
}

// filesOf returns the files below a directory, with their texts.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	must.Succeed(t, filepath.WalkDir(dir, func(name string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		out[strings.TrimPrefix(name, dir+"/")] = string(text)
		return err
	}))
	return out
}

func TestEditCommands(t *testing.T) {
	for _, c := range []struct {
		args string // DIR is the copy of the sample
		code int
		says string
		gone []string // files
	}{
		{"package keep DIR skupper-operator", 0, "0 files changed, 14 removed", []string{"mercury-operator/catalog.json"}},
		{"package remove DIR mercury-operator", 0, "0 files changed, 1 removed", []string{"mercury-operator/catalog.json"}},
		{"package remove DIR nosuch", 3, `package "nosuch" not found in the catalog`, nil},
		{"package keep DIR", 2, "specify a directory or a file, and a PACKAGE: kubectl catalog package keep DIR PACKAGE[/CHANNEL][@VERSIONS]...", nil},
		{"package keep DIR skupper-operator@1.8.0.. mercury-operator", 0, "1 file changed, 13 removed", []string{"dbaas-operator/catalog.json"}},
		{"package keep DIR skupper-operator/nosuch", 3, `channel "nosuch" not found in package "skupper-operator"`, nil},
		{"package keep DIR skupper-operator@1.8.0", 2, "@=VERSION selects one version", nil},
		{"package keep DIR skupper-operator/stable-1 skupper-operator/stable-1.6", 2, "--default-channel skupper-operator=", nil},
		{"package keep nosuch skupper-operator", 3, "directory or file nosuch not found", nil},
		{"bundle remove DIR skupper-operator.v1.8.0 skupper-operator.v1.8.1", 0, "1 file changed, 0 removed", nil},
		{"bundle remove DIR skupper-operator.v1.8.0 nosuch", 3, `bundle "nosuch" not found in the catalog`, nil},
		{"bundle remove DIR skupper-operator.v1.8.0 --dry-run", 0, "--- a/skupper-operator/catalog.json\n+++ b/skupper-operator/catalog.json\n", nil},
		{"bundle remove DIR skupper-operator.v1.8.0 -p mercury-operator", 3, `not found in package "mercury-operator"`, nil},
		{"bundle truncate DIR skupper-operator --below 1.8.0", 0, "1 file changed, 0 removed", nil},
		{"bundle truncate DIR skupper-operator --below 1.8.0 --message= --dry-run", 0, "--- a/skupper-operator/catalog.json", nil},
		{"bundle truncate DIR skupper-operator --below 0.0.1", 3, `bundle below version "0.0.1" not found in package "skupper-operator"`, nil},
		{"bundle truncate DIR skupper-operator", 2, "--below VERSION", nil},
		{"bundle truncate DIR skupper-operator --below soon", 2, `--below "soon" is not a version`, nil},
		{"bundle images DIR nosuch", 3, `package "nosuch" not found`, nil},
		{"deprecate DIR skupper-operator -m old", 0, "1 file changed, 0 removed", nil},
		{"deprecate DIR skupper-operator --bundle skupper-operator.v1.8.0 -m old --dry-run", 0, `+            "message": "old"`, nil},
		{"deprecate DIR skupper-operator --channel nosuch -m old", 3, `channel "nosuch" not found in package "skupper-operator"`, nil},
		{"deprecate DIR skupper-operator", 2, "--message TEXT", nil},
		{"deprecate DIR skupper-operator --channel a --bundle b -m old", 2, "specify --channel or --bundle, not both", nil},
	} {
		dir := copySample(t)
		before := filesOf(t, dir)
		code, stdout, stderr := run(t, strings.Split(strings.ReplaceAll(c.args, "DIR", dir), " ")...)
		if code != c.code || !strings.Contains(stdout+stderr, c.says) {
			t.Errorf("%s: exit code %d, want %d, and %q in\n%s%s", c.args, code, c.code, c.says, stdout, stderr)
		}
		after := filesOf(t, dir)
		changed := len(before) - len(after)
		for name, text := range after {
			if before[name] != text {
				changed++
			}
		}
		if wants := code == 0 && !strings.Contains(c.args, "--dry-run"); wants != (changed > 0) {
			t.Errorf("%s: %d files changed", c.args, changed)
		}
		for _, name := range c.gone {
			if _, ok := after[name]; ok {
				t.Errorf("%s: %s is left", c.args, name)
			}
		}
		if code == 0 {
			if code, stdout, stderr := run(t, "lint", dir, "--no-warnings"); code != 0 {
				t.Errorf("%s: lint finds\n%s%s", c.args, stdout, stderr)
			}
		}
	}
}

// An edit that makes a valid package invalid writes nothing. One of a package that was invalid before is accepted.
func TestEditRefusesNewErrors(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "catalog.yaml")
	bundle := func(version string) string {
		return "---\nschema: olm.bundle\nname: foo.v" + version + "\npackage: foo\nimage: r.example/foo:v" + version +
			"\nproperties:\n- type: olm.package\n  value: {packageName: foo, version: " + version + "}\n"
	}
	text := "schema: olm.package\nname: foo\ndefaultChannel: c\n---\nschema: olm.channel\npackage: foo\nname: c\nentries:\n" +
		"- name: foo.v1.0.0\n- name: foo.v1.1.0\n- name: foo.v2.0.0\n  replaces: foo.v1.1.0\n  skips: [foo.v1.0.0]\n" +
		bundle("1.0.0") + bundle("1.1.0") + bundle("2.0.0")
	must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
	code, _, stderr := run(t, "bundle", "remove", dir, "foo.v2.0.0")
	if code != 1 || !strings.Contains(stderr, "no file was changed, because the catalog would have new errors:\n") || !strings.Contains(stderr, "head") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if got := filesOf(t, dir)["catalog.yaml"]; got != text {
		t.Errorf("the file is now\n%s", got)
	}
	must.Succeed(t, os.WriteFile(file, []byte(strings.Replace(text, "defaultChannel: c", "defaultChannel: x", 1)), 0o600))
	if code, _, stderr := run(t, "deprecate", dir, "foo", "-m", "old"); code != 0 {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
