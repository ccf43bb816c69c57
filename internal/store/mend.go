package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// What of a snapshot follows from the rest is made again from that, without any network:
//
//	index           of catalog.jsonl and snapshot.json, when the store is opened; of memory, by Scrub
//	snapshot.json   of the index
//	catalog.jsonl   of a compressed form, if that has all blobs as the index says
//	packages, .zst, .gz   of catalog.jsonl
//
// What is left is for whoever keeps the catalog current to unpack again.

// openServed opens the snapshot that a catalog serves, whatever can be had of it.
func (s *Store) openServed(key string) (snap *Snapshot, err error) {
	dir := path.Join(snapshotsDir, key)
	if snap, err = s.openMended(key, dir); !errors.Is(err, fs.ErrNotExist) {
		return snap, err
	}
	aside, asideErr := s.openMended(key, dir+damagedSuffix)
	if asideErr != nil {
		return nil, err
	}
	aside.damage.Store(&damage{whole: true, err: errors.New("it was found damaged, and is to be replaced")}) // where, Scrub finds
	return aside, nil
}

func (s *Store) openMended(key, dir string) (*Snapshot, error) {
	snap, err := openIndexed(s.volume, key, dir)
	if err != nil {
		return s.rebuild(key, dir, err)
	}
	if err := snap.openCatalog(); err != nil {
		if restoreErr := s.restore(context.Background(), snap); restoreErr != nil {
			return nil, fmt.Errorf("%w; it cannot be made of a compressed form: %w", err, restoreErr)
		}
		s.opts.Logger.Warn("a stored catalog was damaged; it is made again of its compressed form", "key", key, "error", err)
	}
	snap.openDescription()
	return snap, nil
}

// rebuild opens a snapshot whose index cannot be used, for a reason that is given, with one that is made of catalog.jsonl. If
// the description of its packages belongs to an index like that, the content is what was unpacked, and all is well; else it is
// served, and to be unpacked again.
func (s *Store) rebuild(key, dir string, why error) (*Snapshot, error) {
	info, err := s.volume.ReadFile(path.Join(dir, snapshotFile))
	if err != nil {
		return nil, why
	}
	snap := &Snapshot{key: key, dir: dir, volume: s.volume}
	if snap.info, err = readInfo(info, key); err == nil {
		snap.index, err = rebuildIndex(s.volume, dir, info, snap.info)
	}
	if err == nil {
		err = snap.openCatalog()
	}
	if err == nil {
		err = snap.verify(context.Background()) // it may have been read as other lines than it has
	}
	if err != nil {
		return nil, fmt.Errorf("%w; it cannot be made of %s: %w", why, catalogFile, err)
	}
	if snap.openDescription(); snap.Validated() {
		snap.verified.Do(func() {})
	} else {
		snap.damage.Store(&damage{whole: true, err: why})
	}
	s.opts.Logger.Warn("the index of a stored catalog was damaged; it is made again of the catalog", "key", key, "proven", snap.Validated(), "error", why)
	return snap, nil
}

// rebuildIndex makes the index of a catalog.jsonl, but for the files that it came from: nothing is reused of them.
func rebuildIndex(v *volume, dir string, infoText []byte, info Info) (*index, error) {
	root, err := v.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close() // read only
	keys, f := newKeyTable(), &readFile{}
	err = fbc.ReadFile(root.FS(), catalogFile, math.MaxUint32-1, func(blob fbc.Blob) error {
		f.add(keys, blob)
		return nil
	})
	if err != nil {
		return nil, err
	}
	b := newIndexBuilder(keys, []*readFile{f})
	b.files = nil
	have := info
	if b.count(&have); have != info {
		return nil, fmt.Errorf("it has %d blobs and %d bytes, not the %d and %d of %s", have.Blobs, have.Bytes, info.Blobs, info.Bytes, snapshotFile)
	}
	return openIndex(b.bytes(infoText))
}

