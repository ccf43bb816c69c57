// Package mirror copies images with their signatures from registries to another registry or to an archive, and from an
// archive to a registry. Digests stay: indexes are copied whole, and manifests byte for byte.
//
// Blobs are streamed, so memory does not depend on their size. What the target has is not copied again, so an interrupted
// copy continues where it stopped.
package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Options configure a copy.
type Options struct {
	// Remote has the transport and the credentials of registries. Retries are those of this package.
	Remote []remote.Option
	// Jobs limits concurrent transfers, and images in progress.
	Jobs int
	// Progress, if not nil, is called several times per second, not concurrently.
	Progress func(Progress)
	// Backoff is the waiting time after transient faults; zero: 1, 2, 4, 8 and 16 seconds.
	Backoff wait.Backoff
	// StallTime cancels a transfer without any progress, which is then repeated; zero: 3 minutes.
	StallTime time.Duration
}

func (o Options) remote() []remote.Option {
	return append(slices.Clip(o.Remote),
		remote.WithJobs(o.Jobs),
		remote.WithRetryBackoff(remote.Backoff{Steps: 1}), // the retries of the library ignore the end of the context
		remote.WithRetryPredicate(func(error) bool { return false }),
		remote.WithRetryStatusCodes(),
	)
}

// Progress is the state of a copy.
type Progress struct {
	Planning          bool // the images are being resolved
	Images, AllImages int
	Bytes, AllBytes   int64
	Elapsed           time.Duration // of the copying
}

// Left estimates the remaining time; 0 if it is unknown.
func (p Progress) Left() time.Duration {
	if p.Bytes == 0 || p.AllBytes <= p.Bytes {
		return 0
	}
	return time.Duration(float64(p.Elapsed) / float64(p.Bytes) * float64(p.AllBytes-p.Bytes))
}

// kind is the role of a manifest.
type kind string

const (
	kindImage    kind = "image"
	kindAttached kind = "attached" // a signature, an attestation or another referrer of an image
	kindCatalog  kind = "catalog"
	kindChild    kind = "child" // of an index
)

// item is a manifest and its place.
type item struct {
	kind    kind
	repo    name.Repository // at its source; of the catalog: none
	catalog string          // name of the catalog
	tag     string          // "" if the source is referred to by digest
	digest  v1.Hash
	bundle  bool // whether it is the image of a bundle
}

// String returns the reference of the item at its source.
func (it item) String() string {
	switch {
	case it.kind == kindCatalog:
		return it.catalog + ":" + it.tag
	case it.tag != "":
		return it.repo.Tag(it.tag).String()
	}
	return it.repo.Digest(it.digest.String()).String()
}

// node is a manifest.
type node struct {
	v1.Descriptor
	raw []byte
}

// origin has the images. Errors of registries are from registry.Explain.
type origin interface {
	// resolve returns the digest of a tag.
	resolve(context.Context, name.Tag) (v1.Hash, error)
	// manifest returns a manifest whose digest is verified.
	manifest(context.Context, item) (*node, error)
	// blob returns a blob whose digest is verified at its end.
	blob(context.Context, item, v1.Descriptor) (io.ReadCloser, error)
	// attached returns what is attached to an image.
	attached(context.Context, item) ([]item, error)
}

// target receives images. A manifest is put after all that it refers to.
type target interface {
	has(context.Context, item) (bool, error)
	// putBlob stores a blob, unless the target has it. open may be called repeatedly.
	putBlob(ctx context.Context, it item, d v1.Descriptor, open func() (io.ReadCloser, error)) error
	put(context.Context, item, *node) error
}

// Image is an image of a Plan.
type Image struct {
	Ref     string // as the catalog names it, with the registry
	Digest  string // empty if Err is set
	Present bool   // at the target
	Bytes   int64  // of the image; 0 if it is present
	Err     error

	item item
}

// Result counts the images of a copy.
type Result struct {
	Copied, Present, Attached int
	Bytes                     int64
	Failed                    []Failure
}

// Failure is an image that could not be copied.
type Failure struct {
	Ref string
	Err error
}

// Copier copies images from an origin to a target. It must be closed.
type Copier struct {
	from    origin
	to      target
	opts    Options
	slots   chan struct{} // transfers
	pushing sync.Map      // a pushing for each manifest of a repository
	down    sync.Map      // hosts that exhausted the retries of a request
	closers []io.Closer

	mu       sync.Mutex
	state    Progress
	began    time.Time
	counted  map[v1.Hash]bool // blobs in state.AllBytes
	complete map[v1.Hash]bool // blobs in state.Bytes
	result   Result
}

