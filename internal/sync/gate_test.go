package sync

import (
	"fmt"
	"net/http"
	stdsync "sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
)

// crowd is a gate with four slots, and its waiting catalogs.
type crowd struct {
	gate
	t     *testing.T
	told  []string
	leave map[string]func()
}

func newCrowd(t *testing.T) *crowd {
	c := &crowd{t: t, leave: map[string]func(){}}
	return c
}

// pass makes a pass over a catalog that wants an image of a registry.
func (c *crowd) pass(catalog, host string, want bool) {
	c.t.Helper()
	leave, ok := c.enter(catalog, host, 4, func(catalog string) { c.told = append(c.told, catalog) })
	if ok != want {
		c.t.Errorf("%s for %s got in: %t", catalog, host, ok)
	}
	c.leave[catalog] = leave
	c.passed(catalog, !ok)
}

// fill takes all slots: in0 and in1 for registry a, in2 and in3 for registry b.
func (c *crowd) fill() {
	c.t.Helper()
	for i, host := range []string{"a", "a", "b", "b"} {
		c.pass(fmt.Sprint("in", i), host, true)
	}
}

func (c *crowd) wantTold(when string, want ...string) {
	c.t.Helper()
	wantEqual(c.t, "told, "+when, want, c.told)
	c.told = nil
}

// One registry gets half of the slots. Catalogs waiting for it do not block those of other registries.
func TestGate(t *testing.T) {
	c := newCrowd(t)
	c.pass("slow1", "slow", true)
	c.pass("slow2", "slow", true)
	c.pass("slow3", "slow", false)
	c.pass("slow4", "slow", false)
	c.pass("other1", "other", true)
	c.pass("other2", "other", true)
	c.pass("third", "third", false)
	c.wantTold("while all places are taken")

	c.leave["other1"]()
	c.wantTold("when another registry's leaves", "third")
	c.passed("somebody", false)
	c.wantTold("while the third is about to come")
	c.pass("third", "third", true)
	c.leave["slow1"]()
	c.wantTold("when one of theirs leaves", "slow3")
	c.pass("new", "slow", false) // is faster, and never waited
	c.pass("slow3", "slow", true)
	c.leave["slow2"]()
	c.wantTold("when the second leaves", "slow4")
	c.passed("slow4", false) // wants nothing any more
	c.wantTold("when slow4 made no use of it", "new")
	c.pass("new", "slow", true)
	for _, catalog := range []string{"slow3", "new", "other2", "third"} {
		c.leave[catalog]()
	}
	c.wantTold("in the end")
	if len(c.hosts)+len(c.line) != 0 {
		t.Errorf("an empty gate remembers %v, %v", c.hosts, c.line)
	}
}

// A waiting catalog keeps its position, also if it retries early or with an image of another registry.
func TestGateKeepsPosition(t *testing.T) {
	c := newCrowd(t)
	c.fill()
	c.pass("first", "c", false)
	c.pass("second", "c", false)
	c.pass("first", "c", false) // was not told
	c.leave["in0"]()
	c.wantTold("of one place", "first")
	c.pass("first", "b", false) // has another image now, of a registry that has no place
	c.wantTold("of the place that the first cannot use", "second")
	c.leave["in2"]()
	c.wantTold("of a place that the first can use", "first")
	c.pass("new", "b", false)
	c.pass("first", "b", true)
	c.pass("second", "c", true)
}

// A slot that its catalog no longer needs goes to the next one.
func TestGateOffersUnusedSlot(t *testing.T) {
	c := newCrowd(t)
	c.fill()
	c.pass("first", "c", false)
	c.pass("second", "d", false)
	c.leave["in0"]()
	c.wantTold("of one place", "first")
	c.passed("first", false)
	c.wantTold("when the first made no use of it", "second")
}

func TestGateNarrow(t *testing.T) {
	var g gate // without notification
	leave, ok := g.enter("a", "a", 1, nil)
	if _, also := g.enter("b", "b", 1, nil); !ok || also {
		t.Errorf("got in: %t, %t; want one", ok, also)
	}
	leave()
	if _, ok := g.enter("b", "b", 1, nil); !ok {
		t.Error("an empty gate has no slot")
	}
}

