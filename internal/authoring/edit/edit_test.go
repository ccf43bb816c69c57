package edit

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/fbc/splice"
	"github.com/operator-catalogs/catalogd/internal/subset"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// open returns a catalog with these files.
func open(t testing.TB, files map[string]string) (*Catalog, string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		must.Succeed(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	c, err := Open(dir)
	must.Succeed(t, err)
	t.Cleanup(func() { must.Succeed(t, c.Close()) })
	return c, dir
}

// texts returns the texts of all files.
func (c *Catalog) texts() map[string]string {
	out := map[string]string{}
	for _, f := range c.files {
		out[f.name] = string(f.text)
	}
	return out
}

const yamlCatalog = `# The catalog of foo.
# Do not edit by hand.

schema: olm.package
name: foo
defaultChannel: stable # the only one
---
schema: olm.channel
package: foo
name: stable
entries:
# the first release
- name: foo.v1   # never remove
- name: foo.v2
  replaces: foo.v1
  skips:
  - foo.v1-rc
# the third
- replaces: foo.v2
  name: foo.v3
- {name: foo.v4, replaces: foo.v3, skipRange: "<4.0.0"}
---
schema: olm.bundle
name: foo.v1
package: foo
image: r.example/foo:v1
big: 12345678901234567890
---
schema: olm.bundle
name: foo.v2
package: foo
image: r.example/foo:v2
---
schema: olm.bundle
name: foo.v3
package: foo
image: r.example/foo:v3
---
schema: olm.bundle
name: foo.v4
package: foo
image: r.example/foo:v4
---
schema: olm.deprecations
package: foo
entries:
  - reference:
      schema: olm.bundle
      name: foo.v1
    message: |
      It is old.
  - reference: {schema: olm.channel, name: stable}
    message: "Use another."
`

const jsonCatalog = `{
    "schema": "olm.package",
    "name": "bar",
    "defaultChannel": "c"
}
{
    "schema": "olm.channel",
    "name": "c",
    "package": "bar",
    "entries": [
        {
            "name": "bar.v1"
        },
        {
            "name": "bar.v2",
            "replaces": "bar.v1"
        },
        {
            "name": "bar.v3",
            "replaces": "bar.v2",
            "skips": ["bar.v0"]
        }
    ]
}
{"schema":"olm.bundle","name":"bar.v1","package":"bar","image":"r.example/bar:v1","n":1.50}
{"schema":"olm.bundle","name":"bar.v2","package":"bar","image":"r.example/bar:v2"}
{"schema":"olm.bundle","name":"bar.v3","package":"bar","image":"r.example/bar:v3"}
`

// TestEdits compares the text after an edit with the text before, in which each pair of old and new is replaced.
func TestEdits(t *testing.T) {
	const foo, bar = "foo/catalog.yaml", "bar.json"
	for name, c := range map[string]struct {
		edit     func(*Catalog) error
		file     string
		replaced []string
	}{
		"a bundle in the middle, in YAML": {
			func(c *Catalog) error { return c.RemoveBundles("foo", "foo.v2") }, foo, []string{
				"- name: foo.v2\n  replaces: foo.v1\n  skips:\n  - foo.v1-rc\n", "",
				"- replaces: foo.v2\n  name: foo.v3\n", "- replaces: foo.v1\n  name: foo.v3\n",
				"---\nschema: olm.bundle\nname: foo.v2\npackage: foo\nimage: r.example/foo:v2\n", "",
			},
		},
		"the first bundle, in YAML": {
			func(c *Catalog) error { return c.RemoveBundles("foo", "foo.v1") }, foo, []string{
				"- name: foo.v1   # never remove\n", "",
				"- name: foo.v2\n  replaces: foo.v1\n", "- name: foo.v2\n",
				"---\nschema: olm.bundle\nname: foo.v1\npackage: foo\nimage: r.example/foo:v1\nbig: 12345678901234567890\n", "",
				"  - reference:\n      schema: olm.bundle\n      name: foo.v1\n    message: |\n      It is old.\n", "",
			},
		},
		"a bundle before one in brackets": {
			func(c *Catalog) error { return c.RemoveBundles("foo", "foo.v3") }, foo, []string{
				"- replaces: foo.v2\n  name: foo.v3\n", "",
				"- {name: foo.v4, replaces: foo.v3,", "- {name: foo.v4, replaces: foo.v2,",
				"---\nschema: olm.bundle\nname: foo.v3\npackage: foo\nimage: r.example/foo:v3\n", "",
			},
		},
		"the head, in brackets": {
			func(c *Catalog) error { return c.RemoveBundles("foo", "foo.v4") }, foo, []string{
				"- {name: foo.v4, replaces: foo.v3, skipRange: \"<4.0.0\"}\n", "",
				"---\nschema: olm.bundle\nname: foo.v4\npackage: foo\nimage: r.example/foo:v4\n", "",
			},
		},
		"a bundle in the middle, in JSON": {
			func(c *Catalog) error { return c.RemoveBundles("bar", "bar.v2") }, bar, []string{
				",\n        {\n            \"name\": \"bar.v2\",\n            \"replaces\": \"bar.v1\"\n        }", "",
				`"replaces": "bar.v2"`, `"replaces": "bar.v1"`,
				`{"schema":"olm.bundle","name":"bar.v2","package":"bar","image":"r.example/bar:v2"}` + "\n", "",
			},
		},
		"the first bundle, in JSON": {
			func(c *Catalog) error { return c.RemoveBundles("bar", "bar.v1") }, bar, []string{
				"{\n            \"name\": \"bar.v1\"\n        },\n        ", "",
				",\n            \"replaces\": \"bar.v1\"", "",
				`{"schema":"olm.bundle","name":"bar.v1","package":"bar","image":"r.example/bar:v1","n":1.50}` + "\n", "",
			},
		},
		"the first two bundles, in JSON": {
			func(c *Catalog) error { return c.RemoveBundles("bar", "bar.v2", "bar.v1", "bar.v2") }, bar, []string{
				"{\n            \"name\": \"bar.v1\"\n        },\n        {\n            \"name\": \"bar.v2\",\n            \"replaces\": \"bar.v1\"\n        },\n        ", "",
				",\n            \"replaces\": \"bar.v2\"", "",
				`{"schema":"olm.bundle","name":"bar.v1","package":"bar","image":"r.example/bar:v1","n":1.50}` + "\n", "",
				`{"schema":"olm.bundle","name":"bar.v2","package":"bar","image":"r.example/bar:v2"}` + "\n", "",
			},
		},
		"two bundles that replace each other, in YAML": {
			func(c *Catalog) error { return c.RemoveBundles("foo", "foo.v2", "foo.v3") }, foo, []string{
				"- name: foo.v2\n  replaces: foo.v1\n  skips:\n  - foo.v1-rc\n", "",
				"- replaces: foo.v2\n  name: foo.v3\n", "",
				"- {name: foo.v4, replaces: foo.v3,", "- {name: foo.v4, replaces: foo.v1,",
				"---\nschema: olm.bundle\nname: foo.v2\npackage: foo\nimage: r.example/foo:v2\n", "",
				"---\nschema: olm.bundle\nname: foo.v3\npackage: foo\nimage: r.example/foo:v3\n", "",
			},
		},
		"a deprecation, in YAML": {
			func(c *Catalog) error { return c.Deprecate("foo", fbc.SchemaBundle, "foo.v2", "It is: old.") }, foo, []string{
				"    message: \"Use another.\"\n",
				"    message: \"Use another.\"\n  - message: 'It is: old.'\n    reference:\n      name: foo.v2\n      schema: olm.bundle\n",
			},
		},
		"another message": {
			func(c *Catalog) error { return c.Deprecate("foo", fbc.SchemaChannel, "stable", "Wait.") }, foo, []string{
				`message: "Use another."`, `message: "Wait."`,
			},
		},
		"the first deprecation, in JSON": {
			func(c *Catalog) error { return c.Deprecate("bar", fbc.SchemaPackage, "", "Gone.") }, bar, []string{
				`"r.example/bar:v3"}` + "\n", `"r.example/bar:v3"}` + "\n" +
					`{"schema":"olm.deprecations","package":"bar","entries":[{"reference":{"schema":"olm.package"},"message":"Gone."}]}` + "\n",
			},
		},
		"a package": {
			func(c *Catalog) error { return c.RemovePackages("foo") }, foo, []string{
				yamlCatalog[strings.Index(yamlCatalog, "schema:"):], "",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := map[string]string{foo: yamlCatalog, bar: jsonCatalog}
			catalog, _ := open(t, before)
			must.Succeed(t, c.edit(catalog))
			want := before[c.file]
			for i := 0; i < len(c.replaced); i += 2 {
				if strings.Count(want, c.replaced[i]) != 1 {
					t.Fatalf("the text has %q %d times", c.replaced[i], strings.Count(want, c.replaced[i]))
				}
				want = strings.Replace(want, c.replaced[i], c.replaced[i+1], 1)
			}
			before[c.file] = want
			if diff := cmp.Diff(before, catalog.texts()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestEditErrors(t *testing.T) {
	files := map[string]string{"foo.yaml": yamlCatalog, "bar.json": jsonCatalog}
	for want, edit := range map[string]func(*Catalog) error{
		`package "baz" not found in the catalog`:     func(c *Catalog) error { return c.KeepPackages("foo", "baz") },
		`package "none" not found in the catalog`:    func(c *Catalog) error { return c.RemovePackages("none") },
		`bundle "foo.v9" not found in package "foo"`: func(c *Catalog) error { return c.RemoveBundles("foo", "foo.v9") },
		`channel "beta" not found in package "foo"`:  func(c *Catalog) error { return c.Deprecate("foo", fbc.SchemaChannel, "beta", "x") },
		`is the default channel of package "foo"`: func(c *Catalog) error {
			var err error
			for _, name := range []string{"foo.v1", "foo.v2", "foo.v3", "foo.v4"} {
				err = errors.Join(err, c.RemoveBundles("foo", name))
			}
			return err
		},
	} {
		c, _ := open(t, files)
		if err := edit(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
}

// YAML that cannot be changed in place is refused, and not damaged.
func TestUnsupportedYAML(t *testing.T) {
	for name, entries := range map[string]string{
		"an anchor":             "\n- &a {name: foo.v1}\n- name: foo.v2\n  replaces: foo.v1\n",
		"a tag":                 "\n- name: !!str foo.v1\n- name: foo.v2\n  replaces: foo.v1\n",
		"a comment in brackets": " [\n  {name: foo.v1}, # the first\n  {name: foo.v2, replaces: foo.v1},\n  ]\n",
		"a text over two lines": "\n- name: foo.v0\n- name: foo.v1\n  replaces: foo.v0\n- name: foo.v2\n  replaces: >-\n    foo.v1\n",
	} {
		c, _ := open(t, map[string]string{"c.yaml": "schema: olm.bundle\nname: foo.v1\npackage: foo\n---\nschema: olm.channel\nname: c\npackage: foo\nentries:" + entries})
		if err := c.RemoveBundles("foo", "foo.v1"); !errors.Is(err, splice.ErrUnsupported) {
			t.Errorf("%s: got error %v", name, err)
		}
	}
}

func TestWrite(t *testing.T) {
	c, dir := open(t, map[string]string{"foo.yaml": yamlCatalog[strings.Index(yamlCatalog, "schema:"):], "bar.json": jsonCatalog, "sub/own.json": `{"schema":"own"}`})
	must.Succeed(t, c.KeepPackages("bar"))
	must.Succeed(t, c.RemoveBundles("bar", "bar.v2"))
	want := c.texts()["bar.json"]
	if got := c.Changes(); len(got) != 2 || got[0].File != "bar.json" || got[1].After != nil {
		t.Errorf("got changes %+v", got)
	}
	must.Succeed(t, c.Write())
	var names []string
	must.Succeed(t, filepath.WalkDir(dir, func(_ string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			names = append(names, entry.Name())
		}
		return err
	}))
	if diff := cmp.Diff([]string{"bar.json", "own.json"}, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	got, err := os.ReadFile(filepath.Join(dir, "bar.json"))
	must.Succeed(t, err)
	if string(got) != want {
		t.Errorf("got %s", got)
	}
}

// FuzzEntries removes an entry of a channel, and checks that the others are the same, as a decoder reads them.
func FuzzEntries(f *testing.F) {
	f.Add("entries:\n- name: b\n  replaces: a\n- name: a\n")
	f.Add("entries: [{name: b, replaces: a}, {name: a}]\n")
	f.Add(`{"entries": [{"name": "a"}, {"name": "b", "replaces": "a"}]}`)
	f.Add("entries:\n  # x\n  - replaces: a\n    name: b # y\n\n  -\n    name: a\n  - name: c\n    skips: [b,\n      d]\nlast: |\n  # text\n\n  more\n")
	f.Fuzz(func(t *testing.T, text string) {
		before := &file{name: "c"}
		head := "schema: olm.channel\nname: c\npackage: p\n"
		if strings.HasPrefix(text, "{") {
			head, text = "", `{"schema":"olm.channel","name":"c","package":"p",`+text[1:]
		}
		if before.set([]byte(head+text)) != nil || len(before.docs) != 1 {
			return
		}
		c := &Catalog{files: []*file{before}}
		if c.find(fbc.SchemaChannel, "p", "c") == nil {
			return
		}
		original := before.docs[0]
		model := decodeEntries(t, original)
		for _, entry := range model {
			for key := range entry {
				if key != strings.ToLower(key) { // FBC ignores the case of keys, and this test does not
					return
				}
			}
		}
		if c.dropEntries("p", "c", []string{"a"}, false) != nil || len(model) < 2 {
			return
		}
		removed := false
		var want []map[string]any
		for _, entry := range model {
			name, isText := entry["name"].(string)
			if isText && name == "a" && !removed {
				removed = true
				continue
			}
			want = append(want, entry)
		}
		if !removed || len(before.docs) != 1 {
			return
		}
		replaced := ""
		for _, entry := range decodeEntries(t, original) {
			if entry["name"] == "a" {
				replaced, _ = entry["replaces"].(string)
				break
			}
		}
		if replaced == "a" {
			replaced = "" // it replaces itself
		}
		for _, entry := range want {
			if entry["replaces"] == "a" {
				if entry["replaces"] = replaced; replaced == "" {
					delete(entry, "replaces")
				}
			}
		}
		if diff := cmp.Diff(want, decodeEntries(t, before.docs[0])); diff != "" {
			t.Errorf("entries after removing a from\n%s\nare\n%s\n(-want +got):\n%s", head+text, before.text, diff)
		}
	})
}

// decodeEntries decodes the entries of a channel; nil if they are not a list of objects.
func decodeEntries(t *testing.T, d *doc) []map[string]any {
	t.Helper()
	var c struct{ Entries []map[string]any }
	if err := json.Unmarshal(d.JSON, &c); err != nil {
		return nil
	}
	return c.Entries
}

func versioned(name, version string) string {
	return `{"schema":"olm.bundle","package":"p","name":"` + name + `","image":"r.example/` + name + `","relatedImages":[{"image":"r.example/op"}],` +
		`"properties":[{"type":"x","value":1},{"type":"olm.package","value":{"packageName":"p","version":"` + version + `"}}]}` + "\n"
}

func TestTruncate(t *testing.T) {
	head := `{"schema":"olm.package","name":"p","defaultChannel":"c"}` + "\n"
	text := head + `{"schema":"olm.channel","package":"p","name":"c","entries":[{"name":"a"},{"name":"b","replaces":"a"},{"name":"d","replaces":"b"}]}` + "\n" +
		`{"schema":"olm.channel","package":"p","name":"old","entries":[{"name":"a"}]}` + "\n" +
		versioned("a", "1.9.0") + versioned("b", "1.10.0") + versioned("d", "2.0.0")
	c, _ := open(t, map[string]string{"c.json": text})
	must.Succeed(t, c.Truncate("p", "1.10.0", "Upgrade."))
	want := head + `{"schema":"olm.channel","package":"p","name":"c","entries":[{"name":"b","replaces":"a"},{"name":"d","replaces":"b"}]}` + "\n" +
		versioned("b", "1.10.0") + versioned("d", "2.0.0") +
		`{"schema":"olm.deprecations","package":"p","entries":[{"reference":{"name":"b","schema":"olm.bundle"},"message":"Upgrade."}]}` + "\n"
	if diff := cmp.Diff(want, c.texts()["c.json"]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for below, want := range map[string]string{"1.0.0": "bundle below version \"1.0.0\" not found", "9.0.0": "no bundle of version 9.0.0 or higher"} {
		if err := c.Truncate("p", below, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("below %s: got error %v, want %q", below, err, want)
		}
	}
	if diff := cmp.Diff(want, c.texts()["c.json"]); diff != "" {
		t.Errorf("after errors (-want +got):\n%s", diff)
	}
}

func TestImages(t *testing.T) {
	c, _ := open(t, map[string]string{"c.json": versioned("a", "1.0.0") + versioned("b", "2.0.0"), "foo.yaml": yamlCatalog})
	for _, test := range []struct {
		related  bool
		packages []string
		want     []string
	}{
		{false, []string{"p"}, []string{"r.example/a", "r.example/b"}},
		{true, []string{"p"}, []string{"r.example/a", "r.example/op", "r.example/b"}},
		{false, nil, []string{"r.example/a", "r.example/b", "r.example/foo:v1", "r.example/foo:v2", "r.example/foo:v3", "r.example/foo:v4"}},
	} {
		got, err := c.Images(test.related, test.packages...)
		must.Succeed(t, err)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", test.packages, diff)
		}
	}
	if _, err := c.Images(false, "nosuch"); err == nil {
		t.Error("there are images of a missing package")
	}
}

func TestSelectChangesOnlyWhatGoes(t *testing.T) {
	c, _ := open(t, map[string]string{"foo.yaml": yamlCatalog, "loose.json": `{"schema":"custom","n":9007199254740993}`})
	before := c.texts()
	must.Succeed(t, c.Select(subset.Include{Package: "foo"}))
	if diff := cmp.Diff(before, c.texts()); diff != "" {
		t.Error(diff)
	}
	for want, rule := range map[string]subset.Include{
		`package "none" not found in the catalog`:                 {Package: "none"},
		`channel "none" not found in package "foo"`:               {Package: "foo", Channels: []string{"none"}},
		`bundle of versions "9.0.0.." not found in package "foo"`: {Package: "foo", MinVersion: "9.0.0"},
	} {
		err := c.Select(rule)
		if _, ok := errors.AsType[*NotFoundError](err); !ok || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if diff := cmp.Diff(before, c.texts()); diff != "" {
		t.Errorf("after errors: %s", diff)
	}
}

func TestSelectCutsChannelsInPlace(t *testing.T) {
	bundles := ""
	for _, v := range []string{"1", "2", "3"} {
		bundles += "---\nschema: olm.bundle\npackage: foo\nname: foo.v" + v + "\nimage: i:" + v +
			"\nproperties:\n- type: olm.package\n  value: {packageName: foo, version: " + v + ".0.0}\n"
	}
	const head = `schema: olm.package
name: foo
defaultChannel: "stable" # ours
---
schema: olm.channel
package: foo
name: stable
entries:
`
	c, _ := open(t, map[string]string{"foo.yaml": head + `# first
- name: foo.v1
- name: foo.v2 # second
  replaces: foo.v1
- name: foo.v3
  replaces: 'foo.v2' # third
  n: 9007199254740993
---
schema: olm.channel
package: foo
name: beta
entries:
- name: foo.v2
` + bundles})
	must.Succeed(t, c.Select(
		subset.Include{Package: "foo", Channels: []string{"stable"}, MaxVersion: "1.0.0"},
		subset.Include{Package: "foo", Channels: []string{"stable"}, MinVersion: "3.0.0"}))
	two := strings.Index(bundles, "---\nschema: olm.bundle\npackage: foo\nname: foo.v2")
	three := strings.Index(bundles, "---\nschema: olm.bundle\npackage: foo\nname: foo.v3")
	want := head + `# first
- name: foo.v1
- name: foo.v3
  replaces: foo.v1 # third
  n: 9007199254740993
` + bundles[:two] + bundles[three:]
	if diff := cmp.Diff(map[string]string{"foo.yaml": want}, c.texts()); diff != "" {
		t.Error(diff)
	}
}
