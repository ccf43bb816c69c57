// Package store keeps catalogs on the persistent volume. It is the only code that writes there.
//
// A snapshot is the content of one catalog image: written once, never altered, named by what it is. A catalog is a
// pointer file that names the snapshot it serves, replaced by rename. So a crash at any instruction leaves the old or
// the new content, whole, and a reader who holds a snapshot goes on reading it whatever is committed meanwhile.
//
//	<root>/format                       version of this layout; of others, see layout.go
//	<root>/lock                         held by the process that uses the volume
//	<root>/catalogs/<name>              pointer: the snapshot a catalog serves and since when, and those it served before
//	<root>/snapshots/<key>/             immutable; key = digest + config dir + layout version
//	    catalog.jsonl                   every blob, one compact JSON line each, in walk order
//	    index                           where the blobs are, by schema, package, name and what bundles provide, and
//	                                    their hashes, and what snapshot.json has; checksummed, read in place
//	    snapshot.json                   source, counts, sizes; read only to make an index that is damaged again
//	    packages                        which packages are sound, with summaries of those; made after the rest
//	    catalog.jsonl.zst, .gz          catalog.jsonl compressed; made later, and again if they are missing or damaged
//	<root>/stage/                       work in progress; emptied at start
//	<root>/refused/<key>                why an image was refused; emptied at start
package store

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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
)

var ownDirs = []string{catalogsDir, snapshotsDir, stageDir, refusedDir}

// Options are what Open may be told; the zero value will do.
type Options struct {
	Logger       *slog.Logger     // default: slog.Default()
	Grace        time.Duration    // how long a snapshot that nothing points to is kept; default 15 minutes
	Limit        int64            // bytes that the store may take; 0: what the volume has
	MaxBlobBytes int64            // the largest blob that is accepted; default fbc.DefaultMaxBlobBytes
	Now          func() time.Time // default: time.Now

	step func(operation) error // asked before each operation on the volume: for tests
}

// Catalog is one catalog as it is served.
type Catalog struct {
	Name     string
	Image    string // the reference that led to the snapshot; catalogs of one digest share it under several
	Endpoint string // the reference by digest at which the registry had it; may be empty
	Basis    string // that of the Source
	Owner    string // that of the Source; empty if an earlier release pointed to it
	Snapshot *Snapshot
	// Since is when the catalog began to serve this snapshot: whole seconds, UTC, and later than for any snapshot it
	// served before, so that it can stand in Last-Modified (RFC 9110, section 8.8.2).
	Since time.Time
}

// Store is an opened volume. It is safe for concurrent use.
type Store struct {
	volume *volume
	top    *volume // the root, if the store is in a directory below it
	lock   *os.File
	opts   Options

	// publish serialises what alters catalogs/ and snapshots/. It is held for renames and fsyncs only, never while a
	// stage is filled, so one catalog does not wait for another.
	publish sync.Mutex

	// mu guards what is below: opened handles, so that readers need not ask the disk. It is never held during I/O.
	mu         sync.RWMutex
	catalogs   map[string]Catalog
	history    map[string][]Catalog // by name: what a catalog served before and is still there, newest first
	unsure     map[string]bool      // catalogs whose pointer on the volume may be another than is served, as replacing or removing it failed
	snapshots  map[string]*Snapshot // by key; sound ones only
	unpointed  map[string]time.Time // by key: since when nothing points to it any more, as far as this process has seen
	asked      chan struct{}        // closed when the volume answers what Answers asked; nil: nothing is asked
	changed    chan struct{}        // closed and replaced when a catalog changes
	stageCount int

	// urgent is how many are at work that somebody waits for, those with a stage among them.
	urgent atomic.Int32

	// recompress has room for one: whoever deletes a damaged compressed form asks Compress for another.
	recompress chan struct{}
}

