package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"
)

// Remove makes a catalog no longer served and deletes its files, unless another catalog serves the same content, or did
// within the grace period. Readers that hold its snapshot finish. It is no error when there is no such catalog.
func (s *Store) Remove(name string) error {
	s.publish.Lock()
	defer s.publish.Unlock()
	if err := s.root.Remove(catalogsDir + "/" + name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing catalog %s: %w", name, err)
	}
	if err := syncDir(s.root, catalogsDir); err != nil {
		return fmt.Errorf("removing catalog %s: %w", name, err)
	}
	s.forget(name)
	return s.sweep(s.opts.Grace)
}

// Sweep deletes the snapshots that nothing has pointed to for the grace period, counted from when this process first saw
// that: a client that was sent to one, and an admin who goes back to the last image, find it for that long. Snapshots are
// deleted here and nowhere else.
func (s *Store) Sweep() error {
	s.publish.Lock()
	defer s.publish.Unlock()
	return s.sweep(s.opts.Grace)
}

// Reclaim is Sweep without the grace period: for a volume that is full, where room for new content counts for more than
// the way back to old.
func (s *Store) Reclaim() error {
	s.publish.Lock()
	defer s.publish.Unlock()
	return s.sweep(0)
}

// sweep is Sweep for a caller that holds publish.
func (s *Store) sweep(grace time.Duration) error {
	entries, err := fs.ReadDir(s.root.FS(), snapshotsDir)
	if err != nil {
		return err
	}
	pointed, err := s.pointedOnDisk()
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if pointed[strings.TrimSuffix(e.Name(), damagedSuffix)] || !s.condemn(e.Name(), grace) {
			continue
		}
		if err := unpublishDir(s.root, path.Join(snapshotsDir, e.Name())); err != nil {
			errs = append(errs, fmt.Errorf("deleting snapshot %s: %w", e.Name(), err))
		}
	}
	return errors.Join(errs...)
}

// pointedOnDisk are the keys that pointer files name, which is more than what is served: a snapshot that could not be
// opened at start, or a pointer that was replaced but may not be durable.
func (s *Store) pointedOnDisk() (map[string]bool, error) {
	entries, err := fs.ReadDir(s.root.FS(), catalogsDir)
	if err != nil {
		return nil, err
	}
	keys := map[string]bool{}
	for _, e := range entries {
		if p, err := s.readPointer(e.Name()); err == nil {
			keys[p.Snapshot] = true
		}
	}
	return keys, nil
}

// condemn tells whether a snapshot is to be deleted now, and then lets go of it.
func (s *Store) condemn(key string, grace time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.catalogs {
		if c.Snapshot.Key() == key {
			delete(s.unpointed, key)
			return false
		}
	}
	now := s.opts.Now()
	since, seen := s.unpointed[key]
	if !seen {
		since = now
		s.unpointed[key] = since
	}
	if now.Sub(since) < grace {
		return false
	}
	delete(s.unpointed, key)
	delete(s.snapshots, key)
	for name, previous := range s.history {
		s.history[name] = without(previous, key)
	}
	return true
}

// Scrub compares every catalog that is served with its checksums and returns the names of those whose files are
// damaged. They go on being served; Snapshot no longer gives them, so that whoever keeps a catalog current unpacks it
// again. Compressed forms that are damaged are deleted, and Compress makes them again.
func (s *Store) Scrub(ctx context.Context) (damaged []string, err error) {
	checked := map[*Snapshot]bool{}
	for _, c := range s.Catalogs() {
		if err := ctx.Err(); err != nil {
			return damaged, err
		}
		if !checked[c.Snapshot] {
			checked[c.Snapshot] = true
			if err := c.Snapshot.verify(); err != nil {
				s.opts.Logger.Error("the stored content of a catalog is damaged; it will be unpacked again", "catalog", c.Name, "error", err)
				c.Snapshot.damaged.Store(true)
			} else {
				c.Snapshot.verified.Do(func() {})
				if err := s.scrubForms(ctx, c.Snapshot); err != nil {
					return damaged, err
				}
			}
		}
		if c.Snapshot.damaged.Load() {
			damaged = append(damaged, c.Name)
		}
	}
	return damaged, nil
}
