package store

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// mendable opens a volume with compressed forms after a change to the snapshot of "cat".
func mendable(t *testing.T, harm func(v testVolume)) (*Store, testVolume, map[string]string) {
	t.Helper()
	v, intact := bitVolume(t, true)
	harm(v)
	return open(t, v.dir, newClock()), v, intact
}

// Files that follow from others are rebuilt without an unpack.
func TestFilesAreRebuiltWithoutUnpacking(t *testing.T) {
	path := func(name string) []string { return []string{"snapshots", key, name} }
	for name, harm := range map[string]func(v testVolume){
		"index: empty":               func(v testVolume) { v.write("", path(indexFile)...) },
		"index: missing":             func(v testVolume) { v.remove(path(indexFile)...) },
		"index: of another snapshot": func(v testVolume) { v.write(v.read("snapshots", source(2).Key(), indexFile), path(indexFile)...) },
		"snapshot.json: missing":     func(v testVolume) { v.remove(path(snapshotFile)...) },
		"snapshot.json: no JSON":     func(v testVolume) { v.write("garbage", path(snapshotFile)...) },
		"snapshot.json: of nothing":  func(v testVolume) { v.write("{}", path(snapshotFile)...) },
		"packages: missing":          func(v testVolume) { v.remove(path(packagesFile)...) },
		"packages: empty":            func(v testVolume) { v.write("", path(packagesFile)...) },
		"catalog.jsonl: missing":     func(v testVolume) { v.remove(path(catalogFile)...) },
		"catalog.jsonl: shorter":     func(v testVolume) { v.write(v.read(path(catalogFile)...)[:40], path(catalogFile)...) },
		"catalog.jsonl: longer":      func(v testVolume) { v.write(v.read(path(catalogFile)...)+"x", path(catalogFile)...) },
		"catalog.jsonl: other content": func(v testVolume) {
			v.write(strings.Repeat("x", len(v.read(path(catalogFile)...))), path(catalogFile)...)
		},
		"catalog.jsonl and one form": func(v testVolume) { v.remove(path(catalogFile)...); v.flip(-6, path(catalogFile+".zst")...) },
		"all but catalog.jsonl and index": func(v testVolume) {
			v.remove(path(snapshotFile)...)
			v.remove(path(packagesFile)...)
			v.removeForms(".zst", ".gz")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, v, intact := mendable(t, harm)
			for range 2 {
				if !scrubbed(t, s, intact["snapshots/"+key+"/"+catalogFile]) {
					t.Error("it is not mended")
				}
				wantContents(t, intact, v.contents())
				if _, ok := s.Snapshot(key); !ok {
					t.Error("the snapshot is not given")
				}
				s = reopen(t, s, v.dir, newClock())
			}
		})
	}
}

// Without a proof of its catalog.jsonl, a rebuilt index is used until there is a better one. The packages are
// validated, but the results are not stored: they would look like a proof.
func TestRebuiltIndexWithoutProof(t *testing.T) {
	s, v, intact := mendable(t, func(v testVolume) {
		v.remove("snapshots", key, indexFile)
		v.remove("snapshots", key, packagesFile)
	})
	for range 2 {
		c, ok := s.Catalog("cat")
		if !ok || text(t, c.Snapshot) != intact["snapshots/"+key+"/"+catalogFile] {
			t.Fatal("the catalog is not served")
		}
		if damaged, err := s.Scrub(t.Context()); err != nil || !cmp.Equal(damaged, []string{"cat"}) {
			t.Errorf("Scrub: got %q %v, want cat to be unpacked again", damaged, err)
		}
		if _, ok := s.Snapshot(key); ok || slices.Contains(names(t, v.path("snapshots", key)), packagesFile) {
			t.Error("it counts as intact, or will")
		}
		if !c.Snapshot.Validated() || len(c.Snapshot.Packages()) == 0 {
			t.Error("its packages are not validated")
		}
		summaries(t, c.Snapshot)
		s = reopen(t, s, v.dir, newClock())
	}
	commit(t, s, "cat", 1, bitCatalog())
	if !scrubbed(t, s, intact["snapshots/"+key+"/"+catalogFile]) {
		t.Error("it is not healed")
	}
	compressNow(t, s, nil)
	if diff := cmp.Diff(intact, v.contents()); diff != "" {
		t.Errorf("-before +after:\n%s", diff)
	}
}

// Readers keep the file that they have open while catalog.jsonl is replaced.
func TestRestoreKeepsOpenReaders(t *testing.T) {
	s, v, intact := mendable(t, func(testVolume) {})
	c, _ := s.Catalog("cat")
	f, err := c.Snapshot.OpenAll()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := []byte(intact["snapshots/"+key+"/"+catalogFile])
	b[len(b)-3] ^= 1
	out, err := os.OpenFile(v.path("snapshots", key, catalogFile), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.WriteAt(b, 0); err != nil { // in place, as a disk does it
		t.Fatal(err)
	}
	_ = out.Close() // what counts is what is found
	before := text(t, c.Snapshot)
	if !scrubbed(t, s, intact["snapshots/"+key+"/"+catalogFile]) {
		t.Error("it is not mended")
	}
	if text(t, c.Snapshot) == before {
		t.Error("what was handed out before still reads the damaged file")
	}
	held := make([]byte, len(b))
	if _, err := f.ReadAt(held, 0); err != nil || string(held) != before {
		t.Errorf("who had opened the file got %q, %v", held, err)
	}
}

// While a pointer is unreadable, no snapshot that it may name is deleted.
func TestSweepWithADamagedPointer(t *testing.T) {
	v, clock := testVolume{t, t.TempDir()}, newClock()
	s := open(t, v.dir, clock)
	commit(t, s, "cat", 1, blobs("one"))
	commit(t, s, "other", 2, blobs("other"))
	pointer := v.read("catalogs", "cat")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	v.flip(30, "catalogs", "cat")
	s = open(t, v.dir, clock)
	serves(t, s, "cat", "")
	commit(t, s, "other", 3, blobs("changed"))
	for range 3 {
		sweep(t, s)
		clock.advance(time.Hour)
	}
	if err := s.Reclaim(); err != nil {
		t.Fatal(err)
	}
	wantNames(t, v.path("snapshots"), source(1).Key(), source(3).Key())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	v.write(pointer, "catalogs", "cat") // as somebody may, from a backup
	s = open(t, v.dir, clock)
	serves(t, s, "cat", "one")
	v.flip(30, "catalogs", "cat")
	if err := s.Remove("cat"); err != nil { // then it is known that it points to nothing
		t.Fatal(err)
	}
	wantNames(t, v.path("snapshots"), source(3).Key())
}

// The pointer of another catalog is invalid. One of an earlier release has no checksum.
func TestPointerOfAnotherCatalogIsInvalid(t *testing.T) {
	v, clock := testVolume{t, t.TempDir()}, newClock()
	s := open(t, v.dir, clock)
	commit(t, s, "cat", 1, blobs("one"))
	commit(t, s, "other", 2, blobs("other"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	v.write(v.read("catalogs", "other"), "catalogs", "cat")
	s = open(t, v.dir, clock)
	serves(t, s, "cat", "")
	serves(t, s, "other", "other")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	v.write(`{"snapshot":"`+key+`","image":"example.com/catalog:latest","since":"2026-08-22T10:00:00Z"}`+"\n", "catalogs", "cat")
	s = open(t, v.dir, clock)
	serves(t, s, "cat", "one")
	if _, err := s.Scrub(t.Context()); err != nil {
		t.Fatal(err)
	}
	serves(t, reopen(t, s, v.dir, clock), "cat", "one")
}
