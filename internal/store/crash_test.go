package store

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// testVolume is a directory in a state that a crash can leave.
type testVolume struct {
	t   *testing.T
	dir string
}

func (v testVolume) path(elem ...string) string {
	return filepath.Join(append([]string{v.dir}, elem...)...)
}

func (v testVolume) write(text string, elem ...string) {
	v.t.Helper()
	if err := os.MkdirAll(filepath.Dir(v.path(elem...)), 0o755); err != nil {
		v.t.Fatal(err)
	}
	if err := os.WriteFile(v.path(elem...), []byte(text), 0o644); err != nil {
		v.t.Fatal(err)
	}
}

func (v testVolume) read(elem ...string) string {
	v.t.Helper()
	b, err := os.ReadFile(v.path(elem...))
	if err != nil {
		v.t.Fatal(err)
	}
	return string(b)
}

func (v testVolume) remove(elem ...string) {
	v.t.Helper()
	if err := os.RemoveAll(v.path(elem...)); err != nil {
		v.t.Fatal(err)
	}
}

func (v testVolume) move(from, to string) {
	v.t.Helper()
	if err := os.MkdirAll(filepath.Dir(v.path(to)), 0o755); err != nil {
		v.t.Fatal(err)
	}
	if err := os.Rename(v.path(from), v.path(to)); err != nil {
		v.t.Fatal(err)
	}
}

func (v testVolume) copy(from, to string) {
	v.t.Helper()
	if err := os.CopyFS(v.path(to), os.DirFS(v.path(from))); err != nil {
		v.t.Fatal(err)
	}
}

var oldKey, newKey = source(1).Key(), source(2).Key()

// Each case takes a volume on which the catalog "cat" went from old to new and "other" is served, and changes it to
// what a crash can leave.
func TestCrash(t *testing.T) {
	for name, c := range map[string]struct {
		crash func(v testVolume, oldPointer string)
		want  string // what "cat" serves after the next start
		keys  []string
	}{
		"none": {func(testVolume, string) {}, "new", []string{oldKey, newKey}},
		"while files are unpacked": {func(v testVolume, p string) {
			v.write(p, "catalogs", "cat")
			v.remove("snapshots", newKey)
			v.write(`{"sche`, "stage", "1", "files", "deep", "c.json")
		}, "old", []string{oldKey}},
		"while the snapshot is written": {func(v testVolume, p string) {
			v.write(p, "catalogs", "cat")
			v.move("snapshots/"+newKey, "stage/1/snapshot")
			v.remove("stage", "1", "snapshot", "snapshot.json")
		}, "old", []string{oldKey}},
		"before the snapshot is published": {func(v testVolume, p string) {
			v.write(p, "catalogs", "cat")
			v.move("snapshots/"+newKey, "stage/1/snapshot")
		}, "old", []string{oldKey}},
		"after the snapshot is published": {func(v testVolume, p string) {
			v.write(p, "catalogs", "cat")
			v.write("left", "stage", "1", "files", "c.json")
		}, "old", []string{oldKey, newKey}},
		"the new pointer is made, empty": {func(v testVolume, p string) {
			v.write(p, "catalogs", "cat")
			v.write("", "catalogs", ".tmp-cat")
		}, "old", []string{oldKey, newKey}},
		"the new pointer is half written": {func(v testVolume, p string) {
			v.write(p, "catalogs", "cat")
			v.write(`{"snapshot":"sha`, "catalogs", ".tmp-cat")
		}, "old", []string{oldKey, newKey}},
		"the new pointer is written, not yet renamed": {func(v testVolume, p string) {
			v.write(v.read("catalogs", "cat"), "catalogs", ".tmp-cat")
			v.write(p, "catalogs", "cat")
		}, "old", []string{oldKey, newKey}},
		"the stage is not yet discarded": {func(v testVolume, _ string) {
			v.write("left", "stage", "1", "files", "c.json")
		}, "new", []string{oldKey, newKey}},
		"the first pointer of all is not yet renamed": {func(v testVolume, _ string) {
			v.move("catalogs/cat", "catalogs/.tmp-cat")
		}, "", []string{oldKey, newKey}},
		"removing: the pointer is gone": {func(v testVolume, _ string) {
			v.remove("catalogs", "cat")
		}, "", []string{oldKey, newKey}},
		"removing: the snapshot is in its grave": {func(v testVolume, _ string) {
			v.remove("catalogs", "cat")
			v.move("snapshots/"+newKey, "stage/deleted-"+newKey)
		}, "", []string{oldKey}},
		"sweeping: the grave is half empty": {func(v testVolume, _ string) {
			v.move("snapshots/"+oldKey, "stage/deleted-"+oldKey)
			v.remove("stage", "deleted-"+oldKey, "index")
		}, "new", []string{newKey}},
		"a damaged snapshot stepped aside for its like": {func(v testVolume, _ string) {
			v.move("snapshots/"+newKey, "snapshots/"+newKey+".damaged")
		}, "new", []string{oldKey, newKey + ".damaged"}},
		"and its like is there, the damaged one not yet deleted": {func(v testVolume, _ string) {
			v.copy("snapshots/"+newKey, "snapshots/"+newKey+".damaged")
		}, "new", []string{oldKey, newKey}},
		"and the pointer has no snapshot, the old is swept": {func(v testVolume, _ string) {
			v.remove("snapshots", newKey)
			v.remove("snapshots", oldKey)
		}, "", nil},
		"the first start, before the format is renamed": {func(v testVolume, _ string) {
			v.move("format", ".tmp-format")
		}, "new", []string{oldKey, newKey}},
		"a start, while the stage is emptied": {func(v testVolume, _ string) {
			v.remove("stage")
			v.remove("refused")
		}, "new", []string{oldKey, newKey}},
	} {
		t.Run(name, func(t *testing.T) {
			v := testVolume{t, t.TempDir()}
			clock := newClock()
			s := open(t, v.dir, clock)
			commit(t, s, "other", 9, blobs("other"))
			commit(t, s, "cat", 1, blobs("old"))
			oldPointer := v.read("catalogs", "cat")
			commit(t, s, "cat", 2, blobs("new"))
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			c.crash(v, oldPointer)

			s = open(t, v.dir, clock)
			serves(t, s, "cat", c.want)
			serves(t, s, "other", "other")
			wantNames(t, v.path("stage"))
			wantNames(t, v.path("snapshots"), append(c.keys, source(9).Key())...)
			for _, name := range names(t, v.path("catalogs")) {
				if name != "cat" && name != "other" {
					t.Errorf("catalogs/%s is left", name)
				}
			}
			recovers(t, s, v, clock)
		})
	}
}

