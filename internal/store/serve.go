package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// Serve makes a catalog serve a snapshot that Snapshot or Commit returned, and validates its packages if that has not been
// done. Both are durable when it returns. A catalog that serves other content continues with it until the packages are
// validated; one that serves nothing does not wait for that, and after a crash the next call validates them.
//
// A catalog that serves the snapshot for the same image and owner is left alone: not a byte is written, and its endpoint
// stays. Serve fails if a sweep deleted the snapshot meanwhile; then unpack it again.
func (s *Store) Serve(ctx context.Context, name string, src Source, snap *Snapshot) error {
	var previous *Snapshot
	if c, ok := s.Catalog(name); ok {
		previous = c.Snapshot
	} else if err := s.point(name, src, snap); err != nil {
		return err
	}
	if err := s.validations.ensure(ctx, snap, previous); err != nil {
		return err
	}
	return s.point(name, src, snap)
}

// point makes a catalog serve a snapshot, durably.
func (s *Store) point(name string, src Source, snap *Snapshot) error {
	s.volume.publishing.Lock()
	defer s.volume.publishing.Unlock()
	old, served := s.Catalog(name)
	decided := src.Basis != "" && src.Basis != old.Basis // a new decision, perhaps for the same content
	if old.Snapshot == snap && old.Image == src.Image && !decided {
		if old.Owner == src.Owner && !s.pointers.unsure[name] {
			return nil
		}
		src.Endpoint, src.Basis = old.Endpoint, old.Basis
	}
	next := Catalog{
		Name: name, Image: src.Image, Endpoint: src.Endpoint, Basis: src.Basis, Owner: src.Owner, Snapshot: snap, Since: old.Since,
	}
	if !served || old.Snapshot.Key() != snap.Key() || decided {
		next.Since = s.sinceAfter(old, src)
	}
	previous, err := s.writePointer(next)
	if err != nil {
		return fmt.Errorf("pointing catalog %s to its new content: %w", name, err)
	}
	s.inventory.point(next, previous, s.opts.Now())
	return nil
}

// writePointer points a catalog to a snapshot that exists, and returns the previous versions that exist. The caller holds
// publishing.
func (s *Store) writePointer(next Catalog) (previous []Catalog, err error) {
	key := next.Snapshot.Key()
	if err := s.stat(key); err != nil {
		s.inventory.drop(key)
		return nil, err
	}
	if err := s.volume.syncDir(snapshotsDir); err != nil {
		return nil, err
	}
	previous = s.inventory.previous(next.Name)
	if c, ok := s.Catalog(next.Name); ok {
		previous = slices.Insert(without(previous, c.Snapshot.Key()), 0, c)
	}
	previous = slices.DeleteFunc(without(previous, key), func(c Catalog) bool { return s.stat(c.Snapshot.Key()) != nil })
	return previous, s.pointers.write(next, previous)
}

// stat returns an error if a sweep deleted the snapshot of a key.
func (s *Store) stat(key string) error {
	_, err := s.volume.Stat(path.Join(snapshotsDir, key))
	return err
}

// sinceAfter returns since when a catalog serves a source: the source's time or now, and later than before.
func (s *Store) sinceAfter(old Catalog, src Source) time.Time {
	since := src.Since
	if since.IsZero() {
		since = s.opts.Now()
	}
	since = since.UTC().Truncate(time.Second)
	if !since.After(old.Since) {
		since = old.Since.Add(time.Second)
	}
	return since
}

// Remove stops serving a catalog and deletes its files, unless another catalog serves the same content, or served it within
// the grace period. Readers that hold its snapshot finish. A missing catalog is no error.
func (s *Store) Remove(name string) error {
	s.volume.publishing.Lock()
	defer s.volume.publishing.Unlock()
	if err := s.pointers.remove(name); err != nil {
		return fmt.Errorf("removing catalog %s: %w", name, err)
	}
	s.inventory.remove(name)
	return s.sweep(s.opts.Grace)
}

// Sweep deletes the snapshots that nothing has pointed to for the grace period, counted from when this process first saw
// that. The grace period is for clients that were sent to a snapshot, and for a return to the previous image. No other
// method deletes intact snapshots.
func (s *Store) Sweep() error {
	s.volume.publishing.Lock()
	defer s.volume.publishing.Unlock()
	return s.sweep(s.opts.Grace)
}

// Reclaim empties the cache and is Sweep without the grace period, for a full volume: there, new content counts for more than
// bundles and a return to old content.
func (s *Store) Reclaim() error {
	if err := s.cache.clear(); err != nil {
		return err
	}
	s.volume.publishing.Lock()
	defer s.volume.publishing.Unlock()
	return s.sweep(0)
}

func (s *Store) sweep(grace time.Duration) error {
	entries, err := fs.ReadDir(s.volume.FS(), snapshotsDir)
	if err != nil {
		return err
	}
	if err := s.volume.removeDeleted(); err != nil {
		return err
	}
	pointed, complete, err := s.pointers.keys()
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		key := strings.TrimSuffix(e.Name(), damagedSuffix)
		// A damaged pointer may name a snapshot that is not open. It stays until the catalog gets another pointer, or is removed.
		if pointed[key] || (!complete && s.inventory.snapshot(key) == nil) || !s.inventory.expire(e.Name(), s.opts.Now(), grace) {
			continue
		}
		if err := s.volume.unpublishDir(path.Join(snapshotsDir, e.Name())); err != nil {
			errs = append(errs, fmt.Errorf("deleting snapshot %s: %w", e.Name(), err))
		}
	}
	return errors.Join(append(errs, s.wholes.sweep(s.opts.Now(), grace))...)
}