// Of concurrent catalogs with one digest, one pulls it. Passes without a slot only publish packages, and are repeated.
func TestUnpackPullsOnce(t *testing.T) {
	w := newWorld(t)
	ref, digest := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	w.reconcile()
	other := w.besides(ref)
	w.requests.take()
	leave, ok := w.gate.enter("somebody", w.registry.host, w.Config.Concurrency, nil)
	if !ok {
		t.Fatal("no place in an empty gate")
	}
	var told []string
	w.wake = func(catalog string) { told = append(told, catalog) }
	for _, waiting := range []*world{w, other} {
		status := waiting.source().Status
		if next := waiting.reconcile(); next != 0 {
			t.Errorf("requeued after %v, want a notification", next)
		}
		wantEqual(t, "status", status, waiting.source().Status)
		if entry := w.Polls.Get(waiting.catalog); !entry.Last.IsZero() {
			t.Errorf("the poll counts: %+v", entry)
		}
	}
	wantEqual(t, "writes while there is no place", nil, w.requests.take())
	leave()
	w.reconcile()
	other.reconcile()
	wantEqual(t, "told", []string{w.catalog, other.catalog}, told)
	pulls := 0
	for _, request := range w.registry.take() {
		if request == "GET blobs" {
			pulls++
		}
	}
	if pulls != 2 || w.servedDigest() != digest || other.servedDigest() != digest { // its configuration and its layer
		t.Errorf("%d blobs were pulled, served: %s %s", pulls, w.servedDigest(), other.servedDigest())
	}
}

// A pass without a slot leaves poll requests and spec changes pending.
func TestUnpackCrowdedKeepsRequest(t *testing.T) {
	w := newWorld(t)
	ref, first := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	w.settle()
	_, second := w.registry.push("latest", catalogOf(pkg{name: "foo", version: "2.0.0"}))
	w.change(func(c *v1beta1.CatalogSource) { c.Spec.DisplayName = "Shown" })
	w.requestPoll("now")
	leave, _ := w.gate.enter("somebody", w.registry.host, w.Config.Concurrency, nil)
	w.reconcile()
	c := w.source()
	if c.Status.ObservedGeneration == c.Generation || c.Status.Poll.Requested != "" || c.Status.Digest != first {
		t.Errorf("the status says %+v", c.Status)
	}
	if got := w.getPackage("foo").Status.CatalogSourceDisplayName; got != "Shown" {
		t.Errorf("the package of what is served has the display name %q", got)
	}
	leave()
	w.reconcile()
	c = w.source()
	if c.Status.ObservedGeneration != c.Generation || c.Status.Poll.Requested != "now" || c.Status.Digest != second {
		t.Errorf("the status says %+v", c.Status)
	}
}

// More catalogs than workers that wait for a slow registry do not block others, and all are unpacked in the end.
func TestRegisterSlowRegistry(t *testing.T) {
	w := newWorld(t)
	w.Config.Concurrency = 2
	fast := newImageRegistry(t)
	release := make(chan struct{})
	stop := stdsync.OnceFunc(func() { close(release) })
	t.Cleanup(stop)
	w.registry.respond(func(_ http.ResponseWriter, r *http.Request) bool {
		if blobs(r) && r.Method == http.MethodGet {
			<-release
		}
		return false
	})
	w.runManager()
	var waiting []*world
	for i := range workersPerUnpack*w.Config.Concurrency + 2 {
		ref, _ := w.registry.push(fmt.Sprint("slow-", i), catalogOf(pkg{name: "foo", version: fmt.Sprintf("1.0.%d", i)}))
		slow := w.another()
		slow.create(ref, nil)
		waiting = append(waiting, slow)
	}
	w.until("all of the slow registry but one, which has its only place, stand in the line", func() bool {
		w.gate.mu.Lock()
		defer w.gate.mu.Unlock()
		return len(w.gate.line) == len(waiting)-1
	})
	ready := func(w *world) func() bool {
		return func() bool { return meta.IsStatusConditionTrue(w.source().Status.Conditions, v1beta1.ReadyCondition) }
	}
	ref, digest := fast.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	w.eventually("a catalog of another registry is Ready", ready(w))
	wantEqual(t, "digest", digest, w.servedDigest())
	for _, slow := range waiting {
		if ready(slow)() || conditions(slow.source())["Progressing"][:len("True Unpacking")] != "True Unpacking" {
			t.Errorf("a catalog that waits is %v", conditions(slow.source()))
		}
	}
	stop()
	for _, slow := range waiting {
		slow.eventually("a catalog that waited is Ready", ready(slow))
	}
}
