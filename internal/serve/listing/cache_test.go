package listing

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/operator-catalogs/catalogd/internal/store"
)

// openStore opens a store with catalogs c0, c1 and so on of a number of packages.
func openStore(t *testing.T, catalogs, packages int) []store.Catalog {
	t.Helper()
	st, err := store.Open(t.TempDir(), store.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	var b strings.Builder
	for i := range packages {
		fmt.Fprintf(&b, `{"schema":"olm.package","name":"p%d","defaultChannel":"a"}
			{"schema":"olm.channel","package":"p%[1]d","name":"a","entries":[{"name":"p%[1]d.v1"}]}
			{"schema":"olm.bundle","package":"p%[1]d","name":"p%[1]d.v1","image":"i","properties":[
			{"type":"olm.package","value":{"packageName":"p%[1]d","version":"1.0.0"}},
			{"type":"olm.gvk","value":{"group":"example.com","version":"v1","kind":"Kind%[1]d"}}]}
`, i)
	}
	for i := range catalogs {
		stage, err := st.Stage("c", "")
		if err != nil {
			t.Fatal(err)
		}
		if err := stage.Root().WriteFile("c.json", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		source := store.Source{Image: "i", Digest: fmt.Sprintf("sha256:%064d", i)}
		if _, err := stage.Commit(t.Context(), source); err != nil {
			t.Fatal(err)
		}
		snapshot, ok := st.Snapshot(source.Key())
		if !ok {
			t.Fatal("no snapshot")
		}
		if err := st.Serve(t.Context(), fmt.Sprint("c", i), source, snapshot); err != nil {
			t.Fatal(err)
		}
	}
	var out []store.Catalog
	for _, c := range st.Catalogs() {
		if c.Name != "c" {
			out = append(out, c)
		}
	}
	return out
}

func (c *Cache) sizes() (total int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, known := range c.indexes {
		total += known.index.size
	}
	return total
}

// The cache keeps the recently used indexes within its limit.
func TestCacheIsBounded(t *testing.T) {
	catalogs := openStore(t, 4, 50)
	c := NewCache()
	of := func(i int) *Index {
		t.Helper()
		ix, err := c.Of(t.Context(), catalogs[i].Snapshot)
		if err != nil || ix.Len() != 50 {
			t.Fatalf("got %v, %v", ix, err)
		}
		if total := c.sizes(); total > c.limit {
			t.Fatalf("the cache has %d bytes, more than %d", total, c.limit)
		}
		return ix
	}
	c.limit = of(0).size*2 + 1
	first := of(0)
	of(1)
	if of(0) != first {
		t.Error("an index is made twice")
	}
	of(2)
	if of(0) != first {
		t.Error("a recently used index was evicted")
	}
	if len(c.indexes) != 2 {
		t.Errorf("the cache has %d indexes", len(c.indexes))
	}
	c = NewCache()
	c.limit = 1
	if large := of(3); large == of(3) {
		t.Error("an index beyond the limit is kept")
	}
}

// Concurrent requests share one index, and a request that ends does not wait for it.
func TestIndexIsMadeOnce(t *testing.T) {
	snapshot := openStore(t, 1, 2000)[0].Snapshot
	c := NewCache()
	var wg sync.WaitGroup
	found := make([]*Index, 8)
	for i := range found {
		wg.Go(func() { found[i], _ = c.Of(t.Context(), snapshot) })
	}
	wg.Wait()
	for _, ix := range found {
		if ix == nil || ix != found[0] {
			t.Fatalf("got %p and %p", ix, found[0])
		}
	}
	c = NewCache()
	c.building <- struct{}{}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := c.Of(ctx, snapshot); err == nil {
		t.Error("a request that ended got an index")
	}
	<-c.building
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if _, err := newIndex(ctx, snapshot); err == nil {
		t.Error("the index of a request that ended was made")
	}
}

// An index of 2,000 packages with kinds of their own takes 400 bytes for each, so one of 50,000 fits into the cache.
func TestIndexIsSmall(t *testing.T) {
	snapshot := openStore(t, 1, 2000)[0].Snapshot
	ix, err := newIndex(t.Context(), snapshot)
	if err != nil {
		t.Fatal(err)
	}
	if each := ix.size / 2000; each > maxCache/50_000 {
		t.Errorf("a package takes %d bytes", each)
	}
	values := Top(Kind, []*Counts{ix.Select(nil, nil).Count()}, 3)
	if len(values) != 3 || values[0] != (Value{"Kind0.example.com", 1}) || values[1] != (Value{"Kind1.example.com", 1}) {
		t.Errorf("got %v", values)
	}
	if name, ok := ix.WithIcon(strings.Repeat("0", 32)); ok {
		t.Errorf("%s has an icon", name)
	}
}

// The index of a catalog with absurd facts fits into the cache.
func TestAbsurdFactsFit(t *testing.T) {
	st, err := store.Open(t.TempDir(), store.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	long := strings.Repeat("Long", 1000)
	var b strings.Builder
	for i := range 600 {
		fmt.Fprintf(&b, `{"schema":"olm.package","name":"p%d","defaultChannel":"a"}
			{"schema":"olm.channel","package":"p%[1]d","name":"a","entries":[{"name":"p%[1]d.v1"}]}
			{"schema":"olm.bundle","package":"p%[1]d","name":"p%[1]d.v1","image":"i","properties":[
			{"type":"olm.package","value":{"packageName":"p%[1]d","version":"1.0.0"}},
			{"type":"olm.csv.metadata","value":{"displayName":"%[1]d%[2]s","provider":{"name":"%[1]d%[2]s"},"annotations":{"categories":"`, i, long)
		for j := range 90 {
			fmt.Fprintf(&b, "%d-%d%.300s,", i, j, long)
		}
		b.WriteString("\"}}}")
		for j := range 30 {
			fmt.Fprintf(&b, `,{"type":"olm.gvk","value":{"group":"example.com","version":"v1","kind":"%d-%d%.300s"}}`, i, j, long)
		}
		b.WriteString("]}\n")
	}
	stage, err := st.Stage("c", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := stage.Root().WriteFile("c.json", []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := stage.Commit(t.Context(), store.Source{Image: "i", Digest: fmt.Sprintf("sha256:%064d", 0)}); err != nil {
		t.Fatal(err)
	}
	ix, err := newIndex(t.Context(), st.Catalogs()[0].Snapshot)
	if err != nil || ix.Len() != 600 || ix.size > maxCache/2 {
		t.Fatalf("%v, %d packages in %d bytes", err, ix.Len(), ix.size)
	}
	// A cut value is found in full, too.
	if n := ix.Select(Filter{Provider: {"0" + long}}, nil).Count().Total; n != 1 {
		t.Errorf("%d packages of a provider with a long name", n)
	}
}
