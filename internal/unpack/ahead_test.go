package unpack

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

func TestReadAhead(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcde\n"), 3*aheadChunks*aheadSize/16+7)
	for name, r := range map[string]io.Reader{
		"whole":           bytes.NewReader(content),
		"in pieces":       iotest.HalfReader(bytes.NewReader(content)),
		"with the end":    iotest.DataErrReader(bytes.NewReader(content)),
		"behind an error": io.MultiReader(bytes.NewReader(content), iotest.ErrReader(errBroken)),
	} {
		t.Run(name, func(t *testing.T) {
			a := readAhead(r)
			defer a.end()
			got, err := io.ReadAll(a)
			if want := name == "behind an error"; !bytes.Equal(got, content) || errors.Is(err, errBroken) != want || (err != nil) != want {
				t.Errorf("got %d bytes, equal: %t, and %v; want %d bytes", len(got), bytes.Equal(got, content), err, len(content))
			}
			if _, again := a.Read(make([]byte, 1)); err != nil && !errors.Is(again, errBroken) {
				t.Errorf("reading on after the error: got %v", again)
			}
		})
	}
}

var errBroken = errors.New("broken")

// counted counts what is read of a stream without end. It belongs to one goroutine.
type counted int

func (c *counted) Read(p []byte) (int, error) {
	*c += counted(len(p))
	return len(p), nil
}

func TestReadAheadIsBounded(t *testing.T) {
	const most = (aheadChunks + 1) * aheadSize // one was taken, and given back
	for _, taken := range []int{0, 1, aheadSize + 1} {
		stream := new(counted)
		a := readAhead(stream)
		if _, err := io.ReadFull(a, make([]byte, taken)); err != nil {
			t.Fatal(err)
		}
		a.end() // from here on the stream is ours
		if *stream > most {
			t.Errorf("%d bytes were read after %d were taken, want %d at most", *stream, taken, most)
		}
	}
}

type panicking struct{}

func (panicking) Read([]byte) (int, error) { panic("no such state") }

func TestReadAheadOfPanickingReader(t *testing.T) {
	a := readAhead(panicking{})
	defer a.end()
	if _, err := a.Read(make([]byte, 1)); !isInvalid(err) {
		t.Errorf("got %v, want an *InvalidImageError", err)
	}
}
