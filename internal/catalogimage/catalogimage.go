// Package catalogimage builds images of catalogs and bundles from directories, for `kubectl catalog push`, `make run` and tests.
// It shares no code with the packages that read them.
package catalogimage

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	// ConfigsLabel is opm's image label with the directory of the catalog.
	ConfigsLabel = "operators.operatorframework.io.index.configs.v1"
	// ConfigsDir is opm's directory of the catalog in the image.
	ConfigsDir = "configs"
)

// architectures are those of OLM. The content is the same, but container runtimes reject images of other
// architectures.
var architectures = []string{"amd64", "arm64", "ppc64le", "s390x"}

// Build returns the image of the catalog in a directory or file. It is an index with an image per architecture.
// All have the same layer with the files at /configs; Open selects them.
//
// The build is reproducible: with the same program, the same files give the same digest, whatever their times,
// modes and owners. The creation time is SOURCE_DATE_EPOCH, 1970 by default. The layer is in a TempFile, so
// memory does not depend on its size and there is nothing to remove.
func Build(from string) (v1.ImageIndex, error) {
	root, tree, err := Open(from)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return buildImage(from, tree, ConfigsDir, map[string]string{ConfigsLabel: "/" + ConfigsDir})
}

// BuildBundle returns the image of the bundle in a directory: its directories manifests, metadata and tests. It is built as that of a
// catalog.
func BuildBundle(from string, labels map[string]string) (v1.ImageIndex, error) {
	root, tree, err := Open(from)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	parts := []string{"manifests", "metadata", "tests"}
	return buildImage(from, Hide(tree, func(name string) bool {
		top, _, _ := strings.Cut(name, "/")
		return !slices.Contains(parts, top)
	}), "", labels)
}

// buildImage makes an image with a tree at a directory of the image.
func buildImage(from string, tree fs.FS, dir string, labels map[string]string) (v1.ImageIndex, error) {
	created, err := sourceDate()
	if err != nil {
		return nil, err
	}
	file, err := TempFile()
	if err != nil {
		return nil, fmt.Errorf("making a temporary file for the layer: %w", err)
	}
	size, err := writeLayer(file, tree, dir)
	if err != nil {
		return nil, fmt.Errorf("packing %s: %w", from, err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(file, 0, size)), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("reading the packed layer: %w", err)
	}
	return indexOf(layer, labels, created)
}

// sourceDate returns the creation time of images (https://reproducible-builds.org/specs/source-date-epoch/).
func sourceDate() (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		return time.Unix(0, 0).UTC(), nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 0 {
		return time.Time{}, fmt.Errorf("parsing SOURCE_DATE_EPOCH: %q is not a number of seconds since 1970", text)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

func indexOf(layer v1.Layer, labels map[string]string, created time.Time) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, architecture := range architectures {
		img, err := imageOf(layer, labels, architecture, created)
		if err != nil {
			return nil, fmt.Errorf("making the image of %s: %w", architecture, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        img,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: architecture}},
		})
	}
	return index, nil
}

func imageOf(layer v1.Layer, labels map[string]string, architecture string, created time.Time) (v1.Image, error) {
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	base, err := mutate.ConfigFile(base, &v1.ConfigFile{
		Created:      v1.Time{Time: created},
		OS:           "linux",
		Architecture: architecture,
		Config:       v1.Config{Labels: labels},
		RootFS:       v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(base, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: created}, CreatedBy: "kubectl catalog push"},
	})
}

// writeLayer writes the gzipped tar of tree, below a directory, to file and returns its size.
func writeLayer(file *os.File, tree fs.FS, dir string) (int64, error) {
	zip := gzip.NewWriter(file)
	archive := tar.NewWriter(zip)
	if err := addTree(archive, tree, dir); err != nil {
		return 0, err
	}
	if err := errors.Join(archive.Close(), zip.Close()); err != nil {
		return 0, err
	}
	return file.Seek(0, io.SeekCurrent)
}

// addTree adds all files and directories with the same modes, times and owner. fs.WalkDir sorts them by name.
func addTree(archive *tar.Writer, tree fs.FS, dir string) error {
	files := 0
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := path.Join(dir, name)
		switch {
		case target == ".":
			return nil
		case entry.IsDir():
			return archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: target + "/", Mode: 0o755})
		case entry.Type().IsRegular():
			files++
			return addFile(archive, tree, name, target)
		default:
			return fmt.Errorf("%s %s", name, UnsupportedType(entry.Type()))
		}
	})
	if err == nil && files == 0 {
		return errors.New("the directory has no files; specify that of a catalog, which an image has at /configs, or of a bundle")
	}
	return err
}

func addFile(archive *tar.Writer, tree fs.FS, name, target string) error {
	file, err := tree.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: target, Size: info.Size(), Mode: 0o644}); err != nil {
		return err
	}
	if _, err := io.Copy(archive, file); err != nil {
		return fmt.Errorf("adding %s: %w", name, err)
	}
	return nil
}

// Open opens the content of an image: a single file, or a directory without .git, which differs between clones.
// The caller must close the root.
func Open(from string) (*os.Root, fs.FS, error) {
	dir, name := from, ""
	if info, err := os.Stat(from); err == nil && info.Mode().IsRegular() {
		dir, name = filepath.Dir(from), filepath.Base(from)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the catalog: %w", err)
	}
	return root, Hide(root.FS(), func(file string) bool { return path.Base(file) == ".git" || name != "" && file != name }), nil
}

// Hide returns a file system without some files.
func Hide(fsys fs.FS, isHidden func(name string) bool) fs.FS { return filtered{fsys, isHidden} }

type filtered struct {
	fs.FS
	isHidden func(name string) bool
}

func (f filtered) Open(name string) (fs.File, error) {
	if name != "." && f.isHidden(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return f.FS.Open(name)
}

func (f filtered) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(f.FS, name)
	return slices.DeleteFunc(entries, func(entry fs.DirEntry) bool { return f.isHidden(path.Join(name, entry.Name())) }), err
}

// UnsupportedType returns why a file of this type, neither regular nor a directory, cannot be in a catalog.
func UnsupportedType(mode fs.FileMode) string {
	kind := "device"
	switch {
	case mode&fs.ModeSymlink != 0:
		return "is a symbolic link, which is not supported: replace it with the file"
	case mode&fs.ModeNamedPipe != 0:
		kind = "named pipe"
	case mode&fs.ModeSocket != 0:
		kind = "socket"
	}
	return "is a " + kind + "; only files and directories are supported"
}
