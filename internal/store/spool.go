package store

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
)

const (
	spoolChunk  = 1 << 20 // bytes of a write
	spoolChunks = 3       // one being filled, one being written, one between them
)

// spool appends lines to a file. A goroutine writes them, so that reading goes on while the disk writes. Its methods belong
// to one goroutine.
type spool struct {
	file   *file
	size   uint64 // of all lines
	chunk  []byte // being filled
	full   chan []byte
	free   chan []byte
	ending sync.Once             // closes full
	done   chan struct{}         // closed when the goroutine has ended
	failed atomic.Pointer[error] // the first error of a write
}

func newSpool(f *file) *spool {
	s := &spool{file: f, full: make(chan []byte, spoolChunks), free: make(chan []byte, spoolChunks), done: make(chan struct{})}
	for range spoolChunks {
		s.free <- nil
	}
	go s.run()
	return s
}

func (s *spool) run() {
	defer close(s.done)
	written := int64(0)
	for chunk := range s.full {
		if s.failed.Load() == nil {
			n, err := s.file.Write(chunk)
			if err != nil {
				s.failed.Store(&err)
			}
			startWriteback(s.file.File, written, int64(n))
			written += int64(n)
		}
		if cap(chunk) > 2*spoolChunk {
			chunk = nil // grown for a large blob; do not keep it
		}
		s.free <- chunk
	}
}

// grow appends an empty line of a size, with its newline, and returns the line. Fill it before the next call.
func (s *spool) grow(size int) []byte {
	if len(s.chunk)+size+1 > spoolChunk {
		s.flush()
	}
	if s.chunk == nil {
		s.chunk = make([]byte, 0, max(spoolChunk, size+1))
	}
	from := len(s.chunk)
	if cap(s.chunk) < from+size+1 {
		s.chunk = make([]byte, 0, size+1) // empty after the flush
	}
	s.chunk = s.chunk[:from+size+1]
	s.chunk[from+size] = '\n'
	s.size += uint64(size) + 1
	return s.chunk[from : from+size]
}

// err returns the first error of a write.
func (s *spool) err() error {
	if failed := s.failed.Load(); failed != nil {
		return *failed
	}
	return nil
}

func (s *spool) flush() {
	if len(s.chunk) > 0 {
		s.full <- s.chunk
		s.chunk = (<-s.free)[:0]
	}
}

// end waits until all lines are written. Nothing can be added after it.
func (s *spool) end() error {
	s.ending.Do(func() {
		s.flush()
		close(s.full)
	})
	<-s.done
	return s.err()
}

// close closes the file without a sync. It can be called again.
func (s *spool) close() error {
	_ = s.end() // end was called before if the content is needed
	if err := s.file.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
