package store

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
)

const (
	// spoolChunk is how much is written at a time: enough that the calls do not count.
	spoolChunk = 1 << 20
	// spoolChunks is how many chunks there are: one being filled, one being written, one between them.
	spoolChunks = 3
)

// spool writes lines to a file, one after the other, in a goroutine of its own: what is read next is prepared while the
// disk takes what was read before. It belongs to one goroutine.
type spool struct {
	file   *file
	size   uint64 // of what was added
	chunk  []byte // what was added last
	full   chan []byte
	free   chan []byte
	ending sync.Once             // closes full
	done   chan struct{}         // closed when the goroutine has ended
	failed atomic.Pointer[error] // why it writes no more
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
			chunk = nil // grown for a large blob; what is kept stays small
		}
		s.free <- chunk
	}
}

// grow adds room for a line of so many bytes and a newline, which is there already, and returns the room for the line: to
// be filled before anything else is added.
func (s *spool) grow(size int) []byte {
	if len(s.chunk)+size+1 > spoolChunk {
		s.flush()
	}
	if s.chunk == nil {
		s.chunk = make([]byte, 0, max(spoolChunk, size+1))
	}
	from := len(s.chunk)
	if cap(s.chunk) < from+size+1 {
		s.chunk = make([]byte, 0, size+1) // it is empty: flushed
	}
	s.chunk = s.chunk[:from+size+1]
	s.chunk[from+size] = '\n'
	s.size += uint64(size) + 1
	return s.chunk[from : from+size]
}

// err tells why nothing more is written, if so.
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

// end waits until all is written. Nothing can be added after it.
func (s *spool) end() error {
	s.ending.Do(func() {
		s.flush()
		close(s.full)
	})
	<-s.done
	return s.err()
}

// close closes the file. What it holds was to be made durable before. It may be called more than once.
func (s *spool) close() error {
	_ = s.end() // whoever needs what was written has asked
	if err := s.file.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
