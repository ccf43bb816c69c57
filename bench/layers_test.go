package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
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
)

func testEnv(t *testing.T) *env {
	t.Helper()
	return &env{options: options{cacheDir: t.TempDir()}, progress: io.Discard, dir: t.TempDir()}
}

// filesOf returns the files of a layer by name.
func filesOf(t *testing.T, file string) map[string]string {
	t.Helper()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	zip, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for archive := tar.NewReader(zip); ; {
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

func TestGeneratedIsCached(t *testing.T) {
	e := testEnv(t)
	shape := catalogs.Scaled(40)
	first, err := e.generated(t.Context(), shape)
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(first.File)
	if err != nil {
		t.Fatal(err)
	}
	second, err := e.generated(t.Context(), shape)
	if err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(second.File)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, second); diff != "" || !before.ModTime().Equal(after.ModTime()) {
		t.Errorf("made again (-first +second):\n%s", diff)
	}
	if files := filesOf(t, first.File); len(files) != shape.Packages || first.Contents.Bundles != 40 || files[first.Contents.Median] == "" {
		t.Errorf("%d files, %+v", len(files), first.Contents)
	}

	// A killed run leaves an incomplete file, and no description or an old one.
	if err := os.Truncate(first.File, first.Bytes-1); err != nil {
		t.Fatal(err)
	}
	third, err := e.generated(t.Context(), shape)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, third); diff != "" || len(filesOf(t, third.File)) != shape.Packages {
		t.Errorf("not made anew (-first +third):\n%s", diff)
	}
}

func TestChangedDiffersInOneFile(t *testing.T) {
	e := testEnv(t)
	base, err := e.generated(t.Context(), catalogs.Scaled(40))
	if err != nil {
		t.Fatal(err)
	}
	changed, err := e.changed(t.Context(), base, 3)
	if err != nil {
		t.Fatal(err)
	}
	before, after := filesOf(t, base.File), filesOf(t, changed.File)
	for path, content := range after {
		added, ok := strings.CutPrefix(content, before[path])
		if want := path == base.Contents.Median; !ok || (added != "") != want || want && !strings.Contains(added, "variant-3") {
			t.Errorf("%s: added %q", path, added)
		}
	}
	if len(after) != len(before) || changed.Contents.Blobs != base.Contents.Blobs+1 || changed.Hash == base.Hash {
		t.Errorf("%d files of %d, %+v", len(after), len(before), changed.Contents)
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
	changed, err := e.changed(t.Context(), base, 1)
	if err != nil {
		t.Fatal(err)
	}
	if base.Contents.Blobs != 0 || changed.Contents.Blobs != 0 {
		t.Errorf("%d blobs, and %d after the change; want 0, which is unknown", base.Contents.Blobs, changed.Contents.Blobs)
	}
}

// TestPublish pulls an image with a usual client, which verifies all digests.
func TestPublish(t *testing.T) {
	e := testEnv(t)
	l, err := e.generated(t.Context(), catalogs.Scaled(40))
	if err != nil {
		t.Fatal(err)
	}
	r, err := startRegistry()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.server.Close() })
	ref, digest, err := r.publish("bench/test", l)
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(ref)
	if err != nil {
		t.Fatal(err)
	}
	image, err := remote.Image(tag)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := image.Digest(); err != nil || got.String() != digest {
		t.Errorf("digest %v, %v; want %s", got, err, digest)
	}
	if err := validate.Image(image); err != nil {
		t.Error(err)
	}
	if config, err := image.ConfigFile(); err != nil || config.Config.Labels[configsLabel] != "/configs" {
		t.Errorf("config %+v, %v", config, err)
	}
	if all, heads := r.counts(); all == 0 || heads != 0 {
		t.Errorf("%d requests, %d HEAD", all, heads)
	}
	if _, err := remote.Head(tag); err != nil {
		t.Error(err)
	}
	if _, heads := r.counts(); heads != 1 {
		t.Errorf("%d HEAD, want 1", heads)
	}
}

func TestGiven(t *testing.T) {
	want := map[string]string{
		"configs/a/catalog.yaml": "schema: olm.package\n",
		"configs/b/b.json":       `{"schema":"olm.package","name":"bbbbbbb"}`,
		"configs/README.md":      "read me",
	}
	dir := t.TempDir()
	var plain, zipped bytes.Buffer
	archive := tar.NewWriter(&plain)
	for path, content := range want {
		file := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "./" + path, Size: int64(len(content)), Mode: 0o600}); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	zip := gzip.NewWriter(&zipped)
	_, err := zip.Write(plain.Bytes())
	if err := errors.Join(err, archive.Close(), zip.Close()); err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string][]byte{"c.tar": plain.Bytes(), "c.tar.gz": zipped.Bytes(), "bad.tar": []byte("x")} {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, catalog := range []string{filepath.Join(dir, "configs"), filepath.Join(dir, "c.tar"), filepath.Join(dir, "c.tar.gz")} {
		e := testEnv(t)
		e.catalog = catalog
		l, err := e.given(t.Context())
		if err != nil {
			t.Errorf("%s: %v", catalog, err)
			continue
		}
		if diff := cmp.Diff(want, filesOf(t, l.File)); diff != "" || l.Contents.Median != "configs/b/b.json" {
			t.Errorf("%s: median %s, files (-want +got):\n%s", catalog, l.Contents.Median, diff)
		}
	}
	for _, catalog := range []string{t.TempDir(), filepath.Join(dir, "nothing"), filepath.Join(dir, "bad.tar")} {
		e := testEnv(t)
		e.catalog = catalog
		if l, err := e.given(t.Context()); err == nil || !strings.Contains(err.Error(), "--catalog") {
			t.Errorf("%s: %v, %v", catalog, l, err)
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
