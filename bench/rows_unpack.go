package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/operator-catalogs/catalogd/bench/load"
)

// unpackCold measures from the creation of a CatalogSource to the first reply with its content.
func unpackCold(ctx context.Context, e *env) (Row, error) {
	row := Row{
		What:      "catalog image on a loopback registry -> committed and served, nothing stored before",
		Figure:    Series{What: "CatalogSource created -> first 200 of /all", Unit: "s"},
		Yardstick: Series{What: "gzip -dc layer.tar.gz | tar x, onto the same disk", Unit: "s"},
	}
	row.atMost(1.3)
	var logged []float64
	figure := func(ctx context.Context) (float64, error) {
		cold, err := e.coldStart(ctx)
		logged = append(logged, cold.logged)
		return cold.took, err
	}
	err := e.alternate(ctx, &row, e.runs, figure, func(ctx context.Context) (float64, error) { return e.gunzipTar(ctx, e.base) })
	if err != nil {
		return row, err
	}
	row.note("\"unpacked\" in catalogd's log (after the packages are validated, later than the first reply): %s",
		row.beside(logged))
	row.note("a loop of HEAD requests, 4 ms apart, watches for the first 200")
	return row, nil
}

// coldRun is an unpacking with an empty store.
type coldRun struct {
	took, logged float64 // seconds: until the first reply; of the unpacking alone, by catalogd's log
	peak         float64 // peak memory in MiB, once the content has been read
}

// coldStart unpacks the catalog once with a new catalogd.
func (e *env) coldStart(ctx context.Context) (r coldRun, err error) {
	d, ref, err := e.emptyDaemon(ctx, "bench/base", e.base)
	if err != nil {
		return r, err
	}
	defer d.discard()
	if err := flush(ctx); err != nil {
		return r, err
	}
	began := time.Now()
	if err := e.cluster.create(ctx, benchCatalog, ref, neverPoll); err != nil {
		return r, err
	}
	if _, err := d.served(ctx, benchCatalog, ""); err != nil {
		return r, err
	}
	r.took = time.Since(began).Seconds()
	logged, err := d.logged(ctx)
	if err == nil {
		err = e.verify(ctx, d, e.base)
	}
	if err != nil {
		return r, err
	}
	r.logged = logged.Seconds()
	r.peak, err = peakMemory(d.PID())
	return r, err
}

// verify reads the content completely and counts its blobs. If the count of the catalog is unknown, this one becomes it.
func (e *env) verify(ctx context.Context, d *daemon, c *catalog) error {
	all, err := load.Get(ctx, load.Target{Address: d.content, Path: d.all(benchCatalog)})
	if err != nil {
		return err
	}
	lines := 0
	for _, b := range all {
		if b == '\n' {
			lines++
		}
	}
	want := cmp.Or(c.stats.Blobs, lines)
	if lines != want {
		return fmt.Errorf("/all has %d blobs, want %d", lines, want)
	}
	c.stats.Blobs = want
	return nil
}

// unpackChanged measures the same when all but one package are known from the former version.
func unpackChanged(ctx context.Context, e *env) (Row, error) {
	row := Row{
		What:      "catalog image of which one package changed -> committed and served",
		Figure:    Series{What: "poll requested -> first 200 of /all with another ETag", Unit: "s"},
		Yardstick: Series{What: "gzip -dc layer.tar.gz | tar x, onto the same disk", Unit: "s"},
	}
	row.atMost(1.1)
	r, err := e.reading(ctx)
	if err != nil {
		return row, err
	}
	defer e.stopReading() // it now serves another version
	var logged []float64
	number, next := 0, e.base
	figure := func(ctx context.Context) (float64, error) {
		number++
		if next, err = e.changed(e.base, number); err != nil {
			return 0, err
		}
		took, own, err := e.update(ctx, r.daemon, next)
		logged = append(logged, own)
		return took, err
	}
	err = e.alternate(ctx, &row, e.runs, figure, func(ctx context.Context) (float64, error) { return e.gunzipTar(ctx, next) })
	if err != nil {
		return row, err
	}
	row.note("\"unpacked\" in catalogd's log: %s", row.beside(logged))
	return row, nil
}

// update makes catalogd pull another image, and waits until all work is done.
func (e *env) update(ctx context.Context, d *daemon, c *catalog) (took, logged float64, err error) {
	before, status, err := head(ctx, "http://"+d.content+d.all(benchCatalog), nil)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("the former version is not served: status %d", status)
	}
	if err != nil {
		return 0, 0, err
	}
	if _, _, err := e.registry.publish(ctx, "bench/base", c); err != nil {
		return 0, 0, err
	}
	if err := flush(ctx); err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if err := e.cluster.poll(ctx, benchCatalog); err != nil {
		return 0, 0, err
	}
	if _, err := d.served(ctx, benchCatalog, before.Get("ETag")); err != nil {
		return 0, 0, err
	}
	took = time.Since(began).Seconds()
	own, err := d.logged(ctx)
	if err != nil {
		return 0, 0, err
	}
	if err := e.verify(ctx, d, c); err != nil {
		return 0, 0, err
	}
	return took, own.Seconds(), d.compressed(ctx, benchCatalog)
}
