package unpack

import "io"

// aheadChunks of aheadSize bytes are how far a layer is decompressed ahead: while a file is made, which may take the disk a
// millisecond.
const (
	aheadChunks = 4
	aheadSize   = 256 << 10
)

// ahead reads a stream in a goroutine of its own, so that decompressing and writing files go on side by side.
type ahead struct {
	full chan chunk  // closed when the goroutine has ended
	free chan []byte // closed to end it
	now  chunk
	rest []byte // of now, to be read next
}

// chunk is a piece of a stream, and the error that came behind it.
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
		if fault := recover(); fault != nil { // of a decompressor: one image is not to end the process
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

// end waits until nothing more is read of the stream; nor must be of this. What is being read then is read to its end, which ctx and the watch
// on stalled transfers bound.
func (a *ahead) end() {
	for {
		select {
		case <-a.free: // it is not to be filled
			continue
		default:
		}
		break
	}
	close(a.free)
	for range a.full {
	}
}
