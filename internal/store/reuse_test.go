package store

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// tiny is a limit that every blob exceeds: content committed under it was not parsed.
func tiny(o *Options) { o.MaxBlobBytes = 10 }

// After a restart with a tiny blob limit, files that were read before pass, as they are copied, and all others fail.
func TestUnchangedFilesAreNotParsedAgain(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	s := open(t, dir, c)
	old := filesOf(t, smallCatalog)
	first := commit(t, s, "small", 1, old)
	want := text(t, first)
	s = reopen(t, s, dir, c, tiny)

	again := commit(t, s, "small", 2, old)
	if again.Key() == first.Key() {
		t.Fatal("it is the first snapshot, not one made again")
	}
	if got := text(t, again); got != want {
		t.Error("the copied content differs")
	}
	v := testVolume{t, dir}
	inIndex := func(snap *Snapshot) string { // without what names the image
		all := v.read("snapshots", snap.Key(), indexFile)
		return all[headerSize : len(all)-len(snap.index.info)]
	}
	inPackages := func(snap *Snapshot) string {
		all := v.read("snapshots", snap.Key(), packagesFile)
		return all[:len(all)-footerSize]
	}
	if inIndex(again) != inIndex(first) || inPackages(again) != inPackages(first) {
		t.Error("the index or the packages of the copied content differ")
	}

	moved := maps.Clone(old) // a file that is only renamed is copied too, to its new place
	moved["zzz.json"] = moved["catalog-info.json"]
	delete(moved, "catalog-info.json")
	got := text(t, commit(t, s, "small", 3, moved))
	if line, rest, _ := strings.Cut(want, "\n"); got == want ||
		strings.Count(got, "\n") != strings.Count(want, "\n") || line == "" || rest == "" {
		t.Error("the renamed file did not move its blobs")
	}

	changed := maps.Clone(old)
	changed["syndesis/package.json"] += "\n"
	var where *scan.Error
	if _, err := tryCommit(t, s, "small", source(4), changed); !errors.As(err, &where) || where.Path != "syndesis/package.json" {
		t.Errorf("got error %v, want one of the changed file: it alone has to be parsed", err)
	}
	if _, err := tryCommit(t, s, "another", source(5), old); !errors.As(err, &where) {
		t.Errorf("got error %v for a catalog that has no previous snapshot", err)
	}
}

func TestChangedFileAmongUnchangedOnes(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	s := open(t, dir, c)
	old := filesOf(t, smallCatalog)
	before := commit(t, s, "small", 1, old)
	changed := maps.Clone(old)
	changed["syndesis/package.json"] = strings.Replace(changed["syndesis/package.json"], "olm.package", "example.com", 1)
	after := commit(t, s, "small", 2, changed)

	fresh := commit(t, open(t, t.TempDir(), c), "small", 2, changed)
	if text(t, after) != text(t, fresh) {
		t.Error("the content differs from that of a store without a previous snapshot")
	}
	if !slices.Equal(after.Packages(), fresh.Packages()) || !slices.Equal(invalid(t, after), invalid(t, fresh)) {
		t.Errorf("got the packages %v and invalid %v", after.Packages(), invalid(t, after))
	}
	if len(invalid(t, after)) != 1 || len(after.Packages()) != len(before.Packages())-1 {
		t.Errorf("got invalid packages %v, want the one that lost its olm.package blob", invalid(t, after))
	}
	for _, p := range after.Packages() {
		if !slices.Contains(before.Packages(), p) {
			t.Errorf("package %s did not change, yet its hash did", p.Name)
		}
	}
}

// A file that occurs twice gives its blobs twice, parsed or copied.
func TestEqualFiles(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	s := open(t, dir, c)
	in := files{"a.json": `{"schema":"s","name":"same"}`, "b.json": `{"schema":"s","name":"between"}`,
		"c.json": `{"schema":"s","name":"same"}`, "d.json": "", "e.json": ""}
	want := text(t, commit(t, s, "cat", 1, in))
	s = reopen(t, s, dir, c, tiny)
	if got := text(t, commit(t, s, "cat", 2, in)); got != want || strings.Count(got, "\n") != 3 {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDamagedContentIsNotCopied(t *testing.T) {
	v, c := testVolume{t, t.TempDir()}, newClock()
	s := open(t, v.dir, c)
	commit(t, s, "cat", 1, blobs("one"))
	v.flip(-10, "snapshots", source(1).Key(), catalogFile)
	s = reopen(t, s, v.dir, c, tiny)
	var where *scan.Error
	if _, err := tryCommit(t, s, "cat", source(2), blobs("one")); !errors.As(err, &where) {
		t.Errorf("got error %v: the file was not parsed", err)
	}
	s = reopen(t, s, v.dir, c)
	commit(t, s, "cat", 2, blobs("one"))
	serves(t, s, "cat", "one")
}

func invalid(t *testing.T, snap *Snapshot) []InvalidPackage {
	t.Helper()
	out, err := snap.InvalidPackages()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The result for a package with the same bytes is copied: a wrong one planted in the previous snapshot stays until the
// package changes.
func TestResultForUnchangedPackageIsCopied(t *testing.T) {
	v, c := testVolume{t, t.TempDir()}, newClock()
	s := open(t, v.dir, c)
	plantVerdict(t, v, commit(t, s, "cat", 1, files{"c.json": invalidBar}), `{"name":"bar","displayName":"planted"}`)
	s = reopen(t, s, v.dir, c)
	got := commit(t, s, "cat", 2, files{"c.json": invalidBar})
	if len(got.Packages()) != 1 || len(invalid(t, got)) != 0 {
		t.Errorf("unchanged: got packages %v, invalid %v", got.Packages(), invalid(t, got))
	}
	if summary, ok, err := got.Summary("bar"); err != nil || !ok || summary.DisplayName != "planted" {
		t.Errorf("unchanged: got the summary %+v %v %v, want that of before", summary, ok, err)
	}
	changed := strings.Replace(invalidBar, "}", `,"description":"changed"}`, 1)
	if got := commit(t, s, "cat", 3, files{"c.json": changed}); len(got.Packages()) != 0 || len(invalid(t, got)) != 1 {
		t.Errorf("changed: got packages %v, invalid %v", got.Packages(), invalid(t, got))
	}
}

// plantVerdict writes a file packages that has the only package of a snapshot as valid.
func plantVerdict(t *testing.T, v testVolume, snap *Snapshot, summary string) {
	t.Helper()
	r := snap.validation.Load().at(0)
	r.first, r.second = extentOf([]byte(summary), 0), extentOf([]byte("{}"), uint64(len(summary)+1))
	v.write(summary+"\n{}\n"+string(appendFooter(r.append(nil), snap.index)), "snapshots", snap.Key(), packagesFile)
}
