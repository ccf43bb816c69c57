package graph

import (
	"cmp"
	"sync"
	"weak"

	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// maxKept bounds what is kept, in bytes of memory, about.
const maxKept = 8 << 20

// Kept holds for later requests what earlier ones read and decoded, if it is asked for often: the names of a catalog's sound packages,
// their summaries, and the heads of channels. Only what is proven is kept, by checksums or hashes, of a snapshot that is not known to be
// damaged; and by the opened snapshot, not by its key: another of the same key may number its blobs in another way.
// So what is kept outlives
// no damage. It holds no snapshot. A request is charged for it as if it had read it: what a query may cost does not depend on others.
// It is safe for concurrent use; nobody changes what is in it.
type Kept struct {
	mu    sync.RWMutex
	facts map[keptKey]keptFact
	size  int64
}

// keptKey names a fact.
type keptKey struct {
	snapshot weak.Pointer[store.Snapshot]
	kind     keptKind
	name     string // of a package, or empty
	number   uint32 // of a blob, or 0
}

type keptKind uint8

const (
	keptNames   keptKind = iota // []string
	keptSummary                 // fbc.Summary
	keptHead                    // keptChannel
)

type keptFact struct {
	value any
	size  int64
}

// keptChannel is the head of a channel, and of how many JSON values its blob consists.
type keptChannel struct {
	head   string
	values int
}

// NewKept returns one that holds nothing.
func NewKept() *Kept { return &Kept{facts: map[keptKey]keptFact{}} }

func (k *Kept) get(key keptKey) (any, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	fact, ok := k.facts[key]
	return fact.value, ok
}

// put keeps a fact whose own memory is of about that size. Any others give way: one that is asked for often is soon back.
func (k *Kept) put(key keptKey, value any, size int64) {
	const entry = 300 // key, value and their place in the map
	if size += entry; size > maxKept/8 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.facts[key]; ok {
		return
	}
	for other, fact := range k.facts {
		if k.size+size <= maxKept {
			break
		}
		delete(k.facts, other)
		k.size -= fact.size
	}
	k.facts[key] = keptFact{value, size}
	k.size += size
}

// note keeps a fact of the snapshot for later requests, unless it may be a fact of the damage.
func (s *source) note(key keptKey, value any, size int64) {
	if !s.at.Snapshot.Damaged() {
		s.r.Kept.put(key, value, size)
	}
}

// headName is the name of the bundle at the head of the channel.
func (c *Channel) headName() (string, error) {
	return c.head.get(c.findHead)
}

func (c *Channel) findHead() (string, error) {
	key := keptKey{snapshot: c.src.snapshot, kind: keptHead, number: c.entry.Number}
	if known, ok := c.src.r.Kept.get(key); ok {
		kept := known.(keptChannel)
		return kept.head, c.charge(kept.values)
	}
	blob, err := decode[declcfg.Channel](c.node)
	if err != nil {
		return "", err
	}
	var head string
	if heads := channel.Heads(entriesOf(blob, nil)); len(heads) > 0 {
		head = heads[0]
	}
	if c.src.at.Snapshot.Matches(c.entry.Number, c.json) { // the bytes were read as they are on the volume
		c.src.note(key, keptChannel{head, scan.CountValues(c.json)}, int64(len(head)))
	}
	return head, nil
}

// charge makes the request pay for a blob as if it had read and decoded it.
func (b *blob) charge(values int) error {
	b.src.mu.Lock()
	size := b.payRead()
	b.src.mu.Unlock()
	return cmp.Or(b.src.r.spendRead(size), b.spendDecoded(values))
}

// soundNames are the names of the sound packages, sorted.
func (s *source) soundNames() []string {
	key := keptKey{snapshot: s.snapshot, kind: keptNames}
	if names, ok := s.r.Kept.get(key); ok {
		return names.([]string)
	}
	known := s.at.Snapshot.Validated() // asked before: they may become known meanwhile
	names := s.at.Snapshot.ValidNames()
	if known {
		s.note(key, names, sizeOfTexts(names))
	}
	return names
}

// summary is that of a package; ok is false if there is no sound one of the name.
func (s *source) summary(name string) (summary fbc.Summary, ok bool, err error) {
	key := keptKey{snapshot: s.snapshot, kind: keptSummary, name: name}
	if known, ok := s.r.Kept.get(key); ok {
		return known.(fbc.Summary), true, nil
	}
	summary, ok, err = s.at.Snapshot.Summary(name)
	if err == nil && ok {
		key.name = summary.Name // the other is a part of the query
		s.note(key, summary, memoryOf(summary))
	}
	return summary, ok, err
}

// memoryOf is about what a summary takes.
func memoryOf(s fbc.Summary) int64 {
	size := summarySize(s) + int64(len(s.Provider)+len(s.Capabilities)+len(s.DefaultChannel)+len(s.Version)+len(s.Deprecation))
	size += sizeOfTexts(s.Keywords) + sizeOfTexts(s.Categories) + sizeOfTexts(s.Channels)
	for _, api := range s.Provides {
		size += int64(48 + len(api.Group) + len(api.Version) + len(api.Kind))
	}
	return size
}

// sizeOfTexts is what some strings take.
func sizeOfTexts(texts []string) int64 {
	size := int64(16 * len(texts))
	for _, text := range texts {
		size += int64(len(text))
	}
	return size
}
