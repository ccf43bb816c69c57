package main

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"github.com/operator-catalogs/catalogd/internal/testing/process"
)

const (
	longestListing = 500 // ms
	mostMoved      = 200 // kB
)

// listing measures the plugin listing the packages of a catalog: duration and transferred bytes, beside kubectl
// listing their OperatorPackages.
func listing(ctx context.Context, e *env) (Row, error) {
	row := Row{
		What:      "a table of all packages in the catalog: process start -> end",
		Figure:    Series{What: "kubectl-catalog get packages", Unit: "ms"},
		Yardstick: Series{What: "kubectl get operatorpackages", Unit: "ms"},
	}
	w, err := e.listingWorld(ctx)
	if err != nil {
		return row, err
	}
	defer w.close()
	plugin, kubectl := w.lister(e.plugin, "get", "packages"), w.lister(filepath.Join(e.assets, "kubectl"), "get", "operatorpackages",
		"--cache-dir", filepath.Join(e.dir, "kubectl"))
	for _, first := range []*lister{plugin, kubectl} { // this run fills kubectl's discovery cache
		if _, err := first.run(ctx); err != nil {
			return row, err
		}
		first.moved = nil
	}
	if err := e.alternate(ctx, &row, e.runs, plugin.run, kubectl.run); err != nil {
		return row, err
	}
	moved, besides := newSeries("", "kB", plugin.moved...), newSeries("", "kB", kubectl.moved...)
	row.check(row.Figure.Median < longestListing, "%s of less than %d ms", row.Figure.format(row.Figure.Median), longestListing)
	row.check(moved.Median < mostMoved, "%s moved, of less than %d kB", moved.format(moved.Median), mostMoved)
	row.note("%d lines, for which %s are moved, by the plugin; %d lines and %s by kubectl: both ways, TLS included, in all connections",
		plugin.lines, moved.format(moved.Median), kubectl.lines, besides.format(besides.Median))
	row.note("the plugin lists the CatalogSources, and calls catalogd where these say: directly, over plain HTTP")
	return row, nil
}

// pluginStart measures a command of the plugin that needs no cluster, beside the same of kubectl.
func pluginStart(ctx context.Context, e *env) (Row, error) {
	row := Row{
		What:      "the version of the program: process start -> end",
		Figure:    Series{What: "kubectl-catalog version --client", Unit: "ms"},
		Yardstick: Series{What: "kubectl version --client", Unit: "ms"},
	}
	version := func(program string) meter {
		return func(ctx context.Context) (float64, error) {
			began := time.Now()
			_, err := process.Run(ctx, program, "version", "--client")
			return float64(time.Since(began).Microseconds()) / 1000, err
		}
	}
	return row, e.alternate(ctx, &row, e.runs, version(e.plugin), version(filepath.Join(e.assets, "kubectl")))
}

// listingWorld is a catalogd that serves the catalog, with a tap before it and another one before the API server.
type listingWorld struct {
	*readerWorld
	api, content *tap
	flags        []string // of kubectl and the plugin
}

func (e *env) listingWorld(ctx context.Context) (w *listingWorld, err error) {
	w = &listingWorld{}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.api, err = newTap(); err != nil {
		return w, err
	}
	if w.content, err = newTap(); err != nil {
		return w, err
	}
	server, _, err := rest.DefaultServerUrlFor(e.cluster.Admin)
	if err != nil {
		return w, err
	}
	d, ref, err := e.emptyDaemon(ctx, "bench/base", e.base, "--external-url", "http://"+w.content.Addr().String())
	if err != nil {
		return w, err
	}
	w.readerWorld = &readerWorld{daemon: d}
	go w.api.serve(server.Host)
	go w.content.serve(d.content)
	w.flags = []string{"--kubeconfig", e.cluster.Kubeconfig, "--server", "https://" + w.api.Addr().String()}
	return w, w.fill(ctx, e.cluster, ref)
}

func (w *listingWorld) close() {
	for _, t := range []*tap{w.api, w.content} {
		if t != nil {
			t.Close()
		}
	}
	if w.readerWorld != nil {
		w.discard()
	}
}

// lister is a command that prints a table.
type lister struct {
	world   *listingWorld
	program string
	args    []string
	lines   int       // number of printed lines
	moved   []float64 // kB, by each run
}

func (w *listingWorld) lister(program string, args ...string) *lister {
	return &lister{world: w, program: program, args: slices.Concat(args, w.flags)}
}

// run is a meter of milliseconds.
func (l *lister) run(ctx context.Context) (float64, error) {
	w := l.world
	before := w.api.moved.Load() + w.content.moved.Load()
	began := time.Now()
	table, err := process.Run(ctx, l.program, l.args...)
	took := time.Since(began)
	l.lines = strings.Count(table, "\n")
	l.moved = append(l.moved, float64(w.api.moved.Load()+w.content.moved.Load()-before)/1000)
	return float64(took.Microseconds()) / 1000, err
}

// tap forwards TCP connections to a server and counts the bytes in both directions.
type tap struct {
	net.Listener
	server string // host:port; set before the first connection
	moved  atomic.Int64
}

func newTap() (*tap, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &tap{Listener: listener}, nil
}

// serve forwards connections until the tap is closed.
func (t *tap) serve(server string) {
	t.server = server
	for {
		client, err := t.Accept()
		if err != nil {
			return
		}
		go t.pass(client)
	}
}

// pass forwards until one side closes.
func (t *tap) pass(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", t.server)
	if err != nil {
		return
	}
	defer server.Close()
	done := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		go func() {
			_, _ = io.Copy(way[1], io.TeeReader(way[0], t))
			done <- struct{}{}
		}()
	}
	<-done
}

// Write counts bytes.
func (t *tap) Write(p []byte) (int, error) {
	t.moved.Add(int64(len(p)))
	return len(p), nil
}
