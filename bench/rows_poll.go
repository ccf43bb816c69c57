package main

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/testing/catalogs"
	"github.com/operator-catalogs/catalogd/internal/testing/process"
)

const (
	pollers    = 100              // CatalogSources
	pollWindow = 10 * time.Second // during which polls are counted
	mostPoll   = 1.0              // milliseconds of processor time
)

// unchangedPoll measures the cost of a poll that finds no change.
func unchangedPoll(ctx context.Context, e *env) (Row, error) {
	row := Row{
		What:      "a poll of an image that has not changed: processor time",
		Figure:    Series{What: "catalogd, without what it uses idle", Unit: "ms"},
		Yardstick: Series{What: "a HEAD of the same manifest by a Go client, in a process of its own", Unit: "ms"},
	}
	d, url, err := e.startPolling(ctx)
	if err != nil {
		return row, err
	}
	defer d.discard()
	idle, err := e.idle(ctx, d)
	if err != nil {
		return row, err
	}
	if err := e.setIntervals(ctx, time.Second); err != nil {
		return row, err
	}
	if err := pause(ctx, 3*time.Second); err != nil { // until each has the new interval
		return row, err
	}
	var sum pollCosts
	figure := func(ctx context.Context) (float64, error) {
		costs, err := e.countPolls(ctx, d)
		sum.add(costs)
		return max(0, costs.cpu.Seconds()-idle*costs.window.Seconds()) * 1000 / float64(max(1, costs.polls)), err
	}
	yardstick := func(ctx context.Context) (float64, error) {
		self, err := os.Executable()
		if err != nil {
			return 0, err
		}
		text, err := process.Run(ctx, self, headCommand, url)
		if err != nil {
			return 0, err
		}
		return strconv.ParseFloat(strings.TrimSpace(text), 64)
	}
	if err := e.alternate(ctx, &row, e.runs, figure, yardstick); err != nil {
		return row, err
	}
	row.check(row.Figure.Median < mostPoll, "%s (limit %g ms)", row.Figure.format(row.Figure.Median), mostPoll)
	// Polls in flight at the start and the end of the window count in one window by their request, and in the next
	// by their metric.
	row.check(sum.heads == sum.requests && math.Abs(float64(sum.requests-sum.polls)) <= max(float64(e.runs), .01*float64(sum.polls)),
		"%d requests, %d of them HEAD, in %d polls (expected: one HEAD each)", sum.requests, sum.heads, sum.polls)
	row.check(sum.writes == 0, "%d writes to the API server (expected: 0)", sum.writes)
	row.check(sum.files == 0, "%d files written (expected: 0)", sum.files)
	row.note("%d CatalogSources polled each second; idle, catalogd uses %.1f ms of processor time a second", pollers, idle*1000)
	return row, nil
}

// startPolling makes a catalogd serve a small catalog under many names, and returns the URL of the manifest.
func (e *env) startPolling(ctx context.Context) (d *daemon, url string, err error) {
	l, err := e.generated(ctx, catalogs.Scaled(5))
	if err != nil {
		return nil, "", err
	}
	d, ref, err := e.emptyDaemon(ctx, "bench/polled", l)
	if err != nil {
		return nil, "", err
	}
	for i := range pollers {
		if err == nil {
			err = e.cluster.create(ctx, fmt.Sprintf("polled-%d", i), ref, neverPoll)
		}
	}
	for i := range pollers {
		if err == nil {
			err = e.cluster.waitFor(ctx, d, fmt.Sprintf("polled-%d", i), "Ready")
		}
	}
	if err == nil {
		err = settle(ctx, d.PID())
	}
	if err != nil {
		d.discard()
		return nil, "", err
	}
	return d, "http://" + e.registry.server.Addr + "/v2/bench/polled/manifests/latest", nil
}

// setIntervals sets the polling interval of all catalogs.
func (e *env) setIntervals(ctx context.Context, interval time.Duration) error {
	for i := range pollers {
		source := &v1beta1.CatalogSource{}
		source.Name = fmt.Sprintf("polled-%d", i)
		patch := fmt.Sprintf(`{"spec":{"pollingInterval":%q}}`, interval)
		if err := e.cluster.Patch(ctx, source, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
			return fmt.Errorf("changing CatalogSource %s: %w", source.Name, err)
		}
	}
	return nil
}

