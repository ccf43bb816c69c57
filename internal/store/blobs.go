package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"sort"
)

// Blobs is a list of blobs of a snapshot, in the order of the catalog. As an io.ReadSeeker it reads their lines, each ended
// by a newline. It has one position, so it belongs to one goroutine; All and Verified do not use the position.
type Blobs struct {
	snapshot *Snapshot
	numbers  []uint32
	runs     []run
	size     int64
	position int64
}

// run is a range of catalog.jsonl. Adjacent blobs form one run, which is read at once.
type run struct {
	start  int64 // in the Blobs
	offset int64 // in the file
	size   int64
}

func (s *Snapshot) blobs(numbers []uint32) *Blobs {
	b := &Blobs{snapshot: s, numbers: numbers}
	for _, n := range numbers {
		offset, size := s.index.extent(n)
		line := int64(size) + 1
		if last := len(b.runs) - 1; last >= 0 && b.runs[last].offset+b.runs[last].size == int64(offset) {
			b.runs[last].size += line
		} else {
			b.runs = append(b.runs, run{start: b.size, offset: int64(offset), size: line})
		}
		b.size += line
	}
	return b
}

// Len returns the number of blobs.
func (b *Blobs) Len() int { return len(b.numbers) }

// Size returns the number of bytes of all lines.
func (b *Blobs) Size() int64 { return b.size }

// Entry is the index entry of a blob.
type Entry struct {
	Number                uint32 // position in the catalog, from 0; unique in the snapshot
	Schema, Package, Name string
	Version               string // of a bundle, from its olm.package property; else empty
	Size                  int    // of the JSON, in bytes, without a newline
}

// Entry returns the entry of blob i, 0 <= i < Len(), without reading the blob.
func (b *Blobs) Entry(i int) Entry {
	n, ix := b.numbers[i], b.snapshot.index
	key := func(field int) string { return string(ix.key(ix.blobKey(n, field))) }
	_, size := ix.extent(n)
	return Entry{Number: n, Schema: key(fieldSchema), Package: key(fieldPackage), Name: key(fieldName),
		Version: key(fieldVersion), Size: int(size)}
}

// Slice returns the blobs from..to-1. It panics if they are out of range, as a slice expression does.
func (b *Blobs) Slice(from, to int) *Blobs { return b.snapshot.blobs(b.numbers[from:to:to]) }

// Keep returns the blobs for which keep returns true. It reads no blobs.
func (b *Blobs) Keep(keep func(Entry) bool) *Blobs {
	var numbers []uint32
	for i, n := range b.numbers {
		if keep(b.Entry(i)) {
			numbers = append(numbers, n)
		}
	}
	return b.snapshot.blobs(numbers)
}

// runAt returns the run of a position: the last that starts at or before it.
func (b *Blobs) runAt(position int64) run {
	return b.runs[sort.Search(len(b.runs), func(i int) bool { return b.runs[i].start > position })-1]
}

// Read implements io.Reader. It fills p across runs, so that short runs do not become short writes.
func (b *Blobs) Read(p []byte) (read int, err error) {
	if b.position >= b.size {
		return 0, io.EOF
	}
	for read < len(p) && b.position < b.size && err == nil {
		r := b.runAt(b.position)
		within := b.position - r.start
		piece := p[read:min(int64(len(p)), int64(read)+r.size-within)]
		var n int
		n, err = b.snapshot.catalog.Load().ReadAt(piece, r.offset+within)
		b.position += int64(n)
		read += n
		if n == len(piece) {
			err = nil
		} else if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // the file is shorter than its index: it was damaged since it was opened
		}
	}
	return read, err
}

// Content returns the lines of the blobs: as a section of the file if they are contiguous in it, so that a socket can send
// them with sendfile, and as b otherwise.
func (b *Blobs) Content() io.ReadSeeker {
	if len(b.runs) != 1 {
		return b
	}
	return io.NewSectionReader(b.snapshot.catalog.Load(), b.runs[0].offset, b.size)
}

// Seek implements io.Seeker.
func (b *Blobs) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += b.position
	case io.SeekEnd:
		offset += b.size
	}
	if offset < 0 {
		return 0, errors.New("seeking before the first blob")
	}
	b.position = offset
	return offset, nil
}

// All returns the compact JSON of each blob without its newline. The slice is valid until the next step. An error ends the
// sequence. If one of the blobs is known to be damaged, a *DamagedError is the first element.
func (b *Blobs) All() iter.Seq2[[]byte, error] {
	if err := b.Check(); err != nil {
		return func(yield func([]byte, error) bool) { yield(nil, err) }
	}
	return b.snapshot.readBlobs(b.numbers)
}

// Verified is All for callers that rely on the bytes: it compares each blob with its hash. An unreadable or different blob is
// a *DamagedError, and is recorded, so that the snapshot is unpacked again.
func (b *Blobs) Verified(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if err := b.Check(); err != nil {
			yield(nil, err)
			return
		}
		for blob, err := range b.snapshot.intactBlobs(b.numbers) {
			b.snapshot.noteDamage(ctx, err)
			if !yield(blob, err) {
				return
			}
		}
	}
}

// intactBlobs reads blobs one by one and compares each with its hash. A mismatch is a *DamagedError.
func (s *Snapshot) intactBlobs(numbers []uint32) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		i := 0
		for blob, err := range s.readBlobs(numbers) {
			switch {
			case err != nil:
				err = &DamagedError{fmt.Errorf("reading blob %d of %s/%s: %w", numbers[i], s.key, catalogFile, err)}
			case !s.Matches(numbers[i], blob):
				blob, err = nil, &DamagedError{fmt.Errorf("blob %d of %s/%s does not match its hash", numbers[i], s.key, catalogFile)}
			}
			if !yield(blob, err) || err != nil {
				return
			}
			i++
		}
	}
}

// readBlobs reads blobs one by one into one buffer.
func (s *Snapshot) readBlobs(numbers []uint32) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		var buf []byte
		catalog := s.catalog.Load()
		for _, n := range numbers {
			offset, size := s.index.extent(n)
			buf = slices.Grow(buf[:0], int(size))[:size]
			if _, err := catalog.ReadAt(buf, int64(offset)); err != nil {
				if errors.Is(err, io.EOF) {
					err = io.ErrUnexpectedEOF // io.EOF would pass for the end of the sequence
				}
				yield(nil, err)
				return
			}
			if !yield(buf, nil) {
				return
			}
		}
	}
}
