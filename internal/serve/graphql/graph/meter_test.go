package graph

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/operator-catalogs/catalogd/internal/serve/listing"
	"github.com/operator-catalogs/catalogd/internal/serve/search"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// The value of a property without a value is null, because the schema requires one.
func TestPropertyWithoutValue(t *testing.T) {
	got := propertiesOf([]property.Property{{Type: "a"}, {Type: "b", Value: json.RawMessage("1")}}, nil)
	for i, want := range []string{"null", "1"} {
		var b strings.Builder
		if got[i].Value.MarshalGQL(&b); b.String() != want {
			t.Errorf("got %q, want %s", b.String(), want)
		}
	}
}

// newRequest returns a request for the catalogs of a store.
func newRequest(st *store.Store, cache *Cache, limits Limits) *Request {
	return NewRequest(Options{
		Priority: func(string) int32 { return 0 }, Limits: limits, Cache: cache, Listings: listing.NewCache(),
	}, st.Catalogs())
}

var highLimits = Limits{Read: 1 << 20, Decoded: 1 << 20, Memory: 1 << 30}

// oneChannel returns a store with one package, which has one channel and one bundle.
func oneChannel(t *testing.T) *store.Store {
	t.Helper()
	st, err := store.Open(t.TempDir(), store.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	stage, err := st.Stage("c", "")
	if err != nil {
		t.Fatal(err)
	}
	const blobs = `{"schema":"olm.package","name":"p","defaultChannel":"a"}
		{"schema":"olm.channel","package":"p","name":"a","entries":[{"name":"p.v1"}]}
		{"schema":"olm.bundle","package":"p","name":"p.v1","image":"i",
			"properties":[{"type":"olm.package","value":{"packageName":"p","version":"1.0.0"}}]}`
	if err := stage.Root().WriteFile("c.json", []byte(blobs), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := stage.Commit(t.Context(), store.Source{Image: "i", Digest: "sha256:" + strings.Repeat("1", 64)}); err != nil {
		t.Fatal(err)
	}
	return st
}

// After the end of a request, walks over summaries or entries stop.
func TestWalksEndWithTheRequest(t *testing.T) {
	st := oneChannel(t)
	r := newRequest(st, NewCache(), Limits{Read: 1})
	s := r.sources[0]
	find := func(ctx context.Context) (*listed, error) { return s.list(ctx, &packageQuery{search: &search.Query{}}) }
	if _, err := find(t.Context()); err != nil {
		t.Error(err)
	}
	if n := s.selectValid(store.Query{}).Len(); n != 2 { // the olm.package blob has no package
		t.Errorf("got %d blobs", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := find(ctx); err == nil {
		t.Error("the walk over summaries did not stop")
	}
	if n := s.selectValid(store.Query{}).Len(); n != 0 {
		t.Errorf("got %d blobs of a stopped request", n)
	}
}
