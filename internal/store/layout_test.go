package store

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// asVersion changes the layout version until the test ends.
func asVersion(t *testing.T, version string) {
	before := layoutVersion
	layoutVersion = version
	t.Cleanup(func() { layoutVersion = before })
}

// within returns the lines of a tree in a directory, or, for "", outside the directories of other layouts.
func within(lines []string, dir string) []string {
	return slices.DeleteFunc(lines, func(line string) bool {
		name, _, _ := strings.Cut(line, " ")
		if dir == "" {
			return strings.HasPrefix(name, layoutPrefix) || name == lockFile || name == "."
		}
		return !strings.HasPrefix(name, dir+"/")
	})
}

// Upgrade, downgrade, upgrade: each version begins empty, finds its own content, and leaves that of the others alone.
func TestLayouts(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	s := open(t, dir, c)
	commit(t, s, "cat", 1, blobs("one"))
	must.Succeed(t, s.Close())
	first := within(tree(t, dir), "")

	asVersion(t, "2")
	s = open(t, dir, c)
	if got := s.Catalogs(); len(got) != 0 {
		t.Errorf("another layout's content is served: %v", got)
	}
	commit(t, s, "cat", 2, blobs("two"))
	s = reopen(t, s, dir, c)
	serves(t, s, "cat", "two")
	must.Succeed(t, s.Close())
	if diff := cmp.Diff(first, within(tree(t, dir), "")); diff != "" {
		t.Errorf("what the older version stored was touched, -before +after:\n%s", diff)
	}
	second := within(tree(t, dir), "layout-2")

	asVersion(t, "1")
	s = open(t, dir, c)
	serves(t, s, "cat", "one")
	commit(t, s, "other", 3, blobs("three"))
	must.Succeed(t, s.DropOlder())
	must.Succeed(t, s.Sweep())
	s = reopen(t, s, dir, c)
	serves(t, s, "other", "three")
	must.Succeed(t, s.Close())
	if diff := cmp.Diff(second, within(tree(t, dir), "layout-2")); diff != "" {
		t.Errorf("what the newer version stored was touched, -before +after:\n%s", diff)
	}

	asVersion(t, "2")
	s = open(t, dir, c)
	serves(t, s, "cat", "two")
	must.Succeed(t, os.Mkdir(filepath.Join(dir, "lost+found"), 0o755))
	must.Succeed(t, s.DropOlder())
	s = reopen(t, s, dir, c)
	serves(t, s, "cat", "two")
	must.Succeed(t, s.Close())
	wantNames(t, dir, "format", "layout-2", "lock", "lost+found")

	asVersion(t, "1")
	s = open(t, dir, c)
	commit(t, s, "cat", 1, blobs("one"))
	s = reopen(t, s, dir, c)
	serves(t, s, "cat", "one")
	must.Succeed(t, s.Close())

	asVersion(t, "3")
	s = open(t, dir, c)
	must.Succeed(t, s.DropOlder())
	wantNames(t, dir, "format", "layout-3", "lock", "lost+found")
}

func TestLayoutsAreLockedTogether(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	open(t, dir, c)
	asVersion(t, "2")
	if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), "another process uses the volume") {
		t.Errorf("got error %v, want that another process uses the volume", err)
	}
}

// Open leaves a directory alone that is not a store.
func TestLayoutErrors(t *testing.T) {
	for file, text := range map[string]string{"format": "hello", "./format": "", "layout-1/format": "2\n"} {
		dir := t.TempDir()
		must.Succeed(t, os.Mkdir(filepath.Join(dir, "layout-1"), 0o755))
		must.Succeed(t, os.WriteFile(filepath.Join(dir, "format"), []byte("0\n"), 0o644))
		must.Succeed(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644))
		before := within(tree(t, dir), "")
		want := "format is not from a store of catalogd"
		if strings.HasPrefix(file, layoutPrefix) {
			want = "layout-1 has layout version 2"
		}
		if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: got error %v, want one that says %q", file, err, want)
		}
		if diff := cmp.Diff(before, within(tree(t, dir), "")); diff != "" {
			t.Errorf("%s: it was touched, -before +after:\n%s", file, diff)
		}
	}
}
