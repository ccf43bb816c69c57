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

	"github.com/operator-catalogs/catalogd/internal/subset"
)

const (
	catalogFile  = "catalog.jsonl"
	packagesFile = "packages"
	indexFile    = "index"
	snapshotFile = "snapshot.json"

	// damagedSuffix ends the name of a damaged snapshot that stepped aside for its replacement.
	damagedSuffix = ".damaged"
)

// Source identifies the content of a snapshot and where it came from.
type Source struct {
	Image     string        // the reference that was resolved, as in the spec
	Digest    string        // the resolved digest: "sha256:" and 64 hex digits
	ConfigDir string        // the requested directory of the catalog in the image; empty: as the image's label says
	Filter    subset.Filter // selects the part of the catalog that is kept; zero: all
	Endpoint  string        // the reference by digest at which the registry, such as a mirror, had it. Not part of the key

	Basis string    // the inputs of the decision to serve this content; stored with the pointer
	Owner string    // the object that asks for the catalog, to tell it from another of the same name; stored with the pointer
	Since time.Time // when the catalog began to serve it elsewhere; zero: it begins here
}

// Key returns the name of the content of a source. Equal keys mean equal content.
func (s Source) Key() string { return keyOf(s.Digest, s.ConfigDir, s.Filter.Fingerprint()) }

// wholeKey returns the key without the filter.
func (s Source) wholeKey() string { return keyOf(s.Digest, s.ConfigDir, "") }

func keyOf(digest, configDir, filter string) string {
	algorithm, hexDigits, _ := strings.Cut(digest, ":")
	variant := sha256.Sum256([]byte(layoutVersion + "\x00" + configDir))
	key := algorithm + "-" + hexDigits + "-" + hex.EncodeToString(variant[:4])
	if filter != "" {
		key += "-" + filter[:16]
	}
	return key
}

// Info is the content of snapshot.json.
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
	Subset     *Subset   `json:"subset,omitempty"` // nil: the whole catalog
}

// Subset describes a snapshot of a part of a catalog.
type Subset struct {
	Filter string `json:"filter"` // its fingerprint
	subset.Report
}

// filter returns the fingerprint of the filter; empty: none.
func (i Info) filter() string {
	if i.Subset == nil {
		return ""
	}
	return i.Subset.Filter
}

// Snapshot is an opened snapshot, safe for concurrent use. Its content never changes. Its packages may be validated later,
// and damage may be found later. There is nothing to close: the os package closes its files once no reader holds the snapshot.
type Snapshot struct {
	key     string
	dir     string
	info    Info
	volume  *volume
	index   *index
	catalog atomic.Pointer[os.File] // replaced only when a damaged file is restored

	validating sync.Mutex // held to write the validation
	validation atomic.Pointer[validation]

	damage   atomic.Pointer[damage]
	noting   sync.Mutex    // held to verify all of it, as a reader met damage
	passes   atomic.Uint32 // how often that was done
	verified sync.Once     // done once this process wrote or verified the files
	awaited  atomic.Int32  // commits that are about to point to it; a sweep keeps it
}

// openSnapshot opens the snapshot of a key. It checks all but the content of the blobs, which Scrub verifies. It needs index
// and catalog.jsonl; other files are rebuilt. A snapshot of an earlier layout has a different index.
func openSnapshot(v *volume, key string) (*Snapshot, error) {
	s, err := openIndexed(v, key, path.Join(snapshotsDir, key))
	if err != nil {
		return nil, err
	}
	if err := s.openCatalog(); err != nil {
		return nil, err
	}
	s.openValidation()
	return s, nil
}

// openIndexed opens the index of a snapshot.
func openIndexed(v *volume, key, dir string) (*Snapshot, error) {
	data, err := v.ReadFile(path.Join(dir, indexFile))
	if err != nil {
		return nil, err
	}
	s := &Snapshot{key: key, dir: dir, volume: v}
	if s.index, err = openIndex(data); err == nil {
		s.info, err = readInfo(s.index.info, key)
	}
	if err != nil {
		return nil, fmt.Errorf("opening %s/%s: %w", key, indexFile, err)
	}
	return s, nil
}

// readInfo reads snapshot.json, or its copy in the index, and checks that it belongs to the snapshot of a key.
func readInfo(data []byte, key string) (info Info, err error) {
	if err := json.Unmarshal(data, &info); err != nil {
		return info, err
	}
	if f := info.filter(); f != "" && len(f) < 16 || keyOf(info.Digest, info.ConfigDir, f) != key {
		return info, fmt.Errorf("it belongs to another snapshot, of %s", info.Digest)
	}
	return info, nil
}

// openCatalog opens catalog.jsonl, whose size must match the index.
func (s *Snapshot) openCatalog() error {
	name := path.Join(s.dir, catalogFile)
	f, err := s.volume.Open(name)
	if err != nil {
		return err
	}
	stat, err := f.Stat()
	if want := s.index.catalogSize(); err == nil && stat.Size() != want {
		err = fmt.Errorf("%s has %d bytes instead of %d", name, stat.Size(), want)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	s.catalog.Store(f)
	return nil
}

// openValidation opens the file packages, if it exists and is intact.
func (s *Snapshot) openValidation() {
	if v, err := openValidation(s.volume, path.Join(s.dir, packagesFile), s.index); err == nil {
		s.validation.Store(v)
	}
}

// Key returns the name of the content: lower-case letters, digits and dashes. Equal keys mean equal bytes.
func (s *Snapshot) Key() string { return s.key }

// Version returns the name of the content in URLs: the digest, and for a part of the catalog, or another directory of the image
// than the default one, "-" and 8 hex digits. Equal versions of a catalog mean equal bytes.
func (s *Snapshot) Version() string {
	variant := s.info.ConfigDir
	if f := s.info.filter(); f != "" {
		variant += "\x00" + f
	}
	if variant == "" {
		return s.info.Digest
	}
	sum := sha256.Sum256([]byte(variant))
	return s.info.Digest + "-" + hex.EncodeToString(sum[:4])
}

// IsVariant reports whether the content is of the directory and the filter of a source, whatever the digest.
func (s *Snapshot) IsVariant(src Source) bool {
	return s.info.ConfigDir == src.ConfigDir && s.info.filter() == src.Filter.Fingerprint()
}

// BlobHash returns the hash of an unpacked blob: the first 16 bytes of the SHA-256 of its JSON, in hex.
func (s *Snapshot) BlobHash(number uint32) string { return s.index.hash(number).String() }

// Info returns source, counts and sizes of the snapshot.
func (s *Snapshot) Info() Info { return s.info }

// OpenAll opens all blobs as a file, one line each, with an offset of its own. The caller closes it.
func (s *Snapshot) OpenAll() (*os.File, error) {
	f, err := s.volume.Open(path.Join(s.dir, catalogFile))
	if errors.Is(err, fs.ErrNotExist) { // deleted or replaced, but still open here
		held := s.catalog.Load()
		defer runtime.KeepAlive(held)
		return os.Open(fmt.Sprintf("/proc/self/fd/%d", held.Fd()))
	}
	return f, err
}
