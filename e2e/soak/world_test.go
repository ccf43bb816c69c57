package soak

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/e2e/internal/system"
)

// world is the system under test.
type world struct {
	*system.ControlPlane
	*daemon
	*publisher
	api   *apiProxy
	tally tally

	polls int // number of requested polls so far
	begun time.Time
}

// newWorld prepares a registry, an API server behind a proxy, and a catalogd that is not started yet. sizes are
// those of the catalogs, in bytes.
func newWorld(t *testing.T, dataDir string, sizes []int) *world {
	t.Helper()
	t.Logf("seed %d: -soak.seed=%[1]d runs it again", *seedFlag)
	sources, names := map[string]*source{}, []string(nil)
	for i, size := range sizes {
		name := fmt.Sprintf("catalog-%d", i)
		names = append(names, name)
		sources[name] = newSource(random("content of "+name), size)
	}
	w := &world{ControlPlane: shared, api: newAPIProxy(t, shared.DaemonKubeconfig), begun: time.Now()}
	w.publisher = &publisher{ledger: newLedger(names), registry: newRegistry(t), sources: sources}
	w.daemon = newDaemon(t, w.api.kubeconfig, dataDir)
	t.Cleanup(func() {
		limit := patience
		if t.Failed() { // by force, as catalogd may not be running
			limit = 0
		}
		if err := w.DeleteCatalogs(context.Background(), limit); err != nil && limit > 0 {
			t.Errorf("cleaning up: %v", err)
		}
	})
	return w
}

// objects lists all objects of a kind by name.
func (w *world) objects(ctx context.Context, kind schema.GroupVersionKind) (map[string]unstructured.Unstructured, error) {
	list := system.NewList(kind)
	if err := w.List(ctx, list); err != nil {
		return nil, err
	}
	found := make(map[string]unstructured.Unstructured, len(list.Items))
	for _, item := range list.Items {
		found[item.GetName()] = item
	}
	return found, nil
}

// createCatalog creates a CatalogSource.
func (w *world) createCatalog(ctx context.Context, name, image, interval string) error {
	object := system.NewObject(system.CatalogKind, name)
	object.Object["spec"] = map[string]any{"image": image, "pollingInterval": interval}
	return w.Create(ctx, object)
}

// requestPoll requests a poll of a catalog.
func (w *world) requestPoll(ctx context.Context, name, value string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, system.PollNow, value)
	return w.Patch(ctx, system.NewObject(system.CatalogKind, name), client.RawPatch("application/merge-patch+json", patch))
}

// createAll publishes the first version of every catalog and creates its CatalogSource. Every other catalog polls
// by schedule, the others only on request.
func (w *world) createAll(ctx context.Context, interval string) error {
	for i, name := range w.ledger.names {
		if err := w.publish(ctx, name); err != nil {
			return err
		}
		often := "24h"
		if i%2 == 0 {
			often = interval
		}
		if err := w.createCatalog(ctx, name, w.registry.address+"/"+name+":latest", often); err != nil {
			return err
		}
	}
	return nil
}

// replace publishes another version of a random catalog, sometimes an earlier one, and requests a poll if
// necessary.
func (w *world) replace(ctx context.Context, rng *rand.Rand) error {
	i := rng.IntN(len(w.ledger.names))
	name := w.ledger.names[i]
	var err error
	if rng.IntN(10) == 0 {
		err = w.goBack(ctx, name, rng.IntN)
	} else {
		err = w.publish(ctx, name)
	}
	if err == nil && i%2 == 1 {
		err = w.pollNow(ctx, name)
	}
	return err
}

// pollNow requests a poll of a catalog. Not safe for concurrent use.
func (w *world) pollNow(ctx context.Context, name string) error {
	w.polls++
	return w.requestPoll(ctx, name, fmt.Sprintf("%d", w.polls))
}

// replacing replaces catalogs until ctx ends, with pauses up to the given one.
func (w *world) replacing(ctx context.Context, most time.Duration) error {
	rng := random("replacements")
	for pause(ctx, between(rng, most/10, most)) {
		if err := w.replace(context.WithoutCancel(ctx), rng); err != nil { // an announced version must be published
			return fmt.Errorf("the test itself: replacing a catalog: %w", err)
		}
	}
	return nil
}

// crew is a group of goroutines that runs until it is stopped or one of them fails.
type crew struct {
	ctx  context.Context // ended by the first failure
	fail context.CancelCauseFunc
	done sync.WaitGroup
}

var errStopped = errors.New("all is done")

func newCrew(ctx context.Context) *crew {
	c := &crew{}
	c.ctx, c.fail = context.WithCancelCause(ctx)
	return c
}

func (c *crew) run(work func(context.Context) error) {
	c.done.Go(func() {
		if err := work(c.ctx); err != nil {
			c.fail(err)
		}
	})
}

// stop ends the goroutines and returns the first error.
func (c *crew) stop() error {
	c.fail(errStopped)
	c.done.Wait()
	if err := context.Cause(c.ctx); !errors.Is(err, errStopped) {
		return err
	}
	return nil
}

// read starts a number of readers.
func (c *crew) read(w *world, readers int) {
	for i := range readers {
		c.run(newReader(w.daemon, w.ledger, fmt.Sprintf("reader %d", i), &w.tally).run)
	}
}

