// Package prefetch prefetches the bundles at the heads of channels into the cache, for clusters with an intermittent connection
// to the registries. Pulls for requests have priority.
package prefetch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/operator-catalogs/catalogd/internal/bundle"
	"github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/store"
)

const (
	checkGap  = 10 * time.Second // between two checks for changed catalogs
	repeatGap = time.Hour        // between two passes without changes, to check tags
	retryGap  = 10 * time.Minute // instead, if something failed
	reportGap = 10 * time.Second // between two reports of a long pass
)

// Images gets bundles from the cache or their registries; *pull.Puller implements it.
type Images interface {
	Cached(request bundle.Request) (*bundle.Archive, error)
	Fetch(ctx context.Context, request bundle.Request, user string) (*bundle.Archive, error)
	Idle() bool // no other pull is wanted
}

// Config configures a Prefetcher.
type Config struct {
	Store  *store.Store
	Images Images
	Wanted func(catalog string) bool                 // whether the heads of a catalog are to be cached
	Notify func(ctx context.Context, catalog string) // the report of a catalog changed
	Share  int64                                     // of the cache, in bytes; the rest is for requests
	Logger *slog.Logger
	After  func(d time.Duration) <-chan time.Time // default: time.After
}

// Report is the progress of a catalog's prefetch in this process.
type Report struct {
	Bundles int // heads with an image
	Cached  int
	Failed  int
	Failure string // the first one
}

// Prefetcher fills the cache.
type Prefetcher struct {
	Config

	mu      sync.Mutex
	reports map[string]Report
}

// New returns a Prefetcher.
func New(cfg Config) *Prefetcher {
	if cfg.After == nil {
		cfg.After = time.After
	}
	return &Prefetcher{Config: cfg, reports: map[string]Report{}}
}

// Report returns the report of a catalog; false before its first one.
func (p *Prefetcher) Report(catalog string) (Report, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	report, ok := p.reports[catalog]
	return report, ok
}

// Run fills the cache after each change of what is wanted, until ctx ends.
func (p *Prefetcher) Run(ctx context.Context) error {
	var done map[string]string // digests by catalog
	var repeat <-chan time.Time
	for {
		if wanted := p.wanted(); !maps.Equal(wanted, done) {
			done = wanted
			p.pass(ctx, wanted)
			repeat = p.After(repeatGap)
			if p.anyFailed() {
				repeat = p.After(retryGap)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-repeat:
			done = nil
		case <-p.After(checkGap):
		}
	}
}

// wanted returns the digests of the catalogs whose heads are wanted.
func (p *Prefetcher) wanted() map[string]string {
	out := map[string]string{}
	for _, c := range p.Store.Catalogs() {
		if c.Snapshot.Validated() && p.Wanted(c.Name) {
			out[c.Name] = c.Snapshot.Info().Digest
		}
	}
	return out
}

// pass caches all heads. First it uses those in the cache, so that the cache evicts others; of several catalogs, none comes first.
func (p *Prefetcher) pass(ctx context.Context, wanted map[string]string) {
	p.mu.Lock()
	p.reports = map[string]Report{}
	p.mu.Unlock()
	var missing []bundle.Request
	used := int64(0)
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		requests, err := p.heads(ctx, name)
		if err != nil {
			p.Logger.Warn("cannot determine the bundles to prefetch", "catalog", name, "error", err)
		}
		p.update(name, func(r *Report) { r.Bundles = len(requests) })
		for _, request := range requests {
			archive, err := p.Images.Cached(request)
			if err == nil {
				_ = archive.Close() // only read
			}
			if err == nil && bundle.IsPinned(request.Image) {
				used += archive.Size()
				p.update(name, func(r *Report) { r.Cached++ })
			} else {
				missing = append(missing, request)
			}
		}
	}
	p.fetchAll(ctx, missing, used, wanted)
	for name := range wanted {
		p.Notify(ctx, name)
	}
}

