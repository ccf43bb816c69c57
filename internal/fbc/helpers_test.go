package fbc

import (
	"bytes"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// readText reads text as a file with the given name and returns its blobs. It checks the keys of each against
// its JSON.
func readText(t *testing.T, name, text string, maxBlob int64) ([]scan.Blob, error) {
	t.Helper()
	return readAll(fstest.MapFS{name: {Data: []byte(text)}}, name, maxBlob)
}

func readAll(fsys fs.FS, name string, maxBlob int64) ([]scan.Blob, error) {
	var blobs []scan.Blob
	err := scan.ReadFile(fsys, name, maxBlob, func(b scan.Blob) error {
		b, _ = scan.ParseBlob(bytes.Clone(b.JSON))
		blobs = append(blobs, b)
		return nil
	})
	return blobs, err
}

func jsonOf(blobs []scan.Blob) []string {
	var lines []string
	for _, b := range blobs {
		lines = append(lines, string(b.JSON))
	}
	return lines
}

// wantError checks that err is an *scan.Error of the path that contains text, or nil if text is empty.
func wantError(t *testing.T, err error, path, text string) {
	t.Helper()
	if text == "" {
		if err != nil {
			t.Errorf("got error %v, want none", err)
		}
		return
	}
	var where *scan.Error
	if !errors.As(err, &where) {
		t.Fatalf("got %T %v, want an *scan.Error with %q", err, err, text)
	}
	if where.Path != path {
		t.Errorf("got path %q, want %q", where.Path, path)
	}
	if !strings.Contains(err.Error(), text) {
		t.Errorf("got error %q, want one with %q", err, text)
	}
}
