package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// servedAt checks what a catalog serves under each digest: the text of its blob, or "" for nothing.
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

// What was swept leaves the pointer file with the next change.
func TestHistoryIsPruned(t *testing.T) {
	v, c := volume{t, t.TempDir()}, newClock()
	s := open(t, v.dir, c)
	for n := range 5 {
		commit(t, s, "cat", n, blobs(fmt.Sprint(n)))
	}
	keys := func() []string {
		p, err := s.readPointer("cat")
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
	if err := s.Point("cat", "another/name", "", snap); err != nil {
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

// Of one digest from two directories of the image, the one served now is given, else the newest.
func TestCatalogAtOfTwoDirectories(t *testing.T) {
	s := open(t, t.TempDir(), newClock())
	from := func(dir string, n int) {
		t.Helper()
		src := source(n)
		src.ConfigDir = dir
		if _, err := tryCommit(t, s, "cat", src, blobs(dir)); err != nil {
			t.Fatal(err)
		}
	}
	from("/a", 1)
	from("/b", 1)
	servedAt(t, s, "cat", map[int]string{1: "/b"})
	from("/a", 1)
	servedAt(t, s, "cat", map[int]string{1: "/a"})
	from("/b", 1)
	from("/c", 2)
	servedAt(t, s, "cat", map[int]string{1: "/b", 2: "/c"})
}

// Remove forgets all that the catalog alone served, also before a restart; what another served before has its grace.
func TestRemoveForgetsTheHistory(t *testing.T) {
	v, c := volume{t, t.TempDir()}, newClock()
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

// What is known to be damaged is not given to those who keep it for good.
func TestCatalogAtGivesNothingDamaged(t *testing.T) {
	v := volume{t, t.TempDir()}
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

func TestChanged(t *testing.T) {
	v, c := volume{t, t.TempDir()}, newClock()
	s := open(t, v.dir, c)
	one := commit(t, s, "cat", 1, blobs("one"))
	point := func(image string, snap *Snapshot) func() error {
		return func() error { return s.Point("cat", image, "", snap) }
	}
	for _, step := range []struct {
		name string
		do   func() error
		want bool
	}{
		{"to the same", point(source(1).Image, one), false},
		{"under another image", point("another/name", one), true},
		{"at another endpoint", func() error { return s.Point("cat", "another/name", "mirror.example", one) }, false},
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
	unsound := func(name, text string) string {
		return fmt.Sprintf(`{"schema":"olm.package","name":%q,"description":%q}`, name, text)
	}
	before := commit(t, s, "cat", 1, files{"c.json": soundFoo + unsound("same", "") + unsound("bar", "old") + unsound("gone", "") + nameless + fmt.Sprintf(custom, 1)})
	after := commit(t, s, "cat", 2, files{"a.json": unsound("zoo", "") + unsound("new", "") + fmt.Sprintf(custom, 2),
		"c.json": soundFoo + `{"schema":"example.com","package":"foo"}` + unsound("bar", "new") + unsound("same", "")})
	if diff := cmp.Diff(Changes{Added: []string{"new", "zoo"}, Changed: []string{"bar", "foo"}, Removed: []string{"gone"}}, after.ChangesSince(before)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(Changes{Added: []string{"gone"}, Changed: []string{"bar", "foo"}, Removed: []string{"new", "zoo"}}, before.ChangesSince(after)); diff != "" {
		t.Errorf("and back, -want +got:\n%s", diff)
	}
	if diff := cmp.Diff(Changes{}, after.ChangesSince(after)); diff != "" {
		t.Errorf("of itself:\n%s", diff)
	}
}
