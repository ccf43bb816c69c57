package store

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

func TestSweepAfterGrace(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	s := open(t, dir, c, func(o *Options) { o.Grace = time.Hour })
	snapshots := filepath.Join(dir, "snapshots")
	key := func(n int) string { return source(n).Key() }
	commit(t, s, "cat", 1, blobs("1"))
	commit(t, s, "cat", 2, blobs("2"))
	c.advance(30 * time.Minute)
	commit(t, s, "cat", 3, blobs("3"))
	c.advance(30*time.Minute - time.Nanosecond)
	sweep(t, s)
	wantNames(t, snapshots, key(1), key(2), key(3))
	c.advance(time.Nanosecond)
	sweep(t, s)
	wantNames(t, snapshots, key(2), key(3))
	if _, ok := s.Snapshot(key(1)); ok {
		t.Error("the deleted snapshot is still given")
	}

	s = reopen(t, s, dir, c, func(o *Options) { o.Grace = time.Hour }) // each process counts the grace period again
	c.advance(30 * time.Minute)
	sweep(t, s)
	c.advance(time.Hour - time.Nanosecond)
	sweep(t, s)
	wantNames(t, snapshots, key(2), key(3))
	c.advance(time.Nanosecond)
	sweep(t, s)
	wantNames(t, snapshots, key(3))
	c.advance(1000 * time.Hour)
	sweep(t, s)
	serves(t, s, "cat", "3")
}

func TestSweepDeletesUnknownDirectories(t *testing.T) {
	v, c := testVolume{t, t.TempDir()}, newClock()
	s := open(t, v.dir, c)
	commit(t, s, "cat", 1, blobs("1"))
	v.write("what is this", "snapshots", "left", "by", "somebody")
	sweep(t, s)
	c.advance(15 * time.Minute)
	sweep(t, s)
	wantNames(t, v.path("snapshots"), source(1).Key())
}

func TestRemove(t *testing.T) {
	v, c := testVolume{t, t.TempDir()}, newClock()
	s := open(t, v.dir, c)
	commit(t, s, "stays", 7, blobs("stays"))
	commit(t, s, "stays", 8, blobs("stays, later"))
	for i := range 3 {
		commit(t, s, "goes", i, blobs("goes"))
	}
	for range 2 { // the second time there is none
		if err := s.Remove("goes"); err != nil {
			t.Fatal(err)
		}
		serves(t, s, "goes", "")
		serves(t, s, "stays", "stays, later")
		wantNames(t, v.path("catalogs"), "stays")
		// The snapshots of the removed catalog are deleted at once; the other's earlier one has its grace period.
		wantNames(t, v.path("snapshots"), source(7).Key(), source(8).Key())
		wantNames(t, v.path("stage"))
	}
	serves(t, reopen(t, s, v.dir, c), "goes", "")
}

func TestRemoveKeepsSharedSnapshots(t *testing.T) {
	v, c := testVolume{t, t.TempDir()}, newClock()
	s := open(t, v.dir, c)
	a := commit(t, s, "a", 1, blobs("shared"))
	if b := commit(t, s, "b", 1, blobs("shared")); a != b {
		t.Error("one image has two snapshots")
	}
	if err := s.Remove("a"); err != nil {
		t.Fatal(err)
	}
	serves(t, s, "b", "shared")
	s = reopen(t, s, v.dir, c)
	serves(t, s, "b", "shared")
	if err := s.Remove("b"); err != nil {
		t.Fatal(err)
	}
	wantNames(t, v.path("snapshots"))
}

// Nothing deletes a snapshot between its publication by a commit and the pointer: no full volume, no removal of its
// only catalog, no end of another commit.
func TestSweepKeepsAwaitedSnapshots(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	s := open(t, dir, c)
	commit(t, s, "gone", 1, blobs("one"))
	publish := func(name string, n int) *Snapshot {
		st := stage(t, s, name, blobs("one"))
		must.Succeed(t, st.write(t.Context(), source(n)))
		snap, err := st.publish(source(n))
		must.Succeed(t, err)
		return snap
	}
	stored, made := publish("cat", 1), publish("new", 2)
	must.Succeed(t, s.Remove("gone"))
	if again := publish("other", 2); again != made {
		t.Error("one content has two snapshots")
	}
	made.awaited.Add(-1) // as the commit to new has failed
	must.Succeed(t, s.Reclaim())
	must.Succeed(t, s.point("cat", Source{Image: source(1).Image}, stored))
	must.Succeed(t, s.point("other", Source{Image: source(2).Image}, made))
	serves(t, s, "cat", "one")
	serves(t, s, "other", "one")
	made.awaited.Add(-1)
	must.Succeed(t, s.Remove("other"))
	wantNames(t, filepath.Join(dir, snapshotsDir), source(1).Key())
}

func TestRemoveOfUnservableCatalog(t *testing.T) {
	v, c := testVolume{t, t.TempDir()}, newClock()
	s := open(t, v.dir, c)
	commit(t, s, "cat", 1, blobs("one"))
	v.write("no pointer", "catalogs", "cat")
	s = reopen(t, s, v.dir, c)
	serves(t, s, "cat", "")
	if err := s.Remove("cat"); err != nil {
		t.Fatal(err)
	}
	wantNames(t, v.path("catalogs"))
}

func TestReadersFinishAfterRemove(t *testing.T) {
	v, c := testVolume{t, t.TempDir()}, newClock()
	s := open(t, v.dir, c)
	long := strings.Repeat("long ", 100_000)
	held := commit(t, s, "cat", 1, blobs(long))
	f, err := held.OpenAll()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	reader := held.Select(Query{})
	begun := make([]byte, 100)
	if _, err := io.ReadFull(reader, begun); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove("cat"); err != nil {
		t.Fatal(err)
	}
	wantNames(t, v.path("snapshots"))

	want := blobs(long)["c.json"] + "\n"
	rest, err := io.ReadAll(reader)
	if err != nil || string(begun)+string(rest) != want {
		t.Errorf("the reader got %d bytes, %v", len(begun)+len(rest), err)
	}
	if b, err := io.ReadAll(f); err != nil || string(b) != want {
		t.Errorf("the file gave %d bytes, %v", len(b), err)
	}
	if got := text(t, held); got != want {
		t.Errorf("the snapshot gives %d bytes", len(got))
	}
	again, err := held.OpenAll()
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if b, err := io.ReadAll(again); err != nil || string(b) != want {
		t.Errorf("the file opened again has %d bytes, %v", len(b), err)
	}
}

func TestScrub(t *testing.T) {
	v, c := testVolume{t, t.TempDir()}, newClock()
	s := open(t, v.dir, c)
	commit(t, s, "a", 1, blobs("one"))
	commit(t, s, "b", 2, blobs("two"))
	commit(t, s, "c", 2, blobs("two"))
	if damaged, err := s.Scrub(context.Background()); err != nil || len(damaged) > 0 {
		t.Errorf("got %q %v, want nothing damaged", damaged, err)
	}
	v.write(strings.Replace(v.read("snapshots", source(2).Key(), catalogFile), "two", "TWO", 1), "snapshots", source(2).Key(), catalogFile)
	for range 2 {
		damaged, err := s.Scrub(context.Background())
		if err != nil || strings.Join(damaged, " ") != "b c" {
			t.Errorf("got %q %v, want b and c damaged", damaged, err)
		}
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Scrub(cancelled); err == nil {
		t.Error("no error when told to stop")
	}
}
