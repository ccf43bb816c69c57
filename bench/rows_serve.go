package main

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/operator-catalogs/catalogd/bench/load"
	"github.com/operator-catalogs/catalogd/internal/testing/process"
)

const (
	smallReply, largeReply = 11_000, 100_000 // size of the replies
	manyConnections        = 16
	fewConnections         = 4 // enough to keep two processors busy with large replies
)

// copyToNginx gets a body from catalogd and makes nginx serve the same bytes.
func (r *readerWorld) copyToNginx(ctx context.Context, from load.Target, file string) (body []byte, beside load.Target, err error) {
	if body, err = load.Get(ctx, from); err != nil {
		return nil, beside, err
	}
	beside.Address = r.nginx.address
	beside.Path, err = r.nginx.put(file, body)
	return body, beside, err
}

// loads measures catalogd and nginx with the same bytes; value selects the figure from a result.
func (e *env) loads(
	ctx context.Context, r *readerWorld, row *Row, path, file string, connections int, value func(load.Result) float64,
) error {
	target := load.Target{Address: r.content, Path: path}
	body, beside, err := r.copyToNginx(ctx, target, file)
	if err != nil {
		return err
	}
	measure := func(target load.Target) meter {
		return func(ctx context.Context) (float64, error) {
			result, err := load.Run(ctx, target, body, connections, e.duration)
			return value(result), err
		}
	}
	row.note("%d bytes a reply, %d connections; the load generator shares the processors with the server", len(body), connections)
	return e.alternate(ctx, row, e.runs, measure(target), measure(beside))
}

// requests measures requests per second, and those of net/http alone.
func (e *env) requests(ctx context.Context, r *readerWorld, row *Row, path, file string) error {
	if err := e.loads(ctx, r, row, path, file, manyConnections, load.Result.PerSecond); err != nil {
		return err
	}
	return e.noteBare(ctx, r.nginx, row, file)
}

func metasPackage(name string) string {
	return "/catalogs/" + benchCatalog + "/api/v1/metas?schema=olm.package&name=" + url.QueryEscape(name)
}

func metasAll(name string) string {
	return "/catalogs/" + benchCatalog + "/api/v1/metas?package=" + url.QueryEscape(name)
}

func metasOlmPackage(ctx context.Context, e *env) (Row, error) {
	row := Row{
		What:      "metas of one olm.package",
		Figure:    Series{What: "metas?schema=olm.package&name=X", Unit: "req/s"},
		Yardstick: Series{What: "nginx, a file of those bytes", Unit: "req/s"},
	}
	row.atLeast(.4)
	r, err := e.besideNginx(ctx)
	if err != nil {
		return row, err
	}
	p := nearest(r.found, smallReply, func(f found) int { return f.blob })
	return row, e.requests(ctx, r, &row, metasPackage(p.name), "small")
}

func metasOnePackage(ctx context.Context, e *env) (Row, error) {
	row := Row{
		What:      "metas of all of one package",
		Figure:    Series{What: "metas?package=X", Unit: "req/s"},
		Yardstick: Series{What: "nginx, a file of those bytes", Unit: "req/s"},
	}
	row.atLeast(.7)
	r, err := e.besideNginx(ctx)
	if err != nil {
		return row, err
	}
	p := nearest(r.found, largeReply, func(f found) int { return f.total })
	return row, e.requests(ctx, r, &row, metasAll(p.name), "large")
}

func allIdentity(ctx context.Context, e *env) (Row, error) {
	row := Row{
		What:      "/all, not compressed, over plain HTTP",
		Figure:    Series{What: "/all", Unit: "MB/s"},
		Yardstick: Series{What: "nginx with sendfile, a file of those bytes", Unit: "MB/s"},
	}
	row.atLeast(.95)
	r, err := e.besideNginx(ctx)
	if err != nil {
		return row, err
	}
	return row, e.loads(ctx, r, &row, r.all(benchCatalog), "all", fewConnections,
		func(l load.Result) float64 { return l.BytesPerSecond() / 1e6 })
}

