package main

import (
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
)

func startRegistry(t *testing.T) (host string) {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// writeTree writes files (content by name) to a new directory.
func writeTree(t *testing.T, files map[string]string, mode os.FileMode, modified time.Time) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, modified, modified); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func push(t *testing.T, dir, image string) string {
	t.Helper()
	var stdout bytes.Buffer
	if err := run(t.Context(), []string{dir, image}, &stdout, io.Discard); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(stdout.String(), "\n")
}

func TestSameFilesGiveSameDigest(t *testing.T) {
	files := map[string]string{"foo/catalog.json": "{}", "bar/catalog.yaml": "a: b", ".indexignore": "*.md"}
	host := startRegistry(t)
	first := push(t, writeTree(t, files, 0o600, time.Unix(1, 0)), host+"/catalog:a")
	again := push(t, writeTree(t, files, 0o664, time.Unix(2, 0)), host+"/catalog:b")
	if first != again {
		t.Errorf("the same files gave %s, then %s", first, again)
	}
	if !strings.HasPrefix(first, host+"/catalog@sha256:") {
		t.Errorf("printed %q, want a reference by digest", first)
	}
	files["foo/catalog.json"] = "[]"
	if other := push(t, writeTree(t, files, 0o600, time.Unix(1, 0)), host+"/catalog:a"); other == first {
		t.Error("other files gave the same digest")
	}
}

func TestErrorsNameTheRemedy(t *testing.T) {
	host := startRegistry(t)
	good := writeTree(t, map[string]string{"foo/catalog.json": "{}"}, 0o644, time.Now())
	linked := writeTree(t, map[string]string{"foo/catalog.json": "{}"}, 0o644, time.Now())
	if err := os.Symlink("catalog.json", filepath.Join(linked, "foo", "more.json")); err != nil {
		t.Fatal(err)
	}
	closed := httptest.NewServer(nil)
	closed.Close()
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no arguments":  {nil, "want two: DIR and IMAGE; see --help"},
		"unknown flag":  {[]string{"--force"}, "see --help"},
		"no directory":  {[]string{filepath.Join(good, "nosuch"), host + "/c"}, "opening the catalog directory"},
		"empty":         {[]string{t.TempDir(), host + "/c"}, "give the directory that a catalog image has at /configs"},
		"symbolic link": {[]string{linked, host + "/c"}, "foo/more.json is no regular file"},
		"bad reference": {[]string{good, "Not An Image"}, "write it like 127.0.0.1:5005/catalogs/mine:latest"},
		"no registry":   {[]string{good, strings.TrimPrefix(closed.URL, "http://") + "/c"}, "does a registry listen at 127.0.0.1:"},
	} {
		t.Run(name, func(t *testing.T) {
			err := run(t.Context(), test.args, io.Discard, io.Discard)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want one that says %q", err, test.want)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	var stdout bytes.Buffer
	if err := run(t.Context(), []string{"--help"}, &stdout, io.Discard); err != nil {
		t.Fatal(err)
	}
	if stdout.String() != usage {
		t.Errorf("--help printed %q", stdout.String())
	}
}
