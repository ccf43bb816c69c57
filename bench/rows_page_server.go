package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/operator-catalogs/catalogd/bench/load"
	"github.com/operator-catalogs/catalogd/internal/testing/catalogs"
)

// The budgets of the web page's server.
const (
	manyPackages  = 5000
	mostFilter    = 100 // ms
	mostChannel   = 20  // ms
	mostShown     = 300 // ms
	longEntries   = 1000
	mostLong      = 150_000
	longCatalog   = "long"
	pageFilter    = "/ui/?category=Networking&arch=amd64"
	pageSearch    = "/ui/?q=operator"
	oneConnection = 1
)

// manyShape has many packages of few bundles, and 600 MB.
func manyShape() catalogs.Shape {
	return catalogs.Shape{Packages: manyPackages, Channels: 8400, Bundles: 15_000, Bytes: 600_000_000}
}

// took measures a quantile of the time in ms that a server takes for a compressed reply, one request at a time.
func (e *env) took(address, path string, quantile func(load.Result) time.Duration) meter {
	return func(ctx context.Context) (float64, error) {
		target := load.Target{Address: address, Path: path, Header: []string{"Accept-Encoding: gzip"}}
		body, err := load.Get(ctx, target)
		if err != nil {
			return 0, err
		}
		result, err := load.Run(ctx, target, body, oneConnection, e.duration)
		return float64(quantile(result).Microseconds()) / 1000, err
	}
}

func p50(r load.Result) time.Duration { return r.P50 }
func p95(r load.Result) time.Duration { return r.P95 }

// pageLarge measures the list of packages of a large catalog beside that of the catalog. Both are served from disk at once, by
// processes without an API server.
func pageLarge(ctx context.Context, e *env) (Row, error) {
	row := Row{
		What:      "the web page's list of packages: time of the server, p95",
		Figure:    Series{What: fmt.Sprintf("/ui/ with %d packages", manyPackages), Unit: "ms"},
		Yardstick: Series{What: "/ui/ with the catalog", Unit: "ms"},
	}
	row.atMost(2)
	large, err := e.generated(ctx, manyShape())
	if err != nil {
		return row, err
	}
	few, _, _, err := e.stored(ctx, "few", e.base)
	if err != nil {
		return row, err
	}
	many, before, peak, err := e.stored(ctx, "many", large)
	if err != nil {
		return row, err
	}
	var servers []*daemon
	defer func() {
		for _, d := range servers {
			d.discard()
		}
	}()
	kubeconfig, err := e.unreachable()
	if err != nil {
		return row, err
	}
	for _, dir := range []string{few, many} {
		d, err := e.startDaemon(dir, kubeconfig, "--page")
		if err != nil {
			return row, err
		}
		servers = append(servers, d)
		if err := waitListening(ctx, d.Child, d.content); err != nil {
			return row, err
		}
	}
	at := servers[1].content
	if err := e.alternate(ctx, &row, e.runs, e.took(at, "/ui/", p95), e.took(servers[0].content, "/ui/", p95)); err != nil {
		return row, err
	}
	for path, limit := range map[string]float64{pageFilter: mostFilter, pageSearch: 0} {
		value, err := e.took(at, path, p95)(ctx)
		if err != nil {
			return row, err
		}
		if limit > 0 {
			row.check(value <= limit, "with two filters, p95: %.1f ms (limit %g ms)", value, limit)
		} else {
			row.note("%s, p95: %.1f ms", path, value)
		}
	}
	row.check(peak <= mostMemory, "peak memory, from the start through unpacking to requests of the page: %.0f MiB (limit %d MiB)", peak,
		mostMemory)
	row.note("the peak memory before the first request: %.0f MiB", before)
	return row, nil
}

// stored unpacks a catalog, requests its page, and returns the data directory and the peak memory before and after these requests.
func (e *env) stored(ctx context.Context, name string, c *catalog) (dir string, before, peak float64, err error) {
	d, ref, err := e.emptyDaemon(ctx, "bench/"+name, c, "--page")
	if err != nil {
		return "", 0, 0, err
	}
	defer func() { _ = d.Stop(stopGrace) }()
	if err := e.takeIn(ctx, d, benchCatalog, ref); err != nil {
		return "", 0, 0, err
	}
	if before, err = peakMemory(d.PID()); err != nil {
		return "", 0, 0, err
	}
	for _, path := range []string{"/ui/", pageFilter, pageSearch, "/ui/?sort=provider&page=2"} {
		if _, err := e.took(d.content, path, p50)(ctx); err != nil {
			return "", 0, 0, err
		}
	}
	peak, err = peakMemory(d.PID())
	return d.dataDir, before, peak, err
}

// pageChannel measures the page of the channel with the most edges, beside the graph that the API has of it.
func pageChannel(ctx context.Context, e *env) (Row, error) {
	row := Row{
		What:      "the web page of the channel with the most edges: time of the server, p50",
		Figure:    Series{What: "/ui/catalogs/X/packages/Y/channels/Z", Unit: "ms"},
		Yardstick: Series{What: "/catalogs/X/api/v1/packages/Y/channels/Z/graph", Unit: "ms"},
	}
	r, err := e.reading(ctx)
	if err != nil {
		return row, err
	}
	defer e.stopReading() // it will serve another catalog, too
	all, err := load.Get(ctx, load.Target{Address: r.content, Path: r.all(benchCatalog)})
	if err != nil {
		return row, err
	}
	largest, err := largestChannel(all)
	if err != nil {
		return row, err
	}
	below := "/packages/" + url.PathEscape(largest.Package) + "/channels/" + url.PathEscape(largest.Name)
	page, graph := "/ui/catalogs/"+benchCatalog+below, "/catalogs/"+benchCatalog+"/api/v1"+below+"/graph"
	if err := e.alternate(ctx, &row, e.runs, e.took(r.content, page, p50), e.took(r.content, graph, p50)); err != nil {
		return row, err
	}
	row.check(row.Figure.Median <= mostChannel, "%s (limit %d ms)", row.Figure.format(row.Figure.Median), mostChannel)
	if err := noteEdges(ctx, &row, r.content, graph, largest); err != nil {
		return row, err
	}
	if err := row.checkShown(ctx, "http://"+r.content+page); err != nil {
		return row, err
	}
	return row, e.checkLong(ctx, &row, r)
}