// fetchAll fetches bundles, one after the other. It ends when something else is wanted.
func (p *Prefetcher) fetchAll(ctx context.Context, missing []bundle.Request, used int64, wanted map[string]string) {
	report := p.After(0)
	for _, request := range missing {
		select {
		case <-report:
			for name := range wanted {
				p.Notify(ctx, name)
			}
			if !maps.Equal(p.wanted(), wanted) {
				return
			}
			report = p.After(reportGap)
		default:
		}
		size, err := p.fetch(ctx, request, p.Share-used)
		if ctx.Err() != nil {
			return
		}
		used += size
		p.update(request.Catalog, func(r *Report) {
			if err == nil {
				r.Cached++
				return
			}
			if r.Failed++; r.Failed == 1 {
				r.Failure = err.Error()
			}
		})
	}
}

// errNoRoom is the failure of bundles that exceed the share.
var errNoRoom = errors.New("prefetched bundles exceed three quarters of the cache; raise --bundle-cache-bytes")

// fetch caches a bundle, once no other pull is wanted, and returns its size.
func (p *Prefetcher) fetch(ctx context.Context, request bundle.Request, room int64) (size int64, err error) {
	if room <= 0 {
		return 0, errNoRoom
	}
	for {
		for !p.Images.Idle() {
			select {
			case <-ctx.Done():
				return 0, ctx.Err()
			case <-p.After(time.Second):
			}
		}
		archive, err := p.Images.Fetch(ctx, request, "")
		if failed, ok := errors.AsType[*bundle.Error](err); ok && failed.Reason == bundle.Pending {
			continue // it is not idle until the pull ends
		}
		if err != nil {
			return 0, err
		}
		defer archive.Close()
		return archive.Size(), nil
	}
}

func (p *Prefetcher) anyFailed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.reports {
		if r.Failed > 0 {
			return true
		}
	}
	return false
}

func (p *Prefetcher) update(catalog string, change func(*Report)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	report := p.reports[catalog]
	change(&report)
	p.reports[catalog] = report
}

// heads returns the bundles at the heads of the channels of valid packages, without those whose manifests the catalog has.
func (p *Prefetcher) heads(ctx context.Context, catalog string) (requests []bundle.Request, err error) {
	c, ok := p.Store.Catalog(catalog)
	if !ok {
		return nil, nil
	}
	for _, pkg := range c.Snapshot.Packages() {
		if !c.Snapshot.IsValid(pkg.Name) {
			continue
		}
		names, err := headNames(ctx, c.Snapshot, pkg.Name)
		if err != nil {
			return requests, err
		}
		bundles := c.Snapshot.Select(store.Query{Schema: fbc.SchemaBundle, Package: pkg.Name}).
			Keep(func(e store.Entry) bool { return names[e.Name] })
		for text, err := range bundles.Verified(ctx) {
			if err != nil {
				return requests, err
			}
			blob, err := bundle.ReadBlob(text)
			if err != nil {
				return requests, fmt.Errorf("reading a bundle of package %s: %w", pkg.Name, err)
			}
			if blob.Image != "" && !blob.HasContent() {
				requests = append(requests, bundle.Request{Catalog: catalog, Owner: c.Owner, Package: blob.Package, Image: blob.Image})
			}
		}
	}
	return requests, nil
}

func headNames(ctx context.Context, snapshot *store.Snapshot, pkg string) (map[string]bool, error) {
	names := map[string]bool{}
	for text, err := range snapshot.Select(store.Query{Schema: fbc.SchemaChannel, Package: pkg}).Verified(ctx) {
		if err != nil {
			return nil, err
		}
		var c struct{ Entries []channel.Entry }
		if err := json.Unmarshal(text, &c); err != nil {
			return nil, fmt.Errorf("reading a channel of package %s: %w", pkg, err)
		}
		for _, head := range channel.Heads(c.Entries) {
			names[head] = true
		}
	}
	return names, nil
}
