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

// unpack commits a catalog of two packages, the same at each call.
func unpack(t *testing.T, st *store.Store) {
	t.Helper()
	stage, err := st.Stage("c", "")
	if err != nil {
		t.Fatal(err)
	}
	defer stage.Discard()
	const blobs = `{"schema":"olm.package","name":"p","defaultChannel":"a"}
		{"schema":"olm.channel","package":"p","name":"a","entries":[{"name":"p.v1"},{"name":"p.v2","replaces":"p.v1"}]}
		{"schema":"olm.bundle","package":"p","name":"p.v1","image":"i",
			"properties":[{"type":"olm.package","value":{"packageName":"p","version":"1.0.0"}}]}
		{"schema":"olm.bundle","package":"p","name":"p.v2","image":"i",
			"properties":[{"type":"olm.package","value":{"packageName":"p","version":"2.0.0"}}]}
		{"schema":"olm.package","name":"q","defaultChannel":"a"}
		{"schema":"olm.channel","package":"q","name":"a","entries":[{"name":"q.v1"}]}
		{"schema":"olm.bundle","package":"q","name":"q.v1","image":"i",
			"properties":[{"type":"olm.package","value":{"packageName":"q","version":"1.0.0"}}]}`
	if err := stage.Root().WriteFile("c.json", []byte(blobs), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := stage.Commit(t.Context(), store.Source{Image: "i", Digest: "sha256:" + strings.Repeat("1", 64)}); err != nil {
		t.Fatal(err)
	}
}

// compress adds the compressed form of the only snapshot.
func compress(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "snapshots", "*", "catalog.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatalf("got files %v, error %v", files, err)
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

// overwrite changes bytes of a file of the only snapshot in place.
func overwrite(t *testing.T, dir, name, from, to string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "snapshots", "*", name))
	if err != nil || len(files) != 1 {
		t.Fatalf("got files %v, error %v", files, err)
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

// answer has facts of a request that the cache may hold.
type answer struct {
	Names []string
	Head  string // of the channel of package p
}

func ask(t *testing.T, st *store.Store, cache *Cache) answer {
	t.Helper()
	r := newRequest(st, cache, highLimits)
	p := r.sources[0].pkg("p")
	if err := p.load(); err != nil {
		t.Fatal(err)
	}
	head, err := p.channels().list[0].headName()
	if err != nil {
		t.Fatal(err)
	}
	return answer{r.sources[0].validNames(), head}
}

var intact = answer{[]string{"p", "q"}, "p.v2"}

// The cache must not keep a head that was read from a damaged channel before the damage was detected.
func TestCacheKeepsNoHeadOfDamagedChannel(t *testing.T) {
	for name, heal := range map[string]func(*testing.T, *store.Store){
		"restored":       func(t *testing.T, st *store.Store) { scrub(t, st) },
		"unpacked again": func(t *testing.T, st *store.Store) { scrub(t, st, "c"); unpack(t, st) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			st := openStore(t, dir)
			unpack(t, st)
			if name == "restored" {
				compress(t, dir) // the catalog is restored from it
			}
			overwrite(t, dir, "catalog.jsonl", `"replaces":"p.v1"`, `"replaces":"p.v9"`)
			cache := NewCache()
			if got := ask(t, st, cache).Head; got != "p.v1" {
				t.Fatalf("the head of the damaged channel is %q", got)
			}
			heal(t, st)
			if diff := cmp.Diff(intact, ask(t, st, cache)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The cache must not keep names from an index that was rebuilt from a damaged catalog.
func TestCacheKeepsNoNamesOfDamagedCatalog(t *testing.T) {
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
	cache := NewCache()
	if diff := cmp.Diff(answer{[]string{"p"}, "p.v2"}, ask(t, st, cache)); diff != "" {
		t.Fatal(diff)
	}
	if n := len(cache.facts); n != 0 {
		t.Errorf("the cache holds %d facts of a damaged catalog: %v", n, cache.facts)
	}
	unpack(t, st)
	scrub(t, st)
	if diff := cmp.Diff(intact, ask(t, st, cache)); diff != "" {
		t.Error(diff)
	}
}

// Facts of one opened snapshot are not used for another.
func TestCacheKeysAreOpenedSnapshots(t *testing.T) {
	dir := t.TempDir()
	st := openStore(t, dir)
	unpack(t, st)
	scrub(t, st)
	cache := NewCache()
	for range 2 {
		if diff := cmp.Diff(intact, ask(t, st, cache)); diff != "" {
			t.Fatal(diff)
		}
	}
	if n := len(cache.facts); n != 3 {
		t.Errorf("the cache holds %d facts: %v", n, cache.facts)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	ask(t, openStore(t, dir), cache)
	if n := len(cache.facts); n != 6 {
		t.Errorf("the cache holds %d facts of two snapshots: %v", n, cache.facts)
	}
}

// After a panic, later calls must return an error instead of the zero value.
func TestLazyReturnsErrorAfterPanic(t *testing.T) {
	var l lazy[int]
	find := func() (int, error) { panic("first") }
	func() {
		defer func() {
			if cause := recover(); cause != "first" {
				t.Errorf("the first call panicked with %v", cause)
			}
		}()
		_, _ = l.get(find)
	}()
	if value, err := l.get(find); err == nil {
		t.Errorf("the second call returned %d and no error", value)
	}
}
