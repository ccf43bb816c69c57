package main

import (
	"context"
	"log/slog"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// limitMemory sets Go's memory limit to 90 % of the container's limit and follows its changes. GOMEMLIMIT takes
// precedence.
func limitMemory(ctx context.Context, logger *slog.Logger) {
	limit, err := memlimit.Set(memlimit.WithRefreshInterval(ctx, time.Minute))
	switch {
	case err != nil:
		logger.Debug("the container has no known memory limit", "error", err)
	case limit < math.MaxInt64:
		logger.Info("memory limit set", "bytes", limit)
	}
}

// heapGrowth is the growth of the heap between two garbage collections, in bytes.
const heapGrowth = 16 << 20

// startHeap is the size of the heap at the first collection: most allocations of a start stay, and clients may be
// waiting. minimumHeap is Go's value at 100 percent.
const (
	startHeap   = 32 << 20
	minimumHeap = 4 << 20
)

// paceCollector keeps the growth of the heap between collections about constant until ctx ends. Go would let it
// double, and long-lived data such as indexes would cost as much again. GOGC takes precedence.
func paceCollector(ctx context.Context) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(100 * startHeap / minimumHeap)
		afterCollection(ctx, func() { debug.SetGCPercent(collectorPercent(liveHeap())) })
	}
}

// afterCollection calls f after each collection until ctx ends, in a goroutine of the runtime. Overlapping
// collections count as one.
func afterCollection(ctx context.Context, f func()) {
	type garbage struct{ _ *garbage } // large enough not to share an allocation with others
	runtime.AddCleanup(new(garbage), func(f func()) {
		if ctx.Err() == nil {
			f()
			afterCollection(ctx, f)
		}
	}, f)
}

// collectorPercent returns GOGC for a live heap of live bytes.
func collectorPercent(live uint64) int {
	const least, most = 20, 100
	return int(min(max(least, 100*heapGrowth/max(live, 1)), most))
}

// liveHeap returns the bytes left by the last collection.
func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
