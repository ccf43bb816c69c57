package store

import (
	"context"
	"path"
)

// Scrub verifies every served catalog and returns the names of the damaged ones. Their intact blobs are still served;
// Snapshot does not return damaged snapshots, so internal/sync unpacks them again. Scrub rewrites derived files and
// files whose content is in memory. It deletes damaged compressed forms; Compress writes them again.
func (s *Store) Scrub(ctx context.Context) (damaged []string, err error) {
	checked := map[*Snapshot]bool{}
	for _, c := range s.Catalogs() {
		if err := ctx.Err(); err != nil {
			return damaged, err
		}
		if !checked[c.Snapshot] {
			checked[c.Snapshot] = true
			if err := s.scrub(ctx, c); err != nil {
				return damaged, err
			}
		}
		s.mendPointer(c.Name)
		if c.Snapshot.Damaged() {
			damaged = append(damaged, c.Name)
		}
	}
	return damaged, s.wholes.scrub(ctx, s.opts.Logger)
}

// scrub verifies a snapshot. Its only error is that of ctx; others are logged.
func (s *Store) scrub(ctx context.Context, c Catalog) error {
	snap := c.Snapshot
	s.mendFiles(c)
	if err := snap.verify(ctx); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !s.mendCatalog(ctx, c) {
			s.opts.Logger.Error("the stored content of a catalog is damaged; it will be unpacked again", "catalog", c.Name, "error", err)
			return ctx.Err()
		}
	}
	if snap.Damaged() { // nothing proves its content; until it is unpacked again, its packages are shown
		if err := s.validations.ensure(ctx, snap, nil); err != nil && ctx.Err() == nil {
			s.opts.Logger.Error("cannot validate the packages of a catalog", "catalog", c.Name, "error", err)
		}
		return ctx.Err()
	}
	snap.markVerified()
	if damaged, err := s.validations.mend(ctx, snap); damaged && ctx.Err() == nil {
		s.logMended(err, c.Name, packagesFile)
	}
	return s.compressor.scrub(ctx, snap)
}

// mendFiles rewrites index and snapshot.json if they differ from memory.
func (s *Store) mendFiles(c Catalog) {
	snap := c.Snapshot
	if d := snap.damage.Load(); d != nil && d.whole {
		return // memory is no better
	}
	for _, file := range []struct {
		name string
		data []byte
	}{{indexFile, snap.index.data}, {snapshotFile, snap.index.info}} {
		if s.volume.endsWith(path.Join(snap.dir, file.name), file.data, int64(len(file.data))) {
			continue
		}
		s.logMended(s.volume.replaceFile(snap.dir, file.name, bytesOf(file.data)), c.Name, file.name)
	}
}

// mendCatalog reports whether it restored the blobs of a snapshot that verify found damaged.
func (s *Store) mendCatalog(ctx context.Context, c Catalog) bool {
	snap := c.Snapshot
	d := snap.damage.Load()
	if d.whole || s.mender.restore(ctx, snap) != nil {
		return false
	}
	snap.damage.Store(nil)
	s.opts.Logger.Warn("a stored catalog was damaged; it is restored from a compressed form", "catalog", c.Name, "error", d.err)
	return true
}

// mendPointer rewrites the pointer of a catalog if it differs from the inventory.
func (s *Store) mendPointer(name string) {
	s.volume.publishing.Lock()
	defer s.volume.publishing.Unlock()
	c, served := s.Catalog(name)
	if !served {
		return
	}
	if p, err := s.pointers.read(name); err != nil || !p.pointed.equal(newPointed(c)) {
		s.logMended(s.pointers.write(c, s.inventory.previous(name)), name, path.Join(catalogsDir, name))
	}
}

func (s *Store) logMended(err error, catalog, file string) {
	if err != nil {
		s.opts.Logger.Error("cannot rewrite a damaged file of a stored catalog", "catalog", catalog, "file", file, "error", err)
		return
	}
	s.opts.Logger.Warn("a file of a stored catalog was damaged; it is written again", "catalog", catalog, "file", file)
}
