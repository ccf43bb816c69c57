package store

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// Content gives what Read does, as a section of the file where the blobs are contiguous; Read fills its buffer across runs.
func TestBlobsContent(t *testing.T) {
	st := open(t, t.TempDir(), newClock())
	long := strings.Repeat("x", 32<<10)
	var lines strings.Builder
	for _, blob := range []string{
		`{"schema":"a","name":"1"}`, `{"schema":"b","name":"2"}`, `{"schema":"a","name":"3"}`, `{"schema":"b","name":"l","v":"` + long + `"}`,
		`{"schema":"a","name":"l","v":"` + long + `"}`, `{"schema":"b","name":"4"}`, `{"schema":"a","name":"5"}`, `{"schema":"a","name":"6"}`,
	} {
		lines.WriteString(blob + "\n")
	}
	snap := commit(t, st, "c", 1, files{"c.json": lines.String()})
	for name, test := range map[string]struct {
		query   Query
		section bool
	}{
		"all":     {Query{}, true},
		"a":       {Query{Schema: "a"}, false},
		"b":       {Query{Schema: "b"}, false},
		"one":     {Query{Name: "3"}, true},
		"nothing": {Query{Name: "7"}, false},
	} {
		blobs := snap.Select(test.query)
		want, err := io.ReadAll(iotest.OneByteReader(blobs))
		if err != nil {
			t.Fatal(err)
		}
		content := blobs.Content()
		if _, section := content.(*io.SectionReader); section != test.section {
			t.Errorf("%s: got a %T", name, content)
		}
		for _, from := range []int64{0, 1, int64(len(want)) / 2} {
			rest := want[min(from, int64(len(want))):]
			for _, reader := range []io.ReadSeeker{content, blobs} {
				if _, err := reader.Seek(from, io.SeekStart); err != nil {
					t.Fatal(err)
				}
				got := make([]byte, len(rest)+1)
				n, err := reader.Read(got)
				if n != len(rest) || err != nil && !errors.Is(err, io.EOF) || !bytes.Equal(got[:n], rest) {
					t.Errorf("%s from %d: %T gave %d bytes, %v; want %d", name, from, reader, n, err, len(rest))
				}
			}
		}
	}
}
