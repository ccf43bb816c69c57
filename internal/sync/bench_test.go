package sync

import (
	"container/heap"
	"context"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	stdsync "sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/sync/catalogsource"
	"github.com/operator-catalogs/catalogd/internal/sync/publish"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// BenchmarkThousandCatalogs simulates an hour of 1,000 catalogs that are all polled each five minutes, beginning with the start of
// a process, for which all are due. Time is an injected clock; the API server and the registry are real, and lists are read
// from a cache, as catalogd does. What it measures is this process: the reconciler, and the registry too, which is in it.
//
//	max/mean     polls of the second with the most, by the mean of all seconds
//	cpu-%        seconds of CPU, in percent of the hour
//	ms-cpu/poll  milliseconds of CPU for one poll
//	more-…       what is there afterwards that was not before, idle connections closed
//	requests/poll, reads/poll, writes/poll    of the registry, and of the API server
func BenchmarkThousandCatalogs(b *testing.B) {
	w := newWorld(b)
	reads := w.readFromCache()
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	worlds := w.settleMany(1000, func(one *world) {
		one.create(ref, func(c *v1beta1.CatalogSource) { c.Spec.PollingSchedule = "*/5 * * * *" })
	})
	for b.Loop() {
		w.restart()
		w.requests.take()
		w.registry.take()
		w.registry.all = 0
		reads.Store(0)
		before := usageNow()
		polls := simulateHour(w, worlds)
		after := usageNow()
		for _, one := range worlds { // connections that were used within the last minutes, which an hour that passes so quickly has all
			w.Config.Registries.Forget(one.catalog)
		}
		w.within(func() bool { return runtime.NumGoroutine() <= before.goroutines })
		left := usageNow()
		most, all := 0, 0
		for _, n := range polls {
			most, all = max(most, n), all+n
		}
		cpu := (after.cpu - before.cpu).Seconds()
		b.ReportMetric(float64(all), "polls")
		b.ReportMetric(float64(most)*3600/float64(all), "max/mean")
		b.ReportMetric(cpu/3600*100, "cpu-%")
		b.ReportMetric(cpu*1000/float64(all), "ms-cpu/poll")
		b.ReportMetric(float64(w.registry.all)/float64(all), "requests/poll")
		b.ReportMetric(float64(reads.Load())/float64(all), "reads/poll")
		b.ReportMetric(float64(len(w.requests.take()))/float64(all), "writes/poll")
		b.ReportMetric(float64(left.goroutines-before.goroutines), "more-goroutines")
		b.ReportMetric(float64(left.heap-before.heap)/1e6, "more-MB-heap")
	}
}

// simulateHour runs each pass at the time that the one before requested, and returns the polls of each second.
func simulateHour(w *world, worlds []*world) map[int64]int {
	polls, end := map[int64]int{}, w.clock.Now().Add(time.Hour)
	var passes passQueue
	for _, one := range worlds {
		heap.Push(&passes, pass{w.clock.Now(), one})
	}
	for passes[0].at.Before(end) {
		next := heap.Pop(&passes).(pass)
		w.clock.SetTime(next.at)
		wait := next.world.reconcile()
		polls[next.at.Unix()] += w.registry.polls()
		w.registry.take()
		heap.Push(&passes, pass{next.at.Add(wait), next.world})
	}
	return polls
}

type pass struct {
	at    time.Time
	world *world
}

type passQueue []pass

func (q passQueue) Len() int           { return len(q) }
func (q passQueue) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q passQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *passQueue) Push(x any)        { *q = append(*q, x.(pass)) }
func (q *passQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// settleMany creates n catalogs that are served and Ready.
func (w *world) settleMany(n int, create func(*world)) []*world {
	w.t.Helper()
	worlds := make([]*world, n)
	for i := range worlds {
		worlds[i] = w.another()
	}
	var group stdsync.WaitGroup
	for part := range slices.Chunk(worlds, n/4) {
		group.Go(func() {
			for _, one := range part {
				create(one)
				for one.servedDigest() == "" { // it may find no place at first
					one.reconcile()
				}
			}
		})
	}
	group.Wait()
	return worlds
}

// readFromCache makes the reconciler read from a cache, as in catalogd. It returns the number of reads that still reach
// the API server.
func (w *world) readFromCache() *atomic.Int64 {
	w.t.Helper()
	reads := &atomic.Int64{}
	cfg := rest.CopyConfig(apiServer)
	cfg.QPS = -1
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		w.requests.next = next
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet {
				reads.Add(1)
			}
			return w.requests.RoundTrip(r)
		})
	})
	w.Live = newClient(w.t, cfg)
	cached, err := cache.New(apiServer, cache.Options{
		Scheme: w.api.Scheme(), ByObject: w.Config.Watched(catalogsource.Kind{}), DefaultTransform: cache.TransformStripManagedFields(),
	})
	must.Succeed(w.t, err)
	must.Succeed(w.t, publish.Index(w.t.Context(), cached))
	ctx, stop := context.WithCancel(context.Background())
	var ended stdsync.WaitGroup
	ended.Go(func() { must.Succeed(w.t, cached.Start(ctx)) })
	w.t.Cleanup(func() { stop(); ended.Wait() })
	if !cached.WaitForCacheSync(ctx) {
		w.t.Fatal("the cache was not filled")
	}
	w.Client, err = client.New(cfg, client.Options{Scheme: w.api.Scheme(), Cache: &client.CacheOptions{Reader: cached}})
	must.Succeed(w.t, err)
	return reads
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// usage is the resource usage of this process so far.
type usage struct {
	cpu        time.Duration
	goroutines int
	heap       int64
}

func usageNow() usage {
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	var self syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &self) // cannot fail for oneself
	return usage{time.Duration(self.Utime.Nano() + self.Stime.Nano()), runtime.NumGoroutine(), int64(memory.HeapAlloc)}
}

// BenchmarkUnchangedPoll is a pass over a catalog of 319 packages, as many as the community's, that is due and did not change:
// with lists from a cache, and a registry in this process.
func BenchmarkUnchangedPoll(b *testing.B) {
	w := newWorld(b)
	reads := w.readFromCache()
	var packages []pkg
	for i := range 319 {
		packages = append(packages, pkg{name: fmt.Sprint("package-", i)})
	}
	ref, _ := w.registry.push("latest", catalogOf(packages...))
	w.create(ref, nil)
	w.settle()
	passes, before := 0, usageNow()
	reads.Store(0)
	for b.Loop() {
		passes++
		w.clock.SetTime(w.clock.Now().Add(time.Hour))
		w.reconcile()
	}
	cpu := usageNow().cpu - before.cpu
	b.ReportMetric(float64(cpu.Microseconds())/1000/float64(passes), "ms-cpu/poll")
	b.ReportMetric(float64(w.registry.polls())/float64(passes), "requests/poll")
	b.ReportMetric(float64(reads.Load())/float64(passes), "reads/poll")
	b.ReportMetric(float64(len(w.requests.take()))/float64(passes), "writes/poll")
}
