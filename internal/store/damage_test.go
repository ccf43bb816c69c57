package store

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

var key = source(1).Key()

// damaged opens a volume after a change to the snapshot of the catalog "cat"; "other" is intact.
func damaged(t *testing.T, harm func(v testVolume)) (*Store, testVolume) {
	t.Helper()
	v, c := testVolume{t, t.TempDir()}, newClock()
	s := open(t, v.dir, c)
	commit(t, s, "cat", 1, blobs("one"))
	commit(t, s, "other", 2, blobs("other"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	harm(v)
	return open(t, v.dir, c), v
}

func (v testVolume) flip(at int, elem ...string) {
	v.t.Helper()
	b := []byte(v.read(elem...))
	b[(at+len(b))%len(b)] ^= 1
	v.write(string(b), elem...)
}

// Damage that Open detects removes only that catalog from service.
func TestOpenDetectsDamage(t *testing.T) {
	for name, harm := range map[string]func(v testVolume){
		"index and snapshot.json: missing": func(v testVolume) {
			v.remove("snapshots", key, indexFile)
			v.remove("snapshots", key, snapshotFile)
		},
		"index: missing, snapshot.json: of nothing": func(v testVolume) {
			v.remove("snapshots", key, indexFile)
			v.write("{}", "snapshots", key, snapshotFile)
		},
		"index: missing, snapshot.json: with another count": func(v testVolume) {
			v.remove("snapshots", key, indexFile)
			v.write(strings.Replace(v.read("snapshots", key, snapshotFile), `"blobs":1`, `"blobs":3`, 1), "snapshots", key, snapshotFile)
		},
		"index: missing, catalog.jsonl: no JSON": func(v testVolume) {
			v.remove("snapshots", key, indexFile)
			v.flip(0, "snapshots", key, catalogFile)
		},
		"index: missing, catalog.jsonl: not as it was written": func(v testVolume) {
			v.remove("snapshots", key, indexFile)
			v.write(strings.Replace(v.read("snapshots", key, catalogFile), `"example.com"`, ` "example.co"`, 1), "snapshots", key, catalogFile)
		},
		"catalog.jsonl: shorter": func(v testVolume) { v.write(`{"schema"`, "snapshots", key, catalogFile) },
		"catalog.jsonl: longer": func(v testVolume) {
			v.write(v.read("snapshots", key, catalogFile)+"x",
				"snapshots", key, catalogFile)
		},
		"catalog.jsonl: empty":             func(v testVolume) { v.write("", "snapshots", key, catalogFile) },
		"catalog.jsonl: missing":           func(v testVolume) { v.remove("snapshots", key, catalogFile) },
		"the snapshot is missing":          func(v testVolume) { v.remove("snapshots", key) },
		"the snapshot is a file":           func(v testVolume) { v.remove("snapshots", key); v.write("x", "snapshots", key) },
		"the pointer is empty":             func(v testVolume) { v.write("", "catalogs", "cat") },
		"the pointer is no JSON":           func(v testVolume) { v.write("{", "catalogs", "cat") },
		"the pointer points to nothing":    func(v testVolume) { v.write("{}", "catalogs", "cat") },
		"the pointer points out of it all": func(v testVolume) { v.write(`{"snapshot":"../../../etc"}`, "catalogs", "cat") },
		"the pointer is a directory":       func(v testVolume) { v.remove("catalogs", "cat"); v.write("x", "catalogs", "cat", "x") },
	} {
		t.Run(name, func(t *testing.T) {
			s, v := damaged(t, harm)
			serves(t, s, "cat", "")
			serves(t, s, "other", "other")
			if strings.HasPrefix(name, "the pointer is a directory") {
				return // only a person creates and deletes one
			}
			commit(t, s, "cat", 1, blobs("one")) // the same image, unpacked again
			serves(t, s, "cat", "one")
			serves(t, reopen(t, s, v.dir, newClock()), "cat", "one")
		})
	}
}

// Only Scrub detects a flipped bit in the content. The catalog is served until it is replaced.
func TestScrubDetectsDamage(t *testing.T) {
	v, clock := testVolume{t, t.TempDir()}, newClock()
	s := open(t, v.dir, clock)
	commit(t, s, "cat", 1, blobs("one"))
	commit(t, s, "other", 2, blobs("other"))
	clock.advance(time.Minute)
	v.flip(20, "snapshots", key, catalogFile)
	before, ok := s.Catalog("cat")
	if !ok {
		t.Fatal("the catalog is not served")
	}
	if names, err := s.Scrub(context.Background()); err != nil || len(names) != 1 || names[0] != "cat" {
		t.Fatalf("got %q %v, want cat damaged", names, err)
	}
	if c, ok := s.Catalog("cat"); !ok || c.Snapshot != before.Snapshot {
		t.Error("the damaged catalog is served no longer")
	}
	if _, ok := s.Snapshot(key); ok {
		t.Error("the damaged snapshot is still given")
	}
	commit(t, s, "cat", 1, blobs("one"))
	c := serves(t, s, "cat", "one")
	if !c.Since.Equal(before.Since) {
		t.Errorf("got since %s, want %s: the content is the same", c.Since, before.Since)
	}
	if names, err := s.Scrub(context.Background()); err != nil || len(names) > 0 {
		t.Errorf("got %q %v, want nothing damaged", names, err)
	}
	serves(t, reopen(t, s, v.dir, newClock()), "cat", "one")
	wantNames(t, v.path("stage"))
}

// A damaged snapshot is replaced for each catalog that serves it, one after the other.
func TestSharedDamagedSnapshotIsReplaced(t *testing.T) {
	v, c := testVolume{t, t.TempDir()}, newClock()
	s := open(t, v.dir, c)
	commit(t, s, "a", 1, blobs("one"))
	commit(t, s, "b", 1, blobs("one"))
	v.flip(20, "snapshots", key, catalogFile)
	if names, err := s.Scrub(context.Background()); err != nil || len(names) != 2 {
		t.Fatalf("got %q %v, want both damaged", names, err)
	}
	snap := commit(t, s, "a", 1, blobs("one"))
	if err := s.point("b", Source{Image: snap.Info().Image}, snap); err != nil {
		t.Fatal(err)
	}
	serves(t, s, "a", "one")
	serves(t, s, "b", "one")
	if names, err := s.Scrub(context.Background()); err != nil || len(names) > 0 {
		t.Errorf("got %q %v, want nothing damaged", names, err)
	}
}

// An unreferenced snapshot of an earlier process is verified before it is used.
func TestUnservedDamagedSnapshotIsNotUsed(t *testing.T) {
	s, v := damaged(t, func(v testVolume) {
		v.remove("catalogs", "cat")
		v.flip(20, "snapshots", key, catalogFile)
	})
	if _, ok := s.Snapshot(key); ok {
		t.Error("the damaged snapshot is given")
	}
	commit(t, s, "cat", 1, blobs("one"))
	serves(t, s, "cat", "one")
	serves(t, reopen(t, s, v.dir, newClock()), "cat", "one")
}

// Truncation of an open file is an error, never an early end.
func TestTruncationOfAnOpenFileIsAnError(t *testing.T) {
	s, v := damaged(t, func(testVolume) {})
	c := serves(t, s, "cat", "one")
	if err := os.Truncate(v.path("snapshots", key, catalogFile), 10); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(c.Snapshot.Select(Query{})); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("Read: got error %v, want io.ErrUnexpectedEOF", err)
	}
	for _, err := range c.Snapshot.Select(Query{}).All() {
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("All: got error %v, want io.ErrUnexpectedEOF", err)
		}
	}
	if names, err := s.Scrub(context.Background()); err != nil || len(names) != 1 {
		t.Errorf("got %q %v, want cat damaged", names, err)
	}
}

