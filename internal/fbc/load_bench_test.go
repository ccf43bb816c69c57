package fbc

import (
	"cmp"
	"errors"
	"os"
	"testing"
)

// BenchmarkLoadPackage loads all packages of the catalog directory that the environment variable FBC_CATALOG names or,
// without it, of testdata.
func BenchmarkLoadPackage(b *testing.B) {
	fsys := os.DirFS(cmp.Or(os.Getenv("FBC_CATALOG"), "testdata/small"))
	files, err := Files(fsys)
	if err != nil {
		b.Fatal(err)
	}
	blobs, size := map[string][]string{}, 0
	for _, name := range files {
		err := ReadFile(fsys, name, 0, func(blob Blob) error {
			if pkg, required := blob.PackageName(); required {
				blobs[pkg] = append(blobs[pkg], string(blob.JSON))
				size += len(blob.JSON)
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		for name, list := range blobs {
			_, err := LoadPackage(name, sequence(list...))
			var invalid *InvalidPackageError
			if err != nil && !errors.As(err, &invalid) {
				b.Fatal(err)
			}
		}
	}
}