func newCopier(from origin, to target, opts Options, closers ...io.Closer) *Copier {
	opts.Jobs = max(opts.Jobs, 1)
	if opts.Backoff.Steps == 0 {
		opts.Backoff = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: .2, Steps: 5}
	}
	if opts.StallTime == 0 {
		opts.StallTime = 3 * time.Minute
	}
	return &Copier{
		from: from, to: to, opts: opts, slots: make(chan struct{}, opts.Jobs), closers: closers,
		counted: map[v1.Hash]bool{}, complete: map[v1.Hash]bool{},
	}
}

// ToRegistry returns a Copier from registries to a Destination; nil: it can only plan.
func ToRegistry(to *Destination, opts Options) (*Copier, error) {
	from, err := newRegistryOrigin(opts)
	if err != nil {
		return nil, err
	}
	if to == nil {
		return newCopier(from, nowhere{}, opts, from), nil
	}
	return newCopier(from, newRegistryTarget(*to, from.puller, opts), opts, from), nil
}

// ToArchive returns a Copier from registries to an archive.
func ToArchive(w *ArchiveWriter, opts Options) (*Copier, error) {
	from, err := newRegistryOrigin(opts)
	if err != nil {
		return nil, err
	}
	return newCopier(from, w, opts, from), nil
}

// FromArchive returns a Copier from an archive to a registry. The caller closes the archive.
func FromArchive(a *Archive, to Destination, opts Options) (*Copier, error) {
	puller, err := remote.NewPuller(opts.remote()...)
	if err != nil {
		return nil, err
	}
	return newCopier(a, newRegistryTarget(to, puller, opts), opts), nil
}

// Close frees the Copier.
func (c *Copier) Close() error {
	var errs []error
	for _, closer := range c.closers {
		errs = append(errs, closer.Close())
	}
	return errors.Join(errs...)
}

// report calls Progress until the returned function is called.
func (c *Copier) report() (end func()) {
	if c.opts.Progress == nil {
		return func() {}
	}
	report := func() {
		c.mu.Lock()
		state := c.state
		if !c.began.IsZero() {
			state.Elapsed = time.Since(c.began)
		}
		c.mu.Unlock()
		c.opts.Progress(state)
	}
	stop := make(chan struct{})
	var reporter sync.WaitGroup
	reporter.Go(func() { wait.Until(report, 200*time.Millisecond, stop) })
	return func() {
		close(stop)
		reporter.Wait()
		report()
	}
}

// Copy copies the images of a plan, and what is attached to them. A failed image does not stop the others. The error is
// that of ctx.
func (c *Copier) Copy(ctx context.Context, images []*Image) (Result, error) {
	c.mu.Lock()
	c.state.Planning, c.state.AllImages, c.began = false, len(images), time.Now()
	c.mu.Unlock()
	defer c.report()()
	var group errgroup.Group
	group.SetLimit(c.opts.Jobs)
	for _, image := range images {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			err := image.Err
			if err == nil {
				err = c.copyImage(ctx, image)
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.state.Images++
			switch {
			case err != nil && ctx.Err() == nil:
				c.result.Failed = append(c.result.Failed, Failure{image.Ref, err})
			case err == nil && image.Present:
				c.result.Present++
			case err == nil:
				c.result.Copied++
			}
			return nil
		})
	}
	_ = group.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.result.Bytes = c.state.Bytes
	return c.result, ctx.Err()
}

// PutCatalog copies the image of a catalog to NAME:TAG at the target, from a built index, or nil: from the archive.
func (c *Copier) PutCatalog(ctx context.Context, catalog, tag string, index v1.ImageIndex) error {
	from := c.from
	it := item{kind: kindCatalog, catalog: catalog, tag: tag}
	if index != nil {
		digest, err := index.Digest()
		if err != nil {
			return err
		}
		it.digest, from = digest, builtIndex{index}
	} else if archive, ok := from.(*Archive); ok {
		it = *archive.catalog
	}
	present := false
	err := c.ask(ctx, "", func(ctx context.Context) (err error) { present, err = c.to.has(ctx, it); return err })
	if err != nil || present {
		return err
	}
	return c.copyManifest(ctx, from, it, 0)
}

// nowhere is the target of a Copier that only plans.
type nowhere struct{}

func (nowhere) has(context.Context, item) (bool, error) { return false, nil }
func (nowhere) putBlob(context.Context, item, v1.Descriptor, func() (io.ReadCloser, error)) error {
	return errors.ErrUnsupported
}
func (nowhere) put(context.Context, item, *node) error { return errors.ErrUnsupported }

// Describe returns the failures, one a line.
func (r Result) Describe() (lines []string) {
	for _, f := range r.Failed {
		lines = append(lines, fmt.Sprintf("%s: %v", f.Ref, f.Err))
	}
	return lines
}
