package store

import (
	"maps"
	"path"
	"slices"
	"time"
)

// CatalogAt returns the catalog of a name as it serves the content of a digest or, as long as that snapshot is kept, as it
// served it before. Of a digest that it served from two config directories it is the one served now, else the newest.
// What is known to be damaged is not given, as whoever asks by digest keeps the answer for good.
func (s *Store) CatalogAt(name, digest string) (Catalog, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if c, ok := s.catalogs[name]; ok && c.Snapshot.isSound(digest) {
		return c, true
	}
	for _, c := range s.history[name] {
		if c.Snapshot.isSound(digest) {
			return c, true
		}
	}
	return Catalog{}, false
}

func (s *Snapshot) isSound(digest string) bool {
	return s.info.Digest == digest && !s.damaged.Load()
}

// Changed returns a channel that is closed at the next change of any catalog: when it is pointed to other content or under
// another image, or removed. Whoever does not want to miss one asks for the channel before looking at the catalogs.
func (s *Store) Changed() <-chan struct{} {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.changed
}

// signal tells of a change, for a caller that holds mu.
func (s *Store) signal() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// previousOf is what a catalog will have served before when it is pointed to a key: what it serves now and what it
// served before, newest first, as far as it is still there and not that key again. The caller holds publish.
func (s *Store) previousOf(name, key string) []Catalog {
	s.mu.RLock()
	previous := slices.Clone(s.history[name])
	if c, ok := s.catalogs[name]; ok {
		previous = slices.Insert(without(previous, c.Snapshot.Key()), 0, c)
	}
	s.mu.RUnlock()
	return slices.DeleteFunc(without(previous, key), func(c Catalog) bool {
		_, err := s.root.Stat(path.Join(snapshotsDir, c.Snapshot.Key()))
		return err != nil
	})
}

func without(catalogs []Catalog, key string) []Catalog {
	return slices.DeleteFunc(slices.Clone(catalogs), func(c Catalog) bool { return c.Snapshot.Key() == key })
}

// recall opens what a catalog served before this process began. What cannot be opened is left out: it was swept, or is
// damaged and nobody unpacks it again. These snapshots are given by CatalogAt only; Snapshot checks one whole before
// anything is pointed to it anew.
func (s *Store) recall(name string, previous []pointed) {
	for _, p := range previous {
		snap, err := openSnapshot(s.root, p.Snapshot)
		if err != nil {
			continue
		}
		s.history[name] = append(s.history[name], Catalog{Name: name, Image: p.Image, Endpoint: p.Endpoint, Snapshot: snap, Since: p.Since})
	}
}

// forget lets go of a catalog and takes the grace from all that it alone served.
func (s *Store) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := s.history[name]
	delete(s.history, name)
	if c, ok := s.catalogs[name]; ok {
		gone = append(slices.Clone(gone), c)
		delete(s.catalogs, name)
		s.signal()
	}
	for _, c := range gone {
		if !s.servedBefore(c.Snapshot.Key()) {
			s.unpointed[c.Snapshot.Key()] = time.Time{} // long ago: no grace for what was asked to go
		}
	}
}

// servedBefore tells whether any catalog served a key before, for a caller that holds mu.
func (s *Store) servedBefore(key string) bool {
	for _, previous := range s.history {
		if len(without(previous, key)) < len(previous) {
			return true
		}
	}
	return false
}

// Changes are the names of the packages in which a snapshot differs from an older one, each list sorted. They may be
// sound or not.
type Changes struct{ Added, Changed, Removed []string }

// ChangesSince compares the packages of a snapshot with those of an older one, by their hashes: nothing is read.
func (s *Snapshot) ChangesSince(old *Snapshot) Changes {
	var out Changes
	before, now := old.packageHashes(), s.packageHashes()
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if h, ok := before[name]; !ok {
			out.Added = append(out.Added, name)
		} else if h != now[name] {
			out.Changed = append(out.Changed, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, ok := now[name]; !ok {
			out.Removed = append(out.Removed, name)
		}
	}
	return out
}

// packageHashes are the hashes of all packages by name; blobs that fail to say which they belong to make none.
func (s *Snapshot) packageHashes() map[string]string {
	hashes := map[string]string{}
	for _, p := range s.Packages() {
		hashes[p.Name] = p.Hash
	}
	for _, p := range s.info.InvalidPackages {
		hashes[p.Name] = p.Hash
	}
	delete(hashes, "")
	return hashes
}
