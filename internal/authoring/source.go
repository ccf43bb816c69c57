// Package local works on catalogs that no cluster has: a directory or a file on this machine, or an image in a registry. It finds every fault with
// its file and line, builds images and pushes them, and lists what is in a catalog so that two can be compared.
//
// It knows no Kubernetes. What it says of a catalog is what catalogd would say: it reads and checks with the same code.
package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/operator-catalogs/catalogd/internal/catalogimage"
	"github.com/operator-catalogs/catalogd/internal/registry"
	"github.com/operator-catalogs/catalogd/internal/unpack"
)

// Options say how registries are reached. The zero value is ready for use.
type Options struct {
	// Insecure allows plain HTTP, and certificates that nobody vouches for.
	Insecure bool
	// Keychain has the credentials; nil: those of "docker login" and "podman login".
	Keychain authn.Keychain
	// UserAgent names the program to registries; "": go-containerregistry.
	UserAgent string
	// Progress, if not nil, is told how many bytes of an image were moved, of how many; 0 if that is not known. Several goroutines may call it.
	Progress func(done, total int64)
}

// Source is a catalog to be read. Close has to be called.
type Source struct {
	// Dir is the directory, or the file, as it was named, "" of an image; Image is the reference of the image by digest, "" of a directory.
	Dir, Image string

	base string // what the names of the files are below, as they can be opened from here; "" of an image

	root    *os.Root
	files   fs.FS  // of the catalog
	temp    string // to be removed
	refused error  // why no catalogd would take the image; then there are no files
	catalog *catalog
}

// IsPath tells whether Open would take ref for a directory, or a file: there is one, or only one can be meant. All else names an image.
func IsPath(ref string) bool {
	if _, err := os.Stat(ref); err == nil {
		return true
	}
	return isPath(ref)
}

func isPath(ref string) bool {
	slashed := filepath.ToSlash(ref)
	switch {
	case strings.Contains(slashed, "://"):
		return false
	case !strings.Contains(slashed, "/") && slices.Contains([]string{".json", ".yaml", ".yml"}, filepath.Ext(ref)):
		return true
	}
	return filepath.IsAbs(ref) || slashed == "." || slashed == ".." || strings.HasPrefix(slashed, "./") || strings.HasPrefix(slashed, "../") || strings.HasSuffix(slashed, "/")
}

// namesRegistry tells whether ref begins as images do that say where they are.
func namesRegistry(ref string) bool {
	host, _, _ := strings.Cut(ref, "/")
	return strings.ContainsAny(host, ".:") || host == "localhost"
}

// Open opens the directory or the file ref, or pulls the image ref. An image that catalogd would refuse is no error: Lint says why.
func Open(ctx context.Context, ref string, opts Options) (*Source, error) {
	if !IsPath(ref) && !namesRegistry(ref) {
		return nil, missingPath(ref + " (an image is named with its registry)")
	}
	if !IsPath(ref) {
		return pull(ctx, ref, opts)
	}
	info, err := os.Stat(ref)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, missingPath(ref)
	case err != nil:
		return nil, err
	case !info.IsDir() && !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s %s", ref, catalogimage.Oddity(info.Mode()))
	}
	root, files, err := catalogimage.Open(ref)
	if err != nil {
		return nil, err
	}
	s := &Source{Dir: ref, base: ref, root: root, files: files}
	if !info.IsDir() {
		s.base = filepath.Dir(ref)
	}
	return s, nil
}

// missingPath is the name of a directory or a file that there is not.
type missingPath string

func (m missingPath) Error() string        { return "there is no directory or file " + string(m) }
func (m missingPath) Is(target error) bool { return target == fs.ErrNotExist }

// IsNotFound tells whether there is no such directory or file, or no such image.
func IsNotFound(err error) bool {
	answer, ok := errors.AsType[*transport.Error](err)
	return errors.Is(err, fs.ErrNotExist) || ok && answer.StatusCode == http.StatusNotFound
}

// Close frees what the source took. What was made of it cannot be used any more.
func (s *Source) Close() error {
	var errs []error
	if s.catalog != nil {
		errs = append(errs, s.catalog.spool.Close())
	}
	errs = append(errs, s.root.Close())
	if s.temp != "" {
		errs = append(errs, os.RemoveAll(s.temp))
	}
	return errors.Join(errs...)
}

func pull(ctx context.Context, text string, opts Options) (*Source, error) {
	ref, err := ParseImage(text, opts)
	if err != nil {
		return nil, err
	}
	moved := &meter{tell: opts.Progress}
	access := append(opts.remote(moved), remote.WithContext(ctx))
	descriptor, err := remote.Get(ref, access...)
	if err != nil {
		return nil, fmt.Errorf("%w; if %s should be a directory or a file: there is none of that name", registry.Explain("resolving "+text, ref, err), text)
	}
	moved.total = totalBytes(descriptor)
	temp, err := os.MkdirTemp("", "kubectl-catalog-")
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(temp)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(temp))
	}
	digest := ref.Context().Digest(descriptor.Digest.String())
	s := &Source{Image: digest.String(), root: root, files: root.FS(), temp: temp}
	_, err = unpack.Image(ctx, digest, root, unpack.Options{Remote: access})
	if _, ok := errors.AsType[*unpack.InvalidImageError](err); ok {
		s.refused, err = err, nil
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("pulling %s: %w", text, err), s.Close())
	}
	return s, nil
}

func (o Options) name() []name.Option {
	if o.Insecure {
		return []name.Option{name.Insecure}
	}
	return nil
}

// platform is the image of an index that is preferred: unpack has the same default.
var platform = v1.Platform{OS: "linux", Architecture: runtime.GOARCH}

// totalBytes is what there is to download; 0 if that cannot be told.
func totalBytes(descriptor *remote.Descriptor) int64 {
	img, err := descriptor.Image()
	if err != nil {
		return 0
	}
	manifest, err := img.Manifest()
	if err != nil {
		return 0
	}
	total := int64(0)
	for _, layer := range manifest.Layers {
		total += layer.Size
	}
	return total
}
