package store

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// servedAt checks the text that a catalog serves for each digest; "" for none.
func servedAt(t *testing.T, s *Store, name string, want map[int]string) {
	t.Helper()
	for n, wanted := range want {
		c, ok := s.CatalogAt(name, digest(n))
		if ok != (wanted != "") {
			t.Errorf("%s at %d: served %v, want %q", name, n, ok, wanted)
			continue
		}
		if !ok {
			continue
		}
		if c.Name != name || c.Snapshot.Info().Digest != digest(n) {
			t.Errorf("%s at %d: got %s of %s", name, n, c.Name, c.Snapshot.Info().Digest)
		}
		if got := text(t, c.Snapshot); got != blobs(wanted)["c.json"]+"\n" {
			t.Errorf("%s at %d: got %q, want the blob with %q", name, n, got, wanted)
		}
	}
}

func TestCatalogAt(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	s := open(t, dir, c)
	commit(t, s, "other", 9, blobs("9"))
	var since []time.Time
	for n := 1; n <= 3; n++ {
		commit(t, s, "cat", n, blobs(fmt.Sprint(n)))
		c.advance(time.Minute)
		current, _ := s.Catalog("cat")
		since = append(since, current.Since)
	}
	all := map[int]string{1: "1", 2: "2", 3: "3", 4: "", 9: ""} // 9 is there, but not of this catalog
	servedAt(t, s, "cat", all)
	servedAt(t, s, "other", map[int]string{9: "9", 1: "", 2: "", 3: ""})
	servedAt(t, s, "nosuch", map[int]string{1: "", 9: ""})
	for range 2 { // before and after a restart
		for n := 1; n <= 3; n++ {
			if got, _ := s.CatalogAt("cat", digest(n)); !got.Since.Equal(since[n-1]) || got.Image != source(n).Image {
				t.Errorf("at %d: got since %s, image %q; want %s", n, got.Since, got.Image, since[n-1])
			}
		}
		s = reopen(t, s, dir, c)
		servedAt(t, s, "cat", all)
	}

	sweep(t, s) // sees what nothing points to
	c.advance(15*time.Minute - time.Nanosecond)
	sweep(t, s)
	servedAt(t, s, "cat", all)
	c.advance(time.Nanosecond)
	sweep(t, s)
	gone := map[int]string{1: "", 2: "", 3: "3"}
	servedAt(t, s, "cat", gone)
	servedAt(t, reopen(t, s, dir, c), "cat", gone) // the pointer still names them
}

// The next change of a pointer file drops swept versions.
func TestHistoryIsPruned(t *testing.T) {
	v, c := testVolume{t, t.TempDir()}, newClock()
	s := open(t, v.dir, c)
	for n := range 5 {
		commit(t, s, "cat", n, blobs(fmt.Sprint(n)))
	}
	keys := func() []string {
		p, err := s.pointers.read("cat")
		if err != nil {
			t.Fatal(err)
		}
		out := []string{p.Snapshot}
		for _, previous := range p.Previous {
			out = append(out, previous.Snapshot)
		}
		return out
	}
	key := func(n int) string { return source(n).Key() }
	if diff := cmp.Diff([]string{key(4), key(3), key(2), key(1), key(0)}, keys()); diff != "" {
		t.Errorf("newest first, -want +got:\n%s", diff)
	}
	if err := s.Reclaim(); err != nil {
		t.Fatal(err)
	}
	commit(t, s, "cat", 5, blobs("5"))
	if diff := cmp.Diff([]string{key(5), key(4)}, keys()); diff != "" {
		t.Errorf("after a sweep, -want +got:\n%s", diff)
	}
	commit(t, s, "cat", 4, blobs("4")) // back to what was served before
	if diff := cmp.Diff([]string{key(4), key(5)}, keys()); diff != "" {
		t.Errorf("after going back, -want +got:\n%s", diff)
	}
	snap, _ := s.Snapshot(key(4))
	if err := s.point("cat", Source{Image: "another/name"}, snap); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{key(4), key(5)}, keys()); diff != "" {
		t.Errorf("under another name, -want +got:\n%s", diff)
	}
	servedAt(t, s, "cat", map[int]string{3: "", 4: "4", 5: "5"})
	v.remove("snapshots", key(5)) // a person, or a crash
	s = reopen(t, s, v.dir, c)
	servedAt(t, s, "cat", map[int]string{4: "4", 5: ""})
}

