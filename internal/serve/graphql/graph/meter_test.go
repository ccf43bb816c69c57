package graph

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/operator-catalogs/catalogd/internal/store"
)

// A property without a value has one in the answer: its type says that it is never missing.
func TestPropertyWithoutValue(t *testing.T) {
	got := propertiesOf([]property.Property{{Type: "a"}, {Type: "b", Value: json.RawMessage("1")}}, nil)
	for i, want := range []string{"null", "1"} {
		var b strings.Builder
		if got[i].Value.MarshalGQL(&b); b.String() != want {
			t.Errorf("got %q, want %s", b.String(), want)
		}
	}
}

// oneChannel is a store with one package, of one channel and bundle.
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
		{"schema":"olm.bundle","package":"p","name":"p.v1","image":"i","properties":[{"type":"olm.package","value":{"packageName":"p","version":"1.0.0"}}]}`
	if err := stage.Root().WriteFile("c.json", []byte(blobs), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := stage.Commit(t.Context(), store.Source{Image: "i", Digest: "sha256:" + strings.Repeat("1", 64)}); err != nil {
		t.Fatal(err)
	}
	return st
}

// When the time of a request is over, what walks over summaries or entries ends.
func TestWalksEndWithTheRequest(t *testing.T) {
	st := oneChannel(t)
	r := NewRequest(Options{Limits: Limits{Read: 1}}, st.Catalogs())
	s := r.sources[0]
	summaries := func(ctx context.Context) (n int, last error) {
		for _, err := range s.summaries(ctx) {
			n, last = n+1, err
		}
		return n, last
	}
	if n, err := summaries(t.Context()); n != 1 || err != nil {
		t.Errorf("got %d summaries, %v", n, err)
	}
	if n := s.selectSound(store.Query{}).Len(); n != 2 { // the package itself is not in one
		t.Errorf("got %d blobs", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if n, err := summaries(ctx); n != 1 || err == nil {
		t.Errorf("got %d summaries, %v", n, err)
	}
	if n := s.selectSound(store.Query{}).Len(); n != 0 {
		t.Errorf("got %d blobs of a request that has stopped", n)
	}
}
