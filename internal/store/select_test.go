package store

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

const smallCatalog = "../fbc/testdata/small"

// filesOf reads all files under a directory.
func filesOf(t testing.TB, dir string) files {
	t.Helper()
	out := files{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, path))
		out[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// scanDir reads the blobs of a directory in order: the expected content of the store.
func scanDir(t *testing.T, dir string) []scan.Blob {
	t.Helper()
	fsys := os.DirFS(dir)
	list, err := scan.Files(fsys)
	if err != nil {
		t.Fatal(err)
	}
	var out []scan.Blob
	for _, name := range list {
		err := scan.ReadFile(fsys, name, 0, func(b scan.Blob) error {
			b.JSON = bytes.Clone(b.JSON)
			out = append(out, b)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// lines returns the served lines of the blobs for which keep returns true.
func lines(blobs []scan.Blob, keep func(scan.Blob) bool) (text string, count int) {
	var out strings.Builder
	for _, b := range blobs {
		if keep(b) {
			out.Write(b.JSON)
			out.WriteByte('\n')
			count++
		}
	}
	return out.String(), count
}

// wantBlobs compares blobs with a text, read in every way.
func wantBlobs(t *testing.T, got *Blobs, want string, count int) {
	t.Helper()
	if got.Len() != count || got.Size() != int64(len(want)) {
		t.Errorf("got %d blobs of %d bytes, want %d of %d", got.Len(), got.Size(), count, len(want))
	}
	b, err := io.ReadAll(got)
	if err != nil {
		t.Fatal(err)
	}
	if string(b) != want {
		t.Errorf("Read gives %d bytes, not the %d wanted:\n%.200s\n%.200s", len(b), len(want), b, want)
	}
	var all strings.Builder
	for blob, err := range got.All() {
		if err != nil {
			t.Fatal(err)
		}
		all.Write(blob)
		all.WriteByte('\n')
	}
	if all.String() != want {
		t.Errorf("All gives %d bytes, not the %d wanted", all.Len(), len(want))
	}
}

func commitSmall(t *testing.T) (*Snapshot, []scan.Blob) {
	t.Helper()
	dir, c := t.TempDir(), newClock()
	s := open(t, dir, c)
	commit(t, s, "small", 1, filesOf(t, smallCatalog))
	s = reopen(t, s, dir, c)
	got, ok := s.Catalog("small")
	if !ok {
		t.Fatal("the catalog is not served after a restart")
	}
	return got.Snapshot, scanDir(t, smallCatalog)
}

func TestRoundTrip(t *testing.T) {
	snap, blobs := commitSmall(t)
	want, count := lines(blobs, func(scan.Blob) bool { return true })
	wantBlobs(t, snap.Select(Query{}), want, count)
	f, err := snap.OpenAll()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if b, err := io.ReadAll(f); err != nil || string(b) != want {
		t.Errorf("the file has %d bytes (%v), not the %d wanted", len(b), err, len(want))
	}
	info := snap.Info()
	wantInfo := Info{
		Image: "example.com/catalog:latest", Digest: digest(1), Packages: 10, Channels: 23, Bundles: 44, Blobs: 82,
		Bytes: int64(len(want)), UnpackedAt: newClock().Now(),
	}
	if diff := cmp.Diff(wantInfo, info); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	var packages []string
	for _, p := range snap.Packages() {
		packages = append(packages, p.Name)
	}
	if len(packages) != 10 || !slices.IsSorted(packages) {
		t.Errorf("got the packages %q, want 10, sorted", packages)
	}
}

func TestSelect(t *testing.T) {
	snap, blobs := commitSmall(t)
	values := func(field func(scan.Blob) string) []string {
		seen := []string{"", "nosuch", "\x00", "zzz"}
		for _, b := range blobs {
			seen = append(seen, field(b))
		}
		slices.Sort(seen)
		return slices.Compact(seen)
	}
	schemas := values(func(b scan.Blob) string { return b.Schema })
	packages := values(func(b scan.Blob) string { return b.Package })
	blobNames := values(func(b scan.Blob) string { return b.Name })
	queries, matched := 0, 0
	for _, schema := range schemas {
		for _, pkg := range packages {
			for _, name := range blobNames {
				for _, custom := range []bool{false, true} {
					q := Query{Schema: schema, Package: pkg, Name: name, Custom: custom}
					want, count := lines(blobs, func(b scan.Blob) bool {
						return (schema == "" || b.Schema == schema) && (pkg == "" || b.Package == pkg) && (name == "" || b.Name == name) &&
							(!custom || fbc.IsCustom(b.Schema))
					})
					got := snap.Select(q)
					if queries++; count == 0 && got.Len() == 0 && got.Size() == 0 {
						continue
					}
					matched++
					wantBlobs(t, got, want, count)
					if t.Failed() {
						t.Fatalf("in the query %+v", q)
					}
				}
			}
		}
	}
	if matched < 200 {
		t.Errorf("of %d queries only %d match anything", queries, matched)
	}
	wantBlobs(t, snap.Select(Query{Package: "nosuch"}), "", 0)
}

func TestPackage(t *testing.T) {
	snap, blobs := commitSmall(t)
	for _, p := range snap.Packages() {
		want, count := lines(blobs, func(b scan.Blob) bool {
			return b.Package == p.Name || b.Schema == fbc.SchemaPackage && b.Name == p.Name
		})
		if count < 3 {
			t.Errorf("package %s has %d blobs only", p.Name, count)
		}
		wantBlobs(t, snap.Package(p.Name), want, count)
	}
	wantBlobs(t, snap.Package("nosuch"), "", 0)
	wantBlobs(t, snap.Package(""), "", 0)
}

// The olm.package blob can be anywhere in the catalog, and can name the package twice.
func TestPackageOrder(t *testing.T) {
	for name, order := range map[string][]string{
		"first": {`{"schema":"olm.package","name":"p"}`, `{"schema":"x","package":"p"}`, `{"schema":"x"}`, `{"schema":"y","package":"p"}`},
		"middle": {`{"schema":"x","package":"p"}`, `{"schema":"olm.package","name":"p"}`,
			`{"schema":"x","name":"p"}`, `{"schema":"y","package":"p"}`},
		"last": {`{"schema":"x","package":"p"}`, `{"schema":"y","package":"p"}`, `{"schema":"z","package":"q"}`,
			`{"schema":"olm.package","name":"p"}`},
		"both":  {`{"schema":"x","package":"p"}`, `{"schema":"olm.package","name":"p","package":"p"}`, `{"schema":"y","package":"p"}`},
		"alone": {`{"schema":"x"}`, `{"schema":"olm.package","name":"p"}`},
		"twice": {`{"schema":"olm.package","name":"p"}`, `{"schema":"x","package":"p"}`, `{"schema":"olm.package","name":"p"}`},
	} {
		t.Run(name, func(t *testing.T) {
			snap := commit(t, open(t, t.TempDir(), newClock()), "cat", 1, files{"c.json": strings.Join(order, "")})
			want := ""
			count := 0
			for _, blob := range order {
				if strings.Contains(blob, `"package":"p"`) || strings.Contains(blob, "olm.package") {
					want += blob + "\n"
					count++
				}
			}
			wantBlobs(t, snap.Package("p"), want, count)
		})
	}
}

func TestBlobsAreAReadSeeker(t *testing.T) {
	snap, blobs := commitSmall(t)
	for name, q := range map[string]Query{
		"one run":   {},
		"many runs": {Schema: fbc.SchemaChannel},
		"one blob":  {Schema: fbc.SchemaPackage, Name: "syndesis"},
		"none":      {Schema: "nosuch"},
	} {
		t.Run(name, func(t *testing.T) {
			want, _ := lines(blobs, func(b scan.Blob) bool {
				return (q.Schema == "" || b.Schema == q.Schema) && (q.Name == "" || b.Name == q.Name)
			})
			if err := iotest.TestReader(snap.Select(q), []byte(want)); err != nil {
				t.Error(err)
			}
		})
	}
	b := snap.Select(Query{})
	if _, err := b.Seek(-1, io.SeekStart); err == nil {
		t.Error("no error for a seek before the start")
	}
	for range b.All() {
		break // All may be left early
	}
}

func TestEmptyCatalog(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	s := open(t, dir, c)
	commit(t, s, "cat", 1, files{".indexignore": "*.md\n", "README.md": "no catalog"})
	s = reopen(t, s, dir, c)
	got, ok := s.Catalog("cat")
	if !ok || got.Snapshot.Info().Blobs != 0 || len(got.Snapshot.Packages()) != 0 {
		t.Errorf("got %v %+v, want a catalog without blobs", ok, got)
	}
	wantBlobs(t, got.Snapshot.Select(Query{}), "", 0)
	wantBlobs(t, got.Snapshot.Select(Query{Custom: true}), "", 0)
}

const (
	validFoo = `{"schema":"olm.package","name":"foo","defaultChannel":"a"}
		{"schema":"olm.channel","package":"foo","name":"a","entries":[{"name":"foo.v1"}]}
		{"schema":"olm.bundle","package":"foo","name":"foo.v1","image":"quay.io/example/foo",
			"properties":[{"type":"olm.package","value":{"packageName":"foo","version":"1.0.0"}}]}`
	invalidBar = `{"schema":"olm.package","name":"bar"}`
	nameless   = `{"schema":"olm.channel","name":"a"}`
)

func TestInvalidPackages(t *testing.T) {
	s := open(t, t.TempDir(), newClock())
	custom := `{"schema":"example.com","package":"only-custom"}`
	for i, want := range []files{{"c.json": validFoo + invalidBar + nameless + custom},
		{"a.json": custom, "c.json": validFoo + invalidBar + nameless}} {
		snap := commit(t, s, "cat", i, want) // the second time, most is taken from the first
		invalid := []InvalidPackage{
			{Name: "", Reason: `unknown package "" for channel "a"`, Hash: "e313642178ff3279e955f0f6d6a3cc59"},
			{Name: "bar", Reason: "default channel must be set; package must contain at least one channel",
				Hash: "be7f2df82d32ed1015a8a8d5e31af0a6"},
		}
		got, err := snap.InvalidPackages()
		if diff := cmp.Diff(invalid, got); diff != "" || err != nil || snap.InvalidPackageCount() != 2 {
			t.Errorf("error %v, -want +got:\n%s", err, diff)
		}
		if got := snap.Packages(); len(got) != 1 || got[0].Name != "foo" || len(got[0].Hash) != 2*fbc.HashSize {
			t.Errorf("got the packages %+v, want foo", got)
		}
		if got := snap.Select(Query{Name: "bar"}).Len(); got != 1 {
			t.Error("the blob of the invalid package is not served")
		}
	}
}

func TestPackageHashFollowsItsBlobs(t *testing.T) {
	s := open(t, t.TempDir(), newClock())
	var hashes []string
	for i, in := range []files{
		{"c.json": validFoo},
		{"elsewhere.json": validFoo, "other.json": `{"schema":"example.com","package":"bar"}`},
		{"c.json": strings.ReplaceAll(validFoo, ",", " ,\n")},
		{"c.json": validFoo + `{"schema":"example.com","package":"foo"}`},
		{"c.json": strings.Replace(validFoo, "quay.io", "example.com", 1)},
	} {
		hashes = append(hashes, commit(t, s, "cat", i, in).Packages()[0].Hash)
	}
	if hashes[0] != hashes[1] || hashes[0] != hashes[2] {
		t.Errorf("the same blobs have different hashes: %q", hashes[:3])
	}
	if hashes[0] == hashes[3] || hashes[0] == hashes[4] {
		t.Errorf("different blobs have the same hash: %q", hashes)
	}
}

func TestBadFileIsAnErrorOfTheCatalog(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, newClock())
	commit(t, s, "cat", 1, blobs("served"))
	for i, in := range []files{{"good.json": `{"schema":"s"}`, "sub/bad.json": "{\n\n"}, {"sub/bad.json": ""}} {
		in["sub/bad.json"] += `{"name":"no schema"}`
		_, err := tryCommit(t, s, "cat", source(i+2), in)
		var where *scan.Error
		if !errors.As(err, &where) || where.Path != "sub/bad.json" {
			t.Errorf("got %T %v, want an *scan.Error of sub/bad.json", err, err)
		}
	}
	serves(t, s, "cat", "served")
	wantNames(t, filepath.Join(dir, "stage"))
	wantNames(t, filepath.Join(dir, "snapshots"), source(1).Key())
}
