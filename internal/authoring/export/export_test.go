package export

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestWorkingDirectoryIsNeverReplaced(t *testing.T) {
	t.Chdir(t.TempDir())
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{here, filepath.Dir(here), "/"} {
		if err := mayReplace(path, true); err == nil {
			t.Errorf("%s may be replaced", path)
		}
	}
}

func TestDirectoriesOfPackagesAreSafeAndUnique(t *testing.T) {
	seen := map[string]string{"catalog.json": ""}
	safe := regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	for _, pkg := range []string{
		"a",
		"a.b-c_d",
		"A",
		"..",
		".",
		"a/b",
		`a\b`,
		"catalog.json",
		"Catalog.JSON",
		".indexignore",
		"a.",
		"é",
		"a\x00",
		strings.Repeat("x", 300),
		strings.Repeat("é", 300),
	} {
		dir := dirOf(pkg)
		if !safe.MatchString(dir) || len(dir) > 255 {
			t.Errorf("%q is exported to %q", pkg, dir)
		}
		if other, ok := seen[strings.ToLower(dir)]; ok {
			t.Errorf("%q and %q are both exported to %q", pkg, other, dir)
		}
		seen[strings.ToLower(dir)] = pkg
	}
	if dirOf("a") != "a" || dirOf("a-b") != "a-b" {
		t.Error("valid names are changed")
	}
}