// recovers checks that the next attempt succeeds, and that only served content stays forever.
func recovers(t *testing.T, s *Store, v testVolume, c *clock) {
	t.Helper()
	commit(t, s, "cat", 2, blobs("new"))
	serves(t, s, "cat", "new")
	for range 2 {
		sweep(t, s) // the first sees what nothing points to, the second deletes it
		c.advance(15 * time.Minute)
	}
	sweep(t, s)
	wantNames(t, v.dir, "bundles", "catalogs", "format", "lock", "refused", "snapshots", "stage", "whole")
	wantNames(t, v.path("catalogs"), "cat", "other")
	wantNames(t, v.path("snapshots"), newKey, source(9).Key())
	s = reopen(t, s, v.dir, c)
	serves(t, s, "cat", "new")
	serves(t, s, "other", "other")
}

// The next attempt uses a snapshot that a crash left without a pointer.
func TestPublishedSnapshotIsUsedAfterACrash(t *testing.T) {
	v, clock := testVolume{t, t.TempDir()}, newClock()
	s := open(t, v.dir, clock)
	commit(t, s, "cat", 1, blobs("one"))
	v.remove("catalogs", "cat")
	before := tree(t, v.path("snapshots"))
	s = reopen(t, s, v.dir, clock)
	snap, ok := s.Snapshot(oldKey)
	if !ok {
		t.Fatal("the snapshot is not given")
	}
	if err := s.point("cat", Source{Image: snap.Info().Image}, snap); err != nil {
		t.Fatal(err)
	}
	serves(t, s, "cat", "one")
	if after := tree(t, v.path("snapshots")); after[0] != before[0] || len(after) != len(before) {
		t.Errorf("the snapshot was written again:\n%q\n%q", before, after)
	}
}

// A swept snapshot cannot be served: a restart would not find it.
func TestSweptSnapshotCannotBeServed(t *testing.T) {
	v, clock := testVolume{t, t.TempDir()}, newClock()
	s := open(t, v.dir, clock)
	old := commit(t, s, "cat", 1, blobs("old"))
	commit(t, s, "cat", 2, blobs("new"))
	clock.advance(15 * time.Minute)
	sweep(t, s)
	if err := s.point("cat", Source{Image: old.Info().Image}, old); err == nil {
		t.Error("no error")
	}
	serves(t, s, "cat", "new")
	if _, ok := s.Snapshot(oldKey); ok {
		t.Error("the deleted snapshot is still given")
	}
	serves(t, reopen(t, s, v.dir, clock), "cat", "new")
}

// The states between the steps of a first commit, as a reader of the disk sees them.
func TestCommitIsAtomic(t *testing.T) {
	v := testVolume{t, t.TempDir()}
	s := open(t, v.dir, newClock())
	st := stage(t, s, "cat", blobs("one"))
	serves(t, s, "cat", "")
	wantNames(t, v.path("catalogs"))
	snap, err := st.Commit(context.Background(), source(1))
	if err != nil {
		t.Fatal(err)
	}
	if c := serves(t, s, "cat", "one"); c.Snapshot != snap {
		t.Error("another snapshot is served than Commit returned")
	}
	wantNames(t, v.path("snapshots", snap.Key()), "catalog.jsonl", "index", "packages", "snapshot.json")
	if err := st.Discard(); err != nil {
		t.Fatal(err)
	}
	wantNames(t, v.path("stage"))
}