// Each directory of an image is a version; the content of a version never changes.
func TestCatalogAtOfTwoDirectories(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	s := open(t, dir, c)
	versions := map[string]string{} // by the directory
	for _, from := range []string{"/a", "/b", "", "/a"} {
		src := source(1)
		src.ConfigDir = from
		snap, err := tryCommit(t, s, "cat", src, blobs("in"+from))
		if err != nil {
			t.Fatal(err)
		}
		versions[from] = snap.Version()
	}
	want := map[string]string{"": digest(1), "/a": digest(1) + "-6a50dc85", "/b": digest(1) + "-9812b0b9"}
	if diff := cmp.Diff(want, versions); diff != "" {
		t.Errorf("versions, -want +got:\n%s", diff)
	}
	for range 2 { // before and after a restart
		for from, version := range versions {
			at, ok := s.CatalogAt("cat", version)
			if !ok || at.Snapshot.Version() != version || text(t, at.Snapshot) != blobs("in" + from)["c.json"]+"\n" {
				t.Errorf("at %s: got %v %+v, want what is in %q", version, ok, at, from)
			}
		}
		if _, ok := s.CatalogAt("cat", digest(1)+"-00000000"); ok {
			t.Error("a directory that was never served is given")
		}
		s = reopen(t, s, dir, c)
	}
}

// Remove forgets the versions that only this catalog served, also before a restart. Versions of other catalogs keep
// their grace period.
func TestRemoveForgetsTheHistory(t *testing.T) {
	v, c := testVolume{t, t.TempDir()}, newClock()
	s := open(t, v.dir, c)
	for n := 1; n <= 3; n++ {
		commit(t, s, "goes", n, blobs(fmt.Sprint(n)))
	}
	for _, n := range []int{2, 4} {
		commit(t, s, "stays", n, blobs(fmt.Sprint(n)))
	}
	s = reopen(t, s, v.dir, c)
	if err := s.Remove("goes"); err != nil {
		t.Fatal(err)
	}
	servedAt(t, s, "goes", map[int]string{1: "", 2: "", 3: ""})
	servedAt(t, s, "stays", map[int]string{1: "", 2: "2", 3: "", 4: "4"})
	wantNames(t, v.path("snapshots"), source(2).Key(), source(4).Key())
	commit(t, s, "goes", 4, blobs("4")) // a new one of the same name
	servedAt(t, s, "goes", map[int]string{1: "", 2: "", 4: "4"})
}

// CatalogAt returns no damaged content, as clients cache it forever.
func TestCatalogAtReturnsNoDamagedContent(t *testing.T) {
	v := testVolume{t, t.TempDir()}
	s := open(t, v.dir, newClock())
	commit(t, s, "cat", 1, blobs("one"))
	v.flip(20, "snapshots", key, catalogFile)
	if _, err := s.Scrub(t.Context()); err != nil {
		t.Fatal(err)
	}
	servedAt(t, s, "cat", map[int]string{1: ""})
	commit(t, s, "cat", 2, blobs("two"))
	servedAt(t, s, "cat", map[int]string{1: "", 2: "two"})
}

// CatalogAt verifies what an earlier process wrote, served now or before.
func TestCatalogAtVerifiesAfterARestart(t *testing.T) {
	v, c := testVolume{t, t.TempDir()}, newClock()
	s := open(t, v.dir, c)
	for n := 1; n <= 4; n++ {
		commit(t, s, "cat", n, blobs(fmt.Sprint(n)))
	}
	for _, n := range []int{1, 4} {
		v.flip(20, "snapshots", source(n).Key(), catalogFile)
	}
	v.flip(0, "snapshots", source(2).Key(), indexFile) // not even opened
	s = reopen(t, s, v.dir, c)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for n := 1; n <= 4; n++ {
				if _, ok := s.CatalogAt("cat", digest(n)); ok != (n == 3) {
					t.Errorf("at %d: given %v", n, ok)
				}
			}
		})
	}
	wg.Wait()
	servedAt(t, s, "cat", map[int]string{1: "", 2: "", 3: "3", 4: ""})
	if _, ok := s.Snapshot(source(4).Key()); ok {
		t.Error("a damaged snapshot is offered for use, not unpacked again")
	}
	v.flip(20, "snapshots", source(3).Key(), catalogFile) // once is enough: no request reads it all again
	if _, ok := s.CatalogAt("cat", digest(3)); !ok {
		t.Error("it is verified again")
	}
	commit(t, s, "cat", 4, blobs("4"))
	servedAt(t, s, "cat", map[int]string{1: "", 4: "4"})
}

