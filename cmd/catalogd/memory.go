package main

import (
	"context"
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/operator-catalogs/catalogd/internal/store"
)

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

// ordinaryHeap is about what lives on the heap beside indexes.
const ordinaryHeap = 24 << 20

// paceCollector lets the heap grow, between two collections, by what lives on it beside the indexes of catalogs: those have no pointers
// and stay, so that room in proportion to them, as Go gives by default, would be memory for nothing. GOGC of the environment goes
// before it.
func paceCollector(content *store.Store) func(context.Context) error {
	return func(ctx context.Context) error {
		for os.Getenv("GOGC") == "" {
			changed := content.Changed()
			debug.SetGCPercent(collectorPercent(content.IndexBytes()))
			select {
			case <-ctx.Done():
				return nil
			case <-changed:
			}
		}
		return nil
	}
}

func collectorPercent(indexes int64) int {
	const least = 25
	return max(least, int(100*ordinaryHeap/(ordinaryHeap+indexes)))
}
