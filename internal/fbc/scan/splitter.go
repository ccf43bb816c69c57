package scan

import (
	"errors"
	"io"
)

// splitter finds the objects in a stream of JSON and makes each compact, in one pass over a window of the input. It
// accepts what encoding/json accepts; what it does not accept it leaves, without a word, to encoding/json, so that
// there is one source of messages.
//
// A splitter is one goroutine's, and may be used again after reset.
type splitter struct {
	src io.Reader
	err error // of src, io.EOF included

	buf     []byte // the window: end bytes of the input, then windowPad zeros
	end     int
	base    int64 // the offset in the input of the window's first byte
	start   int64 // the offset of the object that is being read
	objects int   // how many were read
	max     int64 // most bytes of an object

	out     []byte  // the object without white space
	run     int     // where in the window begins what is to be copied to out
	parents []state // what follows a value in each container around the present one
}

const (
	windowSize = 128 << 10
	minWindow  = unicodeLen // the longest token that has to lie in the window as a whole
	// windowPad is how far behind a position of the window one may read: a NUL, which no JSON has outside of strings nor
	// in them, ends every loop there.
	windowPad = 8
)

func newSplitter(window int) *splitter {
	return &splitter{buf: make([]byte, window+windowPad), parents: make([]state, 0, 16)}
}

// reset makes the splitter read objects of up to max bytes from src.
func (s *splitter) reset(src io.Reader, maxBlob int64) {
	s.src, s.err, s.max = src, nil, maxBlob
	s.end, s.base, s.start, s.run, s.objects = 0, 0, 0, 0, 0
	clear(s.buf[:windowPad])
}

// errNotPlain says that the object at splitter.start, or what stands there, is for encoding/json to judge.
var errNotPlain = errors.New("not an object of JSON")

// next reads an object: its compact JSON and where its keys are lie in out and notes until the next call. At the end
// of the input it returns io.EOF; an error of the source comes as it is.
func (s *splitter) next() error {
	i := s.endOfSpace(s.run)
	s.run = i
	s.start = s.base + int64(i)
	s.out, s.parents = s.out[:0], s.parents[:0]
	if i == s.end {
		return s.err // of the source: the window was not filled
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

// fill sees to n bytes at i, unless the input ends or the object is too large; it returns where i is then. What is
// before i has gone to out. Behind the last byte of the window stands a NUL.
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

// endOfSpace returns the position of the first byte from i on that is no white space. What is before it is not copied.
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
