package sync

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/poll"
	"github.com/operator-catalogs/catalogd/internal/source"
	"github.com/operator-catalogs/catalogd/internal/store"
	"github.com/operator-catalogs/catalogd/internal/sync/catalogsource"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// role is a Leadership that changes when a test says so.
type role bool

const (
	leader   role = true
	follower role = false
)

func (r role) Left() time.Duration {
	if r {
		return time.Minute
	}
	return 0
}

func (role) Changed() <-chan struct{} { return nil }

func (role) Refused(err error) bool { return errors.Is(err, errRefused) }

// errRefused is what the API client of a replica that does not lead says of a write.
var errRefused = errors.New("this replica does not lead")

// replica returns another process with its own volume and the same catalogs, as a follower.
func (w *world) replica() *world {
	w.t.Helper()
	other := *w
	other.dir, other.metrics = w.t.TempDir(), prometheus.NewRegistry()
	engine := &Engine{
		Client: w.Client, Live: w.Live, Polls: &poll.Log{}, Metrics: NewMetrics(other.metrics), Recorder: w.Recorder, Clock: w.Clock,
		Config: w.Config, Leadership: follower,
	}
	other.controller = engine.newController(w.kind)
	other.newRegistries()
	other.openStore()
	w.t.Cleanup(func() { must.Succeed(w.t, other.Store.Close()) })
	return &other
}

// forward pushes another version of the catalog and makes w, the leader, serve it.
func (w *world) forward(tag, pkgName string) (digest string) {
	w.t.Helper()
	_, digest = w.registry.push(tag, catalogOf(pkg{name: pkgName}))
	w.requestPoll(digest)
	w.reconcile()
	wantEqual(w.t, "digest of the leader", digest, w.servedDigest())
	w.requests.take()
	w.registry.take()
	return digest
}

func (w *world) behind() float64 {
	w.t.Helper()
	return seriesOf(w.t, w.metrics, w.catalog)["catalogd_replica_behind "+w.catalog]
}

func TestFollow(t *testing.T) {
	w := newWorld(t)
	ref, first := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	other := w.replica()
	wantEqual(t, "next pass without a digest to follow", 0, other.reconcile())
	wantEqual(t, "writes of the follower", nil, w.requests.take())
	w.settle()

	other.reconcile()
	wantEqual(t, "digest of the follower", first, other.servedDigest())
	for _, request := range w.registry.take() {
		if strings.Contains(request, "latest") {
			t.Errorf("the follower asked for the tag: %s", request)
		}
	}
	w.clock.SetTime(start.Add(time.Hour))
	second := w.forward("latest", "bar")
	wantEqual(t, "digest of the follower that has not heard yet", first, other.servedDigest())
	w.clock.SetTime(start.Add(2 * time.Hour))
	other.reconcile()
	wantEqual(t, "digest of the follower", second, other.servedDigest())
	led, _ := w.Store.Catalog(w.catalog)
	followed, _ := other.Store.Catalog(w.catalog)
	wantEqual(t, "since when the follower says that it serves it", led.Since, followed.Since)

	w.registry.take()
	wantEqual(t, "next pass of a follower that is current", 0, other.reconcile())
	wantEqual(t, "requests of a follower that is current", nil, w.registry.take())
	wantEqual(t, "writes of the follower", nil, w.requests.take())
	wantEqual(t, "behind", 0, other.behind())
}

