package scan

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
)

// addSeeds adds the files of testdata with an extension, except large ones.
func addSeeds(f *testing.F, ext string) {
	f.Helper()
	err := filepath.WalkDir("../testdata", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ext || strings.Contains(path, "/fuzz/") {
			return err
		}
		text, err := os.ReadFile(path)
		if len(text) < 20_000 {
			f.Add(text)
		}
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
}

// checkBlob checks the documented properties of a blob and returns its value, with numbers as text.
func checkBlob(t *testing.T, b Blob) map[string]any {
	t.Helper()
	if b.Schema == "" || bytes.ContainsAny(b.JSON, "\n\r") || !json.Valid(b.JSON) {
		t.Fatalf("got the blob %+q", b.JSON)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, b.JSON); err != nil || !bytes.Equal(compact.Bytes(), b.JSON) {
		t.Fatalf("the blob is not compact: %s", b.JSON)
	}
	value, err := decodeNumbersAsText(json.NewDecoder(bytes.NewReader(b.JSON)))
	if err != nil {
		t.Fatal(err)
	}
	object, ok := value.(map[string]any)
	if !ok {
		t.Fatalf("the blob is not an object: %s", b.JSON)
	}
	return object
}

func decodeNumbersAsText(dec *json.Decoder) (v any, err error) {
	dec.UseNumber()
	return v, dec.Decode(&v)
}

// FuzzJSON compares accepted files, blob by blob, with what encoding/json reads.
func FuzzJSON(f *testing.F) {
	addSeeds(f, ".json")
	f.Fuzz(func(t *testing.T, text []byte) {
		if !bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")) {
			return // YAML
		}
		var got []any
		err := ReadFile(fstest.MapFS{"c.json": {Data: text}}, "c.json", 1<<20, func(b Blob) error {
			got = append(got, checkBlob(t, b))
			return nil
		})
		var where *Error
		if err != nil && !errors.As(err, &where) {
			t.Fatalf("got %T %v, want an *Error", err, err)
		}
		dec := json.NewDecoder(bytes.NewReader(text))
		for i, blob := range got {
			want, err := decodeNumbersAsText(dec)
			if err != nil {
				t.Fatalf("blob %d is accepted, encoding/json gives %v", i, err)
			}
			if !reflect.DeepEqual(want, blob) { // cmp takes time exponential in the depth
				t.Fatalf("blob %d: got %v, want %v", i, blob, want)
			}
		}
		if _, more := decodeNumbersAsText(dec); err == nil && !errors.Is(more, io.EOF) {
			t.Fatalf("the file is accepted after %d blobs, but there is more", len(got))
		}
	})
}

// FuzzYAML checks that YAML cannot exceed the limits and that accepted YAML becomes JSON.
func FuzzYAML(f *testing.F) {
	addSeeds(f, ".yaml")
	f.Add([]byte("schema: s\na: &x [1, {b: *x, <<: {c: !!binary aGVsbG8=}}]\n? k\n: |\n  text\n--- {schema: t, d: 0x1F}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		const maxBlob = 1 << 20
		err := ReadFile(fstest.MapFS{"c.yaml": {Data: text}}, "c.yaml", maxBlob, func(b Blob) error {
			if len(b.JSON) > maxBlob {
				t.Fatalf("got a blob of %d bytes", len(b.JSON))
			}
			checkBlob(t, b)
			return nil
		})
		var where *Error
		if err != nil && !errors.As(err, &where) {
			t.Fatalf("got %T %v, want an *Error", err, err)
		}
	})
}
