// Package store keeps catalogs on the persistent volume. No other package writes there.
//
// A snapshot is the content of one catalog image. It is written once and named by its content. A pointer file names the
// snapshot that a catalog serves, and is replaced by rename. After a crash at any instruction a catalog serves its old or
// its new content, complete. A commit never changes a snapshot that a reader holds.
//
//	<root>/format                       layout version; for other layouts see layout.go
//	<root>/lock                         locked by the process that uses the volume
//	<root>/catalogs/<name>              pointer: the served snapshot, since when, and the versions served before
//	<root>/snapshots/<key>/             immutable; key = digest + config dir + layout version + filter
//	    catalog.jsonl                   every blob, one line of compact JSON each, in the order of the walk
//	    index                           positions and hashes of the blobs, by schema, package, name and provided APIs;
//	                                    a copy of snapshot.json; checksummed, read in place
//	    snapshot.json                   source, counts, sizes; read only to rebuild a damaged index
//	    packages                        results of the validation: valid packages with summaries, reasons for invalid ones
//	    catalog.jsonl.zst, .gz          compressed forms, written in the background
//	    olmv0                           what package olmv0 derived of it
//	<root>/whole/<key>                  compressed catalog of which snapshots are subsets, whose keys begin with this one
//	<root>/stage/                       work in progress; emptied at start
//	<root>/refused/<key>                why an image was refused; emptied at start
//
// The parts: volume (every operation on the disk), inventory (what this process has open), pointers, mender (damaged files
// at start), validations, compressor and scrubber. Store composes them.
package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path"
	"strings"
	"syscall"
	"time"
)

const (
	formatFile   = "format"
	lockFile     = "lock"
	catalogsDir  = "catalogs"
	snapshotsDir = "snapshots"
	stageDir     = "stage"
	refusedDir   = "refused"
	cacheDir     = "bundles"
	wholeDir     = "whole"
)

var ownDirs = []string{catalogsDir, snapshotsDir, stageDir, refusedDir, cacheDir, wholeDir}

// Options configure Open. The zero value is valid.
type Options struct {
	Logger       *slog.Logger     // default: slog.Default()
	Grace        time.Duration    // how long Sweep keeps an unreferenced snapshot; default 15 minutes
	Limit        int64            // bytes that the store may use; 0: as many as the volume has
	CacheBytes   int64            // limit of the Cache; 0: nothing is cached
	MaxBlobBytes int64            // size limit of a blob; default scan.DefaultMaxBlobBytes
	Now          func() time.Time // default: time.Now

	step func(operation) error // called before each operation on the volume; for tests
}

// Catalog is a catalog and the content that it serves.
type Catalog struct {
	Name     string
	Image    string // the reference that was resolved; catalogs with the same digest share a snapshot
	Endpoint string // as in Source
	Basis    string // as in Source
	Owner    string // as in Source; empty in pointers of earlier releases
	Snapshot *Snapshot
	// Since is when the catalog began to serve the snapshot: UTC, whole seconds, and later than for any snapshot that it
	// served before, so it is valid in Last-Modified (RFC 9110, section 8.8.2).
	Since time.Time
}

// Store is an opened volume. It is safe for concurrent use.
type Store struct {
	opts   Options
	root   *volume // where the volume begins
	volume *volume // the directory of this layout: root, or a directory in it
	lock   *os.File

	space       *space
	inventory   *inventory
	pointers    *pointers
	mender      *mender
	validations *validations
	compressor  *compressor
	cache       *Cache
	wholes      *wholes
	pinger      *pinger
}

// Open opens the volume at dir and every catalog on it. It creates a missing directory and sends no request. A catalog
// whose snapshot cannot be read is logged and left out; its owner finds it missing and unpacks it again.
//
// A volume that holds a store but cannot be written (full, or read-only) is opened: stored catalogs are served, and writes
// fail. Stores of other layouts stay untouched. Open fails while another process has the volume open.
func Open(dir string, opts Options) (*Store, error) {
	opts.Logger = cmp.Or(opts.Logger, slog.Default())
	opts.Grace = cmp.Or(opts.Grace, 15*time.Minute)
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.MaxBlobBytes >= math.MaxUint32 {
		return nil, fmt.Errorf("opening the store: blob size limit of %d bytes: the index supports less than 4 GiB", opts.MaxBlobBytes)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("opening the store: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the store: %w", err)
	}
	s := &Store{opts: opts, root: &volume{Root: root, step: opts.step}}
	if err := s.open(); err != nil {
		_ = s.Close() // the first error counts
		return nil, fmt.Errorf("opening the store %s: %w", dir, err)
	}
	return s, nil
}