// channelBlob is an olm.channel blob.
type channelBlob struct {
	Schema, Name, Package string
	Entries               []struct{ SkipRange string }
}

// largestChannel returns the channel of JSON lines that has the most pairs of a skipRange and an entry, or the most entries.
func largestChannel(all []byte) (largest channelBlob, err error) {
	size := func(c channelBlob) int {
		ranges := 0
		for _, e := range c.Entries {
			if e.SkipRange != "" {
				ranges++
			}
		}
		return (1 + ranges) * len(c.Entries)
	}
	for line := range bytes.Lines(all) {
		if !bytes.Contains(line, []byte(`"olm.channel"`)) {
			continue
		}
		var c channelBlob
		if err := json.Unmarshal(line, &c); err != nil {
			return largest, fmt.Errorf("reading /all: %w", err)
		}
		if c.Schema == "olm.channel" && size(c) > size(largest) {
			largest = c
		}
	}
	if largest.Name == "" {
		return largest, errors.New("the catalog has no channels")
	}
	return largest, nil
}

func noteEdges(ctx context.Context, row *Row, address, path string, of channelBlob) error {
	text, err := fetch(ctx, "http://"+address+path)
	if err != nil {
		return err
	}
	var graph struct{ Edges []json.RawMessage }
	if err := json.Unmarshal([]byte(text), &graph); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	row.note("%s/%s: %d entries, %d edges", of.Package, of.Name, len(of.Entries), len(graph.Edges))
	return nil
}

// checkShown checks when a page is shown on a fast machine, if there is a Chromium.
func (r *Row) checkShown(ctx context.Context, address string) error {
	browser, err := startChromium(ctx)
	if reason := skip(""); errors.As(err, &reason) {
		r.note("its time in a browser is not measured: %s", reason)
		return nil
	}
	if err != nil {
		return err
	}
	defer browser.stop()
	const visits = 5
	var shown []float64
	for range visits {
		p, err := browser.visit(address, false)
		if err != nil {
			return err
		}
		shown = append(shown, p.Largest)
	}
	s := newSeries("", "ms", shown...)
	r.check(s.Median <= mostShown, "Largest Contentful Paint in Chromium, not slowed down: %s (limit %d ms)", s, mostShown)
	return nil
}

// checkLong checks the size of the page of a channel of 1,000 entries.
func (e *env) checkLong(ctx context.Context, row *Row, r *readerWorld) error {
	if err := e.serveLong(ctx, r); err != nil {
		return err
	}
	at := "/ui/catalogs/" + longCatalog + "/packages/long/channels/stable"
	page, err := load.Get(ctx, load.Target{Address: r.content, Path: at, Header: []string{"Accept-Encoding: gzip"}})
	if err != nil {
		return err
	}
	row.check(len(page) <= mostLong, "a channel of %d entries, compressed: %.1f kB (limit %d kB)", longEntries, float64(len(page))/1e3,
		mostLong/1000)
	value, err := e.took(r.content, at, p50)(ctx)
	row.note("a channel of %d entries, p50: %.1f ms", longEntries, value)
	return err
}

// serveLong serves a catalog with one channel of 1,000 entries and some 3,000 edges.
func (e *env) serveLong(ctx context.Context, r *readerWorld) error {
	const (
		wide  = 12 // entries that a skipRange covers
		every = 10 // entries have one skipRange
	)
	var blobs bytes.Buffer
	line := func(blob any) { _ = json.NewEncoder(&blobs).Encode(blob) } // a buffer accepts everything
	version := func(i int) string { return fmt.Sprintf("%d.%d.0", i/100, i%100) }
	name := func(i int) string { return "long.v" + version(i) }
	var entries []map[string]any
	for i := range longEntries {
		entry := map[string]any{"name": name(i)}
		if i > 0 {
			entry["replaces"] = name(i - 1)
		}
		if i > 1 {
			entry["skips"] = []string{name(i - 2)}
		}
		if i%every == every-1 {
			entry["skipRange"] = ">=" + version(max(0, i-wide)) + " <" + version(i)
		}
		entries = append(entries, entry)
		line(map[string]any{"schema": "olm.bundle", "package": "long", "name": name(i), "image": "example.com/long:" + version(i),
			"properties": []map[string]any{{"type": "olm.package", "value": map[string]any{"packageName": "long", "version": version(i)}}}})
	}
	line(map[string]any{"schema": "olm.package", "name": "long", "defaultChannel": "stable"})
	line(map[string]any{"schema": "olm.channel", "package": "long", "name": "stable", "entries": entries})
	dir := filepath.Join(e.dir, longCatalog)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "catalog.json"), blobs.Bytes(), 0o600); err != nil {
		return err
	}
	c, err := newCatalog(dir, catalogs.Stats{})
	if err != nil {
		return err
	}
	ref, _, err := e.registry.publish(ctx, "bench/"+longCatalog, c)
	if err != nil {
		return err
	}
	if err := e.cluster.create(ctx, longCatalog, ref, neverPoll); err != nil {
		return err
	}
	return e.cluster.waitFor(ctx, r.daemon, longCatalog, "PackagesSynced")
}
