package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/subset"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// clock stands still unless it is advanced.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 8, 22, 10, 0, 0, 123456789, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// open opens a store that is closed when the test ends, or by reopen.
func open(t testing.TB, dir string, c *clock, change ...func(*Options)) *Store {
	t.Helper()
	opts := Options{Logger: slog.New(slog.DiscardHandler), Now: c.Now}
	for _, f := range change {
		f(&opts)
	}
	s, err := Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // it may be closed already
	return s
}

func reopen(t *testing.T, s *Store, dir string, c *clock, change ...func(*Options)) *Store {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return open(t, dir, c, change...)
}

// digest returns an invented digest of an image.
func digest(n int) string { return fmt.Sprintf("sha256:%064x", n) }

// source returns the source of an image. The thousands are the number of a filter.
func source(n int) Source {
	filters := []subset.Filter{
		{},
		{Include: []subset.Include{{Package: "foo"}, {Package: "none"}}},
		{Include: []subset.Include{{Package: "foo", OnlyHeads: true}}},
		{Exclude: []subset.Exclude{{Package: "bar"}}},
		{Include: []subset.Include{{Package: "none"}}},
	}
	return Source{Image: "example.com/catalog:latest", Digest: digest(n % 1000), Filter: filters[n/1000%len(filters)]}
}

// files are the files of a catalog by path.
type files map[string]string

// blobs returns a catalog of one custom blob with a text.
func blobs(text string) files {
	return files{"c.json": fmt.Sprintf(`{"schema":"example.com","name":"text","text":%q}`, text)}
}

func stage(t testing.TB, s *Store, name string, in files) *Stage {
	t.Helper()
	st, err := s.Stage(name, source(1).Image)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range in {
		if err := st.Root().MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := st.Root().WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		st.Add(name)
	}
	return st
}

// tryCommit commits files and discards the stage.
func tryCommit(t testing.TB, s *Store, name string, src Source, in files) (*Snapshot, error) {
	t.Helper()
	st := stage(t, s, name, in)
	snap, err := st.Commit(context.Background(), src)
	if err := st.Discard(); err != nil {
		t.Fatal(err)
	}
	return snap, err
}

func commit(t testing.TB, s *Store, name string, n int, in files) *Snapshot {
	t.Helper()
	snap, err := tryCommit(t, s, name, source(n), in)
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

func sweep(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Sweep(); err != nil {
		t.Fatal(err)
	}
}

// text reads all of a snapshot in each way and returns it.
func text(t testing.TB, snap *Snapshot) string {
	t.Helper()
	b, err := io.ReadAll(snap.Select(Query{}))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for blob, err := range snap.Select(Query{}).All() {
		if err != nil {
			t.Fatal(err)
		}
		all.Write(blob)
		all.WriteByte('\n')
	}
	if all.String() != string(b) {
		t.Errorf("Read gives %q, All %q", b, all.String())
	}
	return string(b)
}

// serves checks that a catalog serves the content of blobs; nothing if want is "".
func serves(t *testing.T, s *Store, name, want string) Catalog {
	t.Helper()
	c, ok := s.Catalog(name)
	if ok != (want != "") {
		t.Fatalf("catalog %s: served %v, want %q", name, ok, want)
	}
	if !ok {
		return c
	}
	if got := text(t, c.Snapshot); got != blobs(want)["c.json"]+"\n" {
		t.Errorf("catalog %s: got %q, want the one blob with %q", name, got, want)
	}
	f, err := c.Snapshot.OpenAll()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if b, err := io.ReadAll(f); err != nil || string(b) != blobs(want)["c.json"]+"\n" {
		t.Errorf("catalog %s: the file has %q, %v", name, b, err)
	}
	return c
}

// tree lists a directory: each file with inode and times, so that any write shows.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		out = append(out, fmt.Sprintf("%s inode %d size %d changed %s", name, info.Sys().(*syscall.Stat_t).Ino, info.Size(), info.ModTime()))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func wantNames(t *testing.T, dir string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), names(t, dir)); diff != "" {
		t.Errorf("%s, -want +got:\n%s", filepath.Base(dir), diff)
	}
}

