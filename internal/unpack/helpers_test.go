package unpack

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// An entry of a tar archive.
type entry struct {
	tar.Header
	content string
}

func file(name, content string) entry {
	return entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), Mode: 0o6777}, content}
}

func dir(name string) entry {
	return entry{Header: tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o1}}
}

func special(flag byte, name, target string) entry {
	return entry{Header: tar.Header{Typeflag: flag, Name: name, Linkname: target}}
}

func symlink(name, target string) entry { return special(tar.TypeSymlink, name, target) }
func link(name, target string) entry    { return special(tar.TypeLink, name, target) }
func whiteout(name string) entry        { return file(name, "") }

func archive(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var buffer bytes.Buffer
	writer := tar.NewWriter(&buffer)
	for _, e := range entries {
		if err := writer.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(writer, e.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func gzipped(t testing.TB, content []byte) []byte {
	t.Helper()
	var buffer bytes.Buffer
	writer := gzip.NewWriter(&buffer)
	if _, err := writer.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func zstandard(t testing.TB, content []byte, options ...zstd.EOption) []byte {
	t.Helper()
	var buffer bytes.Buffer
	writer, err := zstd.NewWriter(&buffer, options...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := writer.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

// imageOf returns an image with the layers and, unless configDir is "", its label.
func imageOf(t testing.TB, configDir string, layers ...[]byte) v1.Image {
	t.Helper()
	if configDir == "" {
		return labelled(t, nil, layers...)
	}
	return labelled(t, map[string]string{ConfigsLabel: configDir}, layers...)
}

func labelled(t testing.TB, labels map[string]string, layers ...[]byte) v1.Image {
	t.Helper()
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.Config(img, v1.Config{Labels: labels})
	if err != nil {
		t.Fatal(err)
	}
	for _, layer := range layers {
		var err error
		if img, err = mutate.AppendLayers(img, static.NewLayer(layer, types.OCILayer)); err != nil {
			t.Fatal(err)
		}
	}
	return img
}

func push(t testing.TB, host string, img v1.Image) name.Digest {
	t.Helper()
	tag, err := name.NewTag(host + "/catalogs/test:latest")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, img); err != nil {
		t.Fatal(err)
	}
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return tag.Context().Digest(digest.String())
}

// A scratch directory for files, with surroundings in which a file that escapes would be seen.
type scratch struct {
	root    *os.Root
	dir     string // of root
	outside string // some levels above
}

func newScratch(t testing.TB) scratch {
	t.Helper()
	outside := t.TempDir()
	dir := filepath.Join(outside, "1", "2", "3", "stage")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return scratch{root, dir, outside}
}

// files returns the contents of files by path; directories have a trailing slash.
func (s scratch) files(t testing.TB) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(s.dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == s.dir {
			return err
		}
		rel, err := filepath.Rel(s.dir, name)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			files[rel+"/"] = ""
			return nil
		}
		if !entry.Type().IsRegular() {
			t.Errorf("%s is neither file nor directory: %v", rel, entry.Type())
			return nil
		}
		content, err := os.ReadFile(name)
		files[rel] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// checkOutside fails the test if a file was created outside of root.
func (s scratch) checkOutside(t testing.TB) {
	t.Helper()
	for dir := filepath.Dir(s.dir); ; dir = filepath.Dir(dir) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) != 1 {
			t.Fatalf("something was made outside of the root: %s has %v", dir, entries)
		}
		if dir == s.outside {
			return
		}
	}
}

// checkLimit fails the test unless err says that limit is exceeded; "" for none.
func checkLimit(t testing.TB, err error, limit string) {
	t.Helper()
	exceeded, ok := errors.AsType[*LimitError](err)
	if ok != (limit != "") || ok && (exceeded.Limit != limit || !isInvalid(err)) {
		t.Errorf("got error %v, which names limit %+v, want limit %q", err, exceeded, limit)
	}
}

// checkError fails the test unless err has the text want and is an InvalidImageError as expected; "" means no error.
func checkError(t testing.TB, err error, want string, invalid bool) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("got error %v, want none", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("got error %v, want one that says %q", err, want)
	case want != "" && isInvalid(err) != invalid:
		t.Errorf("error %v: InvalidImageError is %t, want %t", err, isInvalid(err), invalid)
	}
}
