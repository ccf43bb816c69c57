package listing

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"weak"

	"github.com/operator-catalogs/catalogd/internal/store"
)

// maxCache is the approximate limit of a Cache in bytes of memory. 5,000 packages take 2 MiB.
const maxCache = 24 << 20

// Cache holds the indexes of recently listed snapshots. Beyond its limit, it evicts the least recently used index. It does not cache
// an index that alone exceeds the limit. It does not keep snapshots alive. It is safe for concurrent use.
type Cache struct {
	limit    int64
	building chan struct{} // semaphore of size 1, to limit memory

	mu      sync.Mutex
	indexes map[weak.Pointer[store.Snapshot]]*cached
	clock   uint64 // of the last use
}

type cached struct {
	index *Index
	used  uint64
}

// NewCache returns an empty cache.
func NewCache() *Cache {
	return &Cache{limit: maxCache, building: make(chan struct{}, 1), indexes: map[weak.Pointer[store.Snapshot]]*cached{}}
}

// Of returns the index of a snapshot, and builds it if necessary. The error can be store.ErrNotValidated.
func (c *Cache) Of(ctx context.Context, snapshot *store.Snapshot) (*Index, error) {
	key := weak.Make(snapshot)
	if ix := c.get(key); ix != nil {
		return ix, nil
	}
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case c.building <- struct{}{}:
	}
	defer func() { <-c.building }()
	if ix := c.get(key); ix != nil { // made while this request waited
		return ix, nil
	}
	ix, err := newIndex(ctx, snapshot)
	if err == nil && !snapshot.Damaged() {
		c.put(key, ix)
	}
	return ix, err
}

func (c *Cache) get(key weak.Pointer[store.Snapshot]) *Index {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.indexes[key]
	if known == nil {
		return nil
	}
	c.clock++
	known.used = c.clock
	return known.index
}

// put adds an index and evicts others, those of collected snapshots first.
func (c *Cache) put(key weak.Pointer[store.Snapshot], ix *Index) {
	if ix.size > c.limit {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.indexes, func(k weak.Pointer[store.Snapshot], _ *cached) bool { return k.Value() == nil })
	c.clock++
	c.indexes[key] = &cached{ix, c.clock}
	size := int64(0)
	for _, known := range c.indexes {
		size += known.index.size
	}
	for _, oldest := range slices.SortedFunc(maps.Keys(c.indexes), func(a, b weak.Pointer[store.Snapshot]) int {
		return cmp.Compare(c.indexes[a].used, c.indexes[b].used)
	}) {
		if size <= c.limit {
			return
		}
		size -= c.indexes[oldest].index.size
		delete(c.indexes, oldest)
	}
}
