// Package pull gets bundles from their images, on demand. It keeps them in the cache of the store.
package pull

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/lru"

	"github.com/operator-catalogs/catalogd/internal/bundle"
	"github.com/operator-catalogs/catalogd/internal/registry"
	"github.com/operator-catalogs/catalogd/internal/store"
	"github.com/operator-catalogs/catalogd/internal/unpack"
)

const (
	maxPulls    = 4                // at a time
	maxOfOne    = 2                // of one catalog, so that a slow registry does not hold up the others
	maxWaiting  = 200              // pulls that wait for that
	waitForPull = 20 * time.Second // then the client is asked to come back
	pullTimeout = 2 * time.Minute  // for some MiB
	tagAge      = 5 * time.Minute  // how long the digest of a tag is good
	userBurst   = 10               // pulls that a user may cause at once; after that one a second
	remembered  = 10_000           // references, refusals and users kept in memory
	maxKnown    = 1_000            // indexes kept in memory
	maxIndex    = 32 << 10         // bytes of the JSON of each; those of real bundles have 5 to 15 kB
	maxLabels   = 64 << 10         // bytes
)

// Config configures a Puller.
type Config struct {
	Cache *store.Cache
	// Client returns the registry client of a catalog. It must be confined to allowed registries.
	Client func(ctx context.Context, catalog string) (*registry.Client, error)
	Limits Limits
	Now    func() time.Time
	Logger *slog.Logger
}

// keyOf names the bundle in the cache. Catalogs do not share bundles, so that each gets only what its own credentials permit.
func keyOf(r bundle.Request) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", []string{r.Catalog, r.Owner, r.Image, r.Package}))
	return hex.EncodeToString(sum[:])
}

// refused is the error text for every disallowed location, so that it reveals nothing about the network.
const refused = "catalogd does not pull bundle images from this location; an admin can allow its registry (--bundle-registries)"

// Puller gets bundles from the cache, or pulls them. Methods can be called concurrently.
type Puller struct {
	config   Config
	metrics  *metrics
	work     context.Context // of all pulls
	end      context.CancelFunc
	wait     time.Duration // waitForPull
	slots    chan struct{}
	building sync.Mutex // one bundle at a time, as decoding takes memory

	mu         sync.Mutex
	flights    map[string]*flight       // by key of the request
	perCatalog map[string]chan struct{} // slots
	flying     sync.WaitGroup

	known    *lru.Cache // key -> *bundle.Index, of verified archives
	checked  *lru.Cache // key -> time.Time, when the digest of a tag was last asked for
	refusals *lru.Cache // key -> *standing
	users    *lru.Cache // name -> *rate.Limiter
}

// flight is a pull for all who wait for it.
type flight struct {
	done chan struct{}
	err  error
}

// New returns a Puller.
func New(config Config) *Puller {
	if config.Now == nil {
		config.Now = time.Now
	}
	work, end := context.WithCancel(context.Background())
	return &Puller{
		config: config, metrics: newMetrics(), work: work, end: end, wait: waitForPull,
		slots: make(chan struct{}, maxPulls), flights: map[string]*flight{}, perCatalog: map[string]chan struct{}{},
		known: lru.New(maxKnown), checked: lru.New(remembered), refusals: lru.New(remembered), users: lru.New(remembered),
	}
}

// Run ends all pulls when ctx ends, and waits for them: they write to the volume.
func (p *Puller) Run(ctx context.Context) error {
	<-ctx.Done()
	p.mu.Lock()
	p.end()
	p.mu.Unlock()
	p.flying.Wait()
	return nil
}

// Cached returns a bundle from the cache. It sends no request. The error is that of an earlier pull, or NotCached.
func (p *Puller) Cached(r bundle.Request) (*bundle.Archive, error) {
	if archive, ok := p.open(r); ok {
		return archive, nil
	}
	if err := p.refusal(keyOf(r)); err != nil {
		return nil, err
	}
	return nil, &bundle.Error{Reason: bundle.NotCached, Text: "the bundle image is not cached, and HEAD does not pull it; use GET"}
}

// refusal returns the error of an earlier pull that would fail again now, or nil.
func (p *Puller) refusal(key string) error {
	if r, ok := p.refusals.Get(key); ok && p.config.Now().Before(r.(*standing).until) {
		return r.(*standing).err
	}
	return nil
}

