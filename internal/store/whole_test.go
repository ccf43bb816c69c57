package store

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
	"github.com/operator-catalogs/catalogd/internal/subset"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// all returns the content of /all.
func all(t *testing.T, snap *Snapshot) string {
	t.Helper()
	f, err := snap.OpenAll()
	must.Succeed(t, err)
	defer f.Close() // read only
	text, err := io.ReadAll(f)
	must.Succeed(t, err)
	return string(text)
}

// tryRestore commits what the store has of an image.
func tryRestore(t *testing.T, s *Store, src Source) (*Snapshot, error) {
	t.Helper()
	st, err := s.Stage("cat", src.Image)
	must.Succeed(t, err)
	defer func() { must.Succeed(t, st.Discard()) }()
	if err := st.Restore(t.Context(), src); err != nil {
		return nil, err
	}
	return st.Commit(t.Context(), src)
}

// TestSubsetHoldsTheSelectedBlobs compares the snapshots of many filters with the filter of the blobs in memory.
func TestSubsetHoldsTheSelectedBlobs(t *testing.T) {
	var rules []subset.Include
	var blobs []scan.Blob
	for _, b := range scanDir(t, smallCatalog) {
		b, err := scan.ParseBlob(b.JSON) // scanDir does not keep the properties
		must.Succeed(t, err)
		blobs = append(blobs, b)
		if b.Schema == "olm.package" {
			rules = append(rules, subset.Include{Package: b.Name}, subset.Include{Package: b.Name, OnlyHeads: true},
				subset.Include{Package: b.Name, MinVersion: "1.0.0"}, subset.Include{Package: b.Name, MaxVersion: "1.5.0"})
		}
	}
	dir, c := t.TempDir(), newClock()
	s := open(t, dir, c)
	_, err := tryCommit(t, s, "cat", source(1), filesOf(t, smallCatalog))
	must.Succeed(t, err)
	for i, r := range rules {
		src := source(1)
		src.Filter.Include = []subset.Include{r, rules[(i+5)%len(rules)]}
		want, report, wantErr := src.Filter.Apply(blobs)
		snap, err := tryRestore(t, s, src)
		if wantErr != nil {
			if err == nil || err.Error() != wantErr.Error() {
				t.Errorf("%v: got %v, want %v", r, err, wantErr)
			}
			continue
		}
		must.Succeed(t, err)
		text := ""
		for _, b := range want {
			text += string(b.JSON) + "\n"
		}
		if got := all(t, snap); got != text {
			t.Errorf("%v: got %s, want %s", r, got, text)
		}
		if n, left := snap.Info().Blobs, snap.Info().Subset.LeftOut; n != len(want) || left != report.LeftOut {
			t.Errorf("%v: %d blobs, left out %+v, want %d, %+v", r, n, left, len(want), report.LeftOut)
		}
		for j, b := range want {
			if e := snap.Select(Query{}).Entry(j); e.Schema != b.Schema || e.Package != b.Package || e.Name != b.Name {
				t.Errorf("%v: entry %d is %+v, want %s %s %s", r, j, e, b.Schema, b.Package, b.Name)
			}
		}
		rebuilt, err := rebuildIndex(s.volume, snap.dir, snap.index.info, snap.info) // with all facts
		must.Succeed(t, err)
		if rebuilt.sum != snap.index.sum {
			t.Errorf("%v: the index differs from one of the catalog", r)
		}
	}
}

func TestRestoreOfTheWholeCatalogEqualsAnUnpack(t *testing.T) {
	want := commit(t, open(t, t.TempDir(), newClock()), "cat", 1, filesOf(t, smallCatalog))
	dir, c := t.TempDir(), newClock()
	s := open(t, dir, c)
	src := source(1)
	src.Filter.Exclude = []subset.Exclude{{Package: scanDir(t, smallCatalog)[0].Name}}
	part, err := tryCommit(t, s, "cat", src, filesOf(t, smallCatalog))
	must.Succeed(t, err)
	s = reopen(t, s, dir, c)
	if reopened, ok := s.Catalog("cat"); !ok || reopened.Snapshot.Key() != part.Key() || !reopened.Snapshot.IsVariant(src) {
		t.Fatal("the subset is not served after a restart")
	}
	got, err := tryRestore(t, s, source(1))
	must.Succeed(t, err)
	if all(t, got) != all(t, want) || string(got.index.data) != string(want.index.data) || got.Key() != want.Key() {
		t.Error("the restored snapshot differs from an unpacked one")
	}
	if part.Key() == want.Key() || part.Version() == want.Version() || part.Version()[:71] != want.Version() {
		t.Errorf("the subset has key %s and version %s", part.Key(), part.Version())
	}
}

