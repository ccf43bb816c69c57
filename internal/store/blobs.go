package store

import (
	"errors"
	"io"
	"iter"
	"slices"
	"sort"
)

// Blobs are some blobs of a snapshot, in the order of the catalog. As an io.ReadSeeker it gives their lines, each
// ended by a newline; so it has one position and belongs to one goroutine. All may be used at any time.
type Blobs struct {
	snapshot *Snapshot
	numbers  []uint32
	runs     []run
	size     int64
	position int64
}

// run is a stretch of catalog.jsonl; neighbouring blobs make one run, so that they are read at once.
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

// Len is the number of blobs.
func (b *Blobs) Len() int { return len(b.numbers) }

// Size is the number of bytes that Read gives from start to end.
func (b *Blobs) Size() int64 { return b.size }

// Entry is what the index knows of a blob.
type Entry struct {
	Number                uint32 // in the order of the catalog, from 0; it names the blob within its snapshot
	Schema, Package, Name string
	Version               string // of a bundle, as its olm.package property has it; else empty
	Size                  int    // of the JSON, in bytes, without a newline
}

// Entry tells of blob i, 0 <= i < Len(), without reading it.
func (b *Blobs) Entry(i int) Entry {
	n, ix := b.numbers[i], b.snapshot.index
	key := func(field int) string { return string(ix.key(ix.blobKey(n, field))) }
	_, size := ix.extent(n)
	return Entry{Number: n, Schema: key(fieldSchema), Package: key(fieldPackage), Name: key(fieldName), Version: key(fieldVersion), Size: int(size)}
}

// Slice gives the blobs from..to-1, as a slice expression does; it panics where that would.
func (b *Blobs) Slice(from, to int) *Blobs { return b.snapshot.blobs(b.numbers[from:to:to]) }

// Keep gives the blobs for which keep holds. The blobs themselves are not read.
func (b *Blobs) Keep(keep func(Entry) bool) *Blobs {
	var numbers []uint32
	for i, n := range b.numbers {
		if keep(b.Entry(i)) {
			numbers = append(numbers, n)
		}
	}
	return b.snapshot.blobs(numbers)
}

// Read implements io.Reader.
func (b *Blobs) Read(p []byte) (int, error) {
	if b.position >= b.size {
		return 0, io.EOF
	}
	// The run of the position: the last that starts at or before it.
	i := sort.Search(len(b.runs), func(i int) bool { return b.runs[i].start > b.position }) - 1
	r := b.runs[i]
	within := b.position - r.start
	if most := r.size - within; int64(len(p)) > most {
		p = p[:most]
	}
	n, err := b.snapshot.catalog.ReadAt(p, r.offset+within)
	b.position += int64(n)
	if errors.Is(err, io.EOF) && n < len(p) {
		err = io.ErrUnexpectedEOF // the file is shorter than its index: it was damaged since it was opened
	} else if n == len(p) {
		err = nil
	}
	return n, err
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

// All gives each blob's compact JSON without its newline. The slice is the caller's until the next step. An error ends
// the sequence.
func (b *Blobs) All() iter.Seq2[[]byte, error] {
	return readBlobs(b.snapshot.catalog, b.numbers, b.snapshot.index.extent)
}

// readBlobs reads blobs of a catalog.jsonl, one after another into one buffer; extent says where each lies.
func readBlobs(catalog io.ReaderAt, numbers []uint32, extent func(number uint32) (offset uint64, size uint32)) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		var buf []byte
		for _, n := range numbers {
			offset, size := extent(n)
			buf = slices.Grow(buf[:0], int(size))[:size]
			if _, err := catalog.ReadAt(buf, int64(offset)); err != nil {
				if errors.Is(err, io.EOF) {
					err = io.ErrUnexpectedEOF // as in Read; it must not pass for the end of the sequence
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
