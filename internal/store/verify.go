package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	gohash "hash"
	"slices"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// damage is what is known to be wrong with a snapshot.
type damage struct {
	blobs []uint32 // whose content is not what was unpacked, sorted
	whole bool     // more than those blobs: nothing here proves what was unpacked, or it is not where it belongs
	err   error    // says where, for people
}

// DamagedError says that what was asked for includes content that is damaged on the volume. What else the catalog has can
// be had.
type DamagedError struct{ Err error }

func (e *DamagedError) Error() string { return e.Err.Error() }
func (e *DamagedError) Unwrap() error { return e.Err }

// Damaged tells whether a check found something wrong. What the snapshot says then is served until it is replaced, but not to be kept.
func (s *Snapshot) Damaged() bool { return s.damage.Load() != nil }

// Check tells whether all blobs are sound, as far as is known: its error is a *DamagedError.
func (s *Snapshot) Check() error {
	if d := s.damage.Load(); d != nil && len(d.blobs) > 0 {
		return &DamagedError{d.err}
	}
	return nil
}

// Check tells whether these blobs are sound, as far as is known: its error is a *DamagedError.
func (b *Blobs) Check() error {
	d := b.snapshot.damage.Load()
	if d == nil {
		return nil
	}
	for _, n := range b.numbers {
		if _, bad := slices.BinarySearch(d.blobs, n); bad {
			return &DamagedError{d.err}
		}
	}
	return nil
}

// verifyOnce is verify for what an earlier process wrote, the first time. What fails it is damaged from then on; later calls,
// which wait for the first, return nil.
func (s *Snapshot) verifyOnce() (err error) {
	s.verified.Do(func() { err = s.verify(context.Background()) })
	return err
}

// verify reads all blobs and compares them with their hashes. What it finds wrong it notes, and returns. The error of ctx, when
// that ends, says nothing about the blobs.
func (s *Snapshot) verify(ctx context.Context) error {
	var bad []uint32
	var buf []byte
	for n := range s.index.blobCount() {
		if err := ctx.Err(); err != nil {
			return err
		}
		offset, size := s.index.extent(n)
		buf = slices.Grow(buf[:0], int(size)+1)[:size+1]
		if _, err := s.catalog.Load().ReadAt(buf, int64(offset)); err != nil || buf[size] != '\n' || !s.Matches(n, buf[:size]) {
			bad = append(bad, n)
		}
	}
	if len(bad) == 0 {
		return nil
	}
	offset, _ := s.index.extent(bad[0])
	err := fmt.Errorf("%s/%s is damaged: %d of its %d blobs are not what was unpacked, the first of them at byte %d", s.key, catalogFile, len(bad), s.info.Blobs, offset)
	before := s.damage.Load()
	s.damage.Store(&damage{blobs: bad, whole: before != nil && before.whole, err: err})
	return err
}

// verifier compares what is written to it, all lines of a catalog.jsonl in order, with the hashes of an index.
type verifier struct {
	index *index
	blob  uint32 // that the next byte belongs to
	left  uint64 // of its line, with the newline
	sum   gohash.Hash
	bad   int // blobs that are not what they should be
}

func newVerifier(ix *index) *verifier {
	v := &verifier{index: ix, sum: sha256.New()}
	v.begin()
	return v
}

func (v *verifier) begin() {
	v.sum.Reset()
	if v.blob < v.index.blobCount() {
		_, size := v.index.extent(v.blob)
		v.left = uint64(size) + 1
	}
}

// Write takes more of the catalog. Its error is that there is more of it than the index knows.
func (v *verifier) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		if v.blob == v.index.blobCount() {
			return len(p) - len(rest), errors.New("there is more than what was unpacked")
		}
		n := min(uint64(len(rest)), v.left)
		part := rest[:n]
		rest = rest[n:]
		if v.left -= n; v.left > 0 {
			v.sum.Write(part)
			continue
		}
		v.sum.Write(part[:n-1])
		if h := v.index.hash(v.blob); part[n-1] != '\n' || string(v.sum.Sum(nil)[:fbc.HashSize]) != string(h[:]) {
			v.bad++
		}
		v.blob++
		v.begin()
	}
	return len(p), nil
}

// end tells whether all that the index knows was written, and nothing else.
func (v *verifier) end() error {
	if v.bad > 0 || v.blob < v.index.blobCount() {
		return fmt.Errorf("%d of %d blobs are not what was unpacked", v.bad+int(v.index.blobCount()-v.blob), v.index.blobCount())
	}
	return nil
}