// open opens a cached bundle.
func (p *Puller) open(r bundle.Request) (*bundle.Archive, bool) {
	key := keyOf(r)
	generation, ok := p.config.Cache.Use(key)
	if !ok {
		return nil, false
	}
	if known, ok := p.known.Get(key); ok && known.(*verified).generation == generation {
		return known.(*verified).index.OpenLater(func() (*os.File, error) { return p.reopen(key, known.(*verified)) }), true
	}
	file, err := p.config.Cache.Open(key)
	if err != nil {
		return nil, false
	}
	x, err := p.verify(key, generation, file)
	if err != nil {
		p.config.Logger.Warn("a cached bundle is damaged; it will be pulled again", "image", r.Image, "error", err)
		_ = errors.Join(file.Close(), p.config.Cache.Remove(key)) // it will be replaced
		return nil, false
	}
	return x.Open(file), true
}

// verify reads a cached file as a whole, and keeps its index if that has the usual size.
func (p *Puller) verify(key string, generation int64, file *os.File) (*bundle.Index, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	x, err := bundle.ReadIndex(file, info.Size())
	if err == nil && len(x.JSON()) <= maxIndex {
		p.known.Add(key, &verified{generation, info, x})
	}
	return x, err
}

// reopen opens a file that was verified before.
func (p *Puller) reopen(key string, known *verified) (*os.File, error) {
	file, err := p.config.Cache.Open(key)
	if err == nil {
		info, statErr := file.Stat()
		if statErr == nil && os.SameFile(known.info, info) {
			return file, nil
		}
		err = errors.Join(errors.New("the file was replaced"), statErr, file.Close())
	}
	return nil, p.fail(bundle.Pending, err, "the bundle was replaced in the cache; retry")
}

// verified is the index of a file that was read as a whole.
type verified struct {
	generation int64
	info       fs.FileInfo
	index      *bundle.Index
}

// Fetch returns a bundle from the cache or from its registry. Concurrent calls for a bundle share one pull. After 20 seconds,
// Fetch returns a Pending error, and the pull continues. Pulls are rate limited per user; the user "" is not limited. Errors
// other than that of ctx are an *Error.
func (p *Puller) Fetch(ctx context.Context, r bundle.Request, user string) (*bundle.Archive, error) {
	archive, ok := p.open(r)
	if ok && p.isCurrent(r) {
		p.metrics.requests.WithLabelValues("hit").Inc()
		return archive, nil
	}
	err := p.await(ctx, r, user)
	if err == nil || (ok && ctx.Err() == nil) { // serve the previous digest of a tag if the pull fails
		if fresh, found := p.open(r); found {
			if ok {
				_ = archive.Close() // only read
			}
			archive, ok, err = fresh, true, nil
		}
	}
	if ok {
		return archive, nil
	}
	if err == nil { // evicted already
		err = p.fail(bundle.Pending, nil, "the bundle was evicted from the cache; retry later")
	}
	return nil, err
}

// Idle reports whether no image is being pulled.
func (p *Puller) Idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.flights) == 0
}

// isCurrent reports whether a cached bundle can be served without checking its digest.
func (p *Puller) isCurrent(r bundle.Request) bool {
	if bundle.IsPinned(r.Image) {
		return true
	}
	at, ok := p.checked.Get(keyOf(r))
	return ok && p.config.Now().Sub(at.(time.Time)) < tagAge
}

// await starts a pull, or joins one, and waits for its end.
func (p *Puller) await(ctx context.Context, r bundle.Request, user string) error {
	key := keyOf(r)
	if err := p.refusal(key); err != nil {
		p.metrics.requests.WithLabelValues("refused").Inc()
		return err
	}
	p.mu.Lock()
	running, ok := p.flights[key]
	if !ok {
		if len(p.flights) >= maxPulls+maxWaiting || !p.allows(user) {
			p.mu.Unlock()
			return p.fail(bundle.Busy, nil, "too many requests for bundle images; retry later")
		}
		if p.work.Err() != nil {
			p.mu.Unlock()
			return p.fail(bundle.NotReady, nil, "catalogd is shutting down; retry later")
		}
		running = &flight{done: make(chan struct{})}
		p.flights[key] = running
		if p.perCatalog[r.Catalog] == nil {
			p.perCatalog[r.Catalog] = make(chan struct{}, maxOfOne)
		}
		catalogSlots := p.perCatalog[r.Catalog]
		p.flying.Go(func() { p.fly(key, r, running, catalogSlots) })
	}
	p.mu.Unlock()
	wait := time.NewTimer(p.wait)
	defer wait.Stop()
	select {
	case <-running.done:
		return running.err
	case <-ctx.Done():
		return ctx.Err()
	case <-wait.C:
		return p.fail(bundle.Pending, nil, fmt.Sprintf("image %s is being pulled; retry later", r.Image))
	}
}

