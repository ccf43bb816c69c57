package main

import (
	"context"
	"runtime/debug"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/store"
)

func TestCollectorPercent(t *testing.T) {
	for indexes, want := range map[int64]int{0: 100, 1 << 20: 96, 24 << 20: 50, 1 << 40: 25} {
		if got := collectorPercent(indexes); got != want {
			t.Errorf("with indexes of %d bytes: got %d, want %d", indexes, got, want)
		}
	}
}

func TestPaceCollector(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(77)
	defer debug.SetGCPercent(before)
	st, err := store.Open(t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := paceCollector(st)(ctx); err != nil {
		t.Fatal(err)
	}
	if got := debug.SetGCPercent(100); got != 100 {
		t.Errorf("got %d, want 100 for a store without indexes", got)
	}
	t.Setenv("GOGC", "60")
	debug.SetGCPercent(60)
	if err := paceCollector(st)(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := debug.SetGCPercent(60); got != 60 {
		t.Errorf("got %d, want what the environment says", got)
	}
}
