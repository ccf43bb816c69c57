package graph

import (
	"cmp"
	"slices"
	"sync"
	"weak"

	"github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// maxCache is the approximate limit of a cache in bytes of memory.
const maxCache = 8 << 20

// Cache holds facts that requests often read: the names of a catalog's valid packages, their summaries, and the heads of
// channels. Checksums or hashes verify each fact, and a snapshot with known damage has none. The keys are opened snapshots,
// because another snapshot with the same Key may number its blobs differently; the cache does not keep them alive. A
// cached fact costs a request as much as a read does, so its cost does not depend on other requests. Cache is safe for
// concurrent use; its facts are immutable.
type Cache struct {
	mu    sync.RWMutex
	facts map[factKey]fact
	size  int64
}

type factKey struct {
	snapshot weak.Pointer[store.Snapshot]
	kind     factKind
	name     string // of a package, or empty
	number   uint32 // of a blob, or 0
}

type factKind uint8

const (
	factNames   factKind = iota // []string
	factSummary                 // fbc.Summary
	factHead                    // channelHead
)

type fact struct {
	value any
	size  int64
}

// channelHead is the head of a channel, and the number of JSON values in its blob.
type channelHead struct {
	head   string
	values int
}

// NewCache returns an empty cache.
func NewCache() *Cache { return &Cache{facts: map[factKey]fact{}} }

func (c *Cache) get(key factKey) (any, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	known, ok := c.facts[key]
	return known.value, ok
}

// put adds a fact of about size bytes. A full cache evicts any facts; a frequent one soon returns.
func (c *Cache) put(key factKey, value any, size int64) {
	const entry = 300 // key, value and their place in the map
	if size += entry; size > maxCache/8 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.facts[key]; ok {
		return
	}
	for other, evicted := range c.facts {
		if c.size+size <= maxCache {
			break
		}
		delete(c.facts, other)
		c.size -= evicted.size
	}
	c.facts[key] = fact{value, size}
	c.size += size
}

// note adds a fact of the snapshot to the cache, unless damage may have caused it.
func (s *source) note(key factKey, value any, size int64) {
	if !s.snapshot.Damaged() {
		s.r.Cache.put(key, value, size)
	}
}

// headName returns the name of the bundle at the head of the channel.
func (c *Channel) headName() (string, error) { return c.head.get(c.findHead) }

func (c *Channel) findHead() (string, error) {
	key := factKey{snapshot: c.src.weak, kind: factHead, number: c.Number}
	if known, ok := c.src.r.Cache.get(key); ok {
		cached := known.(channelHead)
		return cached.head, c.charge(cached.values)
	}
	blob, err := c.read()
	if err != nil {
		return "", err
	}
	var head string
	if heads := channel.Heads(entriesOf(blob, nil)); len(heads) > 0 {
		head = heads[0]
	}
	if c.src.snapshot.Matches(c.Number, c.json) { // the hash of the bytes that were read
		c.src.note(key, channelHead{head, scan.CountValues(c.json)}, int64(len(head)))
	}
	return head, nil
}

// charge charges the request for a blob as if it had read and decoded it.
func (b *blob) charge(values int) error {
	b.src.mu.Lock()
	size := b.payRead()
	b.src.mu.Unlock()
	return cmp.Or(b.src.r.spendRead(size), b.spendDecoded(values))
}

// validNames returns the names of the valid packages, sorted.
func (s *source) validNames() []string {
	key := factKey{snapshot: s.weak, kind: factNames}
	if names, ok := s.r.Cache.get(key); ok {
		return names.([]string)
	}
	validated := s.snapshot.Validated() // before Packages, because validation may finish in between
	var names []string
	for _, pkg := range s.snapshot.Packages() {
		names = append(names, pkg.Name)
	}
	if validated {
		s.note(key, names, sizeOfTexts(names))
	}
	return names
}

// summary returns the summary of a package, and whether a valid package of the name exists.
func (s *source) summary(name string) (summary fbc.Summary, ok bool, err error) {
	key := factKey{snapshot: s.weak, kind: factSummary, name: name}
	if known, ok := s.r.Cache.get(key); ok {
		return known.(fbc.Summary), true, nil
	}
	summary, ok, err = s.snapshot.Summary(name)
	if err == nil && ok {
		key.name = summary.Name // name is a part of the query
		s.note(key, summary, sizeOfSummary(summary))
	}
	return summary, ok, err
}

// sizeOfSummary returns the approximate size of a summary in bytes.
func sizeOfSummary(s fbc.Summary) int64 {
	const fixed, api = 400, 100
	texts := []string{s.Name, s.DisplayName, s.ShortDescription, s.Description, s.Provider, s.Head, s.Deprecation, s.IconHash}
	texts = slices.Concat(texts, s.Keywords, s.Categories, s.Channels, s.Architectures, s.OperatingSystems, s.Features, s.InstallModes)
	return fixed + sizeOfTexts(texts) + int64(api*len(s.Provides))
}

func sizeOfTexts(texts []string) int64 {
	size := int64(16 * len(texts))
	for _, text := range texts {
		size += int64(len(text))
	}
	return size
}