func TestChanged(t *testing.T) {
	v, c := testVolume{t, t.TempDir()}, newClock()
	s := open(t, v.dir, c)
	one := commit(t, s, "cat", 1, blobs("one"))
	point := func(image string, snap *Snapshot) func() error {
		return func() error { return s.point("cat", Source{Image: image}, snap) }
	}
	for _, step := range []struct {
		name string
		do   func() error
		want bool
	}{
		{"to the same", point(source(1).Image, one), false},
		{"under another image", point("another/name", one), true},
		{"at another endpoint", func() error { return s.point("cat", Source{Image: "another/name", Endpoint: "mirror.example"}, one) }, false},
		{"other content", func() error { commit(t, s, "cat", 2, blobs("two")); return nil }, true},
		{"the same content", func() error { commit(t, s, "cat", 2, blobs("two")); return nil }, false},
		{"another catalog", func() error { commit(t, s, "other", 2, blobs("two")); return nil }, true},
		{"a failed commit", func() error { _, err := tryCommit(t, s, "cat", source(3), files{"c.json": "{"}); return inverted(err) }, false},
		{"a sweep", s.Reclaim, false},
		{"removing", func() error { return s.Remove("cat") }, true},
		{"removing again", func() error { return s.Remove("cat") }, false},
	} {
		changed := s.Changed()
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		select {
		case <-changed:
			if !step.want {
				t.Errorf("%s is told as a change", step.name)
			}
		default:
			if step.want {
				t.Errorf("%s is not told", step.name)
			}
		}
	}
}

func inverted(err error) error {
	if err == nil {
		return fmt.Errorf("no error")
	}
	return nil
}

func TestChangesSince(t *testing.T) {
	s := open(t, t.TempDir(), newClock())
	custom := `{"schema":"example.com","package":"custom","v":%d}`
	invalid := func(name, text string) string {
		return fmt.Sprintf(`{"schema":"olm.package","name":%q,"description":%q}`, name, text)
	}
	before := commit(t, s, "cat", 1, files{"c.json": validFoo + invalid("same", "") + invalid("bar",
		"old") + invalid("gone", "") + nameless + fmt.Sprintf(custom, 1)})
	after := commit(t, s, "cat", 2, files{"a.json": invalid("zoo", "") + invalid("new", "") + fmt.Sprintf(custom, 2),
		"c.json": validFoo + `{"schema":"example.com","package":"foo"}` + invalid("bar", "new") + invalid("same", "")})
	if diff := cmp.Diff(Changes{Added: []string{"new", "zoo"}, Changed: []string{"bar", "foo"},
		Removed: []string{"gone"}}, after.ChangesSince(before)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(Changes{Added: []string{"gone"}, Changed: []string{"bar", "foo"},
		Removed: []string{"new", "zoo"}}, before.ChangesSince(after)); diff != "" {
		t.Errorf("and back, -want +got:\n%s", diff)
	}
	if diff := cmp.Diff(Changes{}, after.ChangesSince(after)); diff != "" {
		t.Errorf("of itself:\n%s", diff)
	}
}

// ChangesSince works before the validation.
func TestChangesSinceBeforeValidation(t *testing.T) {
	s := open(t, t.TempDir(), newClock())
	before := commit(t, s, "cat", 1, files{"c.json": validFoo + invalidBar + nameless})
	after := commit(t, s, "cat", 2, files{"c.json": validFoo + `{"schema":"olm.package","name":"new"}`})
	want := Changes{Added: []string{"new"}, Removed: []string{"bar"}}
	for _, snap := range []*Snapshot{before, after} {
		snap.validation.Store(nil)
		if diff := cmp.Diff(want, after.ChangesSince(before)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

// ChangesSince holds no more than its result: many clients may compare catalogs of 100,000 packages.
func TestChangesSinceHoldsOnlyTheResult(t *testing.T) {
	s := open(t, t.TempDir(), newClock())
	var text strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&text, `{"schema":"olm.package","name":"p%d","defaultChannel":"a"}{"schema":"olm.channel","package":"p%[1]d",`+
			`"name":"a","entries":[{"name":"b"}]}`+
			`{"schema":"olm.bundle","package":"p%[1]d","name":"b","image":"example.com/b","properties":[{"type":"olm.package",`+
			`"value":{"packageName":"p%[1]d","version":"1.0.0"}}]}`, i)
	}
	before := commit(t, s, "cat", 1, files{"c.json": text.String()})
	after := commit(t, s, "cat", 2, files{"c.json": text.String() + validFoo})
	if n := before.Info().Packages; n != 5000 || before.InvalidPackageCount() > 0 {
		t.Fatalf("got %d packages, some invalid", n)
	}
	if allocs := testing.AllocsPerRun(10, func() { after.ChangesSince(before) }); allocs > 100 {
		t.Errorf("comparing 5000 equal packages makes %v allocations", allocs)
	}
}
