package unpack

import "io"

// Up to aheadChunks chunks of aheadSize bytes are decompressed ahead while a file is created, which may take the
// disk a millisecond.
const (
	aheadChunks = 4
	aheadSize   = 256 << 10
)

// ahead reads a stream in its own goroutine, so that decompression and file writes overlap.
type ahead struct {
	full chan chunk  // closed when the goroutine has ended
	free chan []byte // closed to end it
	now  chunk
	rest []byte // unread part of now
}

// chunk is a piece of a stream, and the error that followed it.
type chunk struct {
	data []byte
	err  error
}

func readAhead(r io.Reader) *ahead {
	a := &ahead{full: make(chan chunk, aheadChunks), free: make(chan []byte, aheadChunks)}
	for range aheadChunks {
		a.free <- make([]byte, aheadSize)
	}
	go func() {
		defer close(a.full)
		for buffer := range a.free {
			c := readChunk(r, buffer)
			a.full <- c
			if c.err != nil {
				return
			}
		}
	}()
	return a
}

// readChunk fills a buffer, unless the stream ends.
func readChunk(r io.Reader, buffer []byte) (c chunk) {
	defer func() {
		if fault := recover(); fault != nil { // a panic of a decompressor must not end the process
			c.err = invalidf("decompressing it failed: %v", fault)
		}
	}()
	for n := 0; len(c.data) < len(buffer) && c.err == nil; {
		n, c.err = r.Read(buffer[len(c.data):])
		c.data = buffer[:len(c.data)+n]
	}
	return c
}

func (a *ahead) Read(p []byte) (int, error) {
	if len(a.rest) == 0 && a.now.err == nil {
		if a.now.data != nil {
			a.free <- a.now.data[:aheadSize]
		}
		a.now = <-a.full
		a.rest = a.now.data
	}
	if len(a.rest) == 0 {
		return 0, a.now.err
	}
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// end waits until the goroutine stops reading the stream. Read must not be called afterwards. A read in progress
// completes; ctx and the stall timeout bound it.
func (a *ahead) end() {
	for {
		select {
		case <-a.free:
			continue
		default:
		}
		break
	}
	close(a.free)
	for range a.full {
	}
}
