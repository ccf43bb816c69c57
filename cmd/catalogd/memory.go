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

// tendMemory keeps the memory of the process small until ctx ends.
func tendMemory(ctx context.Context, logger *slog.Logger) {
	limitMemory(ctx, logger)
	paceCollector(ctx)
}

// limitMemory makes the garbage collector work harder before the container runs out of memory: from nine tenths of its limit
// on, which may be changed while it runs. GOMEMLIMIT of the environment goes before it; without a limit there is none.
func limitMemory(ctx context.Context, logger *slog.Logger) {
	limit, err := memlimit.Set(memlimit.WithRefreshInterval(ctx, time.Minute))
	switch {
	case err != nil:
		logger.Debug("no memory limit of a container is known", "error", err)
	case limit < math.MaxInt64:
		logger.Info("memory is limited", "bytes", limit)
	}
}

// heapGrowth is by how much the heap grows between two collections of garbage, in bytes.
const heapGrowth = 16 << 20

// startHeap is how large the heap may grow before garbage is collected for the first time: most of what a start makes stays, and a client
// may be waiting for it. minimumHeap is what Go makes of it at 100 percent.
const (
	startHeap   = 32 << 20
	minimumHeap = 4 << 20
)

// paceCollector has the heap grow by about as much between any two collections until ctx ends, however much lives on it. Go lets it
// double, and what lives long here, such as the indexes of catalogs, would cost as much again for nothing. GOGC of the environment
// goes before it.
func paceCollector(ctx context.Context) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(100 * startHeap / minimumHeap)
		afterCollection(ctx, func() { debug.SetGCPercent(collectorPercent(liveHeap())) })
	}
}

// afterCollection calls f after each collection until ctx ends, in a goroutine of the runtime's; collections that end meanwhile count
// as one.
func afterCollection(ctx context.Context, f func()) {
	type garbage struct{ _ *garbage } // not so small that the runtime would keep it with others
	runtime.AddCleanup(new(garbage), func(f func()) {
		if ctx.Err() == nil {
			f()
			afterCollection(ctx, f)
		}
	}, f)
}

// collectorPercent is how much of what lives on the heap may be added before the next collection.
func collectorPercent(live uint64) int {
	const least, most = 20, 100
	return int(min(max(least, 100*heapGrowth/max(live, 1)), most))
}

// liveHeap is how much the last collection left, in bytes.
func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
