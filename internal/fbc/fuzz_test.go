package fbc

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// addSeeds adds the files of testdata with an extension, except large ones.
func addSeeds(f *testing.F, ext string) {
	f.Helper()
	err := filepath.WalkDir("testdata", func(path string, d fs.DirEntry, err error) error {
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

// FuzzLoadPackage checks that no blob makes the libraries behind LoadPackage and CSV panic.
func FuzzLoadPackage(f *testing.F) {
	addSeeds(f, ".json")
	f.Add([]byte(pkgBlob("foo", "a") + channelBlob("foo", "a", "v2 replaces v1 skipRange >=1.0.0") + bundleBlob("foo", "v2", "2.0.0-a+b", csvMetadata)))
	f.Fuzz(func(t *testing.T, text []byte) {
		var blobs []string
		names := map[string]bool{"": true}
		_ = scan.ReadFile(fstest.MapFS{"c.json": {Data: text}}, "c.json", 1<<20, func(b scan.Blob) error {
			blobs = append(blobs, string(b.JSON))
			names[b.Name], names[b.Package] = true, true
			if b.Schema == SchemaBundle {
				if csv, err := CSV(b.JSON, ""); err == nil {
					Images(csv)
				}
			}
			return nil
		})
		for name := range names {
			p, err := LoadPackage(name, sequence(blobs...))
			var invalid *InvalidPackageError
			if err != nil && !errors.As(err, &invalid) || err == nil && p.Name != name {
				t.Fatalf("package %q: got %+v, %T %v", name, p, err, err)
			}
		}
	})
}
