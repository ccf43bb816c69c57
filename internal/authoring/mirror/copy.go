package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"golang.org/x/sync/errgroup"

	"github.com/operator-catalogs/catalogd/internal/registry"
)

// maxReferrers limits the chain of referrers: the signature of an attestation of an image has length 2.
const maxReferrers = 3

// copyImage copies an image and what is attached to it.
func (c *Copier) copyImage(ctx context.Context, image *Image) error {
	if !image.Present {
		if err := c.copyManifest(ctx, c.from, image.item, 0); err != nil {
			return err
		}
	}
	return c.copyAttached(ctx, image.item, maxReferrers)
}

func (c *Copier) copyAttached(ctx context.Context, to item, depth int) error {
	if depth == 0 {
		return nil
	}
	var found []item
	err := c.ask(ctx, to.repo.RegistryStr(), func(ctx context.Context) (err error) { found, err = c.from.attached(ctx, to); return err })
	if err != nil {
		return fmt.Errorf("finding its signatures: %w", err)
	}
	for _, it := range found {
		has := false
		err := c.ask(ctx, "", func(ctx context.Context) (err error) { has, err = c.to.has(ctx, it); return err })
		if err == nil && !has {
			if err = c.copyManifest(ctx, c.from, it, 0); err == nil {
				c.mu.Lock()
				c.result.Attached++
				c.mu.Unlock()
			}
		}
		if err == nil && it.tag == "" {
			err = c.copyAttached(ctx, it, depth-1)
		}
		if err != nil {
			return fmt.Errorf("copying %s, which is attached to it: %w", it, err)
		}
	}
	return nil
}

// copyManifest copies a manifest after all that it refers to.
//
// Images with the same manifests are copied one after the other: registries reply with errors to concurrent pushes of one.
func (c *Copier) copyManifest(ctx context.Context, from origin, it item, depth int) error {
	entry, _ := c.pushing.LoadOrStore(it.repo.Name()+"@"+it.digest.String(), &pushing{})
	one := entry.(*pushing)
	one.Lock()
	defer one.Unlock()
	if one.done && it.kind == kindChild || ctx.Err() != nil {
		return ctx.Err()
	}
	n, err := c.manifest(ctx, from, it)
	if err != nil {
		return err
	}
	children, blobs, err := n.refersTo(depth)
	if err != nil {
		return err
	}
	var group errgroup.Group // a failed blob does not stop the others: the next run needs them
	group.SetLimit(c.opts.Jobs)
	for _, d := range blobs {
		group.Go(func() error { return c.copyBlob(ctx, from, it, d) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, d := range children {
		child := item{kind: kindChild, repo: it.repo, catalog: it.catalog, digest: d.Digest}
		has := false
		if err := c.ask(ctx, "", func(ctx context.Context) (err error) { has, err = c.to.has(ctx, child); return err }); err != nil {
			return err
		}
		if has {
			continue
		}
		if err := c.copyManifest(ctx, from, child, depth+1); err != nil {
			return err
		}
	}
	err = c.ask(ctx, "", func(ctx context.Context) error { return c.to.put(ctx, it, n) })
	one.done = err == nil
	return err
}

// pushing is a manifest of a repository that is being pushed, or is done.
type pushing struct {
	sync.Mutex
	done bool
}

// copyBlob copies a blob in a free slot.
func (c *Copier) copyBlob(ctx context.Context, from origin, it item, d v1.Descriptor) error {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	c.mu.Lock()
	if !c.counted[d.Digest] { // of something attached
		c.counted[d.Digest] = true
		c.state.AllBytes += d.Size
	}
	c.mu.Unlock()
	var read atomic.Int64
	err := c.retry(ctx, it.repo.RegistryStr(), func() error {
		c.add(-read.Swap(0))
		return c.tryBlob(ctx, from, it, d, &read)
	})
	c.add(-read.Load())
	if err != nil {
		return fmt.Errorf("copying blob %s: %w", d.Digest, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.complete[d.Digest] {
		c.complete[d.Digest] = true
		c.state.Bytes += d.Size
	}
	return nil
}

func (c *Copier) add(n int64) {
	c.mu.Lock()
	c.state.Bytes += n
	c.mu.Unlock()
}

// errStalled ends a transfer without progress.
var errStalled = errors.New("the registry stalled")

// tryBlob copies a blob once.
func (c *Copier) tryBlob(ctx context.Context, from origin, it item, d v1.Descriptor, read *atomic.Int64) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(c.opts.StallTime, func() { cancel(errStalled) })
	defer timer.Stop()
	var fault atomic.Pointer[error] // of reading: more specific than that of the failed push
	err := c.to.putBlob(ctx, it, d, func() (io.ReadCloser, error) {
		body, err := from.blob(ctx, it, d)
		if err != nil {
			return nil, err
		}
		return &meter{body, func(n int, err error) {
			timer.Reset(c.opts.StallTime)
			read.Add(int64(n))
			c.add(int64(n))
			if err != nil && !errors.Is(err, io.EOF) {
				fault.Store(&err)
			}
		}}, nil
	})
	if err != nil && errors.Is(context.Cause(ctx), errStalled) {
		return errStalled
	}
	if reading := fault.Load(); err != nil && reading != nil {
		return *reading
	}
	return err
}

// meter reports the bytes and the errors of reading.
type meter struct {
	io.ReadCloser
	report func(n int, err error)
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.ReadCloser.Read(p)
	m.report(n, err)
	return n, err
}

// askTime limits a request that transfers no blob.
const askTime = time.Minute

// ask is retry for requests that transfer no blob. One without a response is canceled and repeated.
func (c *Copier) ask(ctx context.Context, host string, do func(context.Context) error) error {
	return c.retry(ctx, host, func() error {
		once, cancel := context.WithTimeoutCause(ctx, min(askTime, c.opts.StallTime), errStalled)
		defer cancel()
		err := do(once)
		if err != nil && errors.Is(context.Cause(once), errStalled) {
			return fmt.Errorf("%w: %w", errStalled, err)
		}
		return err
	})
}

// retry repeats do after transient faults. Once a host exhausted the retries, its next requests are not repeated until one
// succeeds. "" is the host of the target.
func (c *Copier) retry(ctx context.Context, host string, do func() error) error {
	backoff := c.opts.Backoff
	for {
		err := do()
		if err == nil {
			c.down.Delete(host)
			return nil
		}
		if _, down := c.down.Load(host); ctx.Err() != nil || down || !isTransient(err) {
			return err
		}
		if backoff.Steps == 0 {
			c.down.Store(host, true)
			return err
		}
		timer := time.NewTimer(backoff.Step())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

// isTransient reports whether a repetition may succeed.
func isTransient(err error) bool {
	if answer, ok := errors.AsType[*transport.Error](err); ok {
		return answer.Temporary() || answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode/100 == 5
	}
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return false
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return false
	}
	switch registry.KindOf(err) {
	case registry.Damaged, registry.Unreachable, registry.RateLimited:
		return true
	case registry.Untrusted, registry.ClientCertificate, registry.PlainHTTP, registry.Unauthorized, registry.NotFound:
		return false
	}
	_, isNet := errors.AsType[net.Error](err)
	return errors.Is(err, errStalled) || isNet || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
