package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"
)

func TestCollectorPercent(t *testing.T) {
	for live, want := range map[uint64]int{0: 100, 4 << 20: 100, heapGrowth: 100, 2 * heapGrowth: 50, 1 << 40: 20} {
		if got := collectorPercent(live); got != want {
			t.Errorf("with %d bytes that live: got %d, want %d", live, got, want)
		}
	}
}

func TestPaceCollector(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(77))
	large := make([]byte, 4*heapGrowth)

	t.Setenv("GOGC", "77")
	paceCollector(t.Context())
	if got := percentAfter(t.Context(), len(large)); got != 77 {
		t.Errorf("got %d, want what the environment says", got)
	}

	t.Setenv("GOGC", "")
	paceCollector(t.Context())
	for percentAfter(t.Context(), len(large)) != collectorPercent(liveHeap()) { // ours may be called before that of the pacer
	}
	runtime.KeepAlive(large)
}

// percentAfter collects garbage until live bytes are known, and returns GOGC.
func percentAfter(ctx context.Context, live int) int {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	collected := make(chan uint64, 1)
	afterCollection(ctx, func() {
		select {
		case collected <- liveHeap():
		default:
		}
	})
	for {
		runtime.GC()
		if <-collected >= uint64(live) {
			percent := debug.SetGCPercent(100)
			debug.SetGCPercent(percent)
			return percent
		}
	}
}
