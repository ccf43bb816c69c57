// Package unpack provides the catalog files of an image: a reference by digest becomes verified files in a directory that
// the caller hands over. It knows the registry and the image format, and neither Kubernetes nor what the files mean.
//
// Everything streams: registry, digest and size check, decompression, tar, file. Memory use does not depend on the size of
// the image. Layers apply in order, with whiteouts, as the OCI image specification (layer.md) says. Image content is not
// trusted: files are written through an os.Root and in number and size within Limits; links and devices are not made.
//
// Three kinds of images hold a catalog. The usual one has its files in a directory that a label names. An OCI artifact has
// them in its layers, as archives or one by one. An index image of old has an SQLite database, which is converted to files
// here, so that nobody else needs to know of it.
package unpack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"sync/atomic"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

const (
	// ConfigsLabel is the image label, of OCI artifacts the annotation of the manifest, that names the directory of the
	// catalog; opm and all catalog images set it.
	ConfigsLabel = "operators.operatorframework.io.index.configs.v1"

	// DatabaseLabel is the image label that names the SQLite database of an index image made before there were catalog
	// files. ConfigsLabel goes before it.
	DatabaseLabel = "operators.operatorframework.io.index.database.v1"
)

// Options say how to unpack. The zero value is ready for use.
type Options struct {
	ConfigDir string          // directory of the catalog in the image; "": what the image's labels say
	Limits    Limits          // what an image may take
	Remote    []remote.Option // access to the registry
	Platform  v1.Platform     // which image of a multi-arch index to prefer; zero: this machine's architecture on Linux

	// Written, if not nil, is told the path in the root of each catalog file that is complete, so that it can be read while
	// others are being unpacked. A later layer may remove the file, or replace it: then it is told again.
	Written func(name string)

	// Progress, if not nil, is kept current.
	Progress *Progress
}

// Progress is how much of an image was fetched. It may be asked while Image is at it, which begins anew with each call. The zero value is
// ready for use.
type Progress struct{ done, total atomic.Int64 }

// Bytes are those of the layers, compressed: of how many, once that is known, how many came.
func (p *Progress) Bytes() (done, total int64) { return p.done.Load(), p.total.Load() }

// begin is told which layers are to come.
func (p *Progress) begin(layers []v1.Descriptor) {
	if p == nil {
		return
	}
	total := int64(0)
	for _, layer := range layers {
		total += layer.Size
	}
	p.done.Store(0)
	p.total.Store(total)
}

func (p *Progress) add(n int) {
	if p != nil {
		p.done.Add(int64(n))
	}
}

// Result is what was unpacked.
type Result struct {
	ConfigDir string // directory of the catalog, or of its database, in the image, absolute: "/configs"
	Files     int    // regular files
	Bytes     int64  // their sizes together
}

// InvalidImageError says that the image itself is at fault, so that the same digest will fail again. Any other error may
// pass: the registry, the network, the local disk.
type InvalidImageError struct {
	Err       error
	ConfigDir bool // another Options.ConfigDir may help, and Err says so
}

func (e *InvalidImageError) Error() string { return e.Err.Error() }
func (e *InvalidImageError) Unwrap() error { return e.Err }

func invalidf(format string, args ...any) error {
	return &InvalidImageError{Err: fmt.Errorf(format, args...)}
}

// misplacedf is invalidf about a catalog that does not lie where it is looked for.
func misplacedf(format string, args ...any) error {
	return &InvalidImageError{Err: fmt.Errorf(format, args...), ConfigDir: true}
}

func isInvalid(err error) bool {
	_, ok := errors.AsType[*InvalidImageError](err)
	return ok
}

// Image writes the catalog files of the image ref to root, with paths relative to the catalog's directory, after removing
// what is in root: it may be called again after an error, which leaves an unspecified part of the files there. Files have
// mode 0644 and directories 0755 (less the umask), whatever the image says; nothing is synced to disk.
//
// Errors do not name the image: the caller knows it. What the registry or the way to it is to blame for is a
// registry.Error; what the image is, an InvalidImageError. A catalog without any file is one, and so is a catalog that has a
// symbolic link, device or pipe among its files after the last layer.
func Image(ctx context.Context, ref name.Digest, root *os.Root, opts Options) (Result, error) {
	if err := clearRoot(root); err != nil {
		return Result{}, fmt.Errorf("removing what was unpacked before: %w", err)
	}
	img, err := fetch(ctx, ref, opts)
	if err != nil {
		return Result{}, err
	}
	manifest, err := img.Manifest()
	if err != nil {
		return Result{}, invalidf("reading the manifest: %w", err)
	}
	limits := opts.Limits.withDefaults()
	if err := checkBlobs(manifest, limits); err != nil {
		return Result{}, err
	}
	at, err := locate(ref, img, manifest, opts.ConfigDir)
	if err != nil {
		return Result{}, err
	}
	tree := newTree(root, at, limits)
	if opts.Written != nil && at.database == "" {
		tree.written = opts.Written
	}
	opts.Progress.begin(manifest.Layers)
	for i, layer := range manifest.Layers {
		if err := pullLayer(ctx, ref, img, layer, tree, opts.Progress); err != nil {
			return Result{}, inLayer(manifest, i, err)
		}
	}
	if at.database != "" {
		return tree.convertDatabase(ctx)
	}
	return tree.result()
}

// clearRoot removes all that is in root.
func clearRoot(root *os.Root) error {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := root.RemoveAll(entry.Name()); err != nil {
			return err
		}
	}
	return nil
}

func (o Options) platform() v1.Platform {
	if o.Platform.OS == "" && o.Platform.Architecture == "" {
		return v1.Platform{OS: "linux", Architecture: runtime.GOARCH}
	}
	return o.Platform
}
