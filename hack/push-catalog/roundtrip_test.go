package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"

	"github.com/operator-catalogs/catalogd/internal/unpack"
)

// TestUnpack gets the files back that were pushed.
func TestUnpack(t *testing.T) {
	files := map[string]string{
		"foo/catalog.json":          `{"schema":"olm.package","name":"foo"}`,
		"bar/channels/stable.yaml":  "schema: olm.channel\n",
		".indexignore":              "*.md\n",
		"bar/empty.json":            "",
		"bar/ünïcode and space.txt": "x",
	}
	image := push(t, writeTree(t, files, 0o600, time.Unix(1, 0)), startRegistry(t)+"/catalog:a")
	ref, err := name.NewDigest(image)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	result, err := unpack.Image(t.Context(), ref, root, unpack.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if result.ConfigDir != "/configs" || result.Files != len(files) {
		t.Errorf("got %+v, want the %d files of /configs", result, len(files))
	}
	got := map[string]string{}
	for file := range files {
		content, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		got[file] = string(content)
	}
	if diff := cmp.Diff(files, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}
