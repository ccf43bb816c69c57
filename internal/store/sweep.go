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
	s.unsure[name] = true
	if err := s.volume.Remove(catalogsDir + "/" + name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing catalog %s: %w", name, err)
	}
	if err := s.volume.syncDir(catalogsDir); err != nil {
		return fmt.Errorf("removing catalog %s: %w", name, err)
	}
	delete(s.unsure, name)
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
	entries, err := fs.ReadDir(s.volume.FS(), snapshotsDir)
	if err != nil {
		return err
	}
	graves, err := fs.Glob(s.volume.FS(), stageDir+"/deleted-*")
	if err != nil {
		return err
	}
	for _, g := range graves {
		if err := s.volume.RemoveAll(g); err != nil {
			return err
		}
	}
	pointed, unknown, err := s.pointedOnDisk()
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		key := strings.TrimSuffix(e.Name(), damagedSuffix)
		if pointed[key] || (unknown && !s.isOpen(key)) || !s.condemn(e.Name(), grace) {
			continue
		}
		if err := s.volume.unpublishDir(path.Join(snapshotsDir, e.Name())); err != nil {
			errs = append(errs, fmt.Errorf("deleting snapshot %s: %w", e.Name(), err))
		}
	}
	return errors.Join(errs...)
}

// pointedOnDisk are the keys that pointer files name, which is more than what is served: a snapshot that could not be
// opened at start, or a pointer that was replaced but may not be durable. While a pointer is damaged, others may be pointed to,
// which this process has not opened: they stay until the catalog of that pointer has another, or is removed.
func (s *Store) pointedOnDisk() (keys map[string]bool, unknown bool, err error) {
	entries, err := fs.ReadDir(s.volume.FS(), catalogsDir)
	if err != nil {
		return nil, false, err
	}
	keys = map[string]bool{}
	for _, e := range entries {
		p, err := s.readPointer(e.Name())
		if err == nil {
			keys[p.Snapshot] = true
		} else if !strings.HasPrefix(e.Name(), tempPrefix) {
			unknown = true
		}
	}
	return keys, unknown, nil
}

// isOpen tells whether this process has a snapshot open that catalogs may be pointed to.
func (s *Store) isOpen(key string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.snapshots[key] != nil
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
	if snap, ok := s.snapshots[key]; ok && snap.awaited.Load() > 0 {
		return false // even if it has no grace, as its last catalog was removed
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
// damaged. What is sound of them goes on being served; Snapshot no longer gives them, so that whoever keeps a catalog
// current unpacks it again. What can be made of the rest, or is in memory, is written again here, but for compressed forms:
// that does Compress.
func (s *Store) Scrub(ctx context.Context) (damaged []string, err error) {
	checked := map[*Snapshot]bool{}
	for _, c := range s.Catalogs() {
		if err := ctx.Err(); err != nil {
			return damaged, err
		}
		if !checked[c.Snapshot] {
			checked[c.Snapshot] = true
			s.mendFiles(c)
			if err := s.scrub(ctx, c); err != nil {
				return damaged, err
			}
		}
		s.mendPointer(c.Name)
		if c.Snapshot.Damaged() {
			damaged = append(damaged, c.Name)
		}
	}
	return damaged, nil
}

// scrub checks one snapshot. Its only error is that of ctx; what else fails is logged.
func (s *Store) scrub(ctx context.Context, c Catalog) error {
	snap := c.Snapshot
	if err := snap.verify(ctx); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !s.mendCatalog(ctx, c) {
			s.opts.Logger.Error("the stored content of a catalog is damaged; it will be unpacked again", "catalog", c.Name, "error", err)
			return ctx.Err()
		}
	}
	if snap.Damaged() { // nothing proves what it has: it is to be unpacked again, and shows its packages until then
		if err := s.describe(ctx, snap, nil); err != nil && ctx.Err() == nil {
			s.opts.Logger.Error("cannot describe the packages of a catalog", "catalog", c.Name, "error", err)
		}
		return ctx.Err()
	}
	snap.verified.Do(func() {})
	s.mendPackages(ctx, c)
	return s.scrubForms(ctx, snap)
}
