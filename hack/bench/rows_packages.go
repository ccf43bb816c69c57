package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
)

// firstSync measures how soon all OperatorPackages of a catalog are there.
func firstSync(ctx context.Context, e *env) (Row, error) {
	row := Row{
		What:      "first sync of the catalog's OperatorPackages into a real API server",
		Figure:    Series{What: "first 200 of /all -> last OperatorPackage seen by a watch", Unit: "s"},
		Yardstick: Series{What: "kubectl apply --server-side -f of the same objects in a file", Unit: "s"},
	}
	row.atMost(.25)
	file := filepath.Join(e.dir, "packages.json")
	count := 0
	var spans []float64
	figure := func(ctx context.Context) (float64, error) {
		took, span, n, err := e.syncOnce(ctx, file)
		spans, count = append(spans, span), n
		return took, err
	}
	yardstick := func(ctx context.Context) (float64, error) {
		began := time.Now()
		if _, err := e.cluster.asAdmin(ctx, "apply", "--server-side", "-f", file); err != nil {
			return 0, err
		}
		return time.Since(began).Seconds(), e.cluster.clear(ctx)
	}
	if err := e.alternate(ctx, &row, e.runs, figure, yardstick); err != nil {
		return row, err
	}
	span := newSeries("", "s", spans...)
	row.note("%d OperatorPackages; from the first of them to the last: %s, %.2fx. The figure has the validation of the packages in it", count, span, span.Median/row.Yardstick.Median)
	return row, nil
}

// syncOnce has a new catalogd publish the catalog. It returns the seconds from the first reply to the last OperatorPackage, those from the first
// OperatorPackage to the last, and how many there are. It writes them to a file for kubectl, and removes them.
func (e *env) syncOnce(ctx context.Context, file string) (took, span float64, count int, err error) {
	if err := e.alone(ctx); err != nil {
		return 0, 0, 0, err
	}
	ref, _, err := e.registry.publish("bench/base", e.base)
	if err != nil {
		return 0, 0, 0, err
	}
	d, err := e.freshDaemon(ctx)
	if err != nil {
		return 0, 0, 0, err
	}
	defer d.discard()
	arrivals, err := e.watchPackages(ctx)
	if err != nil {
		return 0, 0, 0, err
	}
	if err := e.cluster.create(ctx, benchCatalog, ref, neverPoll); err != nil {
		return 0, 0, 0, err
	}
	if _, err := d.served(ctx, benchCatalog, ""); err != nil {
		return 0, 0, 0, err
	}
	served := time.Now()
	if err := e.cluster.waitFor(ctx, d, benchCatalog, "PackagesSynced"); err != nil {
		return 0, 0, 0, err
	}
	times, err := arrivals(e.dump(ctx, file))
	if err != nil {
		return 0, 0, 0, err
	}
	d.kill() // it would make anew what is deleted
	first, last := times[0], times[len(times)-1]
	return max(0, last.Sub(served).Seconds()), last.Sub(first).Seconds(), len(times), e.cluster.clear(ctx)
}

// watchPackages notes when OperatorPackages are added. The function that it returns waits until as many are as there are said to be.
func (e *env) watchPackages(ctx context.Context) (func(count int, err error) ([]time.Time, error), error) {
	w, err := e.cluster.Watch(ctx, &v1beta1.OperatorPackageList{})
	if err != nil {
		return nil, fmt.Errorf("watching OperatorPackages: %w", err)
	}
	const most = 100_000 // so that none is noted late because nobody takes it
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
			err = errors.New("the catalog has no package that could be published")
		}
		if err != nil {
			return nil, err
		}
		times := make([]time.Time, 0, count)
		for len(times) < count {
			select {
			case at, ok := <-added:
				if !ok {
					return nil, errors.New("the watch of OperatorPackages has ended")
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