func TestFollowUntilGone(t *testing.T) {
	for name, end := range map[string]func(w, other *world){
		"withdrawn": func(w, _ *world) {
			w.change(func(c *v1beta1.CatalogSource) { c.Spec.Availability = v1beta1.AvailabilityUnavailable })
		},
		"being deleted": func(w, _ *world) { must.Succeed(w.t, w.api.Delete(w.t.Context(), w.source())) },
		"deleted":       func(w, _ *world) { must.Succeed(w.t, w.api.Delete(w.t.Context(), w.source())); w.reconcile() },
		"not selected": func(_, other *world) {
			other.Config.Selector = labels.SelectorFromSet(labels.Set{"team": "a"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
			w.create(ref, nil)
			w.settle()
			other := w.replica()
			other.reconcile()
			end(w, other)
			w.requests.take()
			other.reconcile()
			wantEqual(t, "digest of the follower", "", other.servedDigest())
			wantEqual(t, "writes of the follower", nil, w.requests.take())
			wantEqual(t, "series of the follower", nil, seriesOf(t, other.metrics, w.catalog))
		})
	}
}

func TestFollowLater(t *testing.T) {
	w := newWorld(t)
	ref, first := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	w.settle()
	other := w.replica()
	other.reconcile()
	w.forward("latest", "bar")

	w.registry.refuse(everything)
	wait := other.reconcile()
	if wait < time.Second || wait > time.Minute {
		t.Errorf("comes again after %s", wait)
	}
	wantEqual(t, "digest of a follower that cannot have the new one", first, other.servedDigest())
	wantEqual(t, "behind", 1, other.behind())
	w.registry.take()
	if again := other.reconcile(); again <= 0 || again > wait {
		t.Errorf("called for another reason, it comes again after %s, not %s", again, wait)
	}
	wantEqual(t, "requests while it waits", nil, w.registry.take())

	w.registry.refuse(nil)
	third := w.forward("latest", "baz") // which is no reason to wait
	other.reconcile()
	wantEqual(t, "digest of the follower", third, other.servedDigest())
	wantEqual(t, "behind", 0, other.behind())
}

func TestTakeOver(t *testing.T) {
	w := newWorld(t)
	ref, digest := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	w.settle()
	other := w.replica()
	other.reconcile()
	w.registry.take()

	other.Leadership, w.Leadership = leader, follower
	if wait := other.reconcile(); wait < 10*time.Minute {
		t.Errorf("polls again after %s", wait)
	}
	wantEqual(t, "polls", 1, w.registry.polls())
	wantEqual(t, "writes of a new leader that has nothing to say", nil, w.requests.take())
	wantEqual(t, "digest", digest, other.servedDigest())

	second := other.forward("latest", "bar")
	w.reconcile()
	wantEqual(t, "digest of the former leader", second, w.servedDigest())
	wantEqual(t, "series of the former leader", map[string]float64{
		"catalogd_replica_behind " + w.catalog: 0,
	}, seriesOf(t, w.metrics, w.catalog))
}

// A replica that becomes leader while it lags does not publish its old content.
func TestTakeOverBehind(t *testing.T) {
	w := newWorld(t)
	ref, first := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	w.settle()
	other := w.replica()
	other.reconcile()
	second := w.forward("latest", "bar")
	before, packages := w.source().Status, w.packages()

	other.Leadership = leader
	w.registry.refuse(everything)
	other.reconcile()
	wantEqual(t, "what the new leader serves", first, other.servedDigest())
	wantEqual(t, "packages", packages, w.packages())
	after := w.source()
	wantEqual(t, "digest in the status", second, after.Status.Digest)
	wantEqual(t, "content in the status", before.Content, after.Status.Content)
	if meta.IsStatusConditionTrue(after.Status.Conditions, v1beta1.ReadyCondition) {
		t.Error("a catalog whose leader cannot follow it is Ready")
	}
	if serving := conditions(after)[v1beta1.ServingCondition]; !strings.Contains(serving, second) {
		t.Errorf("others serve the new content, and Serving is %s", serving)
	}
	wantEqual(t, "behind", 1, other.behind())

	w.registry.refuse(nil)
	other.requestPoll("now")
	other.reconcile()
	wantEqual(t, "what the new leader serves", second, other.servedDigest())
	wantEqual(t, "packages", packages, w.packages())
	if c := w.source(); !meta.IsStatusConditionTrue(c.Status.Conditions, v1beta1.ReadyCondition) {
		t.Errorf("the catalog did not become Ready again: %v", conditions(c))
	}
}

// aheadOfStatus returns a leader that serves the second version of its catalog while the status still names the first.
func aheadOfStatus(t *testing.T) (w *world, first, second string) {
	t.Helper()
	w = newWorld(t)
	ref, first := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	w.settle()
	stop := w.requests.failing(func(r *http.Request) bool { return r.Method != http.MethodGet })
	_, second = w.registry.push("latest", catalogOf(pkg{name: "bar"}))
	w.clock.SetTime(start.Add(time.Hour))
	if _, err := w.tryReconcile(); err == nil {
		t.Fatal("the API server took the status")
	}
	stop()
	return w, first, second
}

// A leader that could not write the status keeps its newer digest, unless another leader changed the status.
func TestAheadOfStatus(t *testing.T) {
	w, first, second := aheadOfStatus(t)
	wantEqual(t, "digest in the status", first, w.source().Status.Digest)
	wantEqual(t, "digest of the leader", second, w.servedDigest())

	w.Leadership = follower
	w.restart()
	w.reconcile()
	wantEqual(t, "digest after a restart as a follower", second, w.servedDigest())
	w.registry.refuse(everything)
	w.Leadership = leader
	w.reconcile()
	wantEqual(t, "digest in the status of a leader without a registry", second, w.source().Status.Digest)
	w.registry.refuse(nil)

	// Another one comes to lead and finds the old version again, at another time: what is ahead of the status that was is not ahead of
	// the one that is.
	w.Leadership = follower
	other := w.replica()
	other.reconcile()
	other.Leadership = leader
	w.clock.SetTime(start.Add(3 * time.Hour))
	other.forward("latest", "foo")
	w.reconcile()
	wantEqual(t, "digest of the former leader", first, w.servedDigest())
}

// Of two replicas that both consider themselves leader, the later write does not overwrite the other's status.
func TestStatusOfAnother(t *testing.T) {
	w := newWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	w.settle()
	stale := w.replica()
	stale.Leadership = leader
	rec := stale.begin()
	newer := w.forward("latest", "bar")

	err := rec.writeDigest("sha256:old")
	if err == nil || !strings.Contains(err.Error(), "another replica changed the status") {
		t.Errorf("got %v, want that another replica changed the status", err)
	}
	wantEqual(t, "digest in the status", newer, w.source().Status.Digest)

	rec = w.begin()
	w.change(func(c *v1beta1.CatalogSource) { c.Labels = map[string]string{"of": "somebody"} })
	must.Succeed(t, rec.writeDigest("sha256:new"))
	wantEqual(t, "digest in the status, after a label changed meanwhile", "sha256:new", w.source().Status.Digest)
}

func TestRelease(t *testing.T) {
	w := newWorld(t)
	ref, digest := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, func(c *v1beta1.CatalogSource) { c.Labels = map[string]string{"team": "a"} })
	w.Config.Selector = labels.SelectorFromSet(labels.Set{"team": "a"})
	w.settle()
	heir := w.replica()
	heir.Leadership = leader
	heir.Config.Selector = labels.SelectorFromSet(labels.Set{"team": "b"})

	w.change(func(c *v1beta1.CatalogSource) { c.Labels["team"] = "b" })
	packages := w.packages()
	w.reconcile()
	wantEqual(t, "digest of the one that let go", "", w.servedDigest())
	wantEqual(t, "packages", packages, w.packages())
	wantEqual(t, "finalizers", nil, w.source().Finalizers)
	heir.reconcile()
	wantEqual(t, "digest of the one that took over", digest, heir.servedDigest())
	wantEqual(t, "label of the packages", "b", w.getPackage("foo").Labels["team"])
	wantEqual(t, "finalizers", []string{v1beta1.CleanupFinalizer}, w.source().Finalizers)

	// Nobody's any more, and deleted: the one that had it last sees it to the end.
	w.change(func(c *v1beta1.CatalogSource) { delete(c.Labels, "team") })
	must.Succeed(t, w.api.Delete(t.Context(), w.source()))
	heir.reconcile()
	wantEqual(t, "packages", map[string]string{}, w.packages())
	wantEqual(t, "whether it is gone", true, isGone(w.api.Get(t.Context(), w.request().NamespacedName, &v1beta1.CatalogSource{}), w.catalog))
}

