package store

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
)

// fileSink records what is written to it and, if asked, which runs arrive as a part of the file.
type fileSink struct {
	bytes.Buffer
	parts int
}

func (f *fileSink) ReadFrom(r io.Reader) (int64, error) {
	if s, ok := r.(*io.SectionReader); ok {
		if at, _, _ := s.Outer(); at != nil {
			if _, ok := at.(*os.File); ok {
				f.parts++
			}
		}
	}
	return f.Buffer.ReadFrom(r)
}

// WriteTo writes the same bytes as Read, from any position. A writer that accepts parts of a file gets long runs and
// the last run as such.
func TestBlobsWriteTo(t *testing.T) {
	st := open(t, t.TempDir(), newClock())
	long := strings.Repeat("x", gathered)
	var lines strings.Builder
	for _, blob := range []string{
		`{"schema":"a","name":"1"}`, `{"schema":"b","name":"2"}`, `{"schema":"a","name":"3"}`, `{"schema":"b","name":"l","v":"` + long + `"}`,
		`{"schema":"a","name":"l","v":"` + long + `"}`, `{"schema":"b","name":"4"}`, `{"schema":"a","name":"5"}`, `{"schema":"a","name":"6"}`,
	} {
		lines.WriteString(blob + "\n")
	}
	snap := commit(t, st, "c", 1, files{"c.json": lines.String()})
	for name, test := range map[string]struct {
		query Query
		parts int // of which the file is given
	}{
		"all":     {Query{}, 1},
		"a":       {Query{Schema: "a"}, 2},
		"b":       {Query{Schema: "b"}, 2},
		"one":     {Query{Name: "3"}, 1},
		"nothing": {Query{Name: "7"}, 0},
	} {
		blobs := snap.Select(test.query)
		want, err := io.ReadAll(struct{ io.Reader }{blobs})
		if err != nil {
			t.Fatal(err)
		}
		for _, from := range []int64{0, 1, int64(len(want)) / 2} {
			for _, direct := range []bool{true, false} {
				if _, err := blobs.Seek(from, io.SeekStart); err != nil {
					t.Fatal(err)
				}
				var sink fileSink
				var w io.Writer = &sink
				if !direct {
					w = struct{ io.Writer }{w}
				}
				n, err := blobs.WriteTo(w)
				rest := want[min(from, int64(len(want))):]
				if err != nil || n != int64(len(rest)) || !bytes.Equal(sink.Bytes(), rest) {
					t.Errorf("%s from %d, direct %t: got %d bytes, %v; want %d", name, from, direct, n, err, len(rest))
				}
				if direct && from == 0 && sink.parts != test.parts {
					t.Errorf("%s: %d parts of the file, want %d", name, sink.parts, test.parts)
				}
			}
		}
	}
}
