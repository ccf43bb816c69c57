package main

import (
	"context"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/operator-catalogs/catalogd/bench/load"
)

const mostTogether = 2.7 // an old and a new snapshot, as a multiple of one

// diskBytes measures the size of a catalog on the volume.
func diskBytes(ctx context.Context, e *env) (Row, error) {
	row := Row{
		What:   "disk bytes of a catalog, with its index and compressed forms",
		Figure: Series{What: "data directory", Unit: "MB"}, Yardstick: Series{What: "the catalog as compact JSON", Unit: "MB"},
	}
	row.atMost(1.35)
	next, err := e.changed(e.base, 1)
	if err != nil {
		return row, err
	}
	r, err := e.reading(ctx)
	if err != nil {
		return row, err
	}
	defer e.stopReading() // it now serves another version
	with, without, err := diskUsage(r.dataDir)
	if err != nil {
		return row, err
	}
	if _, _, err := e.update(ctx, r.daemon, next); err != nil {
		return row, err
	}
	both, _, err := diskUsage(r.dataDir)
	if err != nil {
		return row, err
	}
	length, err := load.Skim(ctx, load.Target{Address: r.content, Path: r.all(benchCatalog)})
	if err != nil {
		return row, err
	}
	compact := float64(length)
	row.compare([]float64{with / 1e6}, []float64{compact / 1e6})
	row.check(both/compact <= mostTogether, "with a previous version that differs in one package, %.2fx (limit %gx)", both/compact,
		mostTogether)
	row.note("%.2fx without the compressed forms", without/compact)
	return row, nil
}

// diskUsage returns the allocated bytes of the files below dir, and those of uncompressed files.
func diskUsage(dir string) (with, without float64, err error) {
	const block = 512 // stat(2)
	seen := map[uint64]bool{}
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var stat syscall.Stat_t
		if err := syscall.Lstat(path, &stat); err != nil || seen[stat.Ino] {
			return err
		}
		seen[stat.Ino] = true
		with += float64(stat.Blocks * block)
		if !entry.IsDir() && !strings.HasSuffix(path, ".zst") && !strings.HasSuffix(path, ".gz") {
			without += float64(stat.Blocks * block)
		}
		return nil
	})
	return with, without, err
}
