package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/operator-catalogs/catalogd/bench/load"
	"github.com/operator-catalogs/catalogd/internal/testing/catalogs"
)

const (
	smallBundles, largeBundles = 1000, 100_000          // 33.5 MB and 3 GB
	mostMemory                 = 160                    // MiB
	readGap                    = 100 * time.Millisecond // pause between two replies, so that unpacking gets the processors
)

// memory measures the peak memory of catalogd while it unpacks a catalog and serves all content.
func memory(ctx context.Context, e *env) (Row, error) {
	row := Row{
		What:   "peak RSS of catalogd, from start through unpacking 3 GB (100,000 bundles), while /all and metas are read",
		Figure: Series{What: "with 3 GB", Unit: "MiB"}, Yardstick: Series{What: "with 33.5 MB", Unit: "MiB"},
	}
	row.atMost(1.5)
	with := func(bundles int) meter {
		return func(ctx context.Context) (float64, error) { return e.peak(ctx, bundles) }
	}
	if err := e.alternate(ctx, &row, max(1, e.runs/5), with(largeBundles), with(smallBundles)); err != nil {
		return row, err
	}
	row.check(row.Figure.Median <= mostMemory, "%s (limit %d MiB)", row.Figure.format(row.Figure.Median), mostMemory)
	row.note("a catalog of 33.5 MB is served first; two clients read its /all and two its metas, and those of the other one as soon " +
		"as it is served, until its packages are published and it is compressed")
	return row, nil
}

// peak returns the peak memory in MiB of a catalogd that serves a small catalog and unpacks another one. It keeps
// the data directory.
func (e *env) peak(ctx context.Context, bundles int) (float64, error) {
	if err := e.alone(ctx); err != nil {
		return 0, err
	}
	first := catalogs.Scaled(smallBundles)
	first.Seed = 1
	refs := map[string]string{}
	for name, shape := range map[string]catalogs.Shape{benchCatalog: first, largeCatalog: catalogs.Scaled(bundles)} {
		l, err := e.generated(ctx, shape)
		if err != nil {
			return 0, err
		}
		if refs[name], _, err = e.registry.publish(ctx, "bench/"+name, l); err != nil {
			return 0, err
		}
	}
	d, err := e.freshDaemon(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = d.Stop(stopGrace) }()
	if err := e.takeIn(ctx, d, benchCatalog, refs[benchCatalog]); err != nil {
		return 0, err
	}
	stop := e.readAlong(ctx, d)
	err = e.takeIn(ctx, d, largeCatalog, refs[largeCatalog])
	if err == nil {
		err = e.readOnce(ctx, d)
	}
	if err := errors.Join(err, stop()); err != nil {
		return 0, err
	}
	if bundles == largeBundles {
		e.large = d.dataDir
	}
	return peakMemory(d.PID())
}

// takeIn creates a CatalogSource and waits until all work is done.
func (e *env) takeIn(ctx context.Context, d *daemon, name, ref string) error {
	began := time.Now()
	if err := e.cluster.create(ctx, name, ref, neverPoll); err != nil {
		return err
	}
	if _, err := d.served(ctx, name, ""); err != nil {
		return err
	}
	e.say("  %s is served after %.1f s", name, time.Since(began).Seconds())
	if err := e.cluster.waitFor(ctx, d, name, "PackagesSynced"); err != nil {
		return err
	}
	e.say("  its packages are published after %.1f s", time.Since(began).Seconds())
	return d.encoded(ctx, name)
}

// readAlong reads the small catalog, and the other one once it is served, in a loop. The returned function stops
// the loop and returns its error.
func (e *env) readAlong(ctx context.Context, d *daemon) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	path := func(reader int, catalog string) string {
		if reader%2 == 0 {
			return d.all(catalog)
		}
		return metasSchema(catalog)
	}
	const readers = 4
	failures := make([]error, readers)
	var group sync.WaitGroup
	for i := range readers {
		group.Go(func() {
			for ctx.Err() == nil {
				_, err := load.Skim(ctx, load.Target{Address: d.content, Path: path(i, benchCatalog)})
				if _, status, there := head(ctx, "http://"+d.content+d.all(largeCatalog), nil); err == nil && there == nil && status == http.StatusOK {
					_, err = load.Skim(ctx, load.Target{Address: d.content, Path: path(i, largeCatalog)})
				}
				if err != nil && ctx.Err() == nil {
					failures[i] = fmt.Errorf("reading along: %w", err)
					return
				}
				_ = pause(ctx, readGap) // the end of ctx ends the loop
			}
		})
	}
	return func() error {
		cancel()
		group.Wait()
		return errors.Join(failures...)
	}
}

// readOnce reads the large catalog completely and in parts.
func (e *env) readOnce(ctx context.Context, d *daemon) error {
	for _, path := range []string{
		d.all(largeCatalog), metasSchema(largeCatalog), "/catalogs/" + largeCatalog + "/api/v1/metas?schema=olm.bundle",
	} {
		if _, err := load.Skim(ctx, load.Target{Address: d.content, Path: path}); err != nil {
			return err
		}
	}
	return nil
}

func metasSchema(catalog string) string {
	return "/catalogs/" + catalog + "/api/v1/metas?schema=olm.package"
}

// largeStore returns a data directory with a catalog of 3 GB.
func (e *env) largeStore(ctx context.Context) (string, error) {
	if e.large == "" {
		if _, err := e.peak(ctx, largeBundles); err != nil {
			return "", err
		}
	}
	return e.large, e.alone(ctx)
}

// unreachable writes the kubeconfig of an API server that does not exist.
func (e *env) unreachable() (string, error) {
	const text = `apiVersion: v1
kind: Config
clusters: [{name: none, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: none, user: {token: none}}]
contexts: [{name: none, context: {cluster: none, user: none}}]
current-context: none
`
	file := filepath.Join(e.dir, "unreachable.kubeconfig")
	return file, os.WriteFile(file, []byte(text), 0o600)
}

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
