package catalogimage

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
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

func build(t *testing.T, dir string) v1.ImageIndex {
	t.Helper()
	index, err := Build(dir)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func digestOf(t *testing.T, dir string) string {
	t.Helper()
	digest, err := build(t, dir).Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest.String()
}

func TestSameFilesGiveSameDigest(t *testing.T) {
	files := map[string]string{"foo/c.json": "{}", "bar/ü n.yaml": "a: b", ".indexignore": "*.md", "README.md": "x"}
	dir := writeTree(t, files)
	want := digestOf(t, dir)

	other := writeTree(t, files)
	for file := range files { // as another umask, and another day, would have it
		if err := os.Chtimes(filepath.Join(other, file), time.Unix(1, 0), time.Unix(2, 0)); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(other, file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(other, "foo"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(other, ".git", "objects"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{".git/config", "foo/.git"} { // that of a submodule is a file
		if err := os.WriteFile(filepath.Join(other, file), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := digestOf(t, other); got != want {
		t.Errorf("other times and modes, in a clone, gave %s, want %s", got, want)
	}
	files["foo/c.json"] = "[]"
	if got := digestOf(t, writeTree(t, files)); got == want {
		t.Error("other files gave the same digest")
	}

	t.Setenv("SOURCE_DATE_EPOCH", "1000000000")
	if got := digestOf(t, dir); got == want {
		t.Error("SOURCE_DATE_EPOCH makes no difference")
	}
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	if _, err := Build(dir); err == nil || !strings.Contains(err.Error(), "number of seconds") {
		t.Errorf("got error %v for a SOURCE_DATE_EPOCH that is no number", err)
	}
}

func TestBuild(t *testing.T) {
	index := build(t, writeTree(t, map[string]string{"foo/c.json": "{}"}))
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	layers := map[v1.Hash]bool{}
	for _, m := range manifest.Manifests {
		platforms = append(platforms, m.Platform.String())
		img, err := index.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Architecture != m.Platform.Architecture || config.Config.Labels[ConfigsLabel] != "/configs" || config.Created.Unix() != 0 {
			t.Errorf("the configuration of %s is %+v", m.Platform, config)
		}
		of, err := img.Manifest()
		if err != nil {
			t.Fatal(err)
		}
		for _, layer := range of.Layers {
			layers[layer.Digest] = true
		}
	}
	if diff := cmp.Diff([]string{"linux/amd64", "linux/arm64", "linux/ppc64le", "linux/s390x"}, platforms); diff != "" {
		t.Errorf("platforms (-want +got):\n%s", diff)
	}
	if len(layers) != 1 {
		t.Errorf("got %d layers, want one for all", len(layers))
	}
}

func TestBuildOfFileIgnoresItsDirectory(t *testing.T) {
	beside := writeTree(t, map[string]string{"c.json": "{}", "d.json": "{}", ".indexignore": "c.json", "e/f.json": "{}"})
	digest := func(from string) v1.Hash {
		index, err := Build(from)
		if err != nil {
			t.Fatal(err)
		}
		digest, err := index.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return digest
	}
	if got, want := digest(filepath.Join(beside, "c.json")), digest(writeTree(t, map[string]string{"c.json": "{}"})); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestBuildRefuses(t *testing.T) {
	linked := writeTree(t, map[string]string{"foo/c.json": "{}"})
	if err := os.Symlink("c.json", filepath.Join(linked, "foo", "d.json")); err != nil {
		t.Fatal(err)
	}
	piped := writeTree(t, map[string]string{"foo/c.json": "{}"})
	if err := syscall.Mkfifo(filepath.Join(piped, ".indexignore"), 0o644); err != nil {
		t.Fatal(err)
	}
	onlyGit := writeTree(t, map[string]string{".git/config": "x"})
	for dir, want := range map[string]string{
		filepath.Join(linked, "nosuch"): "opening the catalog",
		linked:                          "foo/d.json is a symbolic link",
		piped:                           ".indexignore is a named pipe",
		t.TempDir():                     "has no files",
		onlyGit:                         "has no files",
	} {
		if _, err := Build(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want one that says %q", dir, err, want)
		}
	}
}
