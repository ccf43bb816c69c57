// Package authoring works on catalogs outside a cluster: a directory, a file, or an image in a registry. It
// lints catalogs, builds and pushes images, and outlines catalogs for comparison.
//
// It needs no cluster. It reads and validates with catalogd's code, so the results are the same.
package authoring

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/operator-catalogs/catalogd/internal/catalogimage"
	"github.com/operator-catalogs/catalogd/internal/registry"
	"github.com/operator-catalogs/catalogd/internal/unpack"
)

// Options configure the access to registries. The zero value is ready for use.
type Options struct {
	// Insecure allows plain HTTP and untrusted certificates.
	Insecure bool
	// Keychain has the credentials; nil: those of "docker login" and "podman login".
	Keychain authn.Keychain
	// UserAgent defaults to kubectl-catalog.
	UserAgent string
	// Progress, if not nil, is called several times per second with the transferred and total bytes of an image; a total
	// of 0 is unknown. Calls are not concurrent.
	Progress func(done, total int64)
}

// Source is an opened catalog. The caller must call Close.
type Source struct {
	// Dir is the directory or file as specified; Image is the image by digest. One of them is empty.
	Dir, Image string

	base string // directory of the files; "" for an image

	root    *os.Root
	files   fs.FS  // of the catalog
	temp    string // removed by Close
	refused error  // why catalogd would reject the image, whose files are absent
	catalog *catalog
}

// IsPath reports whether Open treats ref as a path: it exists, or has the form of a path. Other references are
// images.
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
	return filepath.IsAbs(ref) || slashed == "." ||
		slashed == ".." || strings.HasPrefix(slashed, "./") || strings.HasPrefix(slashed, "../") || strings.HasSuffix(slashed, "/")
}

// namesRegistry reports whether ref begins with a registry.
func namesRegistry(ref string) bool {
	host, _, _ := strings.Cut(ref, "/")
	return strings.ContainsAny(host, ".:") || host == "localhost"
}

// Open opens a directory or file, or pulls an image. An image that catalogd would reject is not an error; Lint
// reports it.
func Open(ctx context.Context, ref string, opts Options) (*Source, error) {
	if !IsPath(ref) && !namesRegistry(ref) {
		return nil, missingPath(ref + " not found (an image reference needs a registry)")
	}
	if !IsPath(ref) {
		return pull(ctx, ref, opts)
	}
	info, err := os.Stat(ref)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, missingPath(ref + " not found")
	case err != nil:
		return nil, err
	case !info.IsDir() && !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s %s", ref, catalogimage.UnsupportedType(info.Mode()))
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

// missingPath is the error for a path that does not exist.
type missingPath string

func (m missingPath) Error() string        { return "directory or file " + string(m) }
func (m missingPath) Is(target error) bool { return target == fs.ErrNotExist }

// IsNotFound reports whether the directory, file or image does not exist.
func IsNotFound(err error) bool {
	answer, ok := errors.AsType[*transport.Error](err)
	return errors.Is(err, fs.ErrNotExist) || ok && answer.StatusCode == http.StatusNotFound
}

// Close frees the source and everything derived from it.
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
	access := append(opts.Remote(), remote.WithContext(ctx))
	descriptor, err := remote.Get(ref, access...)
	if err != nil {
		return nil, fmt.Errorf("%w; no directory or file is named %s", registry.Explain("resolving "+text, ref, err), text)
	}
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
	var fetched unpack.Progress
	end := opts.watch(fetched.Bytes)
	_, err = unpack.Image(ctx, digest, root, unpack.Options{Remote: access, Progress: &fetched})
	end()
	if _, ok := errors.AsType[*unpack.InvalidImageError](err); ok {
		s.refused, err = err, nil
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("pulling %s: %w", text, err), s.Close())
	}
	return s, nil
}

// Name returns the options of references.
func (o Options) Name() []name.Option {
	if o.Insecure {
		return []name.Option{name.Insecure}
	}
	return nil
}

// progressInterval is the interval of calls of Options.Progress.
const progressInterval = 200 * time.Millisecond