func TestReopenServesTheSame(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	s := open(t, dir, c)
	for i, name := range []string{"b", "a", "c"} {
		commit(t, s, name, i, blobs(name))
		c.advance(time.Minute)
	}
	before := s.Catalogs()
	s = reopen(t, s, dir, c)
	after := s.Catalogs()
	if len(after) != 3 {
		t.Fatalf("got %d catalogs, want 3", len(after))
	}
	for i, name := range []string{"a", "b", "c"} {
		got := serves(t, s, name, name)
		if after[i].Name != name || got.Snapshot != after[i].Snapshot {
			t.Errorf("catalog %d is %s, want %s", i, after[i].Name, name)
		}
		if before[i].Snapshot.Key() != got.Snapshot.Key() || !before[i].Since.Equal(got.Since) {
			t.Errorf("catalog %s: served %s since %s before, %s since %s after", name, before[i].Snapshot.Key(),
				before[i].Since, got.Snapshot.Key(), got.Since)
		}
		if diff := cmp.Diff(before[i].Snapshot.Info(), got.Snapshot.Info()); diff != "" {
			t.Errorf("catalog %s: -before +after:\n%s", name, diff)
		}
	}
}

func TestKey(t *testing.T) {
	keys := map[string]Source{}
	for _, src := range []Source{
		{Digest: digest(1)}, {Digest: digest(2)}, {Digest: digest(1), ConfigDir: "/configs"}, {Digest: digest(1),
			ConfigDir: "/other"}, {Digest: "sha512:ab"},
	} {
		key := src.Key()
		if other, ok := keys[key]; ok {
			t.Errorf("%+v and %+v have one key, %s", src, other, key)
		}
		keys[key] = src
		if strings.Trim(key, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			t.Errorf("the key %q has other characters than promised", key)
		}
		again := src
		again.Image, again.Endpoint = "another/name:for-it", "mirror.example/name"
		if again.Key() != key {
			t.Errorf("the key of %+v depends on where it came from", src)
		}
	}
}

func TestSinceOnlyGrows(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	s := open(t, dir, c)
	want := c.Now().Truncate(time.Second)
	for i := range 4 { // all within one second
		commit(t, s, "cat", i, blobs(fmt.Sprint(i)))
		got := serves(t, s, "cat", fmt.Sprint(i)).Since
		if !got.Equal(want) || got.Location() != time.UTC {
			t.Errorf("version %d: got since %s, want %s", i, got, want)
		}
		want = want.Add(time.Second)
	}
	s = reopen(t, s, dir, c) // and it holds over a restart, and when the clock goes back
	c.advance(-time.Hour)
	commit(t, s, "cat", 9, blobs("9"))
	if got := serves(t, s, "cat", "9").Since; !got.Equal(want) {
		t.Errorf("got since %s, want %s", got, want)
	}
	c.advance(2 * time.Hour)
	commit(t, s, "cat", 10, blobs("10"))
	if got := serves(t, s, "cat", "10").Since; !got.Equal(c.Now().Truncate(time.Second)) {
		t.Errorf("got since %s, want the time of the clock", got)
	}
}

func TestServeOfTheSameWritesNothing(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	s := open(t, dir, c)
	commit(t, s, "cat", 1, blobs("one"))
	s = reopen(t, s, dir, c)
	before := tree(t, dir)
	c.advance(time.Hour)
	for range 20 {
		snap, ok := s.Snapshot(source(1).Key())
		if !ok {
			t.Fatal("the snapshot is gone")
		}
		if err := s.point("cat", Source{Image: snap.Info().Image}, snap); err != nil {
			t.Fatal(err)
		}
		sweep(t, s)
	}
	if diff := cmp.Diff(before, tree(t, dir)); diff != "" {
		t.Errorf("-before +after:\n%s", diff)
	}
}