func TestLag(t *testing.T) {
	w := newWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	w.settle()
	w.another().create(ref, nil) // has no digest yet
	withdrawn := w.another()
	withdrawn.create(ref, nil)
	withdrawn.settle()
	withdrawn.change(func(c *v1beta1.CatalogSource) { c.Spec.Availability = v1beta1.AvailabilityUnavailable })
	withdrawn.reconcile()
	deleted := w.another()
	deleted.create(ref, nil)
	must.Succeed(t, w.api.Delete(t.Context(), deleted.settle()))
	toWithdraw := w.another()
	toWithdraw.create(ref, nil)
	toWithdraw.settle()
	toWithdraw.change(func(c *v1beta1.CatalogSource) { c.Spec.Availability = v1beta1.AvailabilityUnavailable })

	other := w.replica()
	wantLag := func(want Lag) {
		t.Helper()
		sources, err := List(t.Context(), w.api, w.kind)
		must.Succeed(t, err)
		wantEqual(t, "lag", want, LagOf(sources, other.Store, other.Polls))
	}
	wantLag(Lag{Missing: []string{w.catalog}})
	w.registry.refuse(everything)
	other.reconcile()
	wantLag(Lag{Failing: []string{w.catalog}})
	w.registry.refuse(nil)
	w.clock.SetTime(start.Add(time.Minute))
	other.reconcile()
	wantLag(Lag{})
	w.forward("latest", "bar")
	wantLag(Lag{Behind: []string{w.catalog}})
	w.registry.refuse(everything)
	other.reconcile()
	wantLag(Lag{}) // it cannot be had

	broken := interceptor.NewClient(w.api, interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("down")
		},
	})
	if _, err := List(t.Context(), broken, w.kind); err == nil {
		t.Error("no error without a list")
	}
}

