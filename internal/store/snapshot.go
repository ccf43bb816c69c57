package store

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

const (
	catalogFile  = "catalog.jsonl"
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
}

// InvalidPackage is a package that is served as it is but is not sound.
type InvalidPackage struct {
	Name   string `json:"name"` // empty for blobs that should say which package they belong to and do not
	Reason string `json:"reason"`
}

// PackageVersion is a sound package and the hash of all its blobs.
type PackageVersion struct {
	Name string
	Hash string // hex; equal hashes mean equal bytes
}

// Query selects blobs. Empty fields match any; all that are given must match exactly.
type Query struct {
	Schema, Package, Name string
	Custom                bool // only blobs of schemas that OLM does not define
}

// Snapshot is one opened snapshot. It never changes and is safe for concurrent use. There is nothing to close: its
// file is closed when nobody holds the snapshot any more, by the os package's cleanup, so a reader is never cut off.
type Snapshot struct {
	key     string
	dir     string
	info    Info
	root    *os.Root
	catalog *os.File
	index   *index
	damaged atomic.Bool // set when a check of the checksums failed; then it is unpacked again, and served until that is done
}

// openSnapshot opens the snapshot of a key and checks all but the checksum of catalog.jsonl, which takes a pass over
// all of it: Scrub does that.
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
	if s.catalog, err = root.Open(path.Join(dir, catalogFile)); err != nil {
		return nil, err
	}
	stat, err := s.catalog.Stat()
	if err != nil {
		return nil, err
	}
	if stat.Size() != s.info.Bytes {
		return nil, fmt.Errorf("%s/%s has %d bytes, not the %d it was written with", key, catalogFile, stat.Size(), s.info.Bytes)
	}
	data, err := root.ReadFile(path.Join(dir, indexFile))
	if err != nil {
		return nil, err
	}
	if s.index, err = openIndex(data, s.info.Bytes); err != nil {
		return nil, fmt.Errorf("opening %s/%s: %w", key, indexFile, err)
	}
	return s, nil
}

// Key names the content of the snapshot exactly: equal keys, equal bytes. It consists of lower case letters, digits
// and dashes.
func (s *Snapshot) Key() string { return s.key }

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
	out := make([]PackageVersion, 0, len(s.index.packages)/packageSize)
	for r := s.index.packages; len(r) > 0; r = r[packageSize:] {
		out = append(out, PackageVersion{
			Name: string(s.index.key(le.Uint32(r))),
			Hash: hex.EncodeToString(r[4:packageSize]),
		})
	}
	return out
}

// Select returns the blobs that match, in the order of the catalog. It reads the index only: of the lists that the
// query names it walks the shortest.
func (s *Snapshot) Select(q Query) *Blobs {
	wanted := map[int]uint32{} // field -> key
	for field, value := range map[int]string{fieldSchema: q.Schema, fieldPackage: q.Package, fieldName: q.Name} {
		if value == "" {
			continue
		}
		key, ok := s.index.find(value)
		if !ok {
			return s.blobs(nil)
		}
		wanted[field] = key
	}
	var numbers []uint32
	for n := range s.shortest(wanted) {
		if s.matches(n, wanted) && (!q.Custom || fbc.IsCustom(s.schema(n))) {
			numbers = append(numbers, n)
		}
	}
	return s.blobs(numbers)
}

func (s *Snapshot) matches(n uint32, wanted map[int]uint32) bool {
	for field, key := range wanted {
		if s.index.blobKey(n, field) != key {
			return false
		}
	}
	return true
}

func (s *Snapshot) schema(n uint32) string {
	return string(s.index.key(s.index.blobKey(n, fieldSchema)))
}

// shortest walks the shortest list among those of the wanted keys, or all blobs if none is wanted; in file order.
func (s *Snapshot) shortest(wanted map[int]uint32) iter.Seq[uint32] {
	var best posting
	for field, key := range wanted {
		if p := s.index.posting(field, key); best == nil || p.len() < best.len() {
			best = p
		}
	}
	if best == nil {
		return s.index.all()
	}
	return best.all()
}

// Package returns all that belongs to a package, in the order of the catalog: its olm.package blob and every blob
// whose package it is.
func (s *Snapshot) Package(name string) *Blobs {
	key, ok := s.index.find(name)
	if !ok || name == "" {
		return s.blobs(nil)
	}
	var own []uint32
	for n := range s.index.posting(fieldName, key).all() {
		if s.schema(n) == fbc.SchemaPackage {
			own = append(own, n)
		}
	}
	return s.blobs(merge(own, s.index.posting(fieldPackage, key)))
}

// merge merges two lists in file order; a blob in both counts once.
func merge(a []uint32, b posting) []uint32 {
	out := make([]uint32, 0, len(a)+b.len())
	for n := range b.all() {
		for len(a) > 0 && a[0] < n {
			out, a = append(out, a[0]), a[1:]
		}
		if len(a) > 0 && a[0] == n {
			a = a[1:]
		}
		out = append(out, n)
	}
	return append(out, a...)
}

// verify reads the whole of catalog.jsonl and compares it with its checksum.
func (s *Snapshot) verify() error {
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(s.catalog, 0, s.info.Bytes)); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != s.info.CatalogSHA256 {
		return fmt.Errorf("%s/%s is damaged: its SHA-256 is %s, not %s", s.key, catalogFile, got, s.info.CatalogSHA256)
	}
	return nil
}