// allCompressed compares the cost per request on the server, not the bytes received, which depend on the wire.
func allCompressed(ctx context.Context, e *env) (Row, error) {
	row := Row{
		What:      "/all as zstd, once compressed: processor time of the server a request",
		Figure:    Series{What: "/all, Accept-Encoding: zstd", Unit: "ms"},
		Yardstick: Series{What: "nginx, a file of those bytes", Unit: "ms"},
	}
	row.atMost(1.2)
	r, err := e.besideNginx(ctx)
	if err != nil {
		return row, err
	}
	target := load.Target{Address: r.content, Path: r.all(benchCatalog), Header: []string{"Accept-Encoding: zstd"}}
	body, beside, err := r.copyToNginx(ctx, target, "all.zst")
	if err != nil {
		return row, err
	}
	measure := func(target load.Target, pid int) meter {
		return func(ctx context.Context) (float64, error) {
			before, err := cpuTime(pid)
			if err != nil {
				return 0, err
			}
			result, err := load.Run(ctx, target, body, fewConnections, e.duration)
			if err != nil {
				return 0, err
			}
			after, err := cpuTime(pid)
			// The result does not include the requests that warm up connections.
			return float64((after - before).Microseconds()) / 1000 / float64(result.Requests+fewConnections), err
		}
	}
	row.note("%d bytes a reply, %d connections; user and kernel time of all threads and workers", len(body), fewConnections)
	return row, e.alternate(ctx, &row, e.runs, measure(target, r.PID()), measure(beside, r.nginx.PID()))
}

// graphqlRow compares the p50 of a query with that of all metas of its package.
func graphqlRow(what, query string) func(context.Context, *env) (Row, error) {
	return func(ctx context.Context, e *env) (Row, error) {
		row := Row{
			What:      "GraphQL: " + what,
			Figure:    Series{What: "GraphQL, p50", Unit: "µs"},
			Yardstick: Series{What: "metas?package=X of the same package, p50", Unit: "µs"},
		}
		row.atMost(3)
		r, err := e.reading(ctx)
		if err != nil {
			return row, err
		}
		p := nearest(r.found, largeReply, func(f found) int { return f.total })
		path := "/catalogs/" + benchCatalog + "/api/v1/graphql?query=" + url.QueryEscape(fmt.Sprintf(query, p.name))
		p50 := func(path string) meter {
			return func(ctx context.Context) (float64, error) {
				target := load.Target{Address: r.content, Path: path}
				body, err := load.Get(ctx, target)
				if err != nil {
					return 0, err
				}
				result, err := load.Run(ctx, target, body, manyConnections, e.duration)
				return float64(result.P50.Nanoseconds()) / 1000, err
			}
		}
		if err := e.alternate(ctx, &row, e.runs, p50(path), p50(metasAll(p.name))); err != nil {
			return row, err
		}
		single, err := p50(metasPackage(p.name))(ctx)
		row.note("%d connections; the p50 of metas?schema=olm.package&name=X, once, was %.0f µs (%.2fx)", manyConnections, single,
			row.Figure.Median/single)
		return row, err
	}
}

// startLarge measures the time until a store of 3 GB is served without registry and API server.
func startLarge(ctx context.Context, e *env) (Row, error) {
	row := Row{
		What:      "process start -> first answer, API server and registry unreachable",
		Figure:    Series{What: "200 of /all, 3 GB stored", Unit: "ms"},
		Yardstick: Series{What: "503 of /all, nothing stored", Unit: "ms"},
	}
	row.atMost(1.2)
	dir, err := e.largeStore(ctx)
	if err != nil {
		return row, err
	}
	measure := func(dir func() (string, error), status int) meter {
		return func(ctx context.Context) (float64, error) {
			data, err := dir()
			if err != nil {
				return 0, err
			}
			return e.startUnreachable(ctx, data, status)
		}
	}
	number := 0
	empty := func() (string, error) { number++; return fmt.Sprintf("%s/empty-%d", e.dir, number), nil }
	runs := max(e.runs, 9) // they are short
	row.note("the kernel may have the store's files in memory; the API server's port refuses connections")
	return row, e.alternate(ctx, &row, runs, measure(func() (string, error) { return dir, nil }, 200), measure(empty, 503))
}

// startUnreachable returns the milliseconds from the start of a catalogd without API server to its first reply,
// which must have the status.
func (e *env) startUnreachable(ctx context.Context, dataDir string, want int) (float64, error) {
	kubeconfig, err := e.unreachable()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	d, err := e.startDaemon(dataDir, kubeconfig)
	if err != nil {
		return 0, err
	}
	defer d.Kill()
	url := "http://" + d.content + d.all(largeCatalog)
	var took time.Duration
	status := 0
	err = process.Every(ctx, time.Millisecond, func() (bool, error) {
		var err error
		if _, status, err = head(ctx, url, nil); err != nil {
			return false, d.Ended() // it does not listen yet
		}
		took = time.Since(began)
		return true, nil
	})
	if err == nil && status != want {
		err = fmt.Errorf("the first reply has status %d, want %d", status, want)
	}
	return float64(took.Microseconds()) / 1000, err
}
