package pull

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/operator-catalogs/catalogd/internal/bundle"
	"github.com/operator-catalogs/catalogd/internal/poll"
	"github.com/operator-catalogs/catalogd/internal/registry"
	"github.com/operator-catalogs/catalogd/internal/unpack"
)

// Limits limit the content of a bundle image.
type Limits struct {
	Bytes     int64 // of all files
	FileBytes int64 // of a file
	Files     int   // and directories
	Ratio     int   // of compression
}

// DefaultLimits returns limits that are some ten times larger than real bundles.
func DefaultLimits() Limits {
	return Limits{Bytes: 8 << 20, FileBytes: 4 << 20, Files: 500, Ratio: 200}
}

// The flags of cmd/catalogd that set the limits, by those of catalogs.
var limitFlags = strings.NewReplacer(
	unpack.LimitTotalBytes, "--max-bundle-bytes", unpack.LimitFileBytes, "--max-bundle-file-bytes", unpack.LimitFiles, "--max-bundle-files",
)

// pull pulls an image into the cache, unless the cache has the digest.
func (p *Puller) pull(ctx context.Context, key string, r bundle.Request) (digest string, err error) {
	ref, err := name.ParseReference(r.Image)
	if err != nil {
		return "", &bundle.Error{Reason: bundle.Invalid, Cause: err, Text: fmt.Sprintf("%q is not a valid image reference", r.Image)}
	}
	client, err := p.config.Client(ctx, r.Catalog)
	if err != nil {
		return "", err
	}
	root, discard, err := p.config.Cache.Scratch()
	if err != nil {
		return "", err
	}
	defer func() {
		if err := discard(); err != nil {
			p.config.Logger.Warn("cannot delete the files of a bundle; the next start deletes them", "error", err)
		}
	}()
	_, err = client.Try(ctx, ref, func(ctx context.Context, at registry.Endpoint) error {
		resolved, err := poll.Digest(ctx, at.Ref, at.Remote...)
		if err != nil {
			return err
		}
		digest = resolved.DigestStr()
		if cached, ok := p.open(r); ok {
			same := cached.Content.Digest == digest
			if _ = cached.Close(); same {
				return nil
			}
		}
		return p.store(ctx, key, r, resolved, at, root)
	})
	return digest, err
}

// store unpacks an image and writes its archive.
func (p *Puller) store(ctx context.Context, key string, r bundle.Request, digest name.Digest, at registry.Endpoint, root *os.Root) error {
	content := bundle.Content{Image: r.Image, Digest: digest.DigestStr(), Pinned: bundle.IsPinned(r.Image)}
	dirs := []string{"manifests", "metadata"}
	_, err := unpack.Directories(ctx, digest, root, unpack.Options{Limits: p.config.Limits.ofUnpack(), Remote: at.Remote},
		func(labels map[string]string) ([]string, error) {
			content.Labels = labels
			for i, label := range []string{bundle.ManifestsLabel, bundle.MetadataLabel} {
				if labels[label] != "" {
					dirs[i] = labels[label]
				}
			}
			return dirs, checkLabels(labels, r.Package)
		})
	if err != nil {
		return err
	}
	p.building.Lock()
	defer p.building.Unlock()
	files, err := filesIn(root, dirs[0])
	if err != nil {
		return err
	}
	if err := checkAnnotations(root, dirs, r.Package); err != nil {
		return &unpack.InvalidImageError{Err: err}
	}
	most := min(2*p.config.Limits.Bytes+int64(p.config.Limits.Files+4)*1024, p.config.Cache.Usage().Limit)
	return p.config.Cache.Put(key, most, func(w io.Writer) error { return bundle.Write(w, content, files) })
}

func (l Limits) ofUnpack() unpack.Limits {
	return unpack.Limits{
		TotalBytes: l.Bytes, FileBytes: l.FileBytes, Files: l.Files, Ratio: l.Ratio, ImageBytes: 2 * l.Bytes, Layers: 64,
	}
}

// checkLabels checks that an image is a bundle of a package.
func checkLabels(labels map[string]string, pkg string) error {
	size := 0
	for name, value := range labels {
		size += len(name) + len(value)
	}
	got, ok := labels[bundle.MediaTypeLabel]
	switch {
	case size > maxLabels:
		return fmt.Errorf("the image labels have %d bytes, which exceeds the limit of %d", size, maxLabels)
	case !ok:
		return fmt.Errorf("the image is not a bundle: label %s is missing", bundle.MediaTypeLabel)
	case got != bundle.MediaType:
		return fmt.Errorf("image label %s is %.100q; only %q is supported", bundle.MediaTypeLabel, got, bundle.MediaType)
	}
	return checkPackage("the label "+bundle.PackageLabel+" of the image", labels[bundle.PackageLabel], pkg)
}

func checkPackage(what, got, want string) error {
	if got != "" && got != want {
		return fmt.Errorf("%s is %.300q, but the catalog has the bundle in package %q", what, got, want)
	}
	return nil
}

// checkAnnotations checks annotations.yaml, which wins over the labels. Only what the labels name was unpacked, so the manifests must
// be the same by both.
func checkAnnotations(root *os.Root, dirs []string, pkg string) error {
	file, err := root.Open(path.Join(inRoot(dirs[1]), "annotations.yaml"))
	if err != nil {
		return nil // the labels count
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxLabels+1))
	if err != nil || len(data) > maxLabels {
		return errors.Join(fmt.Errorf("its annotations.yaml exceeds the limit of %d bytes", maxLabels), err)
	}
	annotations := bundle.Annotations(data)
	if dir := annotations[bundle.ManifestsLabel]; dir != "" && inRoot(dir) != inRoot(dirs[0]) {
		return fmt.Errorf("annotations.yaml names the manifests directory %.100q, but the image label names %.100q", dir, dirs[0])
	}
	return checkPackage("the annotation "+bundle.PackageLabel+" of annotations.yaml", annotations[bundle.PackageLabel], pkg)
}

// inRoot returns the path of a directory without leading and trailing slashes; "" is the root.
func inRoot(dir string) string { return strings.Trim(path.Clean("/"+dir), "/") }

// filesIn returns all files, sorted by path. Those below manifests have objects.
func filesIn(root *os.Root, manifests string) ([]bundle.Source, error) {
	byPath := map[string]bundle.Source{}
	err := fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		byPath[name] = bundle.Source{Path: name, Manifest: isBelow(name, manifests), Read: func() ([]byte, error) { return root.ReadFile(name) }}
		return nil
	})
	var files []bundle.Source
	for _, name := range slices.Sorted(maps.Keys(byPath)) {
		files = append(files, byPath[name])
	}
	return files, err
}

// isBelow reports whether a path is in a directory.
func isBelow(name, dir string) bool {
	dir = inRoot(dir)
	return dir == "" || strings.HasPrefix(name, dir+"/")
}