func TestRollBackWithinGrace(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	s := open(t, dir, c)
	old := commit(t, s, "cat", 1, blobs("old"))
	commit(t, s, "cat", 2, blobs("new"))
	newer := serves(t, s, "cat", "new").Since
	c.advance(14 * time.Minute)
	sweep(t, s)
	snap, ok := s.Snapshot(source(1).Key())
	if !ok || snap != old {
		t.Fatalf("got %v %v, want the snapshot from before", snap, ok)
	}
	if err := s.point("cat", Source{Image: snap.Info().Image}, snap); err != nil {
		t.Fatal(err)
	}
	if got := serves(t, s, "cat", "old").Since; !got.After(newer) {
		t.Errorf("got since %s, want later than %s", got, newer)
	}
	c.advance(14 * time.Minute) // the grace of the newer one began only now
	sweep(t, s)
	wantNames(t, filepath.Join(dir, "snapshots"), source(1).Key(), source(2).Key())
	c.advance(time.Minute)
	sweep(t, s)
	wantNames(t, filepath.Join(dir, "snapshots"), source(1).Key())
	serves(t, reopen(t, s, dir, c), "cat", "old")
}

func TestOpenRefusesAnotherProcess(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	s := open(t, dir, c)
	commit(t, s, "cat", 1, blobs("one"))
	st := stage(t, s, "cat", blobs("in work"))
	_, err := Open(dir, Options{})
	if err == nil || !strings.Contains(err.Error(), "another process uses the volume") || !strings.Contains(err.Error(), dir) {
		t.Fatalf("got error %v, want one with the remedy", err)
	}
	if _, err := st.Root().Stat("c.json"); err != nil {
		t.Errorf("the attempt emptied the stage: %v", err)
	}
	serves(t, reopen(t, s, dir, c), "cat", "one") // Close frees it
}

func TestOpenErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(file, Options{}); err == nil {
		t.Error("a file was opened as a store")
	}
	if _, err := Open(t.TempDir(), Options{MaxBlobBytes: 1 << 32}); err == nil || !strings.Contains(err.Error(), "less than 4 GiB") {
		t.Errorf("got error %v for blobs the index cannot hold", err)
	}
	open(t, filepath.Join(t.TempDir(), "made", "if", "missing"), newClock())
}

func TestRecordRefusal(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	s := open(t, dir, c)
	one, two := source(1).Key(), source(2).Key()
	if _, refused := s.Refused(one); refused {
		t.Error("refused from the start")
	}
	s.RecordRefusal(one, Refusal{Reason: "NoCatalog", Message: "it is no catalog"})
	s.RecordRefusal(two, Refusal{Message: "nor is this"})
	if reason, refused := s.Refused(one); !refused || reason != (Refusal{"NoCatalog", "it is no catalog"}) {
		t.Errorf("got %q %v", reason, refused)
	}
	s.ForgetRefusal(one)
	s.ForgetRefusal(one)
	if reason, refused := s.Refused(one); refused {
		t.Errorf("still refused: %q", reason)
	}
	if _, refused := s.Refused(two); !refused {
		t.Error("the other was forgiven too")
	}
	s = reopen(t, s, dir, c)
	if _, refused := s.Refused(two); refused {
		t.Error("still refused in the next process")
	}
}

func TestDiscardAndErrorsKeepServedContent(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	s := open(t, dir, c)
	commit(t, s, "cat", 1, blobs("served"))
	before := tree(t, filepath.Join(dir, "snapshots"))

	st := stage(t, s, "cat", blobs("not committed"))
	if err := st.Discard(); err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	st = stage(t, s, "cat", blobs("cancelled"))
	if _, err := st.Commit(cancelled, source(2)); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want that of the context", err)
	}
	if err := st.Discard(); err != nil {
		t.Fatal(err)
	}
	st = stage(t, s, "cat", blobs("the disk fails"))
	if err := os.RemoveAll(filepath.Join(dir, st.dir, "snapshot")); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Commit(context.Background(), source(2)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got error %v, want that of the disk", err)
	}
	if err := st.Discard(); err != nil {
		t.Fatal(err)
	}
	serves(t, s, "cat", "served")
	if diff := cmp.Diff(before, tree(t, filepath.Join(dir, "snapshots"))); diff != "" {
		t.Errorf("-before +after:\n%s", diff)
	}
	wantNames(t, filepath.Join(dir, "stage"))
	wantNames(t, filepath.Join(dir, "catalogs"), "cat")
}