// progress logs a line every ten seconds.
func (w *world) progress(ctx context.Context, t *testing.T, more func() string) error {
	for pause(ctx, 10*time.Second) {
		publications, versions := w.ledger.count()
		line := fmt.Sprintf("%s: %d publications of %d versions; %s; %s", time.Since(w.begun).Round(time.Second), publications, versions,
			&w.tally, more())
		if u, err := w.usage(); err == nil { // otherwise it is down
			line += "; " + u.String()
		}
		t.Log(line)
	}
	return nil
}

// watch returns an error when catalogd exits by itself or panics.
func (w *world) watch(ctx context.Context) error {
	for pause(ctx, checkGap) {
		if line := w.log.panicked(); line != "" {
			return fmt.Errorf("catalogd said %q", line)
		}
		if w.fell() {
			return errEnded
		}
	}
	return nil
}

// firstAnswers waits until the process just started answers, and returns how long that took. Replies must be right
// for every catalog that was served before. With closed gates, the process has neither registry nor API server. It
// is no error if the process is killed meanwhile.
func (w *world) firstAnswers(ctx context.Context) (time.Duration, error) {
	started := time.Now()
	first := newReader(w.daemon, w.ledger, "first answers", &tally{})
	defer first.client.CloseIdleConnections()
	err := within(ctx, patience, func() error {
		response, err := first.client.Get("http://" + w.content + "/catalogs")
		if err != nil && !w.toldToEnd() && !w.fell() {
			return err
		}
		if err == nil {
			_ = response.Body.Close() // its existence is enough
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("waiting until catalogd answers: %w", err)
	}
	took := time.Since(started)
	for _, name := range w.ledger.names {
		if err := first.askAll(ctx, w.ledger.catalogs[name]); err != nil {
			return 0, fmt.Errorf("the first answer after a start: %w", err)
		}
	}
	switch {
	case w.fell():
		return 0, errEnded
	case first.tally.down.Load()+first.tally.cut.Load() > 0 && !w.toldToEnd():
		return 0, errors.New("after a start, catalogd answers for some catalogs and breaks the connection for others")
	}
	w.serves()
	return took, nil
}

// settle requests a poll of every catalog and waits until all of its content is what was published last.
func (w *world) settle(ctx context.Context) error {
	for _, name := range w.ledger.names {
		if err := w.pollNow(ctx, name); err != nil {
			return err
		}
	}
	err := within(ctx, patience, func() error { return w.settled(ctx) })
	if err != nil {
		return fmt.Errorf("waiting until every catalog is what was published last: %w", err)
	}
	return nil
}

func (w *world) settled(ctx context.Context) error {
	sources, err := w.objects(ctx, system.CatalogKind)
	if err != nil {
		return err
	}
	packages, err := w.objects(ctx, system.PackageKind)
	if err != nil {
		return err
	}
	expected := 0
	for _, name := range w.ledger.names {
		e := w.ledger.catalogs[name]
		if err := w.servesLast(e); err != nil {
			return err
		}
		source := sources[name]
		if digest, _, _ := unstructured.NestedString(source.Object, "status", "digest"); digest != e.last().digest {
			return fmt.Errorf("status.digest of %s is %q, want %q; %s", name, digest, e.last().digest, conditions(source))
		}
		if text := conditions(source); !strings.Contains(text, "Ready=True") || !strings.Contains(text, "PackagesSynced=True") {
			return fmt.Errorf("%s is not ready: %s", name, text)
		}
		for pkg, want := range e.last().packages {
			expected++
			object, ok := packages[pkg+"."+name]
			if !ok {
				return fmt.Errorf("OperatorPackage %s.%s is missing", pkg, name)
			}
			if release, _, _ := unstructured.NestedString(object.Object, "status", "summary", "version"); release != want.release {
				return fmt.Errorf("OperatorPackage %s.%s is of version %q, want %q", pkg, name, release, want.release)
			}
		}
	}
	if len(packages) != expected {
		return fmt.Errorf("%d OperatorPackages, want %d", len(packages), expected)
	}
	return nil
}

// servesLast checks that a catalog is served as it was published last, also compressed.
func (w *world) servesLast(e *entry) error {
	for _, encoding := range []string{"", "zstd", "gzip"} {
		got := &reply{path: "/catalogs/" + e.name + "/api/v1/all"}
		request, err := http.NewRequest(http.MethodGet, "http://"+w.content+got.path, nil)
		if err != nil {
			return err
		}
		request.Header.Set("Accept-Encoding", encoding)
		err = got.read(http.DefaultClient, request)
		if have := got.header.Get("Content-Encoding"); err == nil && have != encoding {
			return fmt.Errorf("%s is not kept as %s yet (it comes as %q)", e.name, encoding, have)
		}
		if err == nil {
			err = got.decode()
		}
		if err != nil {
			return fmt.Errorf("GET %s: %w", got.path, err)
		}
		if sha256.Sum256(got.body) != e.last().all {
			return fmt.Errorf("GET %s: status %d, digest %s, %d bytes; want those of %s", got.path, got.status, got.header.Get(digestHeader),
				len(got.body), e.last().digest)
		}
	}
	return nil
}

func conditions(object unstructured.Unstructured) string {
	var texts []string
	list, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range list {
		if c, ok := item.(map[string]any); ok {
			texts = append(texts, fmt.Sprintf("%v=%v %v: %v", c["type"], c["status"], c["reason"], c["message"]))
		}
	}
	return strings.Join(slices.Sorted(slices.Values(texts)), "; ")
}