func TestIsAhead(t *testing.T) {
	w := newWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	c := w.kind.Source(w.settle()).Observed
	served, _ := w.Store.Catalog(w.catalog)
	found := served
	found.Basis = c.Basis()
	elsewhere := c
	elsewhere.Digest = "sha256:other"
	for _, test := range []struct {
		name   string
		s      source.Status
		served store.Catalog
		want   bool
	}{
		{"as the status says", c, found, false},
		{"found for another status", elsewhere, found, false},
		{"found for this status", elsewhere, withBasis(served, elsewhere.Basis()), true},
		{"followed", elsewhere, withBasis(served, ""), false},
		{"followed, of an empty status", source.Status{}, withBasis(served, ""), false},
		{"found for an empty status", source.Status{}, withBasis(served, source.Status{}.Basis()), true},
	} {
		if got := isAhead(test.s, test.served); got != test.want {
			t.Errorf("%s: got %v", test.name, got)
		}
	}
}

func TestAwaited(t *testing.T) {
	w := newWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	ahead := w.settle() // what is served in the end was found for that
	w.forward("latest", "bar")
	w.requestPoll("1")
	c := w.settle()
	now := metav1.Now()
	behind, withdrawn, gone, absent := c.DeepCopy(), c.DeepCopy(), c.DeepCopy(), c.DeepCopy()
	behind.Status.Digest = "sha256:other"
	withdrawn.Status.Digest, withdrawn.Spec.Availability = "sha256:other", v1beta1.AvailabilityUnavailable
	gone.Status.Digest, gone.DeletionTimestamp = "sha256:other", &now
	absent.Name = "absent"
	for name, test := range map[string]struct {
		c    *v1beta1.CatalogSource
		want string
	}{
		"as the status says": {c, ""}, "behind": {behind, "sha256:other"}, "ahead": {ahead, ""}, "withdrawn": {withdrawn, ""}, "gone": {gone, ""},
		"not here": {absent, c.Status.Digest},
	} {
		if got := Awaited(w.kind.Source(test.c), w.Store); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

func withBasis(c store.Catalog, basis string) store.Catalog {
	c.Basis = basis
	return c
}

func TestStatusChanged(t *testing.T) {
	at := metav1.NewTime(start)
	named := func(digest, image string, since *metav1.Time) *v1beta1.CatalogSource {
		return &v1beta1.CatalogSource{
			Status: v1beta1.CatalogSourceStatus{Digest: digest, Image: image, Poll: &v1beta1.PollStatus{LastChangeTime: since}},
		}
	}
	ready := named("a", "i", nil)
	ready.Status.Conditions = []metav1.Condition{{Type: v1beta1.ReadyCondition}}
	for _, test := range []struct {
		name string
		role role
		now  *v1beta1.CatalogSource
		want bool
	}{
		{"another digest", follower, named("b", "i", nil), true},
		{"the same digest, since another time", follower, named("a", "i", &at), true},
		{"another image", follower, named("a", "j", nil), true},
		{"another condition", follower, ready, false},
		{"another digest, by this replica", leader, named("b", "i", nil), false},
	} {
		c := (&Engine{Leadership: test.role}).newController(catalogsource.Kind{})
		if got := c.statusChanged().Update(event.UpdateEvent{ObjectOld: named("a", "i", nil), ObjectNew: test.now}); got != test.want {
			t.Errorf("%s: got %v", test.name, got)
		}
	}
}

// A former leader does not serve forever a digest that no status names.
func TestAheadForAWhile(t *testing.T) {
	w, first, second := aheadOfStatus(t)
	w.Leadership = follower
	other := w.replica()
	other.reconcile()
	other.Leadership = leader
	w.registry.push("latest", catalogOf(pkg{name: "foo"})) // rolled back: for the new leader nothing happened
	other.reconcile()
	wantEqual(t, "when the former leader looks again", aheadFor, w.reconcile())
	wantEqual(t, "digest of the former leader", second, w.servedDigest())
	w.clock.SetTime(start.Add(time.Hour + aheadFor))
	w.reconcile()
	wantEqual(t, "digest of the former leader later", first, w.servedDigest())
}

// A status that returns to an earlier digest gets a later time, even if the leader served it throughout or has a slow clock.
func TestStatusChangeTimeIncreases(t *testing.T) {
	w := newWorld(t)
	ref, first := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	w.settle()
	other := w.replica()
	other.reconcile()
	w.clock.SetTime(start.Add(time.Hour))
	w.forward("latest", "bar")
	between := w.source().Status.Poll.LastChangeTime
	w.Leadership, other.Leadership = follower, leader
	w.clock.SetTime(start.Add(time.Minute))
	other.forward("latest", "foo")
	if now := w.source().Status.Poll.LastChangeTime; !now.After(between.Time) {
		t.Errorf("the last change was at %s, and is at %s", between, now)
	}
	w.reconcile()
	wantEqual(t, "digest of the former leader", first, w.servedDigest())
	led, _ := other.Store.Catalog(w.catalog)
	followed, _ := w.Store.Catalog(w.catalog)
	wantEqual(t, "since when the follower says that it serves it", led.Since, followed.Since)
	other.requests.take()
	before := other.source().ResourceVersion
	other.reconcile()
	wantEqual(t, "version after another pass", before, other.source().ResourceVersion)
}

// Catalogs of another installation are ignored, whatever event names them.
func TestReleaseForeign(t *testing.T) {
	w := newWorld(t)
	ref, digest := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, func(c *v1beta1.CatalogSource) { c.Labels = map[string]string{"team": "a"} })
	w.Config.Selector = labels.SelectorFromSet(labels.Set{"team": "a"})
	w.settle()
	foreign := w.replica()
	foreign.Leadership = leader
	foreign.Config.Selector, foreign.Config.BaseURL = labels.SelectorFromSet(labels.Set{"team": "b"}), "http://elsewhere.example"
	foreign.reconcile()
	wantEqual(t, "finalizers", []string{v1beta1.CleanupFinalizer}, w.source().Finalizers)
	must.Succeed(t, w.api.Delete(t.Context(), w.source()))
	foreign.reconcile()
	wantEqual(t, "finalizers of one that is being deleted", []string{v1beta1.CleanupFinalizer}, w.source().Finalizers)
	wantEqual(t, "digest that is served", digest, w.servedDigest())
}

// Another directory of the same image is other content. A leader that cannot pull it does not restore the old content.
func TestTakeOverOtherDirectory(t *testing.T) {
	w := newWorld(t)
	files := map[string]string{"a/catalog.json": pkg{name: "foo"}.json(), "b/catalog.json": pkg{name: "bar"}.json()}
	ref, _ := w.registry.push("latest", files)
	in := func(dir string) func(*v1beta1.CatalogSource) {
		return func(c *v1beta1.CatalogSource) {
			c.Spec.ExtractContent = &v1beta1.ExtractContent{ConfigDir: "/" + dir}
		}
	}
	w.create(ref, in("a"))
	w.settle()
	other := w.replica()
	other.reconcile()
	w.clock.SetTime(start.Add(time.Hour))
	w.change(in("b"))
	w.reconcile()
	published := w.packages()
	if len(published) != 1 || published["bar"] == "" {
		t.Fatalf("published are %v, want bar", published)
	}
	other.Leadership = leader
	w.registry.refuse(everything)
	other.reconcile()
	wantEqual(t, "packages", published, w.packages())
	w.registry.refuse(nil)
	other.requestPoll("now")
	other.reconcile()
	wantEqual(t, "packages", published, w.packages())
}
