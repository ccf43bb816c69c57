package edit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

func adding(version, replaces string, skips ...string) Addition {
	return Addition{
		Package: "p", Image: "r.example/p:" + version, Channels: []string{"c"},
		Entry:      channel.Entry{Name: "p.v" + version, Version: version, Replaces: replaces, Skips: skips},
		Blob:       []byte(strings.TrimSpace(versioned("p.v"+version, version))),
		NewPackage: func() ([]byte, error) { return []byte(`{"schema":"olm.package","name":"p","defaultChannel":"c"}`), nil },
	}
}

func TestAddKeepsTheStyle(t *testing.T) {
	for name, test := range map[string]struct{ file, before, want string }{
		"JSON with indentation": {
			"c.json", `{
  "schema": "olm.channel",
  "package": "p",
  "name": "c",
  "entries": [
    {
      "name": "p.v1.0.0"
    }
  ]
}
`, `{
  "schema": "olm.channel",
  "package": "p",
  "name": "c",
  "entries": [
    {
      "name": "p.v1.0.0"
    },
    {
      "name": "p.v1.1.0",
      "replaces": "p.v1.0.0"
    }
  ]
}
`,
		},
		"compact JSON": {
			"c.json", `{"schema":"olm.channel","package":"p","name":"c","entries":[{"name":"p.v1.0.0"}]}` + "\n",
			`{"schema":"olm.channel","package":"p","name":"c","entries":[{"name":"p.v1.0.0"}, {"name":"p.v1.1.0","replaces":"p.v1.0.0"}]}` + "\n",
		},
		"the head first": {
			"c.yaml", "schema: olm.channel\npackage: p\nname: c\nentries:\n# newest first\n- name: p.v1.0.0 # head\n  replaces: p.v0.9.0\n- name: p.v0.9.0\n",
			"schema: olm.channel\npackage: p\nname: c\nentries:\n# newest first\n- name: p.v1.1.0\n  replaces: p.v1.0.0\n- name: p.v1.0.0 # head\n" +
				"  replaces: p.v0.9.0\n- name: p.v0.9.0\n",
		},
		"YAML in brackets": {
			"c.yaml", "schema: olm.channel\npackage: p\nname: c\nentries: [{name: p.v1.0.0}]\n",
			"schema: olm.channel\npackage: p\nname: c\nentries: [{name: p.v1.0.0}, {\"name\":\"p.v1.1.0\",\"replaces\":\"p.v1.0.0\"}]\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := open(t, map[string]string{test.file: test.before, "p.json": `{"schema":"olm.package","name":"p","defaultChannel":"c"}` + versioned("p.v1.0.0", "1.0.0")})
			dropped, err := c.Add([]Addition{adding("1.1.0", "")}, channel.ModeHead, false)
			must.Succeed(t, err)
			if len(dropped) > 0 {
				t.Errorf("it drops %q", dropped)
			}
			if diff := cmp.Diff(test.want, c.texts()[test.file]); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestAddFiles(t *testing.T) {
	one := `{"schema":"olm.package","name":"p","defaultChannel":"c"}` + "\n" + `{"schema":"olm.channel","package":"p","name":"c","entries":[{"name":"p.v1.0.0"}]}` + "\n"
	for name, test := range map[string]struct {
		before map[string]string
		want   []string
	}{
		"a file for each bundle": {
			map[string]string{"p/p.json": one, "p/bundles/p.v1.0.0.json": versioned("p.v1.0.0", "1.0.0")},
			[]string{"p/bundles/p.v1.0.0.json", "p/bundles/p.v1.1.0.json", "p/p.json"},
		},
		"a new package beside JSON": {map[string]string{"q.json": strings.ReplaceAll(one, `"p"`, `"q"`)}, []string{"p/catalog.json", "q.json"}},
		"a new package beside YAML": {map[string]string{"q.yaml": "schema: olm.package\nname: q\n"}, []string{"p/catalog.yaml", "q.yaml"}},
	} {
		t.Run(name, func(t *testing.T) {
			c, dir := open(t, test.before)
			_, err := c.Add([]Addition{adding("1.1.0", "")}, channel.ModeHead, false)
			must.Succeed(t, err)
			must.Succeed(t, c.Write())
			again, err := Open(dir)
			must.Succeed(t, err)
			t.Cleanup(func() { must.Succeed(t, again.Close()) })
			var names []string
			for _, f := range again.files {
				names = append(names, f.name)
			}
			if diff := cmp.Diff(test.want, names); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			if again.find("olm.bundle", "p", "p.v1.1.0") == nil || again.find("olm.channel", "p", "c") == nil || again.find("olm.package", "p", "p") == nil {
				t.Errorf("something is missing: %v", again.texts())
			}
		})
	}
}

func TestOverwriteTakesThePlaceOfTheBundle(t *testing.T) {
	channelBlob := `{"schema":"olm.channel","package":"p","name":"c","entries":[{"name":"p.v1.1.0","replaces":"p.v1.0.0"},{"name":"p.v1.0.0"}]}` + "\n"
	head := `{"schema":"olm.package","name":"p","defaultChannel":"c"}` + "\n"
	c, _ := open(t, map[string]string{"c.json": head + channelBlob + versioned("p.v1.1.0", "1.1.0") + versioned("p.v1.0.0", "1.0.0")})
	a := adding("1.1.0", "", "p.v1.0.1", "p.v1.0.2")
	a.Blob = []byte(strings.Replace(string(a.Blob), "r.example/op", "r.example/other", 1))
	_, err := c.Add([]Addition{a}, channel.ModeHead, true)
	must.Succeed(t, err)
	want := head + strings.Replace(channelBlob, `{"name":"p.v1.1.0",`, `{"name":"p.v1.1.0","skips":["p.v1.0.1", "p.v1.0.2"],`, 1) + string(a.Blob) + "\n" + versioned("p.v1.0.0", "1.0.0")
	if diff := cmp.Diff(want, c.texts()["c.json"]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestSemverTemplate(t *testing.T) {
	text := "schema: olm.semver\nGenerateMajorChannels: true\nstable:\n  bundles:\n  - image: r.example/p:1.0.0 # first\ncandidate:\n  bundles: []\n"
	c, _ := open(t, map[string]string{"t.yaml": text})
	a := adding("1.1.0", "")
	a.Channels = []string{"Stable"}
	_, err := c.Add([]Addition{a}, channel.ModeHead, false)
	must.Succeed(t, err)
	if diff := cmp.Diff(strings.Replace(text, "# first\n", "# first\n  - image: r.example/p:1.1.0\n", 1), c.texts()["t.yaml"]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for stream, says := range map[string]string{"stable": "is already in stable", "candidate": "has no bundles in \"candidate\"", "beta": "has no bundles in \"beta\""} {
		a.Channels = []string{stream}
		if _, err := c.Add([]Addition{a}, channel.ModeHead, false); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got error %v", stream, err)
		}
	}
}

func TestHeads(t *testing.T) {
	c, _ := open(t, map[string]string{"c.json": `{"schema":"olm.package","name":"p","defaultChannel":"c"}` +
		`{"schema":"olm.channel","package":"p","name":"c","entries":[{"name":"b","replaces":"a"},{"name":"a"}]}` +
		`{"schema":"olm.channel","package":"p","name":"d","entries":[{"name":"a"}]}`})
	for name, want := range map[string][]string{"": {"a", "b"}, "c": {"b"}, "d": {"a"}} {
		got, err := c.Heads("p", name)
		must.Succeed(t, err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("channel %q (-want +got):\n%s", name, diff)
		}
	}
	if _, err := c.Heads("p", "x"); err == nil || err.Error() != `channel "x" not found in package "p"` {
		t.Errorf("got error %v", err)
	}
}

func TestYAMLThatBeginsWithABracket(t *testing.T) {
	c, _ := open(t, map[string]string{"c.yaml": "{schema: olm.package, name: p, defaultChannel: c}\n---\n{schema: olm.channel, package: p, name: c, entries: [{name: a}]}\n"})
	must.Succeed(t, c.RemovePackages("p"))
}

func TestWriteRespectsFiles(t *testing.T) {
	text := versioned("a", "1.0.0") + versioned("b", "2.0.0")
	change := func(t *testing.T, c *Catalog) {
		t.Helper()
		must.Succeed(t, c.RemoveBundles("p", "a"))
	}
	t.Run("mode", func(t *testing.T) {
		c, dir := open(t, map[string]string{"c.json": text})
		file := filepath.Join(dir, "c.json")
		must.Succeed(t, os.Chmod(file, 0o666))
		change(t, c)
		must.Succeed(t, c.Write())
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o666 {
			t.Errorf("mode is %v, error %v", info.Mode(), err)
		}
	})
	t.Run("changed meanwhile", func(t *testing.T) {
		c, dir := open(t, map[string]string{"c.json": text})
		file := filepath.Join(dir, "c.json")
		change(t, c)
		must.Succeed(t, os.WriteFile(file, []byte(text+"\n"), 0o666))
		if err := c.Write(); err == nil || !strings.Contains(err.Error(), "c.json was changed by another program") {
			t.Errorf("got error %v", err)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
			t.Errorf("files %v, error %v", entries, err)
		}
	})
	t.Run("symbolic link", func(t *testing.T) {
		c, dir := open(t, map[string]string{"c.json": text})
		file := filepath.Join(dir, "c.json")
		change(t, c)
		must.Succeed(t, os.Rename(file, filepath.Join(dir, "real")))
		must.Succeed(t, os.Symlink("real", file))
		if err := c.Write(); err == nil || !strings.Contains(err.Error(), "symbolic link") {
			t.Errorf("got error %v", err)
		}
	})
}
