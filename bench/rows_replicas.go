package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"github.com/operator-catalogs/catalogd/internal/testing/catalogs"
	"github.com/operator-catalogs/catalogd/internal/testing/process"
)

const (
	fleetCatalogs = 200 // CatalogSources, each with its own image
	fleetSize     = 3   // replicas
)

// replicas measures the time until three replicas serve all catalogs, beside a single one, and their costs
// afterwards.
func replicas(ctx context.Context, e *env) (Row, error) {
	row := Row{
		What:      fmt.Sprintf("%d new catalogs of 0.7 MB: created -> all Ready, and served by every replica", fleetCatalogs),
		Figure:    Series{What: fmt.Sprintf("%d replicas, of which one leads", fleetSize), Unit: "s"},
		Yardstick: Series{What: "one replica, alone", Unit: "s"},
	}
	if err := e.alone(ctx); err != nil {
		return row, err
	}
	refs, digests, err := e.publishFleet(ctx)
	if err != nil {
		return row, err
	}
	alone := func(ctx context.Context) (float64, error) {
		return e.fillFleet(ctx, 1, refs, digests, nil)
	}
	together := func(ctx context.Context) (float64, error) {
		return e.fillFleet(ctx, fleetSize, refs, digests, func(fleet []*daemon) error { return e.observeFleet(ctx, &row, fleet) })
	}
	return row, e.alternate(ctx, &row, 1, together, alone)
}

// publishFleet publishes the images.
func (e *env) publishFleet(ctx context.Context) (refs, digests []string, err error) {
	l, err := e.generated(ctx, catalogs.Scaled(20))
	if err != nil {
		return nil, nil, err
	}
	for i := range fleetCatalogs {
		one, err := e.changed(l, i)
		if err != nil {
			return nil, nil, err
		}
		ref, digest, err := e.registry.publish(ctx, fmt.Sprintf("bench/fleet-%d", i), one)
		if err != nil {
			return nil, nil, err
		}
		refs, digests = append(refs, ref), append(digests, digest)
	}
	return refs, digests, nil
}

// fillFleet starts replicas on empty volumes, creates the catalogs, and returns the seconds until all replicas
// serve them. look may observe the replicas before they are stopped.
func (e *env) fillFleet(ctx context.Context, size int, refs, digests []string, look func([]*daemon) error) (seconds float64, err error) {
	var fleet []*daemon
	defer func() {
		for _, d := range fleet {
			d.discard()
		}
		err = errors.Join(err, e.cluster.clear(context.WithoutCancel(ctx)))
	}()
	for range size {
		d, err := e.freshDaemon(ctx, fmt.Sprintf("--leader-elect=%t", size > 1))
		if err != nil {
			return 0, err
		}
		fleet = append(fleet, d)
	}
	if _, err := leaderOf(ctx, fleet); err != nil {
		return 0, err
	}
	began := time.Now()
	for i, ref := range refs {
		if err := e.cluster.create(ctx, fmt.Sprintf("fleet-%d", i), ref, neverPoll); err != nil {
			return 0, err
		}
	}
	for i, digest := range digests {
		name := fmt.Sprintf("fleet-%d", i)
		if err := e.cluster.waitFor(ctx, fleet[0], name, "Ready"); err != nil {
			return 0, err
		}
		for _, d := range fleet {
			if err := d.servesDigest(ctx, name, digest); err != nil {
				return 0, err
			}
		}
	}
	seconds = time.Since(began).Seconds()
	if look != nil {
		err = look(fleet)
	}
	return seconds, err
}

// servesDigest waits until a replica serves a version.
func (d *daemon) servesDigest(ctx context.Context, catalog, digest string) error {
	return process.Every(ctx, 20*time.Millisecond, func() (bool, error) {
		header, status, err := head(ctx, "http://"+d.content+d.all(catalog), nil)
		return err == nil && status == http.StatusOK && header.Get("Catalogd-Digest") == digest, errors.Join(err, d.Ended())
	})
}

// leading matches the metric of a leading replica.
var leading = regexp.MustCompile(`(?m)^catalogd_leading 1$`)

// leaderOf waits until one of the replicas leads, and returns it.
func leaderOf(ctx context.Context, fleet []*daemon) (index int, err error) {
	return index, process.Every(ctx, 50*time.Millisecond, func() (bool, error) {
		for i, d := range fleet {
			metrics, err := fetch(ctx, "http://"+d.metrics+"/metrics")
			if err != nil {
				return false, err
			}
			if leading.MatchString(metrics) {
				index = i
				return true, nil
			}
		}
		return false, nil
	})
}

// observeFleet notes the costs of idle replicas, and the time without a leader after the leader is killed.
func (e *env) observeFleet(ctx context.Context, row *Row, fleet []*daemon) error {
	const window = 20 * time.Second
	leader, err := leaderOf(ctx, fleet)
	if err != nil {
		return err
	}
	before := make([]time.Duration, len(fleet))
	for _, d := range fleet {
		if err := d.encoded(ctx, fmt.Sprintf("fleet-%d", fleetCatalogs-1)); err != nil {
			return err
		}
		if err := settle(ctx, d.PID()); err != nil {
			return err
		}
	}
	for i, d := range fleet {
		if before[i], err = cpuTime(d.PID()); err != nil {
			return err
		}
	}
	if err := pause(ctx, window); err != nil {
		return err
	}
	for i, d := range fleet {
		now, err := cpuTime(d.PID())
		if err != nil {
			return err
		}
		peak, err := peakMemory(d.PID())
		if err != nil {
			return err
		}
		role := "a follower"
		if i == leader {
			role = "the leader"
		}
		row.note("%s uses %.1f ms of processor time a second when there is nothing to do, and had %.0f MiB of memory at most", role,
			(now-before[i]).Seconds()*1000/window.Seconds(), peak)
	}
	others := append(append([]*daemon(nil), fleet[:leader]...), fleet[leader+1:]...)
	killed := time.Now()
	fleet[leader].Kill()
	if _, err := leaderOf(ctx, others); err != nil {
		return err
	}
	row.note("the leader killed, another one leads after %.1f s, with a lease of 15 s", time.Since(killed).Seconds())
	return nil
}
