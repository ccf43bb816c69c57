package store

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
)

// memoryVolume returns a volume in memory, if possible, for tests that write very often.
func memoryVolume(t *testing.T) testVolume {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "store-test-")
	if err != nil {
		return testVolume{t, t.TempDir()}
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // only memory is lost
	return testVolume{t, dir}
}

// contents returns the files of a volume by path.
func (v testVolume) contents() map[string]string {
	v.t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(v.dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(v.dir, name)
		out[rel] = v.read(rel)
		return nil
	})
	if err != nil {
		v.t.Fatal(err)
	}
	return out
}

// fill gives the volume exactly these files.
func (v testVolume) fill(contents map[string]string) {
	v.t.Helper()
	for name, text := range v.contents() {
		if want, ok := contents[name]; !ok || want != text {
			v.remove(name)
		}
	}
	for name, text := range contents {
		if _, err := os.Lstat(v.path(name)); err != nil {
			v.write(text, name)
		}
	}
}

// bitCatalog returns a catalog with a valid package, an invalid one and a custom blob.
func bitCatalog() files {
	return files{"c.json": validFoo + invalidBar + blobs("one")["c.json"]}
}

// bitVolume returns a volume with the catalogs "cat" and "other", and its files.
func bitVolume(t *testing.T, forms bool) (testVolume, map[string]string) {
	t.Helper()
	v := memoryVolume(t)
	s := open(t, v.dir, newClock())
	commit(t, s, "cat", 1, bitCatalog())
	commit(t, s, "other", 2, blobs("other"))
	if forms {
		compressNow(t, s, nil)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return v, v.contents()
}

// bits are the cases of TestEveryBitFlipIsDetected: one bit of each byte of a file is flipped.
var bits = map[string]struct {
	file    string
	forms   bool // compressed forms are there
	running bool // the store is open when it happens
	heals   bool // without unpacking again
}{
	"index":                           {file: "snapshots/" + key + "/" + indexFile, heals: true},
	"index, while it is used":         {file: "snapshots/" + key + "/" + indexFile, heals: true, running: true},
	"snapshot.json":                   {file: "snapshots/" + key + "/" + snapshotFile, heals: true},
	"snapshot.json, while it is used": {file: "snapshots/" + key + "/" + snapshotFile, heals: true, running: true},
	"packages":                        {file: "snapshots/" + key + "/" + packagesFile, heals: true},
	"packages, while it is used":      {file: "snapshots/" + key + "/" + packagesFile, heals: true, running: true},
	"pointer":                         {file: "catalogs/cat"},
	"pointer, while it is used":       {file: "catalogs/cat", heals: true, running: true},
	"catalog":                         {file: "snapshots/" + key + "/" + catalogFile},
	"catalog, while it is used":       {file: "snapshots/" + key + "/" + catalogFile, running: true},
	"catalog with forms":              {file: "snapshots/" + key + "/" + catalogFile, forms: true, heals: true},
	"zst":                             {file: "snapshots/" + key + "/" + catalogFile + ".zst", forms: true, heals: true},
	"gz":                              {file: "snapshots/" + key + "/" + catalogFile + ".gz", forms: true, heals: true},
}

// Open or Scrub detects any flipped bit. Intact content is served meanwhile and damage is known. In the end, with or
// without another unpack, the volume is as it was.
func TestEveryBitFlipIsDetected(t *testing.T) {
	for name, c := range bits {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, intact := bitVolume(t, c.forms)
			catalog := intact["snapshots/"+key+"/"+catalogFile]
			for at := range len(intact[c.file]) {
				v.fill(intact)
				flip := func() {
					b := []byte(intact[c.file])
					b[at] ^= 1 << (at % 8)
					v.write(string(b), c.file)
				}
				if !c.running {
					flip()
				}
				s, err := Open(v.dir, Options{Logger: slog.New(slog.DiscardHandler), Now: newClock().Now})
				if err != nil {
					t.Fatal(err)
				}
				if c.running {
					flip()
				}
				if healed := scrubbed(t, s, catalog); healed != c.heals {
					t.Errorf("byte %d: healed without unpacking again: %v, want %v", at, healed, c.heals)
				}
				healsByCommit(t, s, catalog)
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				wantContents(t, intact, v.contents())
				if t.Failed() {
					t.Fatalf("it was byte %d of %s", at, c.file)
				}
			}
		})
	}
}