// idle returns the processor time per second of a catalogd that polls nothing.
func (e *env) idle(ctx context.Context, d *daemon) (seconds float64, err error) {
	costs, err := e.countPolls(ctx, d)
	if err == nil && costs.polls != 0 {
		err = fmt.Errorf("%d polls of catalogs that are polled every %s", costs.polls, neverPoll)
	}
	return costs.cpu.Seconds() / costs.window.Seconds(), err
}

// pollCosts are the costs of a window of time.
type pollCosts struct {
	window, cpu            time.Duration
	polls, requests, heads int
	writes, files          int
}

func (c *pollCosts) add(o pollCosts) {
	c.polls, c.requests, c.heads = c.polls+o.polls, c.requests+o.requests, c.heads+o.heads
	c.writes, c.files = c.writes+o.writes, c.files+o.files
}

// countPolls observes catalogd for a while.
func (e *env) countPolls(ctx context.Context, d *daemon) (c pollCosts, err error) {
	before, err := e.counters(ctx, d)
	if err != nil {
		return c, err
	}
	began := time.Now()
	if err := pause(ctx, pollWindow); err != nil {
		return c, err
	}
	c.window = time.Since(began)
	after, err := e.counters(ctx, d)
	if err != nil {
		return c, err
	}
	c.cpu = after.cpu - before.cpu
	c.polls, c.requests = after.polls-before.polls, after.requests-before.requests
	c.heads, c.writes = after.heads-before.heads, after.writes-before.writes
	for path, now := range after.files {
		if before.files[path] != now {
			c.files++
		}
	}
	for path := range before.files {
		if _, ok := after.files[path]; !ok {
			c.files++
		}
	}
	return c, nil
}

// counters is the state at one moment. Reading it costs catalogd a reply to /metrics, which counts as processor
// time of polls.
type counters struct {
	cpu                            time.Duration
	polls, requests, heads, writes int
	files                          map[string]string // sizes and modification times in the data directory
}

func (e *env) counters(ctx context.Context, d *daemon) (c counters, err error) {
	if c.cpu, err = cpuTime(d.PID()); err != nil {
		return c, err
	}
	c.requests, c.heads = e.registry.counts()
	metrics, err := fetch(ctx, "http://"+d.metrics+"/metrics")
	if err != nil {
		return c, err
	}
	c.polls = sumOf(metrics, pollsTotal())
	server, err := e.cluster.Kubectl(ctx, "get", "--raw", "/metrics")
	if err != nil {
		return c, err
	}
	for _, what := range []string{`group="catalogd.operatorframework.io"`, `resource="events"`} {
		c.writes += sumOf(server, writesOf(what))
	}
	c.files = map[string]string{}
	return c, filepath.WalkDir(d.dataDir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		c.files[path] = fmt.Sprint(info.Size(), info.ModTime().UnixNano())
		return nil
	})
}

func pollsTotal() *regexp.Regexp { return regexp.MustCompile(`(?m)^catalogd_polls_total\{.*\} (\S+)$`) }

// writesOf counts the writes with a label in the metrics of kube-apiserver, whose labels are sorted.
func writesOf(label string) *regexp.Regexp {
	return regexp.MustCompile(`(?m)^apiserver_request_total\{[^}]*` + label + `[^}]*verb="(?:POST|PUT|PATCH|APPLY|DELETE)"[^}]*\} (\S+)$`)
}

// sumOf adds the values of all matches of a pattern in metrics.
func sumOf(metrics string, pattern *regexp.Regexp) int {
	sum := 0.0
	for _, match := range pattern.FindAllStringSubmatch(metrics, -1) {
		value, _ := strconv.ParseFloat(match[1], 64) // the exposition format guarantees a number there
		sum += value
	}
	return int(sum)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// headCommand makes this program send HEAD requests to a URL and print the milliseconds of processor time of one
// request.
const headCommand = "head"

func headCost(ctx context.Context, url string) (float64, error) {
	const warm, counted = 100, 2000
	var before time.Duration
	for i := range warm + counted {
		if i == warm {
			before = ownTime()
		}
		_, status, err := head(ctx, url, nil)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("HEAD %s: status %d", url, status)
		}
		if err != nil {
			return 0, err
		}
	}
	return float64((ownTime() - before).Microseconds()) / 1000 / counted, nil
}

// ownTime returns the processor time of this process.
func ownTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0 // impossible with valid arguments
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
