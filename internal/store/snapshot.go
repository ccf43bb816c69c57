package store

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

const (
	catalogFile  = "catalog.jsonl"
	packagesFile = "packages"
	indexFile    = "index"
	snapshotFile = "snapshot.json"

	// damagedSuffix is added to the name of a snapshot that stepped aside for its replacement.
	damagedSuffix = ".damaged"
)

// Source says what a snapshot is made from.
type Source struct {
	Image     string // the reference that was resolved, as the admin wrote it
	Digest    string // what it resolved to: "sha256:" and 64 hex digits
	ConfigDir string // where the catalog lies in the image, as asked for; empty: where the image's label says
	Endpoint  string // the reference by digest at which the registry had it: that of a mirror, say. It says nothing about the content

	// Basis is kept with the pointer, for whoever decides what a catalog is to serve to tell from what they decided it.
	Basis string
	// Owner is kept with the pointer, too: the object that asks for the catalog, so that it can be told from another of the name.
	Owner string
	// Since is when the catalog began to serve it elsewhere; zero: it begins here.
	Since time.Time
}

// Key names the content that a source gives, exactly.
func (s Source) Key() string {
	algorithm, hexDigits, _ := strings.Cut(s.Digest, ":")
	variant := sha256.Sum256([]byte(layoutVersion + "\x00" + s.ConfigDir))
	return algorithm + "-" + hexDigits + "-" + hex.EncodeToString(variant[:4])
}

// Info is what snapshot.json says of a snapshot.
type Info struct {
	Image      string    `json:"image"`
	Digest     string    `json:"digest"`
	ConfigDir  string    `json:"configDir,omitempty"`
	Packages   int       `json:"packages"` // olm.package blobs
	Channels   int       `json:"channels"` // olm.channel blobs
	Bundles    int       `json:"bundles"`  // olm.bundle blobs
	Blobs      int       `json:"blobs"`    // all
	Bytes      int64     `json:"bytes"`    // of catalog.jsonl
	UnpackedAt time.Time `json:"unpackedAt"`
}

// Snapshot is one opened snapshot. It never changes, but that its packages may be described later, and is safe for
// concurrent use. There is nothing to close: its files are closed when nobody holds the snapshot any more, by the os
// package's cleanup, so a reader is never cut off.
type Snapshot struct {
	key     string
	dir     string
	info    Info
	volume  *volume
	index   *index
	catalog atomic.Pointer[os.File] // another only where the first was damaged and could be mended

	describing  sync.Mutex // held by who describes the packages
	description atomic.Pointer[packages]

	damage   atomic.Pointer[damage] // what a check of the checksums found; then it is unpacked again, and served as far as it is sound until that is done
	noting   sync.Mutex             // held by who reads all of it, as damage was met
	passes   atomic.Uint32          // how often that was done
	verified sync.Once              // done when this process wrote the files, or compared them with their checksums
	awaited  atomic.Int32           // how many commits are about to point to it: it is not swept
}

// openSnapshot opens the snapshot of a key and checks all but the content of the blobs, which takes a pass over all of
// them: Scrub does that. It needs index and catalog.jsonl alone: what else is missing or damaged is no error, it is made again.
// One of an earlier layout has another index.
func openSnapshot(v *volume, key string) (*Snapshot, error) {
	return openSnapshotAt(v, key, path.Join(snapshotsDir, key))
}

func openSnapshotAt(v *volume, key, dir string) (*Snapshot, error) {
	s, err := openIndexed(v, key, dir)
	if err != nil {
		return nil, err
	}
	if err := s.openCatalog(); err != nil {
		return nil, err
	}
	s.openDescription()
	return s, nil
}

// openIndexed opens a snapshot as far as the index tells of it.
func openIndexed(v *volume, key, dir string) (*Snapshot, error) {
	data, err := v.ReadFile(path.Join(dir, indexFile))
	if err != nil {
		return nil, err
	}
	s := &Snapshot{key: key, dir: dir, volume: v}
	if s.index, err = openIndex(data); err != nil {
		return nil, fmt.Errorf("opening %s/%s: %w", key, indexFile, err)
	}
	if s.info, err = readInfo(s.index.info, key); err != nil {
		return nil, fmt.Errorf("opening %s/%s: %w", key, indexFile, err)
	}
	return s, nil
}

// readInfo reads what snapshot.json has, or the index of it, and makes sure that it is of the snapshot of a key.
func readInfo(data []byte, key string) (info Info, err error) {
	if err := json.Unmarshal(data, &info); err != nil {
		return info, err
	}
	if (Source{Digest: info.Digest, ConfigDir: info.ConfigDir}).Key() != key {
		return info, fmt.Errorf("it is that of another snapshot, of %s", info.Digest)
	}
	return info, nil
}

// openCatalog opens catalog.jsonl, which has to be as large as the index says.
func (s *Snapshot) openCatalog() error {
	f, err := openSized(s.volume, path.Join(s.dir, catalogFile), s.index.catalogSize())
	if err == nil {
		s.catalog.Store(f)
	}
	return err
}

// openDescription opens the file packages, if it is there and sound.
func (s *Snapshot) openDescription() {
	if p, err := openPackages(s.volume, path.Join(s.dir, packagesFile), s.index); err == nil {
		s.description.Store(p)
	}
}

// openSized opens a file that has to be as large as it was written.
func openSized(v *volume, name string, size int64) (*os.File, error) {
	f, err := v.Open(name)
	if err != nil {
		return nil, err
	}
	stat, err := f.Stat()
	if err == nil && stat.Size() != size {
		err = fmt.Errorf("%s has %d bytes, not the %d it was written with", name, stat.Size(), size)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Key names the content of the snapshot exactly: equal keys, equal bytes. It consists of lower case letters, digits
// and dashes.
func (s *Snapshot) Key() string { return s.key }

// Version names the content in URLs, for clients: its digest and, where that is not all, which of the image's directories it
// is ("-" and 8 hex digits). Equal versions of a catalog mean equal bytes.
func (s *Snapshot) Version() string {
	if s.info.ConfigDir == "" {
		return s.info.Digest
	}
	dir := sha256.Sum256([]byte(s.info.ConfigDir))
	return s.info.Digest + "-" + hex.EncodeToString(dir[:4])
}

// Proves tells whether the JSON of a blob is what was unpacked, by the hash that the index has: what is read of the volume may not be.
func (s *Snapshot) Matches(number uint32, content []byte) bool {
	return fbc.HashOf(content) == s.index.hash(number)
}

// BlobHash returns the hash of a blob as it was unpacked: the first 16 bytes of the SHA-256 of its JSON, in hex.
func (s *Snapshot) BlobHash(number uint32) string { return s.index.hash(number).String() }

// Info tells what the snapshot holds.
func (s *Snapshot) Info() Info { return s.info }

// OpenAll opens all blobs as a file, one line each, with an offset of the caller's own; the caller closes it.
func (s *Snapshot) OpenAll() (*os.File, error) {
	f, err := s.volume.Open(path.Join(s.dir, catalogFile))
	if errors.Is(err, fs.ErrNotExist) { // deleted or replaced since the caller got the snapshot, which still has it open
		held := s.catalog.Load()
		defer runtime.KeepAlive(held)
		return os.Open(fmt.Sprintf("/proc/self/fd/%d", held.Fd()))
	}
	return f, err
}
