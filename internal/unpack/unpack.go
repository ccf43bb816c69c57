// Package unpack writes the catalog files of an image, named by digest, to a directory given by the caller. It
// knows registries and the image format, but neither Kubernetes nor the meaning of the files.
//
// Everything streams: registry, size and digest check, decompression, tar, file. Memory use does not depend on
// the size of the image. Layers apply in order, with whiteouts, as in the OCI image specification (layer.md).
// Image content is untrusted: files are written through an os.Root, within Limits; links and devices are not
// created.
//
// A catalog is in one of three kinds of images. The usual kind has a directory named by a label. An OCI artifact
// has files in its layers, as archives or one by one. An old index image has an SQLite database, which is
// converted to files here, so that no other package needs to know it.
package unpack

import (
	"cmp"
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
	// ConfigsLabel names the directory of the catalog. It is a label of images, and an annotation of the manifest
	// of OCI artifacts. opm sets it.
	ConfigsLabel = "operators.operatorframework.io.index.configs.v1"

	// DatabaseLabel is the image label that names the SQLite database of an old index image. ConfigsLabel takes
	// precedence.
	DatabaseLabel = "operators.operatorframework.io.index.database.v1"
)

// Options configure Image. The zero value is ready for use.
type Options struct {
	ConfigDir string // directory of the catalog in the image; "": as the image's labels name it
	Limits    Limits
	Remote    []remote.Option // access to the registry
	Platform  v1.Platform     // preferred image of a multi-arch index; zero: this machine's architecture on Linux

	// Written, if not nil, is called with the path in root of each complete catalog file, so that it can be read
	// while others are unpacked. A later layer may remove the file, or replace it and call Written again.
	Written func(name string)

	// Progress, if not nil, is updated.
	Progress *Progress
}

// Progress counts the fetched bytes of an image. It may be read while Image runs; each call of Image resets it.
// The zero value is ready for use.
type Progress struct{ done, total atomic.Int64 }

// Bytes returns the compressed bytes of layers fetched so far, and their total (0: not known yet).
func (p *Progress) Bytes() (done, total int64) { return p.done.Load(), p.total.Load() }

// begin sets the total to the size of layers.
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

// Result is the summary of the unpacked files.
type Result struct {
	ConfigDir string // directory of the catalog, or of its database, in the image, absolute: "/configs"
	Files     int    // regular files
	Bytes     int64  // their sizes together
}

// InvalidImageError means that the image is at fault, so the same digest fails again. Other errors may be
// temporary: of the registry, the network or the local disk.
type InvalidImageError struct {
	Err       error
	ConfigDir bool // another Options.ConfigDir may help, as Err explains
}

func (e *InvalidImageError) Error() string { return e.Err.Error() }
func (e *InvalidImageError) Unwrap() error { return e.Err }

func invalidf(format string, args ...any) error {
	return &InvalidImageError{Err: fmt.Errorf(format, args...)}
}

// misplacedf is invalidf for a catalog that is not in the expected location.
func misplacedf(format string, args ...any) error {
	return &InvalidImageError{Err: fmt.Errorf(format, args...), ConfigDir: true}
}

func isInvalid(err error) bool {
	_, ok := errors.AsType[*InvalidImageError](err)
	return ok
}

// Image removes everything in root and writes the catalog files of the image ref to it, with paths relative to
// the catalog's directory. After an error, root holds an unspecified part of the files; Image may be called
// again. Files have mode 0644 and directories 0755 (less the umask), whatever the image has. Nothing is synced
// to disk.
//
// Errors do not name the image. Failures of the registry are a registry.Error, those of the image an
// InvalidImageError. A catalog without files is one, and so is a catalog with a symbolic link, device or pipe
// among its files after the last layer.
func Image(ctx context.Context, ref name.Digest, root *os.Root, opts Options) (Result, error) {
	return unpack(ctx, ref, root, opts, func(img v1.Image, manifest *v1.Manifest) (location, error) {
		return locate(ref, img, manifest, opts.ConfigDir)
	})
}

