package soak

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// ledger is what was published under which name, and what readers have seen of it since.
type ledger struct {
	names    []string
	catalogs map[string]*entry
}

// entry is the ledger of one catalog.
type entry struct {
	name string

	mu        sync.Mutex
	versions  map[string]*version // by digest
	published []string            // digests, in the order of publication; a digest may come again
	floor     int                 // index into published: no reply that begins from now on may be older; -1 before the first
	tags      map[string]sum      // bodies of 200s, by path and ETag
}

func newLedger(names []string) *ledger {
	l := &ledger{names: names, catalogs: map[string]*entry{}}
	for _, name := range names {
		l.catalogs[name] = &entry{name: name, versions: map[string]*version{}, floor: -1, tags: map[string]sum{}}
	}
	return l
}

// announce notes that a version is about to be published. Whoever publishes calls it before, so that no reader is ahead of the ledger.
func (e *entry) announce(v *version) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.versions[v.digest] = v
	e.published = append(e.published, v.digest)
}

// last is what was published last.
func (e *entry) last() *version {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.published) == 0 {
		return nil
	}
	return e.versions[e.published[len(e.published)-1]]
}

// version finds what was published by its digest; nil if nothing was.
func (e *entry) version(digest string) *version {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.versions[digest]
}

// served is the index of the oldest publication that a request which begins now may be answered from; -1 if the catalog was never
// seen to be served.
func (e *entry) served() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.floor
}

// saw notes that a request which began when the floor was at has been answered from a digest. The error says that this is older than
// what was served before, or never was published.
func (e *entry) saw(digest string, at int) (*version, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	v := e.versions[digest]
	if v == nil {
		return nil, fmt.Errorf("%s served the digest %q, which was never published", e.name, digest)
	}
	from := max(at, 0)
	i := slices.Index(e.published[from:], digest)
	if i < 0 {
		return nil, fmt.Errorf("%s went back: it served %s, which is publication %d, after it had served publication %d of %d, %s",
			e.name, digest, lastIndex(e.published, digest), at, len(e.published), e.published[at])
	}
	e.floor = max(e.floor, from+i)
	return v, nil
}

func lastIndex(list []string, s string) int {
	for i, have := range slices.Backward(list) {
		if have == s {
			return i
		}
	}
	return -1
}

// sameTag holds that an ETag stands for the same bytes for ever.
func (e *entry) sameTag(path, tag string, body sum) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	key := path + " " + tag
	if have, ok := e.tags[key]; ok && have != body {
		return fmt.Errorf("%s: the ETag %s of %s stands for other bytes than before", e.name, tag, path)
	}
	e.tags[key] = body
	return nil
}

// count is how many publications there were, and of how many versions.
func (l *ledger) count() (publications, versions int) {
	for _, e := range l.catalogs {
		e.mu.Lock()
		publications += len(e.published)
		versions += len(e.versions)
		e.mu.Unlock()
	}
	return publications, versions
}

// bytes is the size of all versions together, and of those that were published last.
func (l *ledger) bytes() (all, last int64) {
	for _, e := range l.catalogs {
		e.mu.Lock()
		for _, v := range e.versions {
			all += v.size
		}
		last += e.versions[e.published[len(e.published)-1]].size
		e.mu.Unlock()
	}
	return all, last
}

// publisher publishes versions of catalogs in a registry.
type publisher struct {
	ledger   *ledger
	registry *imageRegistry
	sources  map[string]*source
}

// publish puts a new version of a catalog under its tag.
func (p *publisher) publish(ctx context.Context, name string) error {
	image, v, err := p.sources[name].next()
	if err != nil {
		return fmt.Errorf("making a version of %s: %w", name, err)
	}
	if p.ledger.catalogs[name].version(v.digest) != nil {
		return errors.New("two versions have the same digest, so they prove nothing")
	}
	p.ledger.catalogs[name].announce(v)
	return p.registry.push(ctx, name, image)
}

// goBack puts an earlier version of a catalog under its tag again; pick chooses among n of them.
func (p *publisher) goBack(ctx context.Context, name string, pick func(n int) int) error {
	e := p.ledger.catalogs[name]
	e.mu.Lock()
	v := e.versions[e.published[pick(len(e.published))]]
	e.mu.Unlock()
	e.announce(v)
	return p.registry.retag(ctx, name, v.digest)
}
