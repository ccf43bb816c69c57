package scan

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// readJSON reads a stream of JSON objects with the splitter. errNotPlain means that decodeJSON must continue at
// s.start.
func readJSON(s *splitter, v visit) error {
	for {
		if err := s.next(); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if err := v.object(s.out, Position{Offset: s.start}); err != nil {
			return err
		}
	}
}

// decodeJSON reads a stream of JSON values with encoding/json, which gives the error messages. src begins at offset
// base of the file; first reports that no blob was read before.
func decodeJSON(src *boundedReader, base int64, first bool, v visit) error {
	dec := json.NewDecoder(src)
	var raw json.RawMessage
	var compact bytes.Buffer
	for ; ; first = false {
		src.read = 0
		start := base + dec.InputOffset()
		if err := dec.Decode(&raw); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return jsonError(err, base, start, first)
		}
		if int64(len(raw)) > src.max {
			return &offsetError{offset: start, err: src.errTooLarge()}
		}
		compact.Reset()
		if err := json.Compact(&compact, raw); err != nil {
			return &offsetError{offset: start, err: err}
		}
		if err := v.object(compact.Bytes(), Position{Offset: start}); err != nil {
			return err
		}
	}
}

// jsonError adds the offset to an error of a decoder: its own for a syntax error, else the start of the blob. The
// input of the decoder begins at offset base of the file.
func jsonError(err error, base, start int64, first bool) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) { // its Offset counts the wrong byte
		return &offsetError{offset: base + syntax.Offset - 1, err: err, firstSyntax: first}
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return &offsetError{offset: start, err: errors.New("the file ends in the middle of this blob")}
	}
	return &offsetError{offset: start, err: err}
}

// splitter finds the objects in a stream of JSON and makes each compact, in one pass over a window of the input.
// It accepts what encoding/json accepts. It leaves errors to encoding/json, the only source of messages.
//
// A splitter is not safe for concurrent use. It can be reused after reset.
type splitter struct {
	src io.Reader
	err error // of src, including io.EOF

	buf     []byte // the window: end bytes of the input, then windowPad zeros
	end     int
	base    int64 // the offset in the input of the window's first byte
	start   int64 // the offset of the current object
	objects int   // number of objects read
	max     int64 // limit of an object in bytes

	out     []byte  // the object without white space
	run     int     // start of the bytes of the window that are not copied to out yet
	parents []state // for each enclosing container, the state after a value
}

const (
	windowSize = 128 << 10
	minWindow  = unicodeLen // the longest token that must fit into the window
	// windowPad is the number of bytes that can be read beyond the end of the window. They are NUL, which is not
	// valid JSON anywhere, so it ends every loop.
	windowPad = 8
)

func newSplitter(window int) *splitter {
	return &splitter{buf: make([]byte, window+windowPad), parents: make([]state, 0, 16)}
}

// reset prepares the splitter to read objects of up to maxBlob bytes from src.
func (s *splitter) reset(src io.Reader, maxBlob int64) {
	s.src, s.err, s.max = src, nil, maxBlob
	s.end, s.base, s.start, s.run, s.objects = 0, 0, 0, 0, 0
	clear(s.buf[:windowPad])
}

// errNotPlain means that encoding/json must read the object at splitter.start.
var errNotPlain = errors.New("not an object of JSON")

// next reads an object into out, as compact JSON that is valid until the next call. At the end of the input it
// returns io.EOF. It returns errors of the source unchanged.
func (s *splitter) next() error {
	i := s.endOfSpace(s.run)
	s.run = i
	s.start = s.base + int64(i)
	s.out, s.parents = s.out[:0], s.parents[:0]
	if i == s.end {
		return s.err
	}
	i = s.object(i)
	if i < 0 || s.offset(i)-s.start > s.max {
		if s.err != nil && s.err != io.EOF { //nolint:errorlint // io.Reader promises that very value
			return s.err
		}
		return errNotPlain
	}
	s.flush(i)
	s.objects++
	return nil
}

func (s *splitter) offset(i int) int64 { return s.base + int64(i) }

// flush copies the window up to i to out.
func (s *splitter) flush(i int) {
	s.out = append(s.out, s.buf[s.run:i]...)
	s.run = i
}

// fill ensures that n bytes are available at i, unless the input ends or the object is too large. It flushes the
// bytes before i and returns the new position of i.
func (s *splitter) fill(i, n int) int {
	s.flush(i)
	for s.end-i < n && s.err == nil && s.offset(i)-s.start <= s.max {
		copy(s.buf, s.buf[i:s.end])
		s.base += int64(i)
		s.end -= i
		i, s.run = 0, 0
		read, err := s.src.Read(s.buf[s.end : len(s.buf)-windowPad])
		s.end += read
		s.err = err
		clear(s.buf[s.end : s.end+windowPad])
	}
	return i
}

// endOfSpace returns the position of the first byte at or after i that is not white space. It discards the white
// space.
func (s *splitter) endOfSpace(i int) int {
	for {
		i = skipSpace(s.buf, i)
		s.run, s.start = i, s.offset(i)
		if i < s.end {
			return i
		}
		if i = s.fill(i, 1); i == s.end {
			return i
		}
	}
}