// standing is a cached error of a pull.
type standing struct {
	err   error
	until time.Time
}

// allows reports whether a user may cause one more pull now.
func (p *Puller) allows(user string) bool {
	if user == "" {
		return true
	}
	limiter, ok := p.users.Get(user)
	if !ok {
		limiter = rate.NewLimiter(1, userBurst)
		p.users.Add(user, limiter)
	}
	return limiter.(*rate.Limiter).AllowN(p.config.Now(), 1)
}

// fly pulls in the background.
func (p *Puller) fly(key string, r bundle.Request, running *flight, catalogSlots chan struct{}) {
	catalogSlots <- struct{}{} // a pull ends within its timeout
	p.slots <- struct{}{}
	ctx, cancel := context.WithTimeout(p.work, pullTimeout)
	running.err = p.refresh(ctx, key, r)
	cancel()
	<-p.slots
	<-catalogSlots
	p.mu.Lock()
	delete(p.flights, key)
	p.mu.Unlock()
	close(running.done)
}

// refresh brings the cached bundle to the current digest of its reference.
func (p *Puller) refresh(ctx context.Context, key string, r bundle.Request) error {
	digest, err := p.pull(ctx, key, r)
	if err == nil {
		p.checked.Add(key, p.config.Now())
		p.metrics.requests.WithLabelValues("pulled").Inc()
		return nil
	}
	explained := p.explain(r, err)
	p.config.Logger.Warn("pulling a bundle image failed", "catalog", r.Catalog, "image", r.Image, "digest", digest, "error", err)
	wait := 10 * time.Second
	if explained.Reason == bundle.Invalid {
		wait = time.Minute
		if bundle.IsPinned(r.Image) {
			wait = 24 * time.Hour
		}
	}
	if explained.Reason == bundle.Invalid || explained.Reason == bundle.Forbidden || explained.Reason == bundle.Registry {
		if explained.Reason == bundle.Invalid {
			explained.Text += fmt.Sprintf(" (found at %s; catalogd looks again after %s)", p.config.Now().UTC().Format(time.RFC3339), wait)
		}
		p.refusals.Add(key, &standing{&bundle.Error{Reason: explained.Reason, Text: explained.Text}, p.config.Now().Add(wait)})
	}
	if !bundle.IsPinned(r.Image) { // what is cached is good for a while
		p.checked.Add(key, p.config.Now().Add(time.Minute-tagAge))
	}
	return explained
}

// explain classifies an error of a pull.
func (p *Puller) explain(r bundle.Request, err error) *bundle.Error {
	text := fmt.Sprintf("reading bundle image %s: %.1000s", r.Image, limitFlags.Replace(err.Error()))
	known, isKnown := errors.AsType[*bundle.Error](err)
	switch {
	case isKnown:
		return known
	case registry.KindOf(err) == registry.Forbidden:
		return p.fail(bundle.Forbidden, err, refused)
	case errors.As(err, new(*unpack.InvalidImageError)):
		return p.fail(bundle.Invalid, err, text)
	case registry.KindOf(err) != "":
		return p.fail(bundle.Registry, err, text)
	case errors.Is(err, context.DeadlineExceeded):
		return p.fail(bundle.Registry, err, fmt.Sprintf("pulling bundle image %s: timed out after %v", r.Image, pullTimeout))
	case errors.Is(err, syscall.ENOSPC):
		return p.fail(bundle.NoRoom, err, "not enough space to cache the bundle; an admin can raise --bundle-cache-bytes or enlarge the volume")
	}
	return p.fail(bundle.NotReady, err, "pulling the bundle image failed; see the log of catalogd for the cause, or retry later")
}

func (p *Puller) fail(reason bundle.Reason, cause error, text string) *bundle.Error {
	p.metrics.requests.WithLabelValues(strings.ToLower(string(reason))).Inc()
	return &bundle.Error{Reason: reason, Text: text, Cause: cause}
}