func TestWholeCatalogIsKeptAsLongAsNeeded(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	s := open(t, dir, c)
	has := func(want bool, when string) {
		t.Helper()
		sweep(t, s)
		if s.wholes.has(source(1).Key()) != want {
			t.Errorf("%s: has the whole catalog %t, want %t", when, !want, want)
		}
	}
	_, err := tryCommit(t, s, "cat", source(4001), one())
	if _, ok := errors.AsType[*subset.Error](err); !ok {
		t.Fatalf("got %v, want the error of the filter", err)
	}
	has(true, "after a filter that leaves nothing")
	_, err = tryRestore(t, s, source(1001))
	must.Succeed(t, err)
	c.advance(time.Hour)
	has(true, "with a subset")
	commit(t, s, "cat", 2, one())
	has(true, "with a subset in its grace period")
	c.advance(time.Hour)
	has(false, "without a subset")
	if _, err := tryRestore(t, s, source(1001)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want that it does not exist", err)
	}
	if entries, err := os.ReadDir(filepath.Join(dir, wholeDir)); err != nil || len(entries) > 0 {
		t.Errorf("%d files of a catalog without a filter, %v", len(entries), err)
	}
}

func TestDamagedWholeCatalogIsDeleted(t *testing.T) {
	for name, find := range map[string]func(s *Store) error{
		"by its use": func(s *Store) error {
			_, err := tryRestore(t, s, source(2001))
			if _, ok := errors.AsType[*DamagedError](err); !ok {
				return errors.Join(errors.New("no damage is found"), err)
			}
			return nil
		},
		"by Scrub": func(s *Store) error { _, err := s.Scrub(context.Background()); return err },
	} {
		dir := t.TempDir()
		s := open(t, dir, newClock())
		_, err := tryCommit(t, s, "cat", source(1001), filesOf(t, smallCatalog))
		if _, ok := errors.AsType[*subset.Error](err); ok {
			_, err = tryCommit(t, s, "cat", source(1001), one())
		}
		must.Succeed(t, err)
		file := filepath.Join(dir, wholePath(source(1).Key()))
		text, err := os.ReadFile(file)
		must.Succeed(t, err)
		text[len(text)/2] ^= 4
		must.Succeed(t, os.WriteFile(file, text, 0o600))
		if err := find(s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: it is not deleted: %v", name, err)
		}
		if c, ok := s.Catalog("cat"); !ok || c.Snapshot.Damaged() {
			t.Errorf("%s: the subset is not served", name)
		}
	}
}

// TestSubsetLayout holds what is written for a subset to the layout version, as TestLayoutMatchesItsVersion does for the rest.
func TestSubsetLayout(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, newClock())
	src := source(1)
	src.Filter = subset.Filter{Include: []subset.Include{{Package: "foo", MinVersion: "2.0.0"}, {Package: "none"}}}
	snap, err := tryCommit(t, s, "cat", src, goldenCatalog)
	must.Succeed(t, err)
	info, err := os.ReadFile(filepath.Join(dir, snapshotsDir, snap.Key(), snapshotFile))
	must.Succeed(t, err)
	f, err := os.Open(filepath.Join(dir, wholePath(source(1).Key())))
	must.Succeed(t, err)
	defer f.Close() // read only
	decoded, err := codecs()[0].decode(f)
	must.Succeed(t, err)
	whole, err := io.ReadAll(decoded)
	must.Succeed(t, err)
	golden := filepath.Join("testdata", "layout-"+layoutVersion+"-subset")
	for name, got := range map[string][]byte{snapshotFile: info, "whole": whole, catalogFile: []byte(all(t, snap))} {
		file := filepath.Join(golden, name)
		if _, err := os.Stat(file); *update && os.IsNotExist(err) { // what a release wrote is never written over
			must.Succeed(t, os.MkdirAll(golden, 0o755))
			must.Succeed(t, os.WriteFile(file, got, 0o644))
		}
		if want, err := os.ReadFile(file); err != nil || string(want) != string(got) {
			t.Errorf("%s: a subset is written in another way (%v): raise layoutVersion\ngot  %q\nwant %q", name, err, got, want)
		}
	}
}
