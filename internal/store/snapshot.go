package store

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	catalogFile  = "catalog.jsonl"
	packagesFile = "packages.jsonl"
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
}

// Key names the content that a source gives, exactly.
func (s Source) Key() string {
	algorithm, hexDigits, _ := strings.Cut(s.Digest, ":")
	variant := sha256.Sum256([]byte(strconv.Itoa(formatVersion) + "\x00" + s.ConfigDir))
	return algorithm + "-" + hexDigits + "-" + hex.EncodeToString(variant[:4])
}

// Info is what snapshot.json says of a snapshot.
type Info struct {
	Image           string           `json:"image"`
	Digest          string           `json:"digest"`
	ConfigDir       string           `json:"configDir,omitempty"`
	Packages        int              `json:"packages"` // olm.package blobs
	Channels        int              `json:"channels"` // olm.channel blobs
	Bundles         int              `json:"bundles"`  // olm.bundle blobs
	Blobs           int              `json:"blobs"`    // all
	Bytes           int64            `json:"bytes"`    // of catalog.jsonl
	UnpackedAt      time.Time        `json:"unpackedAt"`
	InvalidPackages []InvalidPackage `json:"invalidPackages,omitempty"` // sorted by name
	CatalogSHA256   string           `json:"catalogSHA256"`
	PackagesBytes   int64            `json:"packagesBytes"` // of packages.jsonl
	PackagesSHA256  string           `json:"packagesSHA256"`
}

// InvalidPackage is a package that is served as it is but is not sound.
type InvalidPackage struct {
	Name   string `json:"name"` // empty for blobs that should say which package they belong to and do not
	Reason string `json:"reason"`
	Hash   string `json:"hash"` // as that of a PackageVersion
}

// PackageVersion is a sound package and the hash of all its blobs.
type PackageVersion struct {
	Name string
	Hash string // hex; equal hashes mean equal bytes
}

// Snapshot is one opened snapshot. It never changes and is safe for concurrent use. There is nothing to close: its
// file is closed when nobody holds the snapshot any more, by the os package's cleanup, so a reader is never cut off.
type Snapshot struct {
	key      string
	dir      string
	info     Info
	root     *os.Root
	catalog  *os.File
	packages *os.File
	index    *index
	damaged  atomic.Bool // set when a check of the checksums failed; then it is unpacked again, and served until that is done
	verified sync.Once   // done when this process wrote the files, or compared them with their checksums
}

// openSnapshot opens the snapshot of a key and checks all but the checksums of catalog.jsonl and packages.jsonl, which
// take a pass over all of them: Scrub does that. One of an earlier layout lacks a file, or has another index.
func openSnapshot(root *os.Root, key string) (*Snapshot, error) {
	return openSnapshotAt(root, key, path.Join(snapshotsDir, key))
}

func openSnapshotAt(root *os.Root, key, dir string) (*Snapshot, error) {
	b, err := root.ReadFile(path.Join(dir, snapshotFile))
	if err != nil {
		return nil, err
	}
	s := &Snapshot{key: key, dir: dir, root: root}
	if err := json.Unmarshal(b, &s.info); err != nil {
		return nil, fmt.Errorf("reading %s/%s: %w", key, snapshotFile, err)
	}
	if s.catalog, err = openSized(root, path.Join(dir, catalogFile), s.info.Bytes); err != nil {
		return nil, err
	}
	if s.packages, err = openSized(root, path.Join(dir, packagesFile), s.info.PackagesBytes); err != nil {
		return nil, err
	}
	data, err := root.ReadFile(path.Join(dir, indexFile))
	if err != nil {
		return nil, err
	}
	if s.index, err = openIndex(data, s.info.Bytes, s.info.PackagesBytes); err != nil {
		return nil, fmt.Errorf("opening %s/%s: %w", key, indexFile, err)
	}
	return s, nil
}

// openSized opens a file that has to be as large as it was written.
func openSized(root *os.Root, name string, size int64) (*os.File, error) {
	f, err := root.Open(name)
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

// Info tells what the snapshot holds.
func (s *Snapshot) Info() Info { return s.info }

// OpenAll opens all blobs as a file, one line each, with an offset of the caller's own; the caller closes it.
func (s *Snapshot) OpenAll() (*os.File, error) {
	f, err := s.root.Open(path.Join(s.dir, catalogFile))
	if errors.Is(err, fs.ErrNotExist) { // deleted or replaced since the caller got the snapshot, which still has it open
		return os.Open(fmt.Sprintf("/proc/self/fd/%d", s.catalog.Fd()))
	}
	return f, err
}

// Packages lists the sound packages, sorted by name.
func (s *Snapshot) Packages() []PackageVersion {
	out := make([]PackageVersion, s.index.packageCount())
	for i := range out {
		key, content, _, _ := s.index.packageAt(i)
		out[i] = PackageVersion{Name: string(s.index.key(key)), Hash: hex.EncodeToString(content[:])}
	}
	return out
}

// verifyOnce is verify for what an earlier process wrote, the first time. What fails it is damaged from then on; later calls,
// which wait for the first, return nil.
func (s *Snapshot) verifyOnce() (err error) {
	s.verified.Do(func() {
		if err = s.verify(); err != nil {
			s.damaged.Store(true)
		}
	})
	return err
}

// verify reads the whole of catalog.jsonl and packages.jsonl and compares them with their checksums.
func (s *Snapshot) verify() error {
	return errors.Join(
		s.verifyFile(s.catalog, catalogFile, s.info.Bytes, s.info.CatalogSHA256),
		s.verifyFile(s.packages, packagesFile, s.info.PackagesBytes, s.info.PackagesSHA256),
	)
}

func (s *Snapshot) verifyFile(f io.ReaderAt, name string, size int64, want string) error {
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(f, 0, size)); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want {
		return fmt.Errorf("%s/%s is damaged: its SHA-256 is %s, not %s", s.key, name, got, want)
	}
	return nil
}
