package graph

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/operator-catalogs/catalogd/internal/store"
)

func openStore(t *testing.T, dir string) *store.Store {
	t.Helper()
	st, err := store.Open(dir, store.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return st
}

// unpack commits a catalog of two packages, and the same at each call.
func unpack(t *testing.T, st *store.Store) {
	t.Helper()
	stage, err := st.Stage("c", "")
	if err != nil {
		t.Fatal(err)
	}
	defer stage.Discard()
	const blobs = `{"schema":"olm.package","name":"p","defaultChannel":"a"}
		{"schema":"olm.channel","package":"p","name":"a","entries":[{"name":"p.v1"},{"name":"p.v2","replaces":"p.v1"}]}
		{"schema":"olm.bundle","package":"p","name":"p.v1","image":"i","properties":[{"type":"olm.package","value":{"packageName":"p","version":"1.0.0"}}]}
		{"schema":"olm.bundle","package":"p","name":"p.v2","image":"i","properties":[{"type":"olm.package","value":{"packageName":"p","version":"2.0.0"}}]}
		{"schema":"olm.package","name":"q","defaultChannel":"a"}
		{"schema":"olm.channel","package":"q","name":"a","entries":[{"name":"q.v1"}]}
		{"schema":"olm.bundle","package":"q","name":"q.v1","image":"i","properties":[{"type":"olm.package","value":{"packageName":"q","version":"1.0.0"}}]}`
	if err := stage.Root().WriteFile("c.json", []byte(blobs), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := stage.Commit(t.Context(), store.Source{Image: "i", Digest: "sha256:" + strings.Repeat("1", 64)}); err != nil {
		t.Fatal(err)
	}
}

// compress makes a compressed form of the only snapshot.
func compress(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "snapshots", "*", "catalog.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatalf("found %v, %v", files, err)
	}
	content, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files[0]+".zst", w.EncodeAll(content, nil), 0o644); err != nil {
		t.Fatal(err)
	}
}

// overwrite changes bytes of a file of the only snapshot where it lies.
func overwrite(t *testing.T, dir, name, from, to string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "snapshots", "*", name))
	if err != nil || len(files) != 1 {
		t.Fatalf("found %v, %v", files, err)
	}
	content, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(content, []byte(from))
	if at < 0 || len(from) != len(to) {
		t.Fatalf("cannot write %q over %q in %s", to, from, name)
	}
	f, err := os.OpenFile(files[0], os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte(to), int64(at)); err != nil {
		t.Fatal(err)
	}
}

func scrub(t *testing.T, st *store.Store, damaged ...string) {
	t.Helper()
	got, err := st.Scrub(t.Context())
	if diff := cmp.Diff(damaged, got); err != nil || diff != "" {
		t.Fatalf("damaged: %v, %s", err, diff)
	}
}

// answer is what a request finds that Kept may hold.
type answer struct {
	Names []string
	Head  string // of the channel of package p
}

func ask(t *testing.T, st *store.Store, kept *Kept) answer {
	t.Helper()
	r := NewRequest(Options{Limits: Limits{Read: 1 << 20, Decoded: 1 << 20, Memory: 1 << 30}, Kept: kept}, st.Catalogs())
	p := r.sources[0].pkg("p")
	if _, err := p.summary(); err != nil {
		t.Fatal(err)
	}
	head, err := p.channels().list[0].headName()
	if err != nil {
		t.Fatal(err)
	}
	return answer{r.sources[0].soundNames(), head}
}

var sound = answer{[]string{"p", "q"}, "p.v2"}

// A head that was read of a damaged channel, before anybody knew that it is, is not given once the catalog is sound again.
func TestKeptHeadIsThatOfASoundChannel(t *testing.T) {
	for name, heal := range map[string]func(*testing.T, *store.Store){
		"mended":         func(t *testing.T, st *store.Store) { scrub(t, st) },
		"unpacked again": func(t *testing.T, st *store.Store) { scrub(t, st, "c"); unpack(t, st) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			st := openStore(t, dir)
			unpack(t, st)
			if name == "mended" {
				compress(t, dir) // it is made again of this
			}
			overwrite(t, dir, "catalog.jsonl", `"replaces":"p.v1"`, `"replaces":"p.v9"`)
			kept := NewKept()
			if got := ask(t, st, kept).Head; got != "p.v1" {
				t.Fatalf("the head of the damaged channel is %q", got)
			}
			heal(t, st)
			if diff := cmp.Diff(sound, ask(t, st, kept)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What was found by an index that was made of a damaged catalog is not given once that is unpacked again.
func TestKeptNamesOutliveNoRebuiltIndex(t *testing.T) {
	dir := t.TempDir()
	st := openStore(t, dir)
	unpack(t, st)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	overwrite(t, dir, "catalog.jsonl", `"package":"q","name":"q.v1"`, `"package":"q","name":"q.v9"`)
	overwrite(t, dir, "index", `olm.bundle`, `olm.bungle`)
	st = openStore(t, dir)
	scrub(t, st, "c")
	kept := NewKept()
	if diff := cmp.Diff(answer{[]string{"p"}, "p.v2"}, ask(t, st, kept)); diff != "" {
		t.Fatal(diff)
	}
	if n := len(kept.facts); n != 0 {
		t.Errorf("%d facts are kept of a catalog that is known to be damaged: %v", n, kept.facts)
	}
	unpack(t, st)
	scrub(t, st)
	if diff := cmp.Diff(sound, ask(t, st, kept)); diff != "" {
		t.Error(diff)
	}
}

// Names are kept once they are known, and what is kept of one snapshot is not given of another.
func TestKeptIsOfOneOpenedSnapshot(t *testing.T) {
	dir := t.TempDir()
	st := openStore(t, dir)
	unpack(t, st)
	scrub(t, st)
	kept := NewKept()
	for range 2 {
		if diff := cmp.Diff(sound, ask(t, st, kept)); diff != "" {
			t.Fatal(diff)
		}
	}
	if n := len(kept.facts); n != 3 {
		t.Errorf("%d facts are kept: %v", n, kept.facts)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	ask(t, openStore(t, dir), kept)
	if n := len(kept.facts); n != 6 {
		t.Errorf("%d facts are kept of two: %v", n, kept.facts)
	}
}

// A panic leaves an error for those that ask later, not the zero value.
func TestLazyDoesNotHideAPanic(t *testing.T) {
	panics := func(ask func()) (cause any) {
		defer func() { cause = recover() }()
		ask()
		return nil
	}
	var l lazy[int]
	find := func() (int, error) { panic("first") }
	if cause := panics(func() { _, _ = l.get(find) }); cause != "first" {
		t.Errorf("the first call panicked with %v", cause)
	}
	if value, err := l.get(find); err == nil {
		t.Errorf("the second call gave %d and no error", value)
	}
	var always lazy[int]
	for range 2 {
		if panics(func() { always.must(func() int { panic("first") }) }) == nil {
			t.Error("a call did not panic")
		}
	}
}
