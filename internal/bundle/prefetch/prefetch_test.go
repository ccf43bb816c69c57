package prefetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/bundle"
	"github.com/operator-catalogs/catalogd/internal/store"
	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// fakeImages stands for a pull.Puller: e2e/bundles_test.go has a real one.
type fakeImages struct {
	mu     sync.Mutex
	cached map[string]bool
	errs   map[string]error // by image, for the next fetch
	log    []string
	busy   bool
}

func (f *fakeImages) Idle() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.busy
}

func (f *fakeImages) Cached(r bundle.Request) (*bundle.Archive, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.cached[r.Image] {
		return nil, &bundle.Error{Reason: bundle.NotCached}
	}
	return archive(), nil
}

func (f *fakeImages) Fetch(_ context.Context, r bundle.Request, user string) (*bundle.Archive, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, strings.TrimSpace(user+" "+r.Catalog+" "+r.Package+" "+r.Image))
	if err := f.errs[r.Image]; err != nil {
		delete(f.errs, r.Image)
		return nil, err
	}
	f.cached[r.Image] = true
	return archive(), nil
}

// archive returns a bundle without files.
func archive() *bundle.Archive {
	var out bytes.Buffer
	if err := bundle.Write(&out, bundle.Content{}, nil); err != nil {
		panic(err)
	}
	from := bytes.NewReader(out.Bytes())
	x, err := bundle.ReadIndex(from, from.Size())
	if err != nil {
		panic(err)
	}
	return x.Open(from)
}

const digest = "@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

// catalogOf returns a catalog of package foo. Its channels have the heads with these images; other bundles are behind them.
func catalogOf(images ...string) string {
	var out strings.Builder
	fmt.Fprintln(&out, `{"schema":"olm.package","name":"foo","defaultChannel":"c0"}`)
	for i, image := range images {
		fmt.Fprintf(&out, `{"schema":"olm.channel","package":"foo","name":"c%d","entries":[{"name":"new%[1]d","replaces":"old%[1]d"},{"name":"old%[1]d"}]}`+"\n", i)
		for j, name := range []string{"old", "new"} {
			ref, object := image, ""
			if name == "old" {
				ref = "r.example/old"
			}
			if image == "objects" {
				object = `,{"type":"olm.bundle.object","value":{"data":"e30="}}`
			}
			fmt.Fprintf(&out, `{"schema":"olm.bundle","package":"foo","name":"%s%d","image":%q,"properties":[{"type":"olm.package","value":`+
				`{"packageName":"foo","version":"%[2]d.%[4]d.0"}}%[5]s]}`+"\n", name, i, ref, j, object)
		}
	}
	return out.String()
}

// world is a Prefetcher over a store, whose clock stands still until the test says otherwise.
type world struct {
	*Prefetcher
	images *fakeImages
	ticks  chan time.Time
	hours  chan time.Time
	st     *store.Store
}

func start(t *testing.T, share int64) *world {
	t.Helper()
	st, err := store.Open(t.TempDir(), store.Options{Logger: slog.New(slog.DiscardHandler)})
	must.Succeed(t, err)
	w := &world{images: &fakeImages{cached: map[string]bool{}, errs: map[string]error{}}, ticks: make(chan time.Time), hours: make(chan time.Time), st: st}
	w.Prefetcher = New(Config{
		Store: st, Images: w.images, Share: share, Logger: slog.New(slog.DiscardHandler),
		Wanted: func(catalog string) bool { return catalog != "other" },
		Notify: func(context.Context, string) {},
		After: func(d time.Duration) <-chan time.Time {
			if d == repeatGap || d == retryGap {
				return w.hours
			}
			return w.ticks
		},
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		must.Succeed(t, <-ended)
		must.Succeed(t, st.Close())
	})
	return w
}

func (w *world) commit(t *testing.T, name, digit, content string) {
	t.Helper()
	stage, err := w.st.Stage(name, "")
	must.Succeed(t, err)
	must.Succeed(t, stage.Root().WriteFile("catalog.json", []byte(content), 0o644))
	_, err = stage.Commit(t.Context(), store.Source{Image: "r.example/" + name, Digest: "sha256:" + strings.Repeat(digit, 64)})
	must.Succeed(t, err)
}

// settle lets time pass until a catalog has a report.
func (w *world) settle(t *testing.T, want Report) {
	t.Helper()
	eventually.Succeeds(t, "the report of cat is as wanted", func() error {
		select {
		case w.ticks <- time.Time{}:
		default:
		}
		got, _ := w.Report("cat")
		if diff := cmp.Diff(want, got); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
}

func (w *world) fetched() []string {
	w.images.mu.Lock()
	defer w.images.mu.Unlock()
	log := w.images.log
	w.images.log = nil
	return log
}

func TestPrefetch(t *testing.T) {
	t.Parallel()
	w := start(t, 1<<20)
	w.images.errs["r.example/b"+digest] = &bundle.Error{Reason: bundle.Registry, Text: "the registry is down"}
	w.images.errs["r.example/c"] = &bundle.Error{Reason: bundle.Pending, Text: "later"}
	w.images.cached["r.example/a"+digest] = true
	w.commit(t, "other", "9", catalogOf("r.example/x"))
	w.commit(t, "cat", "1", catalogOf("r.example/a"+digest, "r.example/b"+digest, "r.example/c", "objects"))
	w.settle(t, Report{Bundles: 3, Cached: 2, Failed: 1, Failure: "the registry is down"})
	want := []string{"cat foo r.example/b" + digest, "cat foo r.example/c", "cat foo r.example/c"} // c was pending
	if diff := cmp.Diff(want, w.fetched()); diff != "" {
		t.Errorf("fetched (-want +got):\n%s", diff)
	}
	// After an hour, the failed one is tried again, and the tag is looked at again.
	w.hours <- time.Time{}
	w.settle(t, Report{Bundles: 3, Cached: 3})
	// A new version has other heads.
	w.commit(t, "cat", "2", catalogOf("r.example/d"+digest))
	w.settle(t, Report{Bundles: 1, Cached: 1})
	if log := w.fetched(); log[len(log)-1] != "cat foo r.example/d"+digest {
		t.Errorf("fetched %v", log)
	}
}

// The share of the cache is not exceeded.
func TestPrefetchShare(t *testing.T) {
	t.Parallel()
	w := start(t, archive().Size())
	w.commit(t, "cat", "1", catalogOf("r.example/a"+digest, "r.example/b"+digest))
	w.settle(t, Report{Bundles: 2, Cached: 1, Failed: 1, Failure: errNoRoom.Error()})
}

// Other pulls go first.
func TestPrefetchGivesWay(t *testing.T) {
	t.Parallel()
	w := start(t, 1<<20)
	w.images.mu.Lock()
	w.images.busy = true
	w.images.mu.Unlock()
	w.commit(t, "cat", "1", catalogOf("r.example/a"+digest))
	w.settle(t, Report{Bundles: 1})
	if log := w.fetched(); log != nil {
		t.Errorf("fetched %v beside another pull", log)
	}
	w.images.mu.Lock()
	w.images.busy = false
	w.images.mu.Unlock()
	w.settle(t, Report{Bundles: 1, Cached: 1})
}