func (s *Store) open() (err error) {
	if s.lock, err = lockVolume(s.root); err != nil {
		return err
	}
	if s.volume, err = chooseLayout(s.root); err != nil {
		return err
	}
	log := s.opts.Logger
	s.space = &space{root: s.root, limit: s.opts.Limit}
	s.inventory = newInventory()
	s.pointers = &pointers{volume: s.volume, unsure: map[string]bool{}}
	s.mender = &mender{s.volume, s.space, log}
	s.validations = &validations{s.volume, s.inventory}
	s.compressor = &compressor{
		volume: s.volume, space: s.space, inventory: s.inventory, log: log, retry: make(chan struct{}, 1),
	}
	s.cache = newCache(s.volume, s.space, s.opts.CacheBytes)
	s.wholes = &wholes{volume: s.volume, inventory: s.inventory, held: map[string]int{}}
	s.pinger = &pinger{volume: s.volume}
	if err := errors.Join(s.volume.prepare(), s.volume.dropReplaced(), s.cache.load()); err != nil {
		if entries, _ := fs.ReadDir(s.volume.FS(), catalogsDir); len(entries) == 0 {
			return err
		}
		log.Error("the volume is not writable; serving the stored catalogs", "error", err)
	}
	return s.openCatalogs()
}

// Close unlocks the volume, so that another process can open it. Readers keep the snapshots that they hold.
func (s *Store) Close() error {
	var errs []error
	if s.lock != nil {
		errs = append(errs, s.lock.Close()) // unlocks it
	}
	if s.volume != nil && s.volume != s.root {
		errs = append(errs, s.volume.Close())
	}
	return errors.Join(append(errs, s.root.Close())...)
}

// lockVolume locks the volume for this process: a second one would empty its stage. The kernel unlocks it when the process
// ends.
func lockVolume(v *volume) (*os.File, error) {
	f, err := v.OpenFile(lockFile, os.O_CREATE|os.O_RDWR, 0o644)
	if errors.Is(err, syscall.EROFS) {
		f, err = v.Open(lockFile)
	}
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return f, fmt.Errorf("another process uses the volume; each catalogd needs its own (locking %s: %w)", lockFile, err)
	}
	return f, nil
}

