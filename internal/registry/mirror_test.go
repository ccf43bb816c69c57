package registry

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
)

const (
	aDigest = "@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	another = "@sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
)

func mustReadConf(t *testing.T, file string) *conf {
	t.Helper()
	c, err := readConf(file)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func writeConf(t *testing.T, content string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "registries.conf")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// placesOf renders sources, insecure ones with "!".
func placesOf(sources []source) []string {
	var names []string
	for _, s := range sources {
		mark := ""
		if s.insecure {
			mark = "!"
		}
		names = append(names, mark+s.ref.Name())
	}
	return names
}

func TestSourcesOfFile(t *testing.T) {
	for _, test := range []struct {
		file, image string
		want        []string
	}{
		{"", "quay.example/ns/repo:v1", []string{"quay.example/ns/repo:v1"}},
		{"", "quay.example/ns//repo", []string{"quay.example/ns//repo:latest"}}, // no name for mirrors, but then there are none

		// The example of containers-registries.conf(5), in other names.
		{"mirrors", "catalogs.example/foo/image:latest", []string{
			"mirror-0.example/for-foo/image:latest",
			"!mirror-1.example:5000/mirrors/foo/image:latest",
			"inside.example/bar/image:latest",
		}},
		{"mirrors", "catalogs.example/foo/image" + aDigest, []string{
			"mirror-0.example/for-foo/image" + aDigest,
			"!mirror-1.example:5000/mirrors/foo/image" + aDigest,
			"inside.example/bar/image" + aDigest,
		}},
		{"mirrors", "registry.example/image:latest", []string{"mirror.registry.example/image:latest", "registry.example/image:latest"}},
		{"mirrors", "catalogs.example/food/image:latest", []string{"catalogs.example/food/image:latest"}},
		{"mirrors", "search.example/image:latest", []string{"search.example/image:latest"}},
		{"mirrors", "registry.example:5000/image:latest", []string{"registry.example:5000/image:latest"}},

		{"by-digest", "all-by-digest.example/ns/repo:v1", []string{"all-by-digest.example/ns/repo:v1"}},
		{"by-digest", "all-by-digest.example/ns/repo" + aDigest, []string{
			"mirror-0.example/ns/repo" + aDigest, "mirror-1.example/ns/repo" + aDigest, "all-by-digest.example/ns/repo" + aDigest,
		}},
		{"by-digest", "all-by-digest.example/ns/repo:v1" + aDigest, []string{
			"mirror-0.example/ns/repo" + aDigest, "mirror-1.example/ns/repo" + aDigest, "all-by-digest.example/ns/repo" + aDigest,
		}},
		{"by-digest", "each.example/ns/repo:v1", []string{"tags.example/ns/repo:v1", "both.example/ns/repo:v1", "each.example/ns/repo:v1"}},
		{"by-digest", "each.example/ns/repo" + aDigest, []string{
			"digests.example/ns/repo" + aDigest, "both.example/ns/repo" + aDigest, "each.example/ns/repo" + aDigest,
		}},

		{"prefixes", "quay.example/other/repo:v1", []string{"mirror.example/of-registry/other/repo:v1", "quay.example/other/repo:v1"}},
		{"prefixes", "quay.example/ns/other:v1", []string{"mirror.example/of-namespace/other:v1", "quay.example/ns/other:v1"}},
		{"prefixes", "quay.example/ns/repo:v1", []string{"mirror.example/of-repository:v1", "quay.example/ns/repo:v1"}},
		{"prefixes", "quay.example/ns/repo:v2", []string{"mirror.example/of-tag:v2.0", "quay.example/ns/repo:v2"}},
		{"prefixes", "quay.example/ns/repo:v22", []string{"mirror.example/of-repository:v22", "quay.example/ns/repo:v22"}},
		{"prefixes", "quay.example/ns/repo" + aDigest, []string{"mirror.example/of-repository" + aDigest, "quay.example/ns/repo" + aDigest}},
		{"prefixes", "quay.example/secret/but-this:v1", []string{"vault.example/this:v1"}},

		{"prefixes", "wild.example/repo:v1", []string{"wild.example/repo:v1"}},
		{"prefixes", "a.wild.example/repo:v1", []string{"!a.wild.example/repo:v1"}},
		{"prefixes", "a.b.wild.example:5000/repo:v1", []string{"!a.b.wild.example:5000/repo:v1"}},
		{"prefixes", "a.wild.example.wild.example/repo:v1", []string{"!a.wild.example.wild.example/repo:v1"}},
		{"prefixes", "a.deep.wild.example/ns/repo:v1", []string{"mirror.example/deep/ns/repo:v1"}},
		{"prefixes", "other.example/a.wild.example/repo:v1", []string{"other.example/a.wild.example/repo:v1"}},

		{"prefixes", "busybox:v1", []string{"mirror.example/hub/library/busybox:v1", "index.docker.io/library/busybox:v1"}},
		{"prefixes", "docker.io/ns/repo" + aDigest, []string{"mirror.example/hub/ns/repo" + aDigest, "index.docker.io/ns/repo" + aDigest}},
		{"prefixes", "hub-mirror.example/repo:v1", []string{"index.docker.io/mirrored/repo:v1", "hub-mirror.example/repo:v1"}},
		{"prefixes", "twice.example/repo:v1", []string{"once.example/repo:v1", "!twice.example/repo:v1"}},
		// A host has many spellings.
		{"prefixes", "QUAY.example/ns/repo:v1", []string{"mirror.example/of-repository:v1", "quay.example/ns/repo:v1"}},
		{"prefixes", "quay.example.:0443/ns/repo:v1", []string{"mirror.example/of-repository:v1", "quay.example/ns/repo:v1"}},
		{"prefixes", "a.Wild.Example./repo:v1", []string{"!a.wild.example/repo:v1"}},
		{"prefixes", "Docker.IO/ns/repo" + aDigest, []string{"mirror.example/hub/ns/repo" + aDigest, "index.docker.io/ns/repo" + aDigest}},
		{"", "QUAY.example:443/ns/repo:v1", []string{"QUAY.example:443/ns/repo:v1"}}, // credentials go by the name

		{"prefixes", "port.example/ns/repo:v1", []string{"port.example:8443/ns/repo:v1"}},
	} {
		t.Run(test.file+"/"+test.image, func(t *testing.T) {
			file := ""
			if test.file != "" {
				file = filepath.Join("testdata", "registries", test.file+".conf")
			}
			got, err := mustReadConf(t, file).sources(parse(t, test.image), nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, placesOf(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSourcesOfCatalog(t *testing.T) {
	quay := Mirror{Source: "quay.example", Location: "mirror.example:5000/quay/", Insecure: true}
	for _, test := range []struct {
		name, image string
		mirrors     []Mirror
		want        []string
	}{
		{"mirrors of the catalog come first", "quay.example/ns/other:v1", []Mirror{quay}, []string{
			"!mirror.example:5000/quay/ns/other:v1", "mirror.example/of-namespace/other:v1", "quay.example/ns/other:v1",
		}},
		{"of another registry", "else.example/repo:v1", []Mirror{quay}, []string{"else.example/repo:v1"}},
		{"in their order, whatever their prefix", "else.example/ns/repo:v1", []Mirror{
			{Location: "a.example"}, {Source: "else.example/ns/repo", Location: "b.example/c"}, {Source: "else.example/ns", Location: "d.example"},
		}, []string{"a.example/ns/repo:v1", "b.example/c:v1", "d.example/repo:v1", "else.example/ns/repo:v1"}},
		{"by tag", "else.example/repo:v1", []Mirror{
			{Location: "a.example", PullFrom: "digest-only"}, {Location: "b.example", PullFrom: "tag-only"},
		},
			[]string{"b.example/repo:v1", "else.example/repo:v1"}},
		{"by digest", "else.example/repo" + aDigest, []Mirror{
			{Location: "a.example", PullFrom: "digest-only"}, {Location: "b.example", PullFrom: "tag-only"},
		},
			[]string{"a.example/repo" + aDigest, "else.example/repo" + aDigest}},
		{"Docker Hub by either name", "else.example/repo:v1", []Mirror{{Location: "docker.io/a"}, {Location: "index.docker.io/b"}},
			[]string{"index.docker.io/a/repo:v1", "index.docker.io/b/repo:v1", "else.example/repo:v1"}},
		{"images of Docker Hub", "busybox" + aDigest, []Mirror{
			{Source: "docker.io", Location: "a.example"}, {Source: "index.docker.io/library", Location: "b.example"}, {Location: "c.example"},
		},
			[]string{
				"a.example/library/busybox" + aDigest, "b.example/busybox" + aDigest, "c.example/library/busybox" + aDigest,
				"mirror.example/hub/library/busybox" + aDigest, "index.docker.io/library/busybox" + aDigest,
			}},
		{"the same place twice", "quay.example/ns/repo:v1", []Mirror{
			{Location: "quay.example"}, {Source: "quay.example/ns/repo", Location: "mirror.example/of-repository"},
		},
			[]string{"quay.example/ns/repo:v1", "mirror.example/of-repository:v1"}},
		{"whatever the spelling", "ELSE.example:443/repo:v1", []Mirror{{Source: "Else.Example.", Location: "a.example"}},
			[]string{"a.example/repo:v1", "ELSE.example:443/repo:v1"}},
		{"a place with other trust is another", "else.example/repo:v1", []Mirror{{Location: "else.example", Insecure: true}},
			[]string{"!else.example/repo:v1", "else.example/repo:v1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := mustReadConf(t, "testdata/registries/prefixes.conf").sources(parse(t, test.image), test.mirrors)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, placesOf(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSourcesRefused(t *testing.T) {
	const file = "testdata/registries/prefixes.conf"
	for _, test := range []struct {
		image   string
		mirrors []Mirror
		kind    Kind
		parts   []string
	}{
		{"quay.example/secret/repo:v1", nil, Blocked, []string{"quay.example/secret/repo:v1", "is blocked", `"quay.example/secret"`, file}},
		{"quay.example/secret/repo:v1", []Mirror{{Location: "mirror.example"}}, Blocked, nil},
		{"a.bad.example/repo" + aDigest, nil, Blocked, []string{`"*.bad.example"`}},
		{"QUAY.example/secret/repo:v1", nil, Blocked, nil},
		{"quay.example:443/secret/repo:v1", nil, Blocked, nil},
		{"quay.example:0443/secret/repo:v1", nil, Blocked, nil},
		{"quay.example:/secret/repo:v1", nil, Blocked, nil},
		{"quay.example./secret/repo:v1", nil, Blocked, nil},
		{"a.BAD.example.:443/repo:v1", nil, Blocked, nil},
		{
			"else.example/repo:v1",
			[]Mirror{{Location: "quay.example/secret"}},
			Blocked,
			[]string{"mirror quay.example/secret/repo:v1", "else.example/repo:v1", `"quay.example/secret"`, file},
		},
		{"else.example/repo:v1", []Mirror{{Location: "a.example"}, {Location: "Quay.example:443/secret"}}, Blocked, nil},
		{"spaced.example/repo:v1", nil, Configuration, []string{"spaced.example/repo:v1", `"spaced.example"`, "invalid reference format"}},
		{"pinned.example/ns/repo:v2", nil, Configuration, []string{`"pinned.example/ns/repo"`}},
		{"untagged.example/repo:v1", nil, Configuration, []string{"neither tag nor digest"}},
		{"else.example/repo:v1", []Mirror{{Location: "https://mirror.example"}}, Configuration, []string{`"else.example"`}},
		{"else.example/repo:v1", []Mirror{{Location: "mirror/x"}}, Configuration, nil}, // a namespace of Docker Hub, or a host?
		{"else.example/ns//repo:v1", []Mirror{{Location: "mirror.example"}}, Configuration, nil},
		{
			"else.example/repo" + aDigest,
			[]Mirror{{Source: "else.example/repo" + aDigest, Location: "m.example/repo" + another}},
			Configuration,
			[]string{"has another digest"},
		},
		{
			"else.example/repo" + aDigest,
			[]Mirror{{Source: "else.example/repo" + aDigest, Location: "m.example/repo:v1"}},
			Configuration,
			[]string{"has another digest"},
		},
	} {
		t.Run(test.image, func(t *testing.T) {
			got, err := mustReadConf(t, file).sources(parse(t, test.image), test.mirrors)
			if KindOf(err) != test.kind {
				t.Fatalf("got %v, %v, want an error of kind %s", placesOf(got), err, test.kind)
			}
			for _, part := range test.parts {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not say %q", err, part)
				}
			}
		})
	}
}

func TestReadConfFaults(t *testing.T) {
	for _, test := range []struct{ name, content, fault string }{
		{"TOML", "[[registry]]\nlocation = quay.example", "line 2"},
		{"version 1", "[registries.block]\nregistries = ['quay.example']", "must be in v2 format"},
		{"both kinds of by-digest", "[[registry]]\nlocation = 'a.example'\nmirror-by-digest-only = true\n[[registry.mirror]]\nlocation " +
			"= 'b.example'\npull-from-mirror = 'digest-only'", "at the same time"},
		{
			"unknown kind of pull",
			"[[registry]]\nlocation = 'a.example'\n[[registry.mirror]]\nlocation = 'b.example'\npull-from-mirror = 'never'",
			`"never"`,
		},
		{"pull of the registry", "[[registry]]\nlocation = 'a.example'\npull-from-mirror = 'all'", "pull-from-mirror must not be set"},
		{"no location", "[[registry]]\nprefix = 'a.example'", "location is unset"},
		{"nothing", "[[registry]]\nblocked = true", "both location and prefix are unset"},
		{"mirror without location", "[[registry]]\nlocation = 'a.example'\n[[registry.mirror]]\ninsecure = true", "mirror location is unset"},
		{"URL", "[[registry]]\nlocation = 'https://a.example'", "URI schemes are not supported"},
		{"wildcard", "[[registry]]\nprefix = '*.a.example/ns'", "*.example.com"},
		{
			"conflict",
			"[[registry]]\nlocation = 'a.example'\nblocked = true\n[[registry]]\nprefix = 'b.example'\nlocation = 'a.example'",
			"conflicting 'blocked'",
		},
		{"type", "[[registry]]\nlocation = 'a.example'\nblocked = 'yes'", "blocked"},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := writeConf(t, test.content)
			if _, err := readConf(file); err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), test.fault) {
				t.Errorf("got error %v, want one that names %s and %s", err, file, test.fault)
			}
		})
	}
	missing := filepath.Join(t.TempDir(), "registries.conf")
	if _, err := readConf(missing); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("got error %v, want one that names %s", err, missing)
	}
}

// Files named by the environment, and files beside the configured one, are not read.
func TestReadConfReadsOneFile(t *testing.T) {
	file := writeConf(t, "[[registry]]\nlocation = 'a.example'\n[[registry.mirror]]\nlocation = 'mirror.example'")
	foreign := "[[registry]]\nlocation = 'a.example'\nblocked = true"
	home := t.TempDir()
	for _, path := range []string{
		file + ".d/foreign.conf", home + "/containers/registries.conf", home + "/containers/registries.conf.d/foreign.conf",
		home + "/.config/containers/registries.conf", home + "/.config/containers/registries.conf.d/foreign.conf", home + "/foreign.conf",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(foreign), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", home)
	t.Setenv("CONTAINERS_REGISTRIES_CONF", home+"/foreign.conf")
	t.Setenv("CONTAINERS_REGISTRIES_CONF_OVERRIDE", home+"/foreign.conf")
	got, err := mustReadConf(t, file).sources(parse(t, "a.example/repo:v1"), nil)
	if diff := cmp.Diff([]string{"mirror.example/repo:v1", "a.example/repo:v1"}, placesOf(got)); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if none, err := readConf(""); none != nil || err != nil {
		t.Errorf("without a file: %v, %v", none, err)
	}
}

// A file is reloaded each time; loaded values do not change.
func TestReadConfReloads(t *testing.T) {
	file := writeConf(t, "")
	ref := parse(t, "a.example/repo:v1")
	for i := range 3 {
		mirror := fmt.Sprintf("mirror-%d.example", i)
		if err := os.WriteFile(
			file,
			[]byte("[[registry]]\nlocation = 'a.example'\n[[registry.mirror]]\nlocation = '"+mirror+"'"),
			0o600,
		); err != nil {
			t.Fatal(err)
		}
		want := []string{mirror + "/repo:v1", "a.example/repo:v1"}
		c := mustReadConf(t, file)
		if err := os.WriteFile(file, []byte("broken"), 0o600); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if _, err := readConf(file); err == nil {
					t.Error("the broken file was not read")
				}
				got, err := c.sources(ref, nil)
				if diff := cmp.Diff(want, placesOf(got)); diff != "" || err != nil {
					t.Errorf("%v (-want +got):\n%s", err, diff)
				}
			})
		}
		wg.Wait()
	}
}

// No file changes a digest, or makes a location insecure unless it says so.
func FuzzConf(f *testing.F) {
	files, err := filepath.Glob("testdata/registries/*.conf")
	if err != nil || len(files) == 0 {
		f.Fatal("no examples", err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content, "quay.example/ns/repo"+aDigest)
		f.Add(content, "a.wild.example:5000/repo:v1")
		f.Add(content, "busybox")
	}
	f.Add([]byte("[[registry]]\nprefix = 'a.example/b"+aDigest+"'\nlocation = 'a.example/b"+another+"'"), "a.example/b"+aDigest)
	file := filepath.Join(f.TempDir(), "registries.conf") // one for all, as the library remembers each path
	f.Fuzz(func(t *testing.T, content []byte, image string) {
		ref, err := name.ParseReference(image)
		if err != nil {
			t.Skip()
		}
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := readConf(file)
		if err != nil {
			if !strings.Contains(err.Error(), file) {
				t.Errorf("error %q does not name the file", err)
			}
			return
		}
		sources, err := c.sources(ref, []Mirror{{Location: "mirror.example"}})
		if err != nil {
			if kind := KindOf(err); kind != Blocked && kind != Configuration {
				t.Errorf("error %v is of kind %q", err, kind)
			}
			return
		}
		if len(sources) == 0 {
			t.Fatal("no error, and no place")
		}
		for _, s := range sources {
			_, asked := ref.(name.Digest)
			if _, found := s.ref.(name.Digest); asked && (!found || s.ref.Identifier() != ref.Identifier()) {
				t.Errorf("%s is looked for as %s", ref.Name(), s.ref.Name())
			}
			if s.insecure && !strings.Contains(string(content), "insecure") {
				t.Errorf("%s is insecure, which nothing says", s.ref.Name())
			}
		}
	})
}

// A file that spells a host in two ways blocks by both.
func TestBlockedByEitherSpelling(t *testing.T) {
	for free, blocked := range map[string]string{"a.example": "A.example:443", "A.example:443": "a.example"} {
		content := "[[registry]]\nlocation = '" + free + "'\n[[registry]]\nlocation = '" + blocked + "'\nblocked = true\n"
		if _, err := mustReadConf(t, writeConf(t, content)).sources(parse(t, "a.example/repo:v1"), nil); KindOf(err) != Blocked {
			t.Errorf("%s: got %v, want an error of kind %s", content, err, Blocked)
		}
	}
}

// A name that changes on the wire would bypass blocked prefixes.
func TestRegistryNotASCII(t *testing.T) {
	const image = "ｅvil.example/repo:v1"
	file := writeConf(t, "[[registry]]\nlocation = 'evil.example'\nblocked = true")
	client, err := newRegistries(t, Config{ConfFile: file}).Client("test", Access{})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := head(t, client, image); KindOf(err) != Configuration || !strings.Contains(err.Error(), "Punycode") {
		t.Errorf("got %v, want an error of kind %s", err, Configuration)
	}
}
