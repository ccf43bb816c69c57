package scan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
)

// pieceReader returns a text in small pieces.
type pieceReader struct {
	text  []byte
	piece int
}

func (r *pieceReader) Read(p []byte) (int, error) {
	if len(r.text) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.text[:min(len(r.text), r.piece)])
	r.text = r.text[n:]
	return n, nil
}

// FuzzSplitter compares the splitter with encoding/json for input cut into pieces.
func FuzzSplitter(f *testing.F) {
	for i, text := range jsonTexts() {
		if len(text) < 5000 { // a long one takes the fuzzer's time
			f.Add([]byte(text), uint8(i%3), uint8(i), uint16(100*i))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, window, piece uint8, limit uint16) {
		if err := compareWithLibrary(text, minWindow+int(window), 1+int(piece), int(limit)); err != nil {
			t.Fatal(err)
		}
	})
}

// compareWithLibrary returns the first difference between the splitter and encoding/json, for a window size, a
// piece size and a limit of an object. The splitter must refuse objects over the limit.
func compareWithLibrary(text []byte, window, piece, limit int) error {
	s := newSplitter(window)
	s.reset(&pieceReader{text, piece}, int64(limit))
	dec := json.NewDecoder(bytes.NewReader(text))
	for n := 0; ; n++ {
		var raw json.RawMessage
		want := dec.Decode(&raw)
		if want == nil && (raw[0] != '{' || len(raw) > limit) {
			want = errors.New("no object, or too large")
		}
		got := s.next()
		if errors.Is(want, io.EOF) != errors.Is(got, io.EOF) || (want == nil) != (got == nil) {
			return fmt.Errorf("object %d: got %w, encoding/json gives %w", n, got, want)
		}
		if want != nil {
			return nil
		}
		if end := s.offset(s.run); end != dec.InputOffset() || end-s.start != int64(len(raw)) {
			return fmt.Errorf("object %d: got it at %d to %d, want %d bytes up to %d", n, s.start, end, len(raw), dec.InputOffset())
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, raw); err != nil {
			return err
		}
		if !bytes.Equal(compact.Bytes(), s.out) {
			return fmt.Errorf("object %d: got %q, want %q", n, s.out, compact.Bytes())
		}
	}
}

// FuzzReadFile compares ReadFile with encoding/json: the same blobs, and the same error at the same line.
func FuzzReadFile(f *testing.F) {
	for _, text := range jsonTexts() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		const name = "c.json"
		fsys := fstest.MapFS{name: {Data: text}}
		if !bytes.HasPrefix(bytes.TrimLeft(bytes.TrimPrefix(text, []byte(utf8BOM)), " \t\r\n"), []byte("{")) {
			return // YAML
		}
		got, gotErr := readAll(fsys, name, 0)
		var want []Blob
		src := newBoundedReader(bytes.NewReader(bytes.TrimPrefix(text, []byte(utf8BOM))), DefaultMaxBlobBytes)
		wantErr := locate(fsys, name, src, decodeJSON(src, 0, true, visitOf(func(b Blob) error {
			b, _ = ParseBlob(bytes.Clone(b.JSON))
			want = append(want, b)
			return nil
		})))
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
			t.Errorf("got %v, want %v", gotErr, wantErr)
		}
	})
}

// stricter lists errors about input that operator-registry accepts.
var stricter = []string{"the top level is", "has no schema", "duplicate key", "exceeds the limit"}

// FuzzUpstream checks that JSON is read as operator-registry reads it.
func FuzzUpstream(f *testing.F) {
	for _, text := range jsonTexts() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !isJSONWithFloats(text) {
			return // upstream falls back to YAML, and numbers that are no float64 are too much for it
		}
		got, gotErr := readAll(fstest.MapFS{"c.json": {Data: text}}, "c.json", 0)
		var want []declcfg.Meta
		wantErr := declcfg.WalkMetasReader(bytes.NewReader(text), func(m *declcfg.Meta, err error) error {
			if err == nil {
				want = append(want, *m)
			}
			return err
		})
		for i := range min(len(got), len(want)) {
			b, m := got[i], want[i]
			if b.Schema != m.Schema || b.Package != m.Package || b.Name != m.Name || !reflect.DeepEqual(decode(t, b.JSON), decode(t, m.Blob)) {
				t.Fatalf("blob %d: got %+v, want %+v", i, b, m)
			}
		}
		switch {
		case len(got) > len(want) && wantErr != nil && strings.Contains(wantErr.Error(), "duplicate keys"): // of which we take any but three
		case len(got) < len(want) && gotErr != nil && saysOneOf(gotErr, stricter):
		case len(got) != len(want) || (gotErr == nil) != (wantErr == nil) && !saysOneOf(gotErr, stricter):
			t.Fatalf("got %d blobs and %v, want %d and %v", len(got), gotErr, len(want), wantErr)
		}
	})
}

// isJSONWithFloats reports whether a text is a stream of JSON objects whose numbers fit a float64.
func isJSONWithFloats(text []byte) bool {
	if !bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")) {
		return false
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	for n := 0; ; n++ {
		var object map[string]any
		if err := dec.Decode(&object); err != nil {
			return n > 0 && errors.Is(err, io.EOF)
		}
	}
}

func saysOneOf(err error, texts []string) bool {
	for _, text := range texts {
		if err != nil && strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}