// Catalogs that share a snapshot have their own endpoints, also after a restart. A new endpoint alone is not written.
func TestEndpoint(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	s := open(t, dir, c)
	commit(t, s, "a", 1, blobs("x"))
	snap := serves(t, s, "a", "x").Snapshot
	if err := s.point("b", Source{Image: "image", Endpoint: "mirror.example/image@sha256:1"}, snap); err != nil {
		t.Fatal(err)
	}
	if err := s.point("b", Source{Image: "image", Endpoint: "other.example/image@sha256:1"}, snap); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, c)
	for name, want := range map[string]string{"a": "", "b": "mirror.example/image@sha256:1"} {
		if got := serves(t, s, name, "x").Endpoint; got != want {
			t.Errorf("%s has endpoint %q, want %q", name, got, want)
		}
	}
}

// Basis and time of a decision made elsewhere survive a restart. Times still increase.
func TestServeTakesTimeAndBasisOfSource(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	s := open(t, dir, c)
	began := c.Now().Add(-time.Hour).Truncate(time.Second)
	one, other := source(1), source(2)
	one.Since, one.Basis = began.Add(time.Millisecond).In(time.FixedZone("east", 3600)), "why"
	_, err := tryCommit(t, s, "cat", one, blobs("one"))
	must.Succeed(t, err)
	for range 2 {
		got := serves(t, s, "cat", "one")
		if !got.Since.Equal(began) || got.Since.Location() != time.UTC || got.Basis != "why" {
			t.Errorf("got since %s, basis %q, want %s, why", got.Since, got.Basis, began)
		}
		s = reopen(t, s, dir, c)
	}
	other.Since = began // by a clock that is slow
	_, err = tryCommit(t, s, "cat", other, blobs("two"))
	must.Succeed(t, err)
	if got := serves(t, s, "cat", "two"); !got.Since.After(began) || got.Basis != "" {
		t.Errorf("got since %s, basis %q, want later than %s and none", got.Since, got.Basis, began)
	}
	// A new decision for the same content changes Since; the same decision again writes nothing.
	other.Basis, other.Since = "again", began.Add(time.Hour)
	snap, _ := s.Snapshot(other.Key())
	must.Succeed(t, s.point("cat", other, snap))
	if got := serves(t, s, "cat", "two"); !got.Since.Equal(other.Since) || got.Basis != "again" {
		t.Errorf("got since %s, basis %q, want %s, again", got.Since, got.Basis, other.Since)
	}
	before := tree(t, dir)
	other.Since = other.Since.Add(time.Hour)
	must.Succeed(t, s.point("cat", other, snap))
	other.Basis = ""
	must.Succeed(t, s.point("cat", other, snap))
	if diff := cmp.Diff(before, tree(t, dir)); diff != "" {
		t.Errorf("asked for again, -before +after:\n%s", diff)
	}
}

// A change of owner changes nothing else and survives a restart.
func TestOwner(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	s := open(t, dir, c)
	src := source(1)
	src.Basis, src.Endpoint = "why", "mirror.example/image@sha256:1"
	snap, err := tryCommit(t, s, "cat", src, blobs("one"))
	must.Succeed(t, err)
	want := serves(t, s, "cat", "one")
	c.advance(time.Hour)
	for _, owner := range []string{"a", "b", ""} {
		must.Succeed(t, s.point("cat", Source{Image: src.Image, Owner: owner}, snap))
		s = reopen(t, s, dir, c)
		want.Owner, want.Snapshot = owner, nil
		got := serves(t, s, "cat", "one")
		snap, got.Snapshot = got.Snapshot, nil
		if got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

// A release ignores fields that a later one adds to pointers.
func TestPointerOfLaterRelease(t *testing.T) {
	v, c := testVolume{t, t.TempDir()}, newClock()
	s := open(t, v.dir, c)
	commit(t, s, "cat", 1, blobs("one"))
	p, err := s.pointers.read("cat")
	must.Succeed(t, err)
	rest, err := json.Marshal(map[string]any{"snapshot": p.Snapshot, "image": p.Image, "since": p.Since, "later": map[string]int{"a": 1}})
	must.Succeed(t, err)
	rest = append(rest[1:], '\n')
	v.write(pointerHead("cat", rest)+string(rest), "catalogs", "cat")
	serves(t, reopen(t, s, v.dir, c), "cat", "one")
}
