package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
)

// firstSync measures the time until all OperatorPackages of a catalog exist.
func firstSync(ctx context.Context, e *env) (Row, error) {
	row := Row{
		What:      "first sync of the catalog's OperatorPackages into a real API server",
		Figure:    Series{What: "first 200 of /all -> last OperatorPackage seen by a watch", Unit: "s"},
		Yardstick: Series{What: "kubectl apply --server-side -f of the same objects in a file", Unit: "s"},
	}
	row.atMost(.25)
	file := filepath.Join(e.dir, "packages.json")
	var syncs []synced
	var servers []float64 // processor seconds of the API server for kubectl
	figure := func(ctx context.Context) (float64, error) {
		s, err := e.syncOnce(ctx, file)
		syncs = append(syncs, s)
		return s.took, err
	}
	yardstick := func(ctx context.Context) (float64, error) {
		began, used := time.Now(), apiServerTime()
		if _, err := e.cluster.Kubectl(ctx, "apply", "--server-side", "-f", file); err != nil {
			return 0, err
		}
		took := time.Since(began).Seconds()
		servers = append(servers, (apiServerTime() - used).Seconds())
		return took, e.cluster.clear(ctx)
	}
	if err := e.alternate(ctx, &row, e.runs, figure, yardstick); err != nil {
		return row, err
	}
	span := medianOf(syncs, func(s synced) float64 { return s.span })
	row.note("%d OperatorPackages; from the first of them to the last: %s, %.2fx. The figure has the validation of the packages in it",
		syncs[0].count, span, span.Median/row.Yardstick.Median)
	row.note("processor time: catalogd %s, and the API server %s for it; the API server %s for kubectl",
		medianOf(syncs, func(s synced) float64 { return s.own }), medianOf(syncs,
			func(s synced) float64 { return s.server }), newSeries("", "s", servers...))
	return row, e.noteCreated(ctx, &row, file)
}

// noteCreated measures the creation of the same objects by a Go client with as much concurrency as catalogd: the
// lower bound for creating them one by one.
func (e *env) noteCreated(ctx context.Context, row *Row, file string) error {
	const parallel = 8
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var values []float64
	for len(values) < e.runs {
		list := &v1beta1.OperatorPackageList{} // a copy, as the client overwrites it with the reply
		if err := json.Unmarshal(text, list); err != nil {
			return err
		}
		group, creating := errgroup.WithContext(ctx)
		group.SetLimit(parallel)
		began := time.Now()
		for i := range list.Items {
			group.Go(func() error { return e.cluster.Create(creating, &list.Items[i]) })
		}
		if err := group.Wait(); err != nil {
			return fmt.Errorf("creating the OperatorPackages: %w", err)
		}
		values = append(values, time.Since(began).Seconds())
		if err := e.cluster.clear(ctx); err != nil {
			return err
		}
	}
	row.note("a Go client that does nothing but create those objects, %d at a time, measured after both: %s", parallel, row.beside(values))
	return nil
}

// synced is the duration of a first sync, in seconds.
type synced struct {
	took, span  float64 // from the first reply of /all, and from the first OperatorPackage, to the last of them
	own, server float64 // processor time of catalogd and the API server, from the first reply on
	count       int     // of OperatorPackages
}

func medianOf(syncs []synced, value func(synced) float64) Series {
	var values []float64
	for _, s := range syncs {
		values = append(values, value(s))
	}
	return newSeries("", "s", values...)
}

// apiServerTime returns the processor time of the API server, a child of this process; 0 if the kernel does not
// report it.
func apiServerTime() (used time.Duration) {
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	for _, list := range lists {
		text, _ := os.ReadFile(list) // a thread may exit
		for pid := range strings.FieldsSeq(string(text)) {
			name, _ := os.ReadFile(filepath.Join("/proc", pid, "comm"))
			if n, err := strconv.Atoi(pid); err == nil && strings.TrimSpace(string(name)) == "kube-apiserver" {
				used, _ = cpuTime(n)
			}
		}
	}
	return used
}

// syncOnce publishes the catalog with a new catalogd. It writes the OperatorPackages to a file for kubectl, and
// deletes them.
func (e *env) syncOnce(ctx context.Context, file string) (s synced, err error) {
	d, ref, err := e.emptyDaemon(ctx, "bench/base", e.base)
	if err != nil {
		return s, err
	}
	defer d.discard()
	arrivals, err := e.watchPackages(ctx)
	if err != nil {
		return s, err
	}
	if err := e.cluster.create(ctx, benchCatalog, ref, neverPoll); err != nil {
		return s, err
	}
	if _, err := d.served(ctx, benchCatalog, ""); err != nil {
		return s, err
	}
	served, server := time.Now(), apiServerTime()
	own, err := cpuTime(d.PID())
	if err != nil {
		return s, err
	}
	if err := e.cluster.waitFor(ctx, d, benchCatalog, "PackagesSynced"); err != nil {
		return s, err
	}
	after, err := cpuTime(d.PID())
	if err != nil {
		return s, err
	}
	s.own, s.server = (after - own).Seconds(), (apiServerTime() - server).Seconds()
	times, err := arrivals(e.dump(ctx, file))
	if err != nil {
		return s, err
	}
	d.Kill() // otherwise it would recreate deleted objects
	first, last := times[0], times[len(times)-1]
	s.took, s.span, s.count = max(0, last.Sub(served).Seconds()), last.Sub(first).Seconds(), len(times)
	return s, e.cluster.clear(ctx)
}

// watchPackages records the creation of OperatorPackages. The returned function waits until the given number
// exists.
func (e *env) watchPackages(ctx context.Context) (func(count int, err error) ([]time.Time, error), error) {
	list := &metav1.PartialObjectMetadataList{} // the measurement must cost the API server as little as possible
	list.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("OperatorPackageList"))
	w, err := e.cluster.Watch(ctx, list)
	if err != nil {
		return nil, fmt.Errorf("watching OperatorPackages: %w", err)
	}
	const most = 100_000 // so that the watch never waits for the reader
	added := make(chan time.Time, most)
	go func() {
		defer close(added)
		for event := range w.ResultChan() {
			if event.Type == watch.Added {
				added <- time.Now()
			}
		}
	}()
	return func(count int, err error) ([]time.Time, error) {
		defer w.Stop()
		if err == nil && count == 0 {
			err = errors.New("the catalog has no package to publish")
		}
		if err != nil {
			return nil, err
		}
		times := make([]time.Time, 0, count)
		for len(times) < count {
			select {
			case at, ok := <-added:
				if !ok {
					return nil, errors.New("the watch of OperatorPackages ended")
				}
				times = append(times, at)
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		return times, nil
	}, nil
}

// dump writes all OperatorPackages to a file, as somebody would who wrote them, and returns how many there are.
func (e *env) dump(ctx context.Context, file string) (int, error) {
	list := &v1beta1.OperatorPackageList{}
	if err := e.cluster.List(ctx, list); err != nil {
		return 0, err
	}
	list.APIVersion, list.Kind, list.ResourceVersion = "v1", "List", ""
	for i := range list.Items {
		p := &list.Items[i]
		p.APIVersion, p.Kind = v1beta1.GroupVersion.String(), "OperatorPackage"
		p.ObjectMeta = metav1.ObjectMeta{Name: p.Name, Labels: p.Labels, Annotations: p.Annotations}
	}
	text, err := json.Marshal(list)
	if err != nil {
		return 0, err
	}
	return len(list.Items), os.WriteFile(file, text, 0o644)
}
