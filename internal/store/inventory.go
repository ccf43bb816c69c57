package store

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// inventory holds the served catalogs, their previous versions and the open snapshots in memory. Looking them up needs no
// disk access.
type inventory struct {
	mu        sync.RWMutex // never held during I/O
	catalogs  map[string]Catalog
	history   history
	snapshots map[string]*Snapshot // by key; those that a catalog may be pointed to
	unpointed map[string]time.Time // by key: when this process first saw that no pointer names it
	changed   chan struct{}        // closed and replaced at a change
}

func newInventory() *inventory {
	return &inventory{
		catalogs: map[string]Catalog{}, history: history{}, snapshots: map[string]*Snapshot{},
		unpointed: map[string]time.Time{}, changed: make(chan struct{}),
	}
}

func (in *inventory) catalog(name string) (Catalog, bool) {
	in.mu.RLock()
	defer in.mu.RUnlock()
	c, ok := in.catalogs[name]
	return c, ok
}

// all returns the served catalogs, sorted by name.
func (in *inventory) all() []Catalog {
	in.mu.RLock()
	defer in.mu.RUnlock()
	out := make([]Catalog, 0, len(in.catalogs))
	for _, name := range slices.Sorted(maps.Keys(in.catalogs)) {
		out = append(out, in.catalogs[name])
	}
	return out
}

// version returns a catalog with a version that it serves or served.
func (in *inventory) version(name, version string) (Catalog, bool) {
	in.mu.RLock()
	defer in.mu.RUnlock()
	if c, ok := in.catalogs[name]; ok && c.Snapshot.Version() == version {
		return c, true
	}
	return in.history.version(name, version)
}

// previous returns the versions that a catalog served before, newest first.
func (in *inventory) previous(name string) []Catalog {
	in.mu.RLock()
	defer in.mu.RUnlock()
	return slices.Clone(in.history[name])
}

func (in *inventory) setHistory(name string, previous []Catalog) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.history[name] = previous
}

// point makes a catalog serve other content, or the same under another source.
func (in *inventory) point(next Catalog, previous []Catalog, now time.Time) {
	in.mu.Lock()
	defer in.mu.Unlock()
	old, served := in.catalogs[next.Name]
	in.catalogs[next.Name], in.history[next.Name] = next, previous
	delete(in.unpointed, next.Snapshot.Key())
	if served && old.Snapshot.Key() != next.Snapshot.Key() {
		in.unpointed[old.Snapshot.Key()] = now
	}
	in.signal()
}

// remove removes a catalog. Snapshots that no other catalog served get no grace period.
func (in *inventory) remove(name string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	gone := in.history[name]
	delete(in.history, name)
	if c, ok := in.catalogs[name]; ok {
		gone = append(slices.Clone(gone), c)
		delete(in.catalogs, name)
		in.signal()
	}
	for _, c := range gone {
		if !in.history.has(c.Snapshot.Key()) {
			in.unpointed[c.Snapshot.Key()] = time.Time{}
		}
	}
}

// expire reports whether nothing has pointed to a snapshot for the grace period; then it drops the snapshot.
func (in *inventory) expire(key string, now time.Time, grace time.Duration) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, c := range in.catalogs {
		if c.Snapshot.Key() == key {
			delete(in.unpointed, key)
			return false
		}
	}
	if snap, ok := in.snapshots[key]; ok && snap.awaited.Load() > 0 {
		return false // even without a grace period, as its last catalog was removed
	}
	since, seen := in.unpointed[key]
	if !seen {
		since = now
		in.unpointed[key] = since
	}
	if now.Sub(since) < grace {
		return false
	}
	delete(in.unpointed, key)
	delete(in.snapshots, key)
	in.history.drop(key)
	return true
}

// snapshot returns the snapshot of a key; nil if it is not open.
func (in *inventory) snapshot(key string) *Snapshot {
	in.mu.RLock()
	defer in.mu.RUnlock()
	return in.snapshots[key]
}

// add adds a snapshot unless one of its key is there, and returns the one that is there.
func (in *inventory) add(snap *Snapshot) *Snapshot {
	in.mu.Lock()
	defer in.mu.Unlock()
	if other, ok := in.snapshots[snap.Key()]; ok {
		return other
	}
	in.snapshots[snap.Key()] = snap
	return snap
}

// put adds a snapshot or replaces the one of its key.
func (in *inventory) put(snap *Snapshot) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.snapshots[snap.Key()] = snap
}

func (in *inventory) drop(key string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	delete(in.snapshots, key)
}

// changes returns the channel that is closed at the next change.
func (in *inventory) changes() <-chan struct{} {
	in.mu.RLock()
	defer in.mu.RUnlock()
	return in.changed
}

// notify signals a change that the inventory does not see.
func (in *inventory) notify() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.signal()
}

// signal signals a change. The caller holds mu.
func (in *inventory) signal() {
	close(in.changed)
	in.changed = make(chan struct{})
}

// history is the versions that catalogs served before and whose snapshots still exist, by name, newest first.
type history map[string][]Catalog

// version returns a catalog with a version that it served.
func (h history) version(name, version string) (Catalog, bool) {
	i := slices.IndexFunc(h[name], func(c Catalog) bool { return c.Snapshot.Version() == version })
	if i < 0 {
		return Catalog{}, false
	}
	return h[name][i], true
}

// has reports whether any catalog served the snapshot of a key.
func (h history) has(key string) bool {
	for _, previous := range h {
		if slices.ContainsFunc(previous, keyIs(key)) {
			return true
		}
	}
	return false
}

// drop removes the snapshot of a key from the history of every catalog.
func (h history) drop(key string) {
	for name, previous := range h {
		h[name] = without(previous, key)
	}
}

func keyIs(key string) func(Catalog) bool {
	return func(c Catalog) bool { return c.Snapshot.Key() == key }
}

// without returns a copy of a list without the snapshot of a key.
func without(catalogs []Catalog, key string) []Catalog {
	return slices.DeleteFunc(slices.Clone(catalogs), keyIs(key))
}

// keep keeps a path for the grace period from now on.
func (in *inventory) keep(path string, now time.Time) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.unpointed[path] = now
}

// isKept reports whether the grace period of keep lasts.
func (in *inventory) isKept(path string, now time.Time, grace time.Duration) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	since, ok := in.unpointed[path]
	if ok && now.Sub(since) < grace {
		return true
	}
	delete(in.unpointed, path)
	return false
}
