package main

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/operator-catalogs/catalogd/internal/testing/process"
)

// opmServe measures opm serving the same catalog from files, as information.
func opmServe(ctx context.Context, e *env) (Row, error) {
	row := Row{
		What:      "beside opm serve, which has the files already and no cache",
		Figure:    Series{What: "CatalogSource created -> first 200 of /all", Unit: "s"},
		Yardstick: Series{What: "opm serve started -> its port answers", Unit: "s"},
	}
	if e.opm == "" {
		return row, skip("requires --opm PATH; hack/opm/build.sh builds one")
	}
	var own, peer []float64
	figure := func(ctx context.Context) (float64, error) {
		cold, err := e.coldStart(ctx)
		own = append(own, cold.peak)
		return cold.took, err
	}
	yardstick := func(ctx context.Context) (float64, error) {
		took, peak, err := e.opmOnce(ctx, e.base.dir)
		peer = append(peer, peak)
		return took, err
	}
	if err := e.alternate(ctx, &row, max(1, min(e.runs, 3)), figure, yardstick); err != nil {
		return row, err
	}
	row.note("peak RSS up to then: catalogd %s, opm %s", newSeries("", "MiB", own...), newSeries("", "MiB", peer...))
	return row, nil
}

// opmOnce returns the seconds until opm answers, and its peak memory until then.
func (e *env) opmOnce(ctx context.Context, configs string) (took, peak float64, err error) {
	cache, err := os.MkdirTemp(e.dir, "opm-")
	if err != nil {
		return 0, 0, err
	}
	defer os.RemoveAll(cache)
	addresses, err := process.FreeAddresses(2)
	if err != nil {
		return 0, 0, err
	}
	_, port, err := net.SplitHostPort(addresses[0])
	if err != nil {
		return 0, 0, err
	}
	if err := flush(ctx); err != nil {
		return 0, 0, err
	}
	began := time.Now()
	opm, err := process.Start("opm", filepath.Join(cache, "opm.log"), e.opm, "serve", configs, "--port", port,
		"--cache-dir", filepath.Join(cache, "cache"), "--cache-enforce-integrity=false", "--termination-log",
		filepath.Join(cache, "termination.log"))
	if err != nil {
		return 0, 0, err
	}
	defer opm.Kill()
	err = process.Every(ctx, 4*time.Millisecond, func() (bool, error) {
		conn, err := net.Dial("tcp", addresses[0])
		if err != nil {
			return false, opm.Ended()
		}
		return true, conn.Close()
	})
	took = time.Since(began).Seconds()
	peak, peakErr := peakMemory(opm.PID())
	return took, peak, errors.Join(err, peakErr)
}
