// Package catalogimage makes catalog images of directories: `kubectl catalog push` does, `make run`, and tests. It shares no code with what
// reads them.
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
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	// ConfigsLabel is the label of an image that names the directory of its catalog, as opm writes it.
	ConfigsLabel = "operators.operatorframework.io.index.configs.v1"
	// configsDir is where Build puts the catalog in the image, as opm does.
	configsDir = "configs"
)

// architectures are those that OLM runs on. A catalog is the same on all, but container runtimes take no image of another one.
var architectures = []string{"amd64", "arm64", "ppc64le", "s390x"}

// Build returns the image of the catalog in a directory, or in a file: an index with an image for each architecture, all with the same layer, which has
// the files at /configs and nothing to run. It is reproducible: the same files give the same digest, whatever their times, modes and
// owners are, with the same version of this program. It was created in 1970, or when SOURCE_DATE_EPOCH says. What .git holds is left out: see
// Open.
//
// The layer lies in a TempFile, so there is nothing to remove. Memory does not depend on the size of the
// catalog.
func Build(from string) (v1.ImageIndex, error) {
	created, err := sourceDate()
	if err != nil {
		return nil, err
	}
	root, tree, err := Open(from)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	file, err := TempFile()
	if err != nil {
		return nil, fmt.Errorf("making a temporary file for the layer: %w", err)
	}
	size, err := writeLayer(file, tree)
	if err != nil {
		return nil, fmt.Errorf("packing %s: %w", from, err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(file, 0, size)), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("reading the packed layer: %w", err)
	}
	return indexOf(layer, created)
}

// sourceDate is when an image is said to be created (https://reproducible-builds.org/specs/source-date-epoch/).
func sourceDate() (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		return time.Unix(0, 0).UTC(), nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 0 {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH is %q; it has to be a number of seconds since 1970", text)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

func indexOf(layer v1.Layer, created time.Time) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, architecture := range architectures {
		img, err := imageOf(layer, architecture, created)
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

func imageOf(layer v1.Layer, architecture string, created time.Time) (v1.Image, error) {
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	base, err := mutate.ConfigFile(base, &v1.ConfigFile{
		Created:      v1.Time{Time: created},
		OS:           "linux",
		Architecture: architecture,
		Config:       v1.Config{Labels: map[string]string{ConfigsLabel: "/" + configsDir}},
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

// writeLayer writes the gzipped tar of tree to file and returns how many bytes it took.
func writeLayer(file *os.File, tree fs.FS) (int64, error) {
	zip := gzip.NewWriter(file)
	archive := tar.NewWriter(zip)
	if err := addTree(archive, tree); err != nil {
		return 0, err
	}
	if err := errors.Join(archive.Close(), zip.Close()); err != nil {
		return 0, err
	}
	return file.Seek(0, io.SeekCurrent)
}

// addTree adds every file and directory of tree, sorted by name within each directory (fs.WalkDir promises that order), with the modes,
// times and owner that all have.
func addTree(archive *tar.Writer, tree fs.FS) error {
	files := 0
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := path.Join(configsDir, name)
		switch {
		case entry.IsDir():
			return archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: target + "/", Mode: 0o755})
		case entry.Type().IsRegular():
			files++
			return addFile(archive, tree, name, target)
		default:
			return fmt.Errorf("%s %s", name, Oddity(entry.Type()))
		}
	})
	if err == nil && files == 0 {
		return errors.New("the directory holds no file; give the directory that a catalog image has at /configs")
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

// Open opens what goes into an image: of a directory all but .git, wherever that is, as git keeps its own files there, which are no part of a
// catalog and not the same in two clones; of a file, such as an export, that alone. The root has to be closed.
func Open(from string) (*os.Root, fs.FS, error) {
	dir, name := from, ""
	if info, err := os.Stat(from); err == nil && info.Mode().IsRegular() {
		dir, name = filepath.Dir(from), filepath.Base(from)
	}
	root, err := os.OpenRoot(dir)
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("opening the catalog: %w", err)
	case name != "":
		return root, single{root.FS(), name}, nil
	}
	return root, tree{root.FS()}, nil
}

// single is a directory of which there is one file.
type single struct {
	fs.FS
	name string
}

func (s single) Open(name string) (fs.File, error) {
	if name != "." && name != s.name {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return s.FS.Open(name)
}

func (s single) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(s.FS, name)
	return slices.DeleteFunc(entries, func(entry fs.DirEntry) bool { return entry.Name() != s.name }), err
}

type tree struct{ fs.FS }

func (t tree) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(t.FS, name)
	return slices.DeleteFunc(entries, func(entry fs.DirEntry) bool { return entry.Name() == ".git" }), err
}

// Oddity says of what is neither a file nor a directory why it cannot be in a catalog.
func Oddity(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeSymlink != 0:
		return "is a symbolic link, which is not supported: replace it with the file"
	case mode&fs.ModeNamedPipe != 0:
		return "is a named pipe; only files and directories are supported"
	case mode&fs.ModeSocket != 0:
		return "is a socket; a catalog may have files and directories only"
	default:
		return "is a device; only files and directories are supported"
	}
}
