package authoring

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// writeTree writes files (content by name) to a new directory.
func writeTree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The blobs of a valid package foo.
const (
	fooPackage = `{"schema":"olm.package","name":"foo","defaultChannel":"a","description":"d","icon":{"base64data":"PHN2Zy8+",` +
		`"mediatype":"image/svg+xml"}}` + "\n"
	fooChannel = `{"schema":"olm.channel","package":"foo","name":"a","entries":[{"name":"foo.v1"}]}` + "\n"
	fooBundle  = `{"schema":"olm.bundle","package":"foo","name":"foo.v1","image":"i","properties":[` +
		`{"type":"olm.package","value":{"packageName":"foo","version":"1.0.0"}},{"type":"olm.csv.metadata","value":{}}]}` + "\n"
)

// bundleOf returns fooBundle with another version.
func bundleOf(version string) string {
	return strings.NewReplacer("foo.v1", "foo.v"+version, "1.0.0", version).Replace(fooBundle)
}

// lintTree returns the result of Lint without the warning about tags.
func lintTree(t *testing.T, files map[string]string) (judged, *Report) {
	t.Helper()
	dir := writeTree(t, files)
	report := lintDir(t, dir)
	return judge(t, dir, report), report
}

func TestLintChecksOnlyTheGivenFile(t *testing.T) {
	t.Chdir(writeTree(t, map[string]string{
		"a/foo.json": fooPackage + fooChannel, "a/rest.json": fooBundle, "a/.indexignore": "foo.json", "a/b/c.json": "{",
	}))
	report := lintDir(t, "a/foo.json")
	if report.Source != "a/foo.json" ||
		report.Files != 1 || len(report.Faults) != 1 || report.Faults[0].File != "a/foo.json" || report.Faults[0].Rule != "entry-unknown-bundle" {
		t.Errorf("got %+v", report)
	}
}