// Open opens the volume at dir, which is made if missing, and every catalog in it, without any other request. A
// catalog whose snapshot cannot be read is logged and left out: whoever keeps it current finds it missing and unpacks
// it again.
//
// A volume that cannot be written, full or read-only, is opened all the same if it holds a store: what is there is served,
// and what has to be written fails when it is.
//
// What a catalogd of another version stored in a layout of its own is left as it is. It is an error when another process has the volume open.
func Open(dir string, opts Options) (*Store, error) {
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if opts.Grace == 0 {
		opts.Grace = 15 * time.Minute
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.MaxBlobBytes >= math.MaxUint32 {
		return nil, fmt.Errorf("opening the store: a blob of %d bytes is more than the index can hold; the bound has to be below 4 GiB", opts.MaxBlobBytes)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("opening the store: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the store: %w", err)
	}
	s := &Store{
		volume: &volume{root, opts.step}, opts: opts,
		catalogs: map[string]Catalog{}, history: map[string][]Catalog{}, snapshots: map[string]*Snapshot{}, unpointed: map[string]time.Time{},
		unsure: map[string]bool{}, changed: make(chan struct{}), recompress: make(chan struct{}, 1),
	}
	if err := s.open(); err != nil {
		_ = s.Close() // the error that counts is the one we have
		return nil, fmt.Errorf("opening the store %s: %w", dir, err)
	}
	return s, nil
}

func (s *Store) open() error {
	for _, step := range []func() error{s.takeLock, s.chooseLayout} {
		if err := step(); err != nil {
			return err
		}
	}
	if err := errors.Join(s.makeDirs(), s.dropReplaced()); err != nil {
		if entries, _ := fs.ReadDir(s.volume.FS(), catalogsDir); len(entries) == 0 {
			return err
		}
		s.opts.Logger.Error("the volume cannot be written; what is stored is served", "error", err)
	}
	return s.openCatalogs()
}

// Close lets the volume go, for another process to open. Readers keep what they hold.
func (s *Store) Close() error {
	var errs []error
	if s.lock != nil {
		errs = append(errs, s.lock.Close()) // closing it gives the lock up
	}
	if s.top != nil {
		errs = append(errs, s.top.Close())
	}
	return errors.Join(append(errs, s.volume.Close())...)
}

// takeLock makes sure that this process is alone: a second one would empty the stage under us. The kernel gives the
// lock up when the process ends, however it ends.
func (s *Store) takeLock() error {
	f, err := s.volume.OpenFile(lockFile, os.O_CREATE|os.O_RDWR, 0o644)
	if errors.Is(err, syscall.EROFS) {
		f, err = s.volume.Open(lockFile) // enough for a lock
	}
	if err != nil {
		return err
	}
	s.lock = f
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("another process uses it; each catalogd needs a volume of its own (locking %s: %w)", lockFile, err)
	}
	return nil
}

// makeDirs makes what is missing and empties what does not outlive a process. The directories themselves stay, as a full
// volume would have no room for new ones.
func (s *Store) makeDirs() error {
	for _, dir := range ownDirs {
		if err := s.volume.ensureDir(dir); err != nil {
			return err
		}
	}
	for _, dir := range []string{stageDir, refusedDir} {
		entries, err := fs.ReadDir(s.volume.FS(), dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := s.volume.RemoveAll(path.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	for _, dir := range []string{".", catalogsDir} {
		if err := s.volume.syncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// dropReplaced deletes damaged snapshots whose replacement is there.
func (s *Store) dropReplaced() error {
	entries, err := fs.ReadDir(s.volume.FS(), snapshotsDir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		key, damaged := strings.CutSuffix(e.Name(), damagedSuffix)
		if _, err := s.volume.Lstat(path.Join(snapshotsDir, key)); !damaged || err != nil {
			continue
		}
		if err := s.volume.unpublishDir(path.Join(snapshotsDir, e.Name())); err != nil {
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
			_ = s.volume.Remove(catalogsDir + "/" + e.Name()) // of a write that a crash cut short
			continue
		}
		if err := s.openCatalog(e.Name()); err != nil {
			s.opts.Logger.Warn("cannot serve the stored content of a catalog; it will be unpacked again", "catalog", e.Name(), "error", err)
		}
	}
	return nil
}

func (s *Store) openCatalog(name string) error {
	p, err := s.readPointer(name)
	if err != nil {
		return err
	}
	s.recall(name, p.Previous)
	snap, ok := s.snapshots[p.Snapshot]
	if !ok {
		if snap, err = s.openServed(p.Snapshot); err != nil {
			return err
		}
		s.snapshots[p.Snapshot] = snap
	}
	s.catalogs[name] = Catalog{Name: name, Image: p.Image, Endpoint: p.Endpoint, Basis: p.Basis, Owner: p.Owner, Snapshot: snap, Since: p.Since}
	return nil
}

// Catalog returns the catalog of a name as it is served now.
func (s *Store) Catalog(name string) (Catalog, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	c, ok := s.catalogs[name]
	return c, ok
}

// Catalogs returns all catalogs that are served now, sorted by name.
func (s *Store) Catalogs() []Catalog {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]Catalog, 0, len(s.catalogs))
	for _, name := range slices.Sorted(maps.Keys(s.catalogs)) {
		out = append(out, s.catalogs[name])
	}
	return out
}

// Snapshot returns the sound snapshot of a key, if there is one, whether or not a catalog points to it. One that an
// earlier process left is read whole for that, once.
func (s *Store) Snapshot(key string) (*Snapshot, bool) {
	s.mu.RLock()
	snap, ok := s.snapshots[key]
	s.mu.RUnlock()
	if ok {
		return snap, !snap.Damaged()
	}
	snap, err := openSnapshot(s.volume, key) // left by an earlier process, within the grace period
	if err != nil {
		return nil, false
	}
	if err := snap.verifyOnce(); err != nil {
		s.opts.Logger.Warn("cannot use a stored snapshot; it will be unpacked again", "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if other, ok := s.snapshots[key]; ok {
		snap = other
	} else {
		s.snapshots[key] = snap
	}
	return snap, !snap.Damaged()
}
