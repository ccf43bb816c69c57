package soak

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// ledger records the published versions of each catalog, and the versions that readers have seen.
type ledger struct {
	names    []string
	catalogs map[string]*entry
}

// entry is the ledger of one catalog.
type entry struct {
	name string

	mu        sync.Mutex
	versions  map[string]*version // by digest
	published []string            // digests, in the order of publication; a digest may occur again
	floor     int                 // index into published: no reply to a later request may be older; -1 before the first
	tags      map[string]sum      // bodies of 200s, by path and ETag
}

func newLedger(names []string) *ledger {
	l := &ledger{names: names, catalogs: map[string]*entry{}}
	for _, name := range names {
		l.catalogs[name] = &entry{name: name, versions: map[string]*version{}, floor: -1, tags: map[string]sum{}}
	}
	return l
}

// announce records a version that is about to be published. Publishers call it before, so that no reader is ahead
// of the ledger.
func (e *entry) announce(v *version) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.versions[v.digest] = v
	e.published = append(e.published, v.digest)
}

// last returns the last published version.
func (e *entry) last() *version {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.published) == 0 {
		return nil
	}
	return e.versions[e.published[len(e.published)-1]]
}

// version returns the version of a digest, or nil.
func (e *entry) version(digest string) *version {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.versions[digest]
}

// served returns the index of the oldest publication that may answer a request that begins now, or -1 if the
// catalog has never been served.
func (e *entry) served() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.floor
}

// saw records the digest of a reply to a request that began when the floor was at. It returns an error if the
// digest is older than that, or was never published.
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

// sameTag checks that an ETag always identifies the same bytes.
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

// count returns the number of publications and of versions.
func (l *ledger) count() (publications, versions int) {
	for _, e := range l.catalogs {
		e.mu.Lock()
		publications += len(e.published)
		versions += len(e.versions)
		e.mu.Unlock()
	}
	return publications, versions
}

// bytes returns the size of all versions, and of the last ones.
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

// publish tags a new version of a catalog.
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

// goBack tags an earlier version of a catalog again; pick chooses among n of them.
func (p *publisher) goBack(ctx context.Context, name string, pick func(n int) int) error {
	e := p.ledger.catalogs[name]
	e.mu.Lock()
	v := e.versions[e.published[pick(len(e.published))]]
	e.mu.Unlock()
	e.announce(v)
	return p.registry.retag(ctx, name, v.digest)
}