// watch reports the progress of a transfer until end is called.
func (o Options) watch(transferred func() (done, total int64)) (end func()) {
	if o.Progress == nil {
		return func() {}
	}
	report := func() { o.Progress(transferred()) }
	stop := make(chan struct{})
	var reporter sync.WaitGroup
	reporter.Go(func() { wait.Until(report, progressInterval, stop) })
	return func() {
		close(stop)
		reporter.Wait()
		report()
	}
}

// Remote returns the options of go-containerregistry.
func (o Options) Remote() []remote.Option {
	var wire http.RoundTripper = remote.DefaultTransport
	if direct, ok := wire.(*http.Transport); ok && o.Insecure {
		direct = direct.Clone()
		direct.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the user asked for it
		wire = direct
	}
	keychain := o.Keychain
	if keychain == nil {
		keychain = authn.DefaultKeychain
	}
	return []remote.Option{
		remote.WithTransport(wire),
		remote.WithAuthFromKeychain(keychain),
		remote.WithUserAgent(cmp.Or(o.UserAgent, "kubectl-catalog")),
		remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}), // as in unpack
	}
}

// ReferenceError is the error for an invalid image reference.
type ReferenceError struct{ ref, why string }

func (e *ReferenceError) Error() string { return fmt.Sprintf("%q %s", e.ref, e.why) }

// ParseImage parses an image reference. All its errors are ReferenceErrors.
func ParseImage(ref string, opts Options) (name.Reference, error) {
	if scheme, _, ok := strings.Cut(ref, "://"); ok {
		return nil, &ReferenceError{ref, fmt.Sprintf("is not a valid image reference: write registry/repository:tag, without %s://", scheme)}
	}
	parsed, err := name.ParseReference(ref, opts.Name()...)
	if err != nil || isPath(ref) || strings.HasSuffix(ref, ":") { // which the parser accepts
		return nil, &ReferenceError{ref, "is not a valid image reference: " + registry.ReferenceForm}
	}
	return parsed, nil
}

// ParseTag parses an image reference with a registry and a tag, latest by default.
func ParseTag(ref string, opts Options) (name.Tag, error) {
	parsed, err := ParseImage(ref, opts)
	if err != nil {
		return name.Tag{}, err
	}
	tag, ok := parsed.(name.Tag)
	switch {
	case !namesRegistry(ref):
		return tag, &ReferenceError{ref, "has no registry: write registry/repository:tag"}
	case !ok:
		return tag, &ReferenceError{ref, "has a digest, but a push needs a tag: write registry/repository:tag"}
	}
	return tag, nil
}

// Push pushes an image of catalogimage. Registries at loopback addresses may use plain HTTP.
func Push(ctx context.Context, index v1.ImageIndex, tag name.Tag, opts Options) error {
	updates := make(chan v1.Update, 100)
	counted := make(chan struct{})
	var done, total atomic.Int64
	go func() {
		defer close(counted)
		for update := range updates {
			if update.Error == nil {
				done.Store(update.Complete)
				total.Store(update.Total)
			}
		}
	}()
	end := opts.watch(func() (int64, int64) { return done.Load(), total.Load() })
	err := remote.WriteIndex(tag, index, append(opts.Remote(), remote.WithContext(ctx), remote.WithProgress(updates))...)
	<-counted // WriteIndex closes updates on every path
	end()
	if err != nil {
		return explainPush(tag, err)
	}
	return nil
}

func explainPush(tag name.Tag, err error) error {
	explained := registry.Explain(fmt.Sprintf("pushing to %s", tag), tag, err)
	answer, ok := errors.AsType[*transport.Error](err)
	switch {
	case !ok:
		return explained
	case answer.StatusCode == http.StatusUnauthorized, answer.StatusCode == http.StatusForbidden:
		return fmt.Errorf("%w; log in first: docker login %s", explained, tag.RegistryStr())
	case answer.StatusCode == http.StatusNotFound && len(answer.Errors) > 0: // a registry's reply
		return fmt.Errorf("pushing to %s: registry %s has no repository %s: create it first", tag, tag.RegistryStr(), tag.RepositoryStr())
	case answer.StatusCode == http.StatusNotFound, answer.StatusCode == http.StatusMethodNotAllowed:
		return fmt.Errorf("pushing to %s: %s does not respond like a registry (%d %s)", tag, tag.RegistryStr(), answer.StatusCode,
			http.StatusText(answer.StatusCode))
	}
	return explained
}
