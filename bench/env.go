package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/operator-catalogs/catalogd/bench/load"
	"github.com/operator-catalogs/catalogd/internal/testing/catalogs"
	"github.com/operator-catalogs/catalogd/internal/testing/process"
)

// env is the environment of the measurements. A part is started when the first row needs it, and then kept.
type env struct {
	options
	progress io.Writer
	dir      string // of this run, on the disk of the cache; removed at its end
	daemons  int    // started ones
	cluster  *cluster
	registry *imageRegistry

	base   *catalog     // the catalog of most rows
	reader *readerWorld // started by reading
	large  string       // the data directory with a 3 GB catalog, if it exists
}

// readerWorld is a catalogd that serves the catalog, with nginx beside it.
type readerWorld struct {
	*daemon
	nginx *nginx
	found []found
}

const (
	benchCatalog = "bench"
	largeCatalog = "large"
)

func newEnv(ctx context.Context, o options, progress io.Writer) (*env, error) {
	if err := os.MkdirAll(o.cacheDir, 0o755); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(o.cacheDir, "run-")
	if err != nil {
		return nil, err
	}
	e := &env{options: o, progress: progress, dir: dir}
	e.say("starting etcd, kube-apiserver and a registry; files of this run: %s", dir)
	e.registry, err = startRegistry(filepath.Join(dir, "registry"))
	if err == nil {
		e.cluster, err = startCluster(filepath.Join(dir, "etcd"))
	}
	if err == nil {
		if o.catalog != "" {
			e.base, err = e.given(ctx)
		} else {
			e.base, err = e.generated(ctx, catalogs.Community())
		}
	}
	if err != nil {
		return nil, errors.Join(err, e.close())
	}
	return e, nil
}

// close stops everything and removes the files of this run.
func (e *env) close() error {
	e.stopReading()
	var err error
	if e.cluster != nil {
		err = e.cluster.Stop()
	}
	if e.registry != nil {
		_ = e.registry.server.Close()
	}
	return errors.Join(err, os.RemoveAll(e.dir))
}

func (e *env) say(format string, args ...any) {
	fmt.Fprintf(e.progress, format+"\n", args...)
}

// reading starts a catalogd that serves the catalog and has finished its background work.
func (e *env) reading(ctx context.Context) (*readerWorld, error) {
	if e.reader != nil {
		return e.reader, e.reader.Ended()
	}
	e.say("starting catalogd with the catalog")
	d, ref, err := e.emptyDaemon(ctx, "bench/base", e.base, "--bundle-content", "--page")
	if err != nil {
		return nil, err
	}
	r := &readerWorld{daemon: d}
	if err := r.fill(ctx, e.cluster, ref); err != nil {
		d.discard()
		return nil, err
	}
	e.reader = r
	return r, nil
}

// emptyDaemon publishes a catalog and starts the only catalogd, with empty data and on an empty cluster. ref is the image
// reference of the catalog.
func (e *env) emptyDaemon(ctx context.Context, repository string, c *catalog, more ...string) (d *daemon, ref string, err error) {
	if err := e.alone(ctx); err != nil {
		return nil, "", err
	}
	if ref, _, err = e.registry.publish(ctx, repository, c); err != nil {
		return nil, "", err
	}
	d, err = e.freshDaemon(ctx, more...)
	return d, ref, err
}

// fill creates the catalog, waits until all work is done, and reads the served content.
func (r *readerWorld) fill(ctx context.Context, c *cluster, ref string) error {
	if err := c.create(ctx, benchCatalog, ref, neverPoll); err != nil {
		return err
	}
	if err := c.waitFor(ctx, r.daemon, benchCatalog, "PackagesSynced"); err != nil {
		return err
	}
	if err := r.compressed(ctx, benchCatalog); err != nil {
		return err
	}
	if _, err := r.logged(ctx); err != nil {
		return err
	}
	all, err := load.Get(ctx, load.Target{Address: r.content, Path: r.all(benchCatalog)})
	if err != nil {
		return err
	}
	r.found, err = findPackages(all)
	return err
}

// besideNginx is reading with an nginx beside it.
func (e *env) besideNginx(ctx context.Context) (*readerWorld, error) {
	if e.nginx == "" {
		return nil, skip("nginx not found: install nginx-light, or set --nginx PATH")
	}
	r, err := e.reading(ctx)
	if err != nil {
		return nil, err
	}
	if r.nginx == nil {
		dir := filepath.Join(e.dir, "nginx")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		if r.nginx, err = startNginx(ctx, e.nginx, dir); err != nil {
			return nil, err
		}
	}
	return r, r.nginx.Ended()
}

// stopReading stops what reading started.
func (e *env) stopReading() {
	if e.reader == nil {
		return
	}
	if e.reader.nginx != nil {
		_ = e.reader.nginx.Stop(stopGrace)
	}
	e.reader.discard()
	e.reader = nil
}

// alone stops everything but the control plane and the registry, and deletes all objects.
func (e *env) alone(ctx context.Context) error {
	e.stopReading()
	return e.cluster.clear(ctx)
}

// gunzipTar is the yardstick of unpacking: it extracts a layer to an empty directory and returns the seconds it
// took.
func (e *env) gunzipTar(ctx context.Context, c *catalog) (float64, error) {
	layer, err := e.registry.layerFile(c)
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp(e.dir, "tar-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if err := flush(ctx); err != nil {
		return 0, err
	}
	began := time.Now()
	if _, err := process.Run(ctx, "sh", "-c", `gzip -dc "$1" | tar x -C "$2"`, "sh", layer, dir); err != nil {
		return 0, err
	}
	return time.Since(began).Seconds(), nil
}

// flush makes the kernel write its buffers, so that the next measurement does not pay for earlier writes.
func flush(ctx context.Context) error {
	_, err := process.Run(ctx, "sync")
	return err
}