// restore makes catalog.jsonl of the first compressed form that has all blobs, and opens it. Readers that hold the file from
// before go on with it.
//
//	write(stage) fsync(stage) close rename(stage, snapshot) fsync(snapshot)
func (s *Store) restore(ctx context.Context, snap *Snapshot) error {
	u, err := s.Usage()
	if err != nil {
		return err
	}
	if u.Free < snap.info.Bytes {
		return &NoRoomError{snap.info.Bytes, u}
	}
	var errs []error
	for _, c := range codecs() {
		if _, err := s.volume.Lstat(snap.form(c)); err != nil {
			errs = append(errs, err)
			continue
		}
		err := s.replaceFile(snap, catalogFile, func(w io.Writer) error { return snap.decodeForm(ctx, c, w) })
		if err == nil {
			return snap.openCatalog()
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// replaceFile writes a file of a snapshot, as a whole or not at all. It is no error when the snapshot is deleted meanwhile.
func (s *Store) replaceFile(snap *Snapshot, name string, write func(io.Writer) error) error {
	staged := s.stageName() + "-" + name
	if err := s.volume.writeFile(staged, write); err != nil {
		return err
	}
	s.publish.Lock()
	defer s.publish.Unlock()
	if _, err := s.volume.Lstat(snap.dir); errors.Is(err, fs.ErrNotExist) {
		return s.volume.Remove(staged)
	}
	return s.volume.publishFile(staged, path.Join(snap.dir, name))
}

// mendFiles writes index and snapshot.json again if they are not what is in memory.
func (s *Store) mendFiles(c Catalog) {
	snap := c.Snapshot
	if d := snap.damage.Load(); d != nil && d.whole {
		return // memory knows no better
	}
	for _, file := range []struct {
		name string
		data []byte
	}{{indexFile, snap.index.data}, {snapshotFile, snap.index.info}} {
		if s.volume.holds(path.Join(snap.dir, file.name), file.data) {
			continue
		}
		s.logMended(s.replaceFile(snap, file.name, bytesOf(file.data)), c.Name, file.name)
	}
}

// mendPointer writes the pointer of a catalog again if it does not say what the catalog serves.
func (s *Store) mendPointer(name string) {
	s.publish.Lock()
	defer s.publish.Unlock()
	c, served := s.Catalog(name)
	if !served {
		return
	}
	p, err := s.readPointer(name)
	if err == nil && p.pointed.equal(newPointed(c)) {
		return
	}
	s.mu.RLock()
	previous := s.history[name]
	s.mu.RUnlock()
	s.logMended(s.writePointer(c, previous), name, path.Join(catalogsDir, name))
}

func (s *Store) logMended(err error, catalog, file string) {
	if err != nil {
		s.opts.Logger.Error("a file of a stored catalog is damaged, and cannot be written again", "catalog", catalog, "file", file, "error", err)
		return
	}
	s.opts.Logger.Warn("a file of a stored catalog was damaged; it is written again", "catalog", catalog, "file", file)
}

// mendCatalog tells whether the blobs of a snapshot that verify found damaged are sound again.
func (s *Store) mendCatalog(ctx context.Context, c Catalog) bool {
	snap := c.Snapshot
	d := snap.damage.Load()
	if d.whole || s.restore(ctx, snap) != nil {
		return false
	}
	snap.damage.Store(nil)
	s.opts.Logger.Warn("a stored catalog was damaged; it is made again of its compressed form", "catalog", c.Name, "error", d.err)
	return true
}

// mendPackages describes the packages again if what the volume has of that is missing or damaged.
func (s *Store) mendPackages(ctx context.Context, c Catalog) {
	snap, mend := c.Snapshot, s.Revalidate
	switch known := snap.description.Load(); {
	case known == nil:
		mend = func(ctx context.Context, snap *Snapshot) error { return s.describe(ctx, snap, nil) }
	case known.verify() == nil && s.volume.endsWith(path.Join(snap.dir, packagesFile), known.table, known.size):
		return
	}
	if err := mend(ctx, snap); ctx.Err() == nil {
		s.logMended(err, c.Name, packagesFile)
	}
}

// holds tells whether a file has this content.
func (v *volume) holds(name string, want []byte) bool {
	return v.endsWith(name, want, int64(len(want)))
}

// endsWith tells whether a file has a size, and ends with some bytes.
func (v *volume) endsWith(name string, end []byte, size int64) bool {
	f, err := v.Open(name)
	if err != nil {
		return false
	}
	defer f.Close() // read only
	if stat, err := f.Stat(); err != nil || stat.Size() != size {
		return false
	}
	buf := make([]byte, min(len(end), 256<<10))
	for at := size - int64(len(end)); len(end) > 0; {
		n := min(len(buf), len(end))
		if _, err := f.ReadAt(buf[:n], at); err != nil || !bytes.Equal(buf[:n], end[:n]) {
			return false
		}
		at, end = at+int64(n), end[n:]
	}
	return true
}
