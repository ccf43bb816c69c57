package store

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// damage is the known damage of a snapshot.
type damage struct {
	blobs []uint32 // that do not match their hashes, sorted
	whole bool     // nothing proves what was unpacked, or the snapshot has stepped aside
	err   error    // the first damaged blob
}

// DamagedError reports that the requested content is damaged on the volume. Other content of the catalog may be intact.
type DamagedError struct{ Err error }

func (e *DamagedError) Error() string { return e.Err.Error() }
func (e *DamagedError) Unwrap() error { return e.Err }

// Damaged reports whether a check found damage. The snapshot is served until it is replaced, but do not cache its content.
func (s *Snapshot) Damaged() bool { return s.damage.Load() != nil }

// Check returns a *DamagedError if any blob is known to be damaged.
func (s *Snapshot) Check() error {
	if d := s.damage.Load(); d != nil && len(d.blobs) > 0 {
		return &DamagedError{d.err}
	}
	return nil
}

// Check returns a *DamagedError if any of these blobs is known to be damaged.
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

// Matches reports whether the JSON of a blob matches the hash in the index; bytes from the volume may not.
func (s *Snapshot) Matches(number uint32, content []byte) bool {
	return s.index.matches(number, content)
}

// markVerified records that this process wrote the files or verified them.
func (s *Snapshot) markVerified() { s.verified.Do(func() {}) }

// verifyOnce verifies a snapshot that an earlier process wrote. Only the first call returns its error; others wait for it
// and return nil.
func (s *Snapshot) verifyOnce() (err error) {
	s.verified.Do(func() { err = s.verify(context.Background()) })
	return err
}

// verify reads all blobs and compares them with their hashes. It records damage and returns it. If ctx ends, it returns that
// error and records nothing.
func (s *Snapshot) verify(ctx context.Context) error {
	var bad []uint32
	var buf []byte
	for n := range s.index.blobCount() {
		if err := ctx.Err(); err != nil {
			return err
		}
		offset, size := s.index.extent(n)
		buf = slices.Grow(buf[:0], int(size)+1)[:size+1]
		if _, err := s.catalog.Load().ReadAt(buf, int64(offset)); err != nil || !s.index.matchesLine(n, buf) {
			bad = append(bad, n)
		}
	}
	if len(bad) == 0 {
		return nil
	}
	offset, _ := s.index.extent(bad[0])
	err := fmt.Errorf("%s/%s is damaged: %d of %d blobs do not match their hashes, the first at byte %d",
		s.key, catalogFile, len(bad), s.info.Blobs, offset)
	before := s.damage.Load()
	s.damage.Store(&damage{blobs: bad, whole: before != nil && before.whole, err: err})
	return err
}

func (ix *index) matches(number uint32, content []byte) bool {
	return fbc.HashOf(content) == ix.hash(number)
}

// matchesLine is matches for a blob with its newline.
func (ix *index) matchesLine(number uint32, line []byte) bool {
	end := len(line) - 1
	return line[end] == '\n' && ix.matches(number, line[:end])
}

// copyVerified copies a catalog.jsonl to w, blob by blob. It fails at the first blob that does not match its hash.
func (ix *index) copyVerified(w io.Writer, r io.Reader) error {
	in := bufio.NewReaderSize(r, 256<<10)
	var buf []byte
	for n := range ix.blobCount() {
		_, size := ix.extent(n)
		buf = slices.Grow(buf[:0], int(size)+1)[:size+1]
		if _, err := io.ReadFull(in, buf); err != nil {
			return fmt.Errorf("blob %d of %d: %w", n, ix.blobCount(), err)
		}
		if !ix.matchesLine(n, buf) {
			return fmt.Errorf("blob %d of %d does not match its hash", n, ix.blobCount())
		}
		if _, err := w.Write(buf); err != nil {
			return err
		}
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		return cmp.Or(err, errors.New("there is data after the last blob"))
	}
	return nil
}

// noteDamage verifies the whole snapshot if an error reports damage, so that all of it is recorded and unpacked again. Of
// concurrent callers one verifies and the others wait.
func (s *Snapshot) noteDamage(ctx context.Context, err error) {
	if !errors.As(err, new(*DamagedError)) {
		return
	}
	before := s.passes.Load()
	s.noting.Lock()
	defer s.noting.Unlock()
	if s.passes.Load() == before {
		_ = s.verify(ctx)
		s.passes.Add(1)
	}
}
