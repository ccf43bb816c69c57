package main

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/operator-catalogs/catalogd/internal/testing/catalogs"
	"github.com/operator-catalogs/catalogd/internal/testing/process"
)

func testEnv(t *testing.T) *env {
	t.Helper()
	return &env{options: options{cacheDir: t.TempDir()}, progress: io.Discard, dir: t.TempDir()}
}

// filesOf returns the files in the layer of a catalog by name.
func filesOf(t *testing.T, c *catalog) map[string]string {
	t.Helper()
	in, err := c.layer.Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	files := map[string]string{}
	for archive := tar.NewReader(in); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeReg {
			files[header.Name] = string(content)
		}
	}
}

func generated(t *testing.T, e *env) *catalog {
	t.Helper()
	c, err := e.generated(t.Context(), catalogs.Scaled(40))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestGeneratedIsCached(t *testing.T) {
	e := testEnv(t)
	first := generated(t, e)
	want := filesOf(t, first)
	if len(want) != catalogs.Scaled(40).Packages || first.stats.Bundles != 40 {
		t.Errorf("%d files, %+v", len(want), first.stats)
	}
	name, err := medianFile(first.dir)
	if err != nil {
		t.Fatal(err)
	}
	median := filepath.Join(first.dir, name)
	if err := os.WriteFile(median, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	second := generated(t, e)
	if got := filesOf(t, second)["configs/"+name]; got != "{}" || second.stats != first.stats {
		t.Errorf("generated again: %q, %+v", got, second.stats)
	}

	// A run that is killed leaves files without their counts.
	if err := os.Remove(first.dir + ".counts.json"); err != nil {
		t.Fatal(err)
	}
	third := generated(t, e)
	if diff := cmp.Diff(want, filesOf(t, third)); diff != "" || third.stats != first.stats {
		t.Errorf("not generated again: %+v (-first +third):\n%s", third.stats, diff)
	}
}

func TestChangedDiffersInOneFile(t *testing.T) {
	e := testEnv(t)
	base := generated(t, e)
	changed, err := e.changed(base, 3)
	if err != nil {
		t.Fatal(err)
	}
	median, err := medianFile(base.dir)
	if err != nil {
		t.Fatal(err)
	}
	before, after := filesOf(t, base), filesOf(t, changed)
	for path, content := range after {
		added, ok := strings.CutPrefix(content, before[path])
		if want := path == "configs/"+median; !ok || (added != "") != want || want && !strings.Contains(added, "variant-3") {
			t.Errorf("%s: added %q", path, added)
		}
	}
	if len(after) != len(before) || changed.stats.Blobs != base.stats.Blobs+1 {
		t.Errorf("%d files of %d, %+v", len(after), len(before), changed.stats)
	}
}

// The blobs of a catalog of --catalog are not counted until they are served, with or without the change.
func TestChangedKnowsNoMoreBlobsThanItsBase(t *testing.T) {
	e := testEnv(t)
	e.catalog = filepath.Join("..", "e2e", "testdata", "sound", "beside")
	base, err := e.given(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	changed, err := e.changed(base, 1)
	if err != nil {
		t.Fatal(err)
	}
	if base.stats.Blobs != 0 || changed.stats.Blobs != 0 {
		t.Errorf("%d blobs, and %d after the change; want 0, which is unknown", base.stats.Blobs, changed.stats.Blobs)
	}
}

// TestPublish pulls an image with a usual client, which verifies all digests.
func TestPublish(t *testing.T) {
	c := generated(t, testEnv(t))
	r, err := startRegistry(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.server.Close() })
	ref, digest, err := r.publish(t.Context(), "bench/test", c)
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(ref)
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(tag)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := index.Digest(); err != nil || got.String() != digest {
		t.Errorf("digest %v, %v; want %s", got, err, digest)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	layer, err := r.layerFile(c)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(layer)
	if size, sizeErr := c.layer.Size(); err != nil || sizeErr != nil || info.Size() != size {
		t.Errorf("the layer has %v, want %d bytes: %v", info, size, errors.Join(err, sizeErr))
	}
	before, headsBefore := r.counts()
	if _, err := remote.Head(tag); err != nil {
		t.Error(err)
	}
	if all, heads := r.counts(); heads != headsBefore+1 || all <= before {
		t.Errorf("%d requests, %d HEAD; before there were %d, %d", all, heads, before, headsBefore)
	}
}

func TestGiven(t *testing.T) {
	want := map[string]string{
		"configs/a/catalog.yaml": "schema: olm.package\n",
		"configs/b/b.json":       `{"schema":"olm.package","name":"bbbbbbb"}`,
		"configs/README.md":      "read me",
	}
	dir := t.TempDir()
	for path, content := range want {
		file := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for flag, file := range map[string]string{"-cf": "c.tar", "-czf": "c.tar.gz"} {
		if _, err := process.Run(t.Context(), "tar", flag, filepath.Join(dir, file), "-C", dir, "./configs"); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "bad.tar"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, catalog := range []string{filepath.Join(dir, "configs"), filepath.Join(dir, "c.tar"), filepath.Join(dir, "c.tar.gz")} {
		e := testEnv(t)
		e.catalog = catalog
		c, err := e.given(t.Context())
		if err != nil {
			t.Errorf("%s: %v", catalog, err)
			continue
		}
		if diff := cmp.Diff(want, filesOf(t, c)); diff != "" {
			t.Errorf("%s: files (-want +got):\n%s", catalog, diff)
		}
		if median, err := medianFile(c.dir); err != nil || median != "b/b.json" {
			t.Errorf("%s: median %s, %v", catalog, median, err)
		}
	}
	for _, catalog := range []string{t.TempDir(), filepath.Join(dir, "nothing"), filepath.Join(dir, "bad.tar")} {
		e := testEnv(t)
		e.catalog = catalog
		if c, err := e.given(t.Context()); err == nil || !strings.Contains(err.Error(), "--catalog") {
			t.Errorf("%s: %v, %v", catalog, c, err)
		}
	}
}

func TestFindPackages(t *testing.T) {
	lines := `{"schema":"olm.package","name":"a"}
{"schema":"olm.channel","package":"a","name":"stable"}
{"schema":"olm.package","name":"bbb"}
{"schema":"custom"}
`
	list, err := findPackages([]byte(lines))
	if err != nil {
		t.Fatal(err)
	}
	want := []found{{"a", 36, 36 + 55}, {"bbb", 38, 38}}
	if diff := cmp.Diff(want, list, cmp.AllowUnexported(found{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := nearest(list, 40, func(f found) int { return f.total }); got.name != "bbb" {
		t.Errorf("nearest to 40 bytes is %s", got.name)
	}
	if _, err := findPackages([]byte("{}\n")); err == nil {
		t.Error("no packages: no error")
	}
}
