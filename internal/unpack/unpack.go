// Package unpack provides the catalog files of an image: a reference by digest becomes verified files in a directory that
// the caller hands over. It knows the registry and the image format, and neither Kubernetes nor what the files mean.
//
// Everything streams: registry, digest and size check, decompression, tar, file. Memory use does not depend on the size of
// the image. Layers apply in order, with whiteouts, as the OCI image specification (layer.md) says. Image content is not
// trusted: files are written through an os.Root and in number and size within Limits; links and devices are not made.
package unpack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// ConfigsLabel is the image label that names the directory of the catalog; opm and all catalog images set it.
const ConfigsLabel = "operators.operatorframework.io.index.configs.v1"

// Options say how to unpack. The zero value is ready for use.
type Options struct {
	ConfigDir string          // directory of the catalog in the image; "": what the image's ConfigsLabel says
	Limits    Limits          // what an image may take
	Remote    []remote.Option // access to the registry
	Platform  v1.Platform     // which image of a multi-arch index to prefer; zero: this machine's architecture on Linux
}

// Limits bound what an image may take. A field that is zero has the value of DefaultLimits.
type Limits struct {
	TotalBytes int64 // bytes of all files together, those that a later layer replaces included
	FileBytes  int64 // bytes of one file
	Files      int   // files and directories, those that a later layer replaces included
	Ratio      int   // unpacked bytes for each byte of a layer; not applied to a layer's first 16 MiB
}

// DefaultLimits returns limits that leave catalogs an order of magnitude of room and still fit a node's disk.
func DefaultLimits() Limits {
	return Limits{TotalBytes: 8 << 30, FileBytes: 1 << 30, Files: 100_000, Ratio: 200}
}

func (l Limits) withDefaults() Limits {
	defaults := DefaultLimits()
	if l.TotalBytes == 0 {
		l.TotalBytes = defaults.TotalBytes
	}
	if l.FileBytes == 0 {
		l.FileBytes = defaults.FileBytes
	}
	if l.Files == 0 {
		l.Files = defaults.Files
	}
	if l.Ratio == 0 {
		l.Ratio = defaults.Ratio
	}
	return l
}

// Result is what was unpacked.
type Result struct {
	ConfigDir string // directory of the catalog in the image, absolute: "/configs"
	Files     int    // regular files
	Bytes     int64  // their sizes together
}

// InvalidImageError says that the image itself is at fault, so that the same digest will fail again. Any other error may
// pass: the registry, the network, the local disk.
type InvalidImageError struct {
	Err error
}

func (e *InvalidImageError) Error() string { return e.Err.Error() }
func (e *InvalidImageError) Unwrap() error { return e.Err }

func invalidf(format string, args ...any) error {
	return &InvalidImageError{fmt.Errorf(format, args...)}
}

func isInvalid(err error) bool {
	_, ok := errors.AsType[*InvalidImageError](err)
	return ok
}

// Image writes the catalog files of the image ref to root, which must be empty, with paths relative to the catalog's
// directory. After an error root holds an unspecified part of them. Files have mode 0644 and directories 0755 (less the
// umask), whatever the image says; nothing is synced to disk.
//
// Errors do not name the image: the caller knows it. A catalog without any file is an InvalidImageError, and so is one that has a symbolic link, device or pipe among its
// files after the last layer.
func Image(ctx context.Context, ref name.Digest, root *os.Root, opts Options) (Result, error) {
	img, err := fetch(ctx, ref, opts)
	if err != nil {
		return Result{}, err
	}
	manifest, err := img.Manifest()
	if err != nil {
		return Result{}, invalidf("reading the manifest: %w", err)
	}
	dir, err := configDir(img, manifest, opts.ConfigDir)
	if err != nil {
		return Result{}, err
	}
	tree := newTree(root, dir, opts.Limits.withDefaults())
	for i, layer := range manifest.Layers {
		if err := pullLayer(ctx, img, layer, tree); err != nil {
			return Result{}, fmt.Errorf("layer %d of %d: %w", i+1, len(manifest.Layers), err)
		}
	}
	return tree.result()
}

func (o Options) platform() v1.Platform {
	if o.Platform.OS == "" && o.Platform.Architecture == "" {
		return v1.Platform{OS: "linux", Architecture: runtime.GOARCH}
	}
	return o.Platform
}