// replace overwrites a text of the first catalog in place, as a disk does, so readers that have the file open see it.
func (v testVolume) replace(old, with string) {
	v.t.Helper()
	f, err := os.OpenFile(v.path("snapshots", key, catalogFile), os.O_RDWR, 0)
	must.Succeed(v.t, err)
	defer f.Close()
	at := strings.Index(v.read("snapshots", key, catalogFile), old)
	if at < 0 || len(old) != len(with) {
		v.t.Fatalf("%q is nowhere, or of another size than %q", old, with)
	}
	_, err = f.WriteAt([]byte(with), int64(at))
	must.Succeed(v.t, err)
}

// Verified returns only intact blobs and records damage. Intact blobs beside it are still served.
func TestVerifiedDetectsDamage(t *testing.T) {
	v := testVolume{t, t.TempDir()}
	s := open(t, v.dir, newClock())
	snap := commit(t, s, "cat", 1, files{"c.json": validFoo + invalidBar})
	read := func(pkg string) (blobs int, err error) {
		for blob, err := range snap.Package(pkg).Verified(t.Context()) {
			if err != nil {
				if blob != nil {
					t.Errorf("the error %v comes with %q", err, blob)
				}
				return blobs, err
			}
			blobs++
		}
		return blobs, nil
	}
	want := snap.Package("bar").Len()
	v.replace(`"name":"foo"`, `"name":"f0o"`)
	if n, err := read("bar"); err != nil || n != want || snap.Damaged() {
		t.Errorf("got %d blobs, %v of intact ones, want %d", n, err, want)
	}
	for range 2 {
		if _, err := read("foo"); !errors.As(err, new(*DamagedError)) || !snap.Damaged() {
			t.Errorf("got error %v; noted: %v", err, snap.Damaged())
		}
	}
	if n, err := read("bar"); err != nil || n != want {
		t.Errorf("got %d blobs, %v of intact ones, want %d", n, err, want)
	}
	if _, ok := s.Snapshot(key); ok {
		t.Error("the damaged snapshot is still given")
	}
}

// Revalidate detects damaged content and records it.
func TestRevalidateDetectsDamage(t *testing.T) {
	v := testVolume{t, t.TempDir()}
	s := open(t, v.dir, newClock())
	snap := commit(t, s, "cat", 1, files{"c.json": validFoo})
	v.replace(`"name":"foo"`, `"name":"f0o"`)
	if err := s.Revalidate(t.Context(), snap); !errors.As(err, new(*DamagedError)) || !snap.Damaged() {
		t.Errorf("got error %v; noted: %v", err, snap.Damaged())
	}
}
