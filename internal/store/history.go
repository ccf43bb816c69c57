package store

import (
	"bytes"
	"iter"
	"path"
	"slices"
	"time"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// CatalogAt returns the catalog of a name as it serves the content of a version or, as long as that snapshot is kept, as it
// served it before. What is damaged is not given, as whoever asks by version keeps the answer for good: what an earlier
// process wrote is read whole for that, the first time it is asked for.
func (s *Store) CatalogAt(name, version string) (Catalog, bool) {
	c, ok := s.find(name, version)
	if !ok {
		return Catalog{}, false
	}
	if err := c.Snapshot.verifyOnce(); err != nil {
		s.opts.Logger.Error("the stored content of a catalog is damaged; it is not given to those who ask for it by digest", "catalog", name, "version", version, "error", err)
	}
	if c.Snapshot.Damaged() {
		return Catalog{}, false
	}
	return c, true
}

// find looks for a version in what a catalog serves and served.
func (s *Store) find(name, version string) (Catalog, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if c, ok := s.catalogs[name]; ok && c.Snapshot.Version() == version {
		return c, true
	}
	for _, c := range s.history[name] {
		if c.Snapshot.Version() == version {
			return c, true
		}
	}
	return Catalog{}, false
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
		_, err := s.volume.Stat(path.Join(snapshotsDir, c.Snapshot.Key()))
		return err != nil
	})
}

func without(catalogs []Catalog, key string) []Catalog {
	return slices.DeleteFunc(slices.Clone(catalogs), func(c Catalog) bool { return c.Snapshot.Key() == key })
}

// recall opens what a catalog served before this process began. What cannot be opened is left out: it was swept, or is
// damaged and nobody unpacks it again. These snapshots are given by CatalogAt only, which checks them whole; so does Snapshot
// before anything is pointed to one anew.
func (s *Store) recall(name string, previous []pointed) {
	for _, p := range previous {
		snap, err := openSnapshot(s.volume, p.Snapshot)
		if err != nil {
			continue
		}
		s.history[name] = append(s.history[name], Catalog{Name: name, Image: p.Image, Endpoint: p.Endpoint, Basis: p.Basis, Owner: p.Owner, Snapshot: snap, Since: p.Since})
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

// ChangesSince compares the packages of a snapshot with those of an older one, by their hashes: nothing is read, and no more
// is held than the names that it returns.
func (s *Snapshot) ChangesSince(old *Snapshot) Changes {
	var out Changes
	nextBefore, stop := iter.Pull2(old.contents())
	defer stop()
	nextNow, stop := iter.Pull2(s.contents())
	defer stop()
	before, was, inBefore := nextBefore()
	now, is, inNow := nextNow()
	for inBefore || inNow {
		order := bytes.Compare(before, now)
		switch { // at the end of one list, the other is next
		case !inNow:
			order = -1
		case !inBefore:
			order = 1
		}
		switch {
		case order < 0:
			out.Removed = append(out.Removed, string(before))
		case order > 0:
			out.Added = append(out.Added, string(now))
		case was != is:
			out.Changed = append(out.Changed, string(now))
		}
		if order <= 0 {
			before, was, inBefore = nextBefore()
		}
		if order >= 0 {
			now, is, inNow = nextNow()
		}
	}
	return out
}

// contents gives the name and the hash of each package, sound or not, in the order of the names. Blobs that fail to say which
// they belong to make none.
func (s *Snapshot) contents() iter.Seq2[[]byte, fbc.Hash] {
	if !s.Validated() {
		return s.undescribedContents()
	}
	return func(yield func([]byte, fbc.Hash) bool) {
		for p, r := range s.records() {
			if name := p.name(r); len(name) > 0 && !yield(name, r.content) {
				return
			}
		}
	}
}

// undescribedContents are contents, of the index alone.
func (s *Snapshot) undescribedContents() iter.Seq2[[]byte, fbc.Hash] {
	return func(yield func([]byte, fbc.Hash) bool) {
		for _, g := range s.packageBlobs() {
			if name := s.index.key(g.key); len(name) > 0 && !yield(name, s.contentOf(g.blobs)) {
				return
			}
		}
	}
}