func TestLintFindsEveryFault(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  judged
	}{
		"nothing": {
			map[string]string{"foo/c.json": fooPackage + fooChannel + fooBundle},
			judged{},
		},
		"several in a bundle": {
			map[string]string{"foo/c.json": fooPackage + fooChannel + `{"schema":"olm.bundle","package":"foo","name":"foo.v1","image":"Bad",
"relatedImages":[
  {"image":"good"},
  {"image":"a@"},
  {"image":"B"}],
"properties":[
  {"type":"olm.gvk","value":1},
  {"type":"olm.package","value":{"packageName":"bar","version":"1"}},
  {"type":"x"}]}`},
			judged{invalid: "foo", errors: strings.Join([]string{
				"foo/c.json:3:64 image-reference",
				"foo/c.json:6:12 image-reference",
				"foo/c.json:7:12 image-reference",
				"foo/c.json:9:29 property-malformed",
				"foo/c.json:10:48 bundle-package",
				"foo/c.json:10:64 bundle-version",
				"foo/c.json:11:3 property-malformed",
			}, "\n")},
		},
		"several in a channel": {
			map[string]string{"foo/c.yaml": `---
schema: olm.package
name: foo
defaultChannel: b
icon: {base64data: PHN2Zy8+, mediatype: image/svg+xml}
---
schema: olm.channel
package: foo
name: a
entries:
- name: foo.v1
  replaces: foo.v1
  skipRange: none
- name: foo.v2
  skips: [""]
- name: foo.v2
---
# Nothing but a comment.
---
` + fooBundle},
			judged{invalid: "foo", errors: strings.Join([]string{
				"foo/c.yaml:4:17 default-channel",
				"foo/c.yaml:13:14 entry-skip-range",
				"foo/c.yaml:14:9 entry-unknown-bundle",
				"foo/c.yaml:15:11 entry-skips",
				"foo/c.yaml:16:9 entry-duplicate",
			}, "\n")},
		},
		"of several files": {
			map[string]string{
				"bar/c.json":   `{"schema":"olm.package","name":"bar"} {"schema":`,
				"baz/c.yaml":   "a: b\n---\nc: d\n---\nschema: olm.package\nname: 1\n",
				"foo/c.json":   fooPackage + fooChannel + strings.Replace(fooBundle, "1.0.0", "v1", 1),
				".indexignore": "*.md\n",
				"README.md":    "hidden",
			},
			judged{refused: true, invalid: "foo", errors: strings.Join([]string{
				"bar/c.json:1:0 syntax",
				"bar/c.json:1:1 default-channel",
				"baz/c.yaml:1:0 no-schema",
				"baz/c.yaml:3:0 no-schema",
				"baz/c.yaml:5:0 syntax",
				"foo/c.json:3:143 bundle-version",
			}, "\n")},
		},
		"missing blobs may be in an unreadable file": {
			map[string]string{"foo/package.json": fooPackage, "foo/bundles.json": fooBundle, "foo/channels.json": "{"},
			judged{refused: true, errors: "foo/channels.json:1:0 syntax"},
		},
		"deprecations": {
			map[string]string{"foo/c.json": fooPackage + fooChannel + fooBundle + `{"schema":"olm.deprecations","package":"foo","entries":[
{"reference":{"schema":"olm.package","name":"foo"},"message":"m"},
{"reference":{"schema":"olm.channel","name":"b"},"message":"m"},
{"reference":{"schema":"olm.bundle","name":"foo.v1"}},
{"reference":{"schema":"olm.bundle","name":"foo.v1"},"message":"m"}]}`},
			judged{invalid: "foo", errors: strings.Join([]string{
				"foo/c.json:5:45 deprecation-reference",
				"foo/c.json:6:45 deprecation-reference",
				"foo/c.json:7:1 deprecation-message",
				"foo/c.json:8:14 deprecation-duplicate",
			}, "\n")},
		},
		"a release asks for a name": {
			map[string]string{"foo/c.json": fooPackage + fooChannel + strings.Replace(fooBundle, `"1.0.0"`, `"1.0.0+b","release":"2"`, 1)},
			judged{invalid: "foo", errors: "foo/c.json:3:47 bundle-name\nfoo/c.json:3:143 bundle-version"},
		},
		"warnings": {
			map[string]string{
				"foo/c.json": strings.Replace(`{"schema":"olm.package","name":"foo","defaultChannel":"a"}`+"\n"+fooChannel+fooBundle, "csv.metadata",
					"bundle.object", 1),
			},
			judged{warnings: "foo/c.json:1:1 no-description\nfoo/c.json:1:1 no-icon\nfoo/c.json:3:81 bundle-objects"},
		},
		"downgrades": { // of an entry, of a name that is no entry, and not: of another stem, published again, in order
			map[string]string{"foo/c.json": fooPackage + strings.Join([]string{
				`{"schema":"olm.channel","package":"foo","name":"a","entries":[`,
				`{"name":"foo.v1","replaces":"foo.v1.9.5"},`,
				`{"name":"foo.v1.2.0","replaces":"foo.v1"},`,
				`{"name":"foo.v1.1.0","replaces":"foo.v1.2.0"},`,
				`{"name":"foo.v1.1.0-1","replaces":"foo.v1.1.0"},`,
				`{"name":"foo.v2.0.0","replaces":"foo.v1.1.0-1","skips":["foo.v9.0.0"]}]}`,
				`{"schema":"olm.channel","package":"foo","name":"b","entries":[`,
				`{"name":"foo.v1.2.0","replaces":"foo.v1.9.5"},`,
				`{"name":"foo.v2.0.0","replaces":"bar.v3.0.0","skips":["foo.v1.2.0"]}]}`}, "\n") +
				fooBundle + bundleOf("1.2.0") + bundleOf("1.1.0") + bundleOf("1.1.0-1") + bundleOf("2.0.0")},
			judged{warnings: "foo/c.json:5:33 entry-downgrade\nfoo/c.json:9:33 entry-downgrade"},
		},
		"columns are characters": {
			map[string]string{
				"a.json": "\ufeff" + `{"ü":"日本","schema":"olm.package","name":"a","defaultChannel":"x"}`,
				"b.yaml": "--- {ü: 日本, schema: olm.package, name: b, defaultChannel: x}\n",
				"c.yaml": "schema: olm.package\r\nname: c\r\ndefaultChannel: x\r\n",
			},
			judged{invalid: "a,b,c", errors: "a.json:1:62 default-channel\nb.yaml:1:59 default-channel\nc.yaml:3:17 default-channel"},
		},
		"no file": {nil, judged{refused: true, errors: ":0:0 empty"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, report := lintTree(t, test.files)
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(judged{})); diff != "" {
				t.Errorf("-want +got:\n%s\n%+v", diff, report.Faults)
			}
		})
	}
}

