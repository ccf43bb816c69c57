package store

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// unreadable opens and fails every read with EIO, as a broken disk does: it is the memory of this process, whose first
// pages are unmapped.
const unreadable = "/proc/self/mem"

// breakCatalog makes a snapshot read its catalog from a broken disk.
func breakCatalog(t *testing.T, snap *Snapshot) {
	t.Helper()
	f, err := os.Open(unreadable)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.ReadAt(make([]byte, 1), 0); !errors.Is(err, syscall.EIO) {
		t.Fatalf("got error %v, want that of a broken disk", err)
	}
	snap.catalog.Store(f)
}

// A read error reaches the reader, never as an early end; other catalogs are served. A compressed form heals it, or
// else another unpack.
func TestReadError(t *testing.T) {
	for _, forms := range []bool{false, true} {
		v := testVolume{t, t.TempDir()}
		s := open(t, v.dir, newClock())
		snap := commit(t, s, "cat", 1, blobs("one"))
		commit(t, s, "other", 2, blobs("other"))
		if forms {
			compressNow(t, s, nil)
		}
		breakCatalog(t, snap)
		if b, err := io.ReadAll(snap.Select(Query{})); !errors.Is(err, syscall.EIO) || len(b) > 0 {
			t.Errorf("Read: got %q, error %v", b, err)
		}
		for _, err := range snap.Select(Query{}).All() {
			if !errors.Is(err, syscall.EIO) {
				t.Errorf("All: got error %v", err)
			}
		}
		serves(t, s, "other", "other")
		names, err := s.Scrub(t.Context())
		if err != nil || (len(names) == 0) != forms {
			t.Errorf("forms %v: Scrub gives %q %v", forms, names, err)
		}
		if !forms {
			if damaged := (*DamagedError)(nil); !errors.As(snap.Select(Query{}).Check(), &damaged) {
				t.Error("the unreadable blob is not recorded")
			}
			commit(t, s, "cat", 1, blobs("one"))
		}
		serves(t, s, "cat", "one")
		serves(t, reopen(t, s, v.dir, newClock()), "cat", "one")
	}
}

// A read error during the validation of new content keeps the previous content served; the error names the blob, and
// the next attempt heals it. A catalog that served nothing serves the readable part.
func TestReadErrorDuringValidation(t *testing.T) {
	for _, first := range []bool{true, false} {
		s := open(t, t.TempDir(), newClock())
		if !first {
			commit(t, s, "cat", 1, blobs("one"))
		}
		commit(t, s, "other", 3, blobs("other"))
		s.volume.step = func(op operation) error {
			if strings.HasSuffix(op.name, "-"+packagesFile) && op.kind == opCreate {
				snap, _ := s.Snapshot(source(2).Key())
				breakCatalog(t, snap)
			}
			return nil
		}
		snap, err := tryCommit(t, s, "cat", source(2), files{"c.json": validFoo})
		damaged, where := (*DamagedError)(nil), "validating the packages: reading blob 0 of "+source(2).Key()+"/"+catalogFile
		if !errors.As(err, &damaged) || !errors.Is(err, syscall.EIO) || !strings.HasPrefix(err.Error(), where) {
			t.Errorf("got error %v, want %s", err, where)
		}
		if snap.Validated() || snap.Check() == nil {
			t.Error("the new content counts as intact")
		}
		serves(t, s, "other", "other")
		if first {
			if c, ok := s.Catalog("cat"); !ok || c.Snapshot != snap {
				t.Error("the new content is not served")
			}
		} else {
			serves(t, s, "cat", "one")
		}
		s.volume.step = nil
		if snap := commit(t, s, "cat", 2, files{"c.json": validFoo}); !snap.IsValid("foo") {
			t.Error("it is not healed by the next attempt")
		}
	}
}

// Each file is unreadable at Open in turn. Only without its pointer is the catalog missing.
func TestReadErrorAtOpen(t *testing.T) {
	withMounts(t, func(t *testing.T) {
		snapshot := filepath.Join(snapshotsDir, key)
		for file, want := range map[string]string{
			filepath.Join(snapshot, indexFile):         "one",
			filepath.Join(snapshot, snapshotFile):      "one",
			filepath.Join(snapshot, packagesFile):      "one",
			filepath.Join(snapshot, catalogFile+".gz"): "one",
			filepath.Join(catalogsDir, "cat"):          "",
		} {
			dir, clock := t.TempDir(), newClock()
			s := open(t, dir, clock)
			commit(t, s, "cat", 1, blobs("one"))
			commit(t, s, "other", 2, blobs("other"))
			compressNow(t, s, nil)
			must.Succeed(t, s.Close())
			broken := filepath.Join(dir, file)
			must.Succeed(t, syscall.Mount(unreadable, broken, "", syscall.MS_BIND, ""))
			for range 2 { // nothing can be put in the place of a mount: Scrub fails at that, and no more
				s = open(t, dir, clock)
				serves(t, s, "cat", want)
				serves(t, s, "other", "other")
				names, err := s.Scrub(t.Context())
				must.Succeed(t, err)
				if len(names) > 0 {
					t.Errorf("%s: %q are said to be damaged", file, names)
				}
				serves(t, s, "cat", want)
				must.Succeed(t, s.Close())
			}
			must.Succeed(t, syscall.Unmount(broken, syscall.MNT_DETACH))
			s = open(t, dir, clock)
			serves(t, s, "cat", "one")
			must.Succeed(t, s.Close())
		}
	})
}
