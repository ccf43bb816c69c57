package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/catalogimage"
)

// README.md shows the digest of the sample that `make run` pushes.
func TestReadmeShowsSampleDigest(t *testing.T) {
	root := filepath.Join("..", "..")
	index, err := catalogimage.Build(filepath.Join(root, sampleCatalog))
	if err != nil {
		t.Fatal(err)
	}
	digest, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^sample +\S+/`+sampleImage+` +([0-9a-f]{12}) `).FindAllStringSubmatch(string(readme), -1)
	if len(rows) == 0 {
		t.Error("README.md has no row of `kubectl catalog list`")
	}
	for _, row := range rows {
		if row[1] != digest.Hex[:12] {
			t.Errorf("README.md shows the digest %s, want %s", row[1], digest.Hex[:12])
		}
	}
}
