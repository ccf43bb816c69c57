// Package catalogimage provides catalog images built from a directory: one layer that holds the directory at /configs,
// with the label that tells a reader so. The same files always give the same digest.
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

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	// ConfigsLabel is the image label that names the directory of the file-based catalog, as opm writes it.
	ConfigsLabel = "operators.operatorframework.io.index.configs.v1"
	// ConfigsDir is where Build puts the catalog in the image.
	ConfigsDir = "/configs"
)

// Build returns the image of the catalog directory dir.
//
// The layer lies in a temporary file that has no name any more, so there is nothing to remove: its space is freed with
// the image, and after a crash too. Memory use does not depend on the size of dir. Symbolic links and devices in dir are
// errors, and so is a dir without any file.
func Build(dir string) (v1.Image, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the catalog directory: %w", err)
	}
	defer root.Close()
	file, err := unnamedFile()
	if err != nil {
		return nil, fmt.Errorf("making a temporary file for the layer: %w", err)
	}
	size, err := writeLayer(file, root.FS())
	if err != nil {
		return nil, fmt.Errorf("packing %s: %w", dir, err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(file, 0, size)), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("reading the packed layer: %w", err)
	}
	return image(layer)
}

// image has neither times nor the builder's platform in it, as both would change the digest.
func image(layer v1.Layer) (v1.Image, error) {
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	base, err := mutate.ConfigFile(base, &v1.ConfigFile{
		OS:           "linux",
		Architecture: "amd64",
		Config:       v1.Config{Labels: map[string]string{ConfigsLabel: ConfigsDir}},
		RootFS:       v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, fmt.Errorf("setting the image configuration: %w", err)
	}
	img, err := mutate.Append(base, mutate.Addendum{Layer: layer, History: v1.History{CreatedBy: "push-catalog"}})
	if err != nil {
		return nil, fmt.Errorf("adding the layer: %w", err)
	}
	return img, nil
}

func unnamedFile() (*os.File, error) {
	file, err := os.CreateTemp("", "push-catalog-")
	if err != nil {
		return nil, err
	}
	return file, os.Remove(file.Name())
}

// writeLayer writes the gzipped tar of tree to file and returns how many bytes it took.
func writeLayer(file *os.File, tree fs.FS) (int64, error) {
	zip, err := gzip.NewWriterLevel(file, gzip.BestSpeed)
	if err != nil {
		return 0, err
	}
	archive := tar.NewWriter(zip)
	if err := addTree(archive, tree); err != nil {
		return 0, err
	}
	if err := errors.Join(archive.Close(), zip.Close()); err != nil {
		return 0, err
	}
	return file.Seek(0, io.SeekCurrent)
}

// addTree adds every file and directory of tree below ConfigsDir, sorted by name within each directory (fs.WalkDir
// promises that order), with fixed modes and times.
func addTree(archive *tar.Writer, tree fs.FS) error {
	files := 0
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := path.Join(ConfigsDir, name)[1:]
		switch {
		case entry.IsDir():
			return archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: target + "/", Mode: 0o755})
		case entry.Type().IsRegular():
			files++
			return addFile(archive, tree, name, target)
		default:
			return fmt.Errorf("%s is no regular file; catalogs may hold files and directories only: put the file itself there", name)
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