// scrubbed runs Scrub and checks that all content that it does not report is intact.
func scrubbed(t *testing.T, s *Store, catalog string) (healed bool) {
	t.Helper()
	damaged, err := s.Scrub(context.Background())
	if err != nil || (len(damaged) > 0 && !cmp.Equal(damaged, []string{"cat"})) {
		t.Fatalf("Scrub: got %q %v", damaged, err)
	}
	serves(t, s, "other", "other")
	c, ok := s.Catalog("cat")
	if !ok {
		return false
	}
	if c.Snapshot.Key() != key || c.Image != source(1).Image || !c.Since.Equal(newClock().Now().Truncate(time.Second)) {
		t.Errorf("serves %+v", c)
	}
	lines := slices.Collect(strings.Lines(catalog))
	all := c.Snapshot.Select(Query{})
	if all.Len() != len(lines) {
		t.Fatalf("got %d blobs, want %d", all.Len(), len(lines))
	}
	bad := 0
	for i, want := range lines {
		one := all.Slice(i, i+1)
		if one.Check() != nil {
			bad++
		} else if b, err := io.ReadAll(one); err != nil || string(b) != want {
			t.Errorf("blob %d is reported as intact: got %q %v, want %q", i, b, err, want)
		}
	}
	if (bad > 0) != (len(damaged) > 0) || bad > 1 || (c.Snapshot.Check() != nil) != (bad > 0) {
		t.Errorf("%d blobs are damaged, and the catalogs %q", bad, damaged)
	}
	if got := summaries(t, c.Snapshot); len(got) != 1 || got[0].Name != "foo" {
		t.Errorf("got summaries %+v", got)
	}
	return len(damaged) == 0
}

// healsByCommit unpacks missing or damaged content again, as the sync does.
func healsByCommit(t *testing.T, s *Store, catalog string) {
	t.Helper()
	if _, served := s.Catalog("cat"); !served || s.inventory.snapshot(key).Damaged() {
		commit(t, s, "cat", 1, bitCatalog())
		if names, err := s.Scrub(context.Background()); err != nil || len(names) > 0 {
			t.Errorf("unpacked again, yet got %q %v", names, err)
		}
	}
	c, ok := s.Catalog("cat")
	if !ok {
		t.Fatal("in the end it is not served")
	}
	if got := text(t, c.Snapshot); got != catalog {
		t.Errorf("in the end it has %q", got)
	}
}

// wantContents compares volumes. A rebuilt index has no files. A damaged compressed form is deleted, except for bits
// that RFC 8878 tells every decoder to ignore.
func wantContents(t *testing.T, want, got map[string]string) {
	t.Helper()
	for name, text := range got {
		catalog := want[filepath.Dir(name)+"/"+catalogFile]
		switch {
		case text == want[name], filepath.Base(name) == indexFile && sameIndex(t, text, want[name]):
		case strings.HasSuffix(name, ".zst") && unzstd(text) == catalog:
		default:
			t.Errorf("%s has %q, want %q", name, text, want[name])
		}
	}
	for name := range want {
		if _, ok := got[name]; !ok && filepath.Ext(name) != ".zst" && filepath.Ext(name) != ".gz" {
			t.Errorf("%s is missing", name)
		}
	}
}

func unzstd(text string) string {
	d, err := zstd.NewReader(strings.NewReader(text))
	if err != nil {
		return err.Error()
	}
	defer d.Close()
	b, err := io.ReadAll(d)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func sameIndex(t *testing.T, a, b string) bool {
	t.Helper()
	x, err := openIndex([]byte(a))
	y, err2 := openIndex([]byte(b))
	if err := errors.Join(err, err2); err != nil {
		t.Error(err)
		return false
	}
	return x.sum == y.sum && string(x.info) == string(y.info)
}
