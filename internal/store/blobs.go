package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// runAt is the run that a position is in: the last that starts at or before it.
func (b *Blobs) runAt(position int64) run {
	return b.runs[sort.Search(len(b.runs), func(i int) bool { return b.runs[i].start > position })-1]
}

// Read implements io.Reader.
func (b *Blobs) Read(p []byte) (int, error) {
	if b.position >= b.size {
		return 0, io.EOF
	}
	r := b.runAt(b.position)
	within := b.position - r.start
	if most := r.size - within; int64(len(p)) > most {
		p = p[:most]
	}
	n, err := b.snapshot.catalog.Load().ReadAt(p, r.offset+within)
	b.position += int64(n)
	if errors.Is(err, io.EOF) && n < len(p) {
		err = io.ErrUnexpectedEOF // the file is shorter than its index: it was damaged since it was opened
	} else if n == len(p) {
		err = nil
	}
	return n, err
}

// gathered is from which size a run is given to a writer by itself. Shorter ones are read into one buffer, and written together.
const gathered = 32 << 10

// WriteTo implements io.WriterTo, which io.Copy asks for. A writer that is an io.ReaderFrom is given each long run, and any that is
// all there is to write, as an io.SectionReader of the file: so a socket can have the kernel send it.
func (b *Blobs) WriteTo(w io.Writer) (written int64, err error) {
	from, direct := w.(io.ReaderFrom)
	for b.position < b.size && err == nil {
		r := b.runAt(b.position)
		within := b.position - r.start
		left := r.size - within
		var n int64
		if direct && (left >= gathered || b.position+left == b.size) {
			n, err = from.ReadFrom(io.NewSectionReader(b.snapshot.catalog.Load(), r.offset+within, left))
			if err == nil && n < left {
				err = io.ErrUnexpectedEOF
			}
			b.position += n
		} else {
			n, err = b.writeGathered(w, direct)
		}
		written += n
	}
	return written, err
}

// writeGathered writes the runs from the position on up to the next that is long, if direct.
func (b *Blobs) writeGathered(w io.Writer, direct bool) (written int64, err error) {
	buf := make([]byte, 0, min(gathered, b.size-b.position))
	for b.position < b.size && err == nil {
		if r := b.runAt(b.position); direct && r.start+r.size-b.position >= gathered {
			break
		}
		var n int
		n, err = b.Read(buf[len(buf):cap(buf)])
		if buf = buf[:len(buf)+n]; len(buf) == cap(buf) || err != nil {
			n, writeErr := w.Write(buf)
			written, err = written+int64(n), cmp.Or(writeErr, err)
			buf = buf[:0]
		}
	}
	if err != nil || len(buf) == 0 {
		return written, err
	}
	n, err := w.Write(buf)
	return written + int64(n), err
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
// the sequence; where one of the blobs is known to be damaged it is a *DamagedError, at once.
func (b *Blobs) All() iter.Seq2[[]byte, error] {
	if err := b.Check(); err != nil {
		return func(yield func([]byte, error) bool) { yield(nil, err) }
	}
	return readBlobs(b.snapshot.catalog.Load(), b.numbers, b.snapshot.index.extent)
}

// Verified is All for who relies on the bytes: it also compares each blob with its checksum. One that is not what was unpacked, or cannot
// be read, is a *DamagedError, and noted: the snapshot is to be unpacked again then.
func (b *Blobs) Verified(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if err := b.Check(); err != nil {
			yield(nil, err)
			return
		}
		for blob, err := range b.snapshot.soundBlobs(b.numbers) {
			b.snapshot.noteDamage(ctx, err)
			if !yield(blob, err) {
				return
			}
		}
	}
}

// soundBlobs reads blobs one after another and makes sure that each is what was unpacked; else the error is a *DamagedError.
func (s *Snapshot) soundBlobs(numbers []uint32) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		i := 0
		for blob, err := range readBlobs(s.catalog.Load(), numbers, s.index.extent) {
			switch {
			case err != nil:
				err = &DamagedError{fmt.Errorf("reading blob %d of %s/%s: %w", numbers[i], s.key, catalogFile, err)}
			case !s.Matches(numbers[i], blob):
				blob, err = nil, &DamagedError{fmt.Errorf("blob %d of %s/%s is not what was unpacked", numbers[i], s.key, catalogFile)}
			}
			if !yield(blob, err) || err != nil {
				return
			}
			i++
		}
	}
}

// noteDamage notes all that is damaged where an error says that something is, so that it is unpacked again. Of many who meet damage at
// a time one reads the whole catalog for that, and the others wait.
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