func TestLintReadsFilesOnly(t *testing.T) {
	dir := writeTree(t, map[string]string{"foo/c.json": fooPackage + fooChannel + fooBundle})
	if err := os.Symlink("c.json", filepath.Join(dir, "foo", "d.json")); err != nil {
		t.Fatal(err)
	}
	for _, pipe := range []string{"pipe.json", ".indexignore", "foo/.indexignore"} {
		if err := syscall.Mkfifo(filepath.Join(dir, pipe), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	socket, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, "s.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	want := judged{refused: true, errors: ".indexignore:0:0 not-a-file\nfoo/.indexignore:0:0 not-a-file\nfoo/d.json:0:0 " +
		"not-a-file\npipe.json:0:0 not-a-file\ns.json:0:0 not-a-file"}
	if diff := cmp.Diff(want, judge(t, dir, lintDir(t, dir)), cmp.AllowUnexported(judged{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Two of three packages reference images by tag.
func TestTagsAreReportedOnce(t *testing.T) {
	files := map[string]string{}
	for _, name := range []string{"b", "c", "d"} {
		bundle := fooBundle
		if name == "c" {
			bundle = strings.Replace(bundle, `"image":"i"`, `"image":"i@sha256:`+strings.Repeat("0", 64)+`"`, 1)
		}
		files[name+"/c.json"] = strings.ReplaceAll(fooPackage+fooChannel+bundle, "foo", name)
	}
	_, report := lintTree(t, files)
	var got []string
	for _, f := range report.Faults {
		if f.Rule == "image-tag" {
			got = append(got, fmt.Sprintf("%s:%d:%d %s", filepath.Base(filepath.Dir(f.File)), f.Line, f.Column, f.Message))
		}
	}
	want := []string{
		"b:3:60 images are referenced by tag, which can move: 2 bundles in 2 of 3 packages, the first here; reference them by digest",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Files of git are not part of an image.
func TestLintIgnoresGit(t *testing.T) {
	got, report := lintTree(t, map[string]string{
		"foo/c.json": fooPackage + fooChannel + fooBundle, ".git/config": "[core]", "foo/.git": "gitdir: x",
	})
	if diff := cmp.Diff(judged{}, got, cmp.AllowUnexported(judged{})); diff != "" || report.Files != 1 {
		t.Errorf("%d files (-want +got):\n%s", report.Files, diff)
	}
}

func TestLintLimitsFaultsOfAFile(t *testing.T) {
	_, report := lintTree(t, map[string]string{"foo.json": strings.Repeat("{}\n", 10*maxFaults)})
	if n := len(report.Faults); n != maxFaults {
		t.Errorf("got %d faults, want %d", n, maxFaults)
	}
}

func TestMessagesHaveNoControlCharacters(t *testing.T) {
	_, report := lintTree(t, map[string]string{
		"foo/c.yaml": "schema: \"\\e[2J\"\nname: \"\\e[2J\\n\"\n---\nschema: olm.package\nname: \"\\e[2J\\n\"\n---\n\"\\e[2J\": 1\n",
	})
	var out strings.Builder
	for _, format := range []string{"text", "github"} {
		if err := report.Write(&out, format); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Errorf("got %q", out.String())
	}
}

// FuzzLint checks that the faults agree with catalogd's validation, and that each has a valid line.
func FuzzLint(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, text []byte, isYAML bool) {
		name := "foo/c.json"
		if isYAML {
			name = "foo/c.yaml"
		}
		fsys := fstest.MapFS{name: {Data: text}}
		c, err := (&Source{files: fsys}).read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.spool.Close()
		l := &linter{catalog: c}
		l.addReadFaults()
		groups := c.groups()
		for _, name := range slices.Sorted(maps.Keys(groups)) {
			g := groups[name]
			if !g.required {
				continue
			}
			p := &pkg{linter: l, name: name}
			if err := p.read(g.blobs); err != nil {
				t.Fatal(err)
			}
			p.check()
			valid, _, err := l.catalog.load(name, g.blobs)
			if err != nil {
				t.Fatal(err)
			}
			if valid != nil && len(p.faults) > 0 {
				t.Errorf("package %q is valid, but has the faults %+v", name, p.faults)
			}
			if err := l.checkGroup(name, g); err != nil {
				t.Fatal(err)
			}
		}
		faults, err := l.locate()
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Count(string(text), "\n") + strings.Count(string(text), "\r") + strings.Count(string(text), "\u2028") +
			strings.Count(string(text), "\u2029") + strings.Count(string(text), "\u0085") + 1
		for _, fault := range faults {
			if fault.Rule != "empty" && fault.Rule != "no-package" && fault.Rule != "syntax" && (fault.Line < 1 || fault.Line > lines) {
				t.Errorf("%+v is in no line of %d", fault, lines)
			}
		}
	})
}

func addSeeds(f *testing.F) {
	for _, pattern := range []string{"*/*.json", "*/*/*.json", "*/*/*.yaml"} {
		files, err := filepath.Glob(filepath.Join(brokenDir(), pattern))
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			if len(text) < 8<<10 {
				f.Add(text, filepath.Ext(file) == ".yaml")
			}
		}
	}
	f.Add([]byte(fooPackage+fooChannel+fooBundle), false)
	f.Add([]byte("---\n"+fooPackage+"---\n"+fooChannel+"---\n"+fooBundle), true)
}

// Lint warns about a valid catalog that catalogd does not publish.
func TestLintWarnsAboutUnpublishedCatalogs(t *testing.T) {
	withoutCSV := strings.Replace(fooBundle, `,{"type":"olm.csv.metadata","value":{}}`, "", 1)
	for name, test := range map[string]struct {
		files map[string]string
		rules []string // of errors, and of valid packages that are not published
		left  string   // in the summary
	}{
		"with a CSV": {map[string]string{"c.json": fooPackage + fooChannel + fooBundle}, nil, "publish 1 OperatorPackage"},
		"without a CSV": {
			map[string]string{"c.json": fooPackage + fooChannel + withoutCSV},
			[]string{"package-no-csv"},
			"publish 0 OperatorPackages; not published: foo",
		},
		"custom blobs":   {map[string]string{"c.json": `{"schema":"example.com"}`}, []string{"no-package"}, "publish 0 OperatorPackages"},
		"an empty file":  {map[string]string{"c.json": ""}, []string{"no-package"}, "publish 0 OperatorPackages"},
		"an unread file": {map[string]string{"c.json": "{"}, []string{"syntax"}, "reject"},
	} {
		t.Run(name, func(t *testing.T) {
			_, report := lintTree(t, test.files)
			var rules []string
			for _, f := range report.Faults {
				if f.Severity == Error || f.Hides() {
					rules = append(rules, f.Rule)
				}
			}
			if diff := cmp.Diff(test.rules, rules); diff != "" || !strings.Contains(report.Summary(), test.left) {
				t.Errorf("rules (-want +got):\n%s%s", diff, report.Summary())
			}
		})
	}
}