// prepare creates missing directories and empties those whose content ends with the process. It does not recreate them: a
// full volume has no room for new directories.
func (v *volume) prepare() error {
	for _, dir := range ownDirs {
		if err := v.ensureDir(dir); err != nil {
			return err
		}
	}
	for _, dir := range []string{stageDir, refusedDir} {
		entries, err := fs.ReadDir(v.FS(), dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := v.RemoveAll(path.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return errors.Join(v.syncDir("."), v.syncDir(catalogsDir))
}

// dropReplaced deletes damaged snapshots that have a replacement.
func (v *volume) dropReplaced() error {
	entries, err := fs.ReadDir(v.FS(), snapshotsDir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		key, damaged := strings.CutSuffix(e.Name(), damagedSuffix)
		if _, err := v.Lstat(path.Join(snapshotsDir, key)); !damaged || err != nil {
			continue
		}
		if err := v.unpublishDir(path.Join(snapshotsDir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) openCatalogs() error {
	entries, err := fs.ReadDir(s.volume.FS(), catalogsDir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), tempPrefix) {
			_ = s.volume.Remove(path.Join(catalogsDir, e.Name())) // left by a crash
			continue
		}
		if err := s.openCatalog(e.Name()); err != nil {
			s.opts.Logger.Warn("cannot serve the stored content of a catalog; it will be unpacked again",
				"catalog", e.Name(), "error", err)
		}
	}
	return nil
}

func (s *Store) openCatalog(name string) error {
	p, err := s.pointers.read(name)
	if err != nil {
		return err
	}
	previous := s.openPrevious(name, p.Previous)
	s.inventory.setHistory(name, previous)
	snap := s.inventory.snapshot(p.Snapshot)
	if snap == nil {
		if snap, err = s.mender.open(p.Snapshot); err != nil {
			return err
		}
		s.inventory.put(snap)
	}
	s.inventory.point(p.catalog(name, snap), previous, s.opts.Now())
	return nil
}

// openPrevious opens the versions that a catalog served before this process started. It leaves out those that cannot be
// opened: they were swept or are damaged. CatalogAt and Snapshot verify the others before they return them.
func (s *Store) openPrevious(name string, previous []pointed) (out []Catalog) {
	for _, p := range previous {
		if snap, err := openSnapshot(s.volume, p.Snapshot); err == nil {
			out = append(out, p.catalog(name, snap))
		}
	}
	return out
}

// Catalog returns the served catalog of a name.
func (s *Store) Catalog(name string) (Catalog, bool) { return s.inventory.catalog(name) }

// Catalogs returns all served catalogs, sorted by name.
func (s *Store) Catalogs() []Catalog { return s.inventory.all() }

// Changed returns a channel that is closed at the next change of any catalog: it is pointed to other content or to another
// image, its packages are validated, or it is removed. To miss no change, get the channel before reading the catalogs.
func (s *Store) Changed() <-chan struct{} { return s.inventory.changes() }

// CatalogAt returns a catalog with the content of a version: the served one, or one served before whose snapshot still
// exists. It returns no damaged content, as clients cache it forever; what an earlier process wrote is verified first, once.
func (s *Store) CatalogAt(name, version string) (Catalog, bool) {
	c, ok := s.inventory.version(name, version)
	if !ok {
		return Catalog{}, false
	}
	if err := c.Snapshot.verifyOnce(); err != nil {
		s.opts.Logger.Error("the stored content of a catalog is damaged; requests by digest do not get it",
			"catalog", name, "version", version, "error", err)
	}
	if c.Snapshot.Damaged() {
		return Catalog{}, false
	}
	return c, true
}

// Snapshot returns the intact snapshot of a key, whether or not a catalog points to it. One that an earlier process wrote is
// verified first, once.
func (s *Store) Snapshot(key string) (*Snapshot, bool) {
	snap := s.inventory.snapshot(key)
	if snap == nil {
		opened, err := openSnapshot(s.volume, key)
		if err != nil {
			return nil, false
		}
		if err := opened.verifyOnce(); err != nil {
			s.opts.Logger.Warn("a stored snapshot is damaged; it will be unpacked again", "error", err)
		}
		snap = s.inventory.add(opened)
	}
	return snap, !snap.Damaged()
}

// Revalidate replaces damaged results of a validation. It reads the volume only. The error can be a *DamagedError.
func (s *Store) Revalidate(ctx context.Context, snap *Snapshot) error {
	return s.validations.replace(ctx, snap)
}

// Compress writes the missing compressed forms of the served catalogs, now and after each change, one at a time and at low
// priority. It returns nil when ctx ends. Call it in a goroutine of its own that ends with it. A failure is logged once for
// each snapshot and retried at the next change; until then the catalog is served uncompressed.
func (s *Store) Compress(ctx context.Context) error { return s.compressor.run(ctx) }

// Prioritize makes Compress yield the processors to urgent work of the caller until the caller calls end.
func (s *Store) Prioritize() (end func()) { return s.compressor.yield() }

// Cache returns the cache of the store.
func (s *Store) Cache() *Cache { return s.cache }

// Usage measures the store. It may or may not count files that change meanwhile.
func (s *Store) Usage() (Usage, error) { return s.space.usage() }

// Ping reports an error if the volume does not respond: requests to a network volume can hang forever. An error from the
// volume is a response. Ping writes nothing, and at most one request is pending.
func (s *Store) Ping(ctx context.Context) error { return s.pinger.ping(ctx) }

// DropOlder deletes the stores of older layouts. Call it once this store has all content. Stores of newer layouts stay, for
// a return to that release. A crash leaves a part of an older store, which is as good as none.
func (s *Store) DropOlder() error { return dropOlder(s.root, s.volume, s.opts.Logger) }