// Directories is Image for an image that has no catalog: it writes the files of the directories that choose names by the
// labels of the image, with their paths in the image. It fetches no layer if choose returns an error.
func Directories(
	ctx context.Context, ref name.Digest, root *os.Root, opts Options, choose func(labels map[string]string) ([]string, error),
) (Result, error) {
	return unpack(ctx, ref, root, opts, func(img v1.Image, manifest *v1.Manifest) (location, error) {
		labels, err := labels(ref, img, manifest)
		if err != nil {
			return location{}, err
		}
		dirs, err := choose(labels)
		if err != nil {
			return location{}, &InvalidImageError{Err: err}
		}
		at := location{dir: ".", only: []string{}}
		for _, dir := range dirs {
			at.only = append(at.only, inImage(dir))
		}
		return at, nil
	})
}

func unpack(
	ctx context.Context, ref name.Digest, root *os.Root, opts Options, locate func(v1.Image, *v1.Manifest) (location, error),
) (Result, error) {
	if err := clearRoot(root); err != nil {
		return Result{}, fmt.Errorf("removing previously unpacked files: %w", err)
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
	at, err := locate(img, manifest)
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

// clearRoot removes everything in root.
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

// Limits limit the resources of an image. A zero field means the value of DefaultLimits.
type Limits struct {
	TotalBytes int64 // bytes of all files, including those replaced by a later layer; also the compressed bytes of one layer
	FileBytes  int64 // bytes of one file
	Files      int   // files and directories, including those replaced by a later layer
	Ratio      int   // unpacked bytes for each byte of a layer; not applied to a layer's first 16 MiB

	// DatabaseBytes limits an SQLite index. Its conversion takes up to 20 times as much memory. The rows read
	// may have twice that size, counting a bundle once for each of its channels.
	DatabaseBytes int64

	// ImageBytes limits the compressed bytes of all layers, and Layers their number. 0: TotalBytes for each layer, and any
	// number.
	ImageBytes int64
	Layers     int
}

// DefaultLimits returns limits ten times larger than known catalogs that still fit a node's disk and, for
// databases, its memory.
func DefaultLimits() Limits {
	return Limits{TotalBytes: 8 << 30, FileBytes: 1 << 30, Files: 100_000, Ratio: 200, DatabaseBytes: 64 << 20}
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	return Limits{
		TotalBytes: cmp.Or(l.TotalBytes, d.TotalBytes), FileBytes: cmp.Or(l.FileBytes, d.FileBytes),
		Files: cmp.Or(l.Files, d.Files), Ratio: cmp.Or(l.Ratio, d.Ratio), DatabaseBytes: cmp.Or(l.DatabaseBytes, d.DatabaseBytes),
		ImageBytes: l.ImageBytes, Layers: l.Layers,
	}
}

// Values of LimitError.Limit: the flags of cmd/catalogd that set the limits.
const (
	LimitTotalBytes       = "--max-unpacked-bytes"
	LimitFileBytes        = "--max-file-bytes"
	LimitFiles            = "--max-files"
	LimitCompressionRatio = "--max-compression-ratio"
	LimitDatabaseBytes    = "--max-database-bytes"
)

// limitUnits follow the value of a limit in messages.
var limitUnits = map[string]string{
	LimitTotalBytes: " for all files together", LimitFileBytes: " for one file",
	LimitCompressionRatio: " times", LimitDatabaseBytes: " for an SQLite index",
}

// LimitError is an exceeded limit, wrapped in an InvalidImageError.
type LimitError struct {
	Limit string // LimitTotalBytes, LimitFileBytes, LimitFiles, LimitCompressionRatio or LimitDatabaseBytes
	Value int64  // of the limit

	found string // what exceeds it: "configs/foo/catalog.json has 1200 bytes"
}

// Error names the object that exceeds the limit, the limit and its flag.
func (e *LimitError) Error() string {
	return fmt.Sprintf("%s, which exceeds the limit of %d%s (%s)", e.found, e.Value, limitUnits[e.Limit], e.Limit)
}

func exceeded(limit string, value int64, format string, args ...any) error {
	return &InvalidImageError{Err: &LimitError{Limit: limit, Value: value, found: fmt.Sprintf(format, args...)}}
}
