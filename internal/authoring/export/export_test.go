package export

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMayNotReplaceWhereOneIs(t *testing.T) {
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

func TestNames(t *testing.T) {
	n := names{taken: map[string]bool{"catalog.json": true}, of: map[string]string{}}
	seen := map[string]string{}
	for _, pkg := range []string{
		"a",
		"a.b-c_d",
		"A",
		"..",
		".",
		"",
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
		dir := n.dir(pkg)
		if !dirName.MatchString(dir) && !strings.HasPrefix(dir, "_") && !strings.HasPrefix(dir, "-") || len(dir) > 255 {
			t.Errorf("%q goes to %q", pkg, dir)
		}
		if other, ok := seen[strings.ToLower(dir)]; ok {
			t.Errorf("%q and %q both go to %q", pkg, other, dir)
		}
		seen[strings.ToLower(dir)] = pkg
		if again := n.dir(pkg); again != dir {
			t.Errorf("%q goes to %q, and to %q", pkg, dir, again)
		}
	}
	if n.dir("a") != "a" || n.dir("a.b-c_d") != "a.b-c_d" {
		t.Error("names that are good are changed")
	}
}
