package fbc

import (
	"cmp"
	"errors"
	"iter"
	"os"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// benchBlobs returns the blobs of packages, by package, of the catalog directory in the environment variable
// FBC_CATALOG or else of testdata.
func benchBlobs(b *testing.B) (blobs map[string][][]byte, size int) {
	fsys := os.DirFS(cmp.Or(os.Getenv("FBC_CATALOG"), "testdata/small"))
	files, err := scan.Files(fsys)
	if err != nil {
		b.Fatal(err)
	}
	blobs = map[string][][]byte{}
	for _, name := range files {
		err := scan.ReadFile(fsys, name, 0, func(blob scan.Blob) error {
			if pkg, required := PackageOf(blob.Schema, blob.Package, blob.Name); required {
				blobs[pkg] = append(blobs[pkg], append([]byte(nil), blob.JSON...))
				size += len(blob.JSON)
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	return blobs, size
}

func each(blobs [][]byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, blob := range blobs {
			if !yield(blob, nil) {
				return
			}
		}
	}
}

// BenchmarkLoadPackage loads all packages of a catalog.
func BenchmarkLoadPackage(b *testing.B) {
	blobs, size := benchBlobs(b)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		for name, list := range blobs {
			_, err := LoadPackage(name, each(list))
			var invalid *InvalidPackageError
			if err != nil && !errors.As(err, &invalid) {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkCSV reads the ClusterServiceVersions of all channel heads of a catalog.
func BenchmarkCSV(b *testing.B) {
	blobs, _ := benchBlobs(b)
	var heads [][]byte
	size := 0
	for name, list := range blobs {
		p, err := LoadPackage(name, each(list))
		if err != nil {
			continue
		}
		isHead := map[string]bool{}
		for _, ch := range p.Channels {
			isHead[ch.Head] = true
		}
		for _, blob := range list {
			if b, err := scan.ParseBlob(blob); err == nil && b.Schema == SchemaBundle && isHead[b.Name] {
				heads = append(heads, blob)
				size += len(blob)
			}
		}
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.ReportMetric(float64(len(heads)), "heads")
	for b.Loop() {
		for _, head := range heads {
			if _, err := CSV(head, ""); err != nil {
				b.Fatal(err)
			}
		}
	}
}
