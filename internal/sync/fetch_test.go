package sync

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/sync/fault"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

func isBlocked(err error) bool { return err != nil && !fault.IsRetryable(err) }

// TestResolve resolves the wanted digest of a catalog that was polled a minute ago.
func TestResolve(t *testing.T) {
	for _, test := range []struct {
		name     string
		spec     func(*v1beta1.CatalogSource) // a change of the CatalogSource
		before   func(*world)                 // a change of the world
		polls    bool                         // the registry is asked
		want     string                       // "first" served, "second" pushed since, "" none
		err      string                       // what the poll's error contains
		blocked  bool
		answered bool // the request for a poll is answered
	}{
		{name: "not due", want: "first"},
		{name: "due", before: func(w *world) { w.clock.SetTime(start.Add(time.Hour)) }, polls: true, want: "second"},
		{name: "just not due", before: func(w *world) { w.clock.SetTime(w.Polls.Get(w.catalog).Next.Add(-1)) }, want: "first"},
		{name: "just due", before: func(w *world) { w.clock.SetTime(w.Polls.Get(w.catalog).Next) }, polls: true, want: "second"},
		{name: "never polled by this process", before: (*world).restart, polls: true, want: "second"},
		{name: "asked for", before: func(w *world) { w.requestPoll("now") }, polls: true, want: "second", answered: true},
		{name: "spec changed", spec: func(c *v1beta1.CatalogSource) { c.Spec.DisplayName = "Other" }, polls: true, want: "second"},
		{name: "other image", spec: func(c *v1beta1.CatalogSource) { c.Spec.Image += "-2" }, polls: true, err: "no such image or tag"},
		{name: "suspended", spec: func(c *v1beta1.CatalogSource) { c.Spec.Suspend = true }, want: "first"},
		{
			name: "suspended and asked for", spec: func(c *v1beta1.CatalogSource) { c.Spec.Suspend = true },
			before: func(w *world) { w.requestPoll("now") }, want: "first",
		},
		{
			name: "registry down", before: func(w *world) { w.registry.refuse(heads); w.requestPoll("now") },
			polls: true, want: "first", err: "answered 503 Service Unavailable", answered: true,
		},
		{
			name: "bad reference", spec: func(c *v1beta1.CatalogSource) { c.Spec.Image = "registry.example/UPPER" },
			err: `invalid image reference "registry.example/UPPER" in spec.image: `, blocked: true,
		},
		{
			name: "bad schedule", spec: func(c *v1beta1.CatalogSource) { c.Spec.PollingSchedule = "61 * * * *" },
			want: "first", err: `spec.pollingSchedule is invalid: parsing schedule "61 * * * *": `, blocked: true,
		},
		{
			name: "schedule without a day", spec: func(c *v1beta1.CatalogSource) { c.Spec.PollingSchedule = "0 0 31 2 *" },
			want: "first", err: "spec.pollingSchedule \"0 0 31 2 *\" matches no day", blocked: true,
		},
		{
			name: "bad time zone", spec: func(c *v1beta1.CatalogSource) { c.Spec.PollingSchedule = "CRON_TZ=Nowhere/Land 0 6 * * *" },
			want: "first", err: "Nowhere/Land", blocked: true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			ref, first := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
			w.create(ref, nil)
			w.settle()
			_, second := w.registry.push("latest", catalogOf(pkg{name: "foo", version: "2.0.0"}))
			w.clock.SetTime(start.Add(time.Minute))
			if test.spec != nil {
				w.change(test.spec)
			}
			if test.before != nil {
				test.before(w)
			}
			rec := w.begin()
			rec.resolve()
			wanted := map[string]string{first: "first", second: "second"}[rec.f.poll.wanted.DigestStr()]
			if wanted != test.want {
				t.Errorf("wants %q (%s), want %q", wanted, rec.f.poll.wanted, test.want)
			}
			var requests []string
			if test.polls {
				requests = []string{"HEAD manifests"}
			}
			wantEqual(t, "requests to the registry", requests, w.registry.take())
			if rec.f.poll.at.IsZero() == test.polls {
				t.Errorf("polled at %v, want a poll: %t", rec.f.poll.at, test.polls)
			}
			if (rec.f.fault() == nil) != (test.err == "") || (rec.f.fault() != nil && !strings.Contains(rec.f.fault().Error(), test.err)) {
				t.Errorf("error is %v, want one with %q", rec.f.fault(), test.err)
			}
			if isBlocked(rec.f.fault()) != test.blocked {
				t.Errorf("error %v, want it blocked: %t", rec.f.fault(), test.blocked)
			}
			if answered := rec.f.poll.answered && rec.src.PollRequested(); answered != test.answered {
				t.Errorf("the request is answered: %t, want %t", answered, test.answered)
			}
			wantEqual(t, "writes", nil, w.requests.take())
		})
	}
}

func TestResolveDigestReference(t *testing.T) {
	w := newWorld(t)
	_, digest := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(w.registry.byDigest(digest), func(c *v1beta1.CatalogSource) {
		c.Annotations = map[string]string{v1beta1.PollRequestedAnnotation: "now"}
	})
	rec := w.begin()
	rec.resolve()
	if rec.f.poll.wanted.DigestStr() != digest || !rec.f.poll.at.IsZero() || rec.f.fault() != nil {
		t.Errorf("wants %s, polled at %v, error %v", rec.f.poll.wanted, rec.f.poll.at, rec.f.fault())
	}
	if !rec.f.poll.answered {
		t.Error("the request for a poll that is pointless is not answered")
	}
	wantEqual(t, "requests to the registry", nil, w.registry.take())
}

// A status older than the store does not restore old content.
func TestResolveTrustsStore(t *testing.T) {
	w := newWorld(t)
	ref, first := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	w.settle()
	_, second := w.registry.push("latest", catalogOf(pkg{name: "foo", version: "2.0.0"}))
	stale := w.begin()
	w.requestPoll("now")
	w.reconcile()
	if w.servedDigest() != second {
		t.Fatalf("serves %s, want %s", w.servedDigest(), second)
	}
	if stale.src.Observed.Digest != first {
		t.Fatal("the status is not the old one")
	}
	stale.resolve()
	stale.unpack()
	if w.servedDigest() != second {
		t.Error("went back to the old content")
	}
}

func TestUnpack(t *testing.T) {
	w := newWorld(t)
	ref, digest := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	pull := []string{"GET manifests", "GET blobs", "GET blobs"}
	unpack := func(w *world, want []string) *trial {
		t.Helper()
		rec := w.begin()
		rec.f.poll.wanted = w.digest(digest)
		rec.unpack()
		wantEqual(t, "requests to the registry", want, w.registry.take())
		return rec
	}
	if rec := unpack(w, pull); !rec.attempted() || !rec.f.content.current || rec.f.fault() != nil || w.servedDigest() != digest {
		t.Errorf("got %+v, serves %q", rec, w.servedDigest())
	}
	if got := value(t, w.metrics, "catalogd_unpack_seconds", w.catalog); got != 0 {
		t.Errorf("it took %v s by a clock that stands", got)
	}
	files := fileTimes(t, w.dir)
	if rec := unpack(w, nil); rec.attempted() || !rec.f.content.current || rec.f.fault() != nil {
		t.Errorf("what is current: got %+v", rec)
	}
	wantEqual(t, "files after nothing was to do", files, fileTimes(t, w.dir))

	w = w.another() // catalog finds the same content in the store, and asks whether it would be given it
	w.create(ref, nil)
	if rec := unpack(w, []string{"HEAD manifests"}); !rec.attempted() || !rec.f.content.current || w.servedDigest() != digest {
		t.Errorf("another catalog: got %+v, serves %q", rec, w.servedDigest())
	}
	if rec := unpack(w, nil); rec.attempted() || !rec.f.content.current {
		t.Errorf("another catalog, again: got %+v", rec)
	}
	rec := w.begin()
	rec.unpack()
	if rec.f.content.current || rec.attempted() {
		t.Errorf("nothing is wanted: got %+v", rec)
	}
}

func (w *world) digest(digest string) name.Digest {
	w.t.Helper()
	d, err := name.NewDigest(w.registry.byDigest(digest))
	must.Succeed(w.t, err)
	return d
}

// Another config directory of the same image is other content.
func TestUnpackConfigDir(t *testing.T) {
	files := catalogOf(pkg{name: "foo"})
	files["elsewhere/catalog.json"] = pkg{name: "bar"}.json()
	w := newWorld(t)
	_, digest := w.registry.push("latest", files)
	w.create(w.registry.byDigest(digest), nil)
	w.settle()
	w.change(func(c *v1beta1.CatalogSource) {
		c.Spec.ExtractContent = &v1beta1.ExtractContent{ConfigDir: "/elsewhere"}
	})

	w.registry.refuse(everything)
	for range 2 { // the second pass comes before the backoff is over
		w.reconcile()
		if c := w.source(); !strings.HasPrefix(conditions(c)["Progressing"], "True Retrying: Cannot unpack "+w.registry.byDigest(digest)+": ") {
			t.Errorf("what is served is not what is wanted, and Progressing is %v", conditions(c)["Progressing"])
		}
	}
	w.registry.refuse(nil)
	w.clock.SetTime(start.Add(time.Minute))
	w.reconcile()
	if got, want := w.served(), (pkg{name: "bar"}).json(); got != want {
		t.Errorf("serves\n%s, want\n%s", got, want)
	}
	if _, ok := w.packages()["bar"]; !ok || len(w.packages()) != 1 {
		t.Errorf("packages are %v, want bar", w.packages())
	}
}

func TestUnpackRefused(t *testing.T) {
	w := newWorld(t)
	ref, digest := w.registry.push("latest", brokenCatalog())
	w.create(ref, nil)
	w.reconcile()
	w.reconcile()
	message := conditions(w.source())["Progressing"]
	if want := "False Blocked: Cannot unpack " + ref + " at " + digest[:19] + ": foo/catalog.json:1: "; !strings.HasPrefix(message, want) {
		t.Errorf("Progressing is %s, want %s", message, want)
	}
	wantEqual(t, "requests to the registry", []string{"HEAD manifests", "GET manifests", "GET blobs", "GET blobs"}, w.registry.take())
	w.requests.take()

	w.clock.SetTime(start.Add(time.Hour))
	w.reconcile()
	wantEqual(t, "requests to the registry once it is refused", []string{"HEAD manifests"}, w.registry.take())
	wantEqual(t, "writes once it is refused", nil, w.requests.take())

	w.requestPoll("again")
	w.reconcile()
	wantEqual(t, "requests when asked for", []string{"HEAD manifests", "GET manifests", "GET blobs", "GET blobs"}, w.registry.take())

	w.change(func(c *v1beta1.CatalogSource) { c.Spec.PollingInterval = &metav1.Duration{Duration: time.Hour} })
	w.reconcile()
	wantEqual(t, "requests when the spec changed", []string{"HEAD manifests", "GET manifests", "GET blobs", "GET blobs"}, w.registry.take())
	if got := conditions(w.source())["Progressing"]; got != message {
		t.Errorf("Progressing became %s, was %s", got, message)
	}
}

// Events do not shorten the backoff after a failure.
func TestUnpackWaitsForBackoff(t *testing.T) {
	w := newWorld(t)
	_, digest := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.registry.refuse(blobs)
	w.create(w.registry.byDigest(digest), nil)
	w.reconcile()
	next := w.reconcile()
	if tried := w.registry.take(); len(tried) == 0 {
		t.Fatal("the registry was not asked")
	}
	w.clock.SetTime(start.Add(next - time.Second))
	if again := w.reconcile(); again != time.Second {
		t.Errorf("the next pass is in %v, want when the backoff is over", again)
	}
	wantEqual(t, "requests during the backoff", nil, w.registry.take())
	w.registry.refuse(nil)
	w.clock.SetTime(start.Add(next))
	if again := w.reconcile(); again != 0 {
		t.Errorf("the next pass is in %v, want none: a digest is not polled", again)
	}
	if w.servedDigest() != digest {
		t.Errorf("serves %q, want %s", w.servedDigest(), digest)
	}
}

// The status reports a full disk with a remedy.
func TestUnpackStoreFails(t *testing.T) {
	w := newWorld(t)
	ref, digest := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	rec := w.begin()
	rec.f.poll.wanted = w.digest(digest)
	rec.unpack()
	snapshot, ok := w.Store.Catalog(w.catalog)
	if !ok {
		t.Fatal("nothing is served")
	}

	w = w.another()
	w.create(ref, nil)
	must.Succeed(t, os.RemoveAll(filepath.Join(w.dir, "snapshots", snapshot.Snapshot.Key()))) // as a sweep would have done
	rec = w.begin()
	rec.f.poll.wanted = w.digest(digest)
	rec.unpack()
	if rec.f.fault() == nil || isBlocked(rec.f.fault()) || rec.f.content.current || !rec.attempted() {
		t.Errorf("got %+v, want an error that is tried again", rec)
	}
}

// After a failed poll, content that is served already is not pulled again.
func TestUnpackAfterFailedPoll(t *testing.T) {
	w := newWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	w.settle()
	damage(t, w)
	_, err := w.Store.Scrub(t.Context())
	must.Succeed(t, err)
	w.registry.refuse(heads)
	w.requestPoll("now")
	w.reconcile()
	wantEqual(t, "requests to the registry", []string{"HEAD manifests"}, w.registry.take())
}

func TestUnpackLeavesNoStage(t *testing.T) {
	w := newWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	w.reconcile()
	w.registry.refuse(func(r *http.Request) bool { return blobs(r) })
	w.reconcile()
	entries, err := os.ReadDir(filepath.Join(w.dir, "stage"))
	must.Succeed(t, err)
	if len(entries) > 0 {
		t.Errorf("the stage holds %v", entries)
	}
}

// Content that another catalog unpacked is shared only if the registry permits the pull.
func TestUnpackSharesWithPermission(t *testing.T) {
	w := newWorld(t)
	ref, digest := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	w.settle()
	for name, image := range map[string]string{
		"no such host":       "registry.invalid/catalog@" + digest,
		"no such repository": w.registry.host + "/other@" + digest,
	} {
		other := w.another()
		other.create(image, nil)
		other.reconcile()
		other.reconcile()
		c := other.source()
		if served := other.servedDigest(); served != "" || !strings.HasPrefix(conditions(c)["Ready"], "False ") {
			t.Errorf("%s: serves %q, Ready is %s", name, served, conditions(c)["Ready"])
		}
	}
	w.registry.wantPassword("right")
	private := w.another()
	private.create(w.registry.byDigest(digest), nil)
	private.reconcile()
	private.reconcile()
	if got := conditions(private.source())["Ready"]; !strings.HasPrefix(got, "False Unauthorized: Cannot unpack ") ||
		private.servedDigest() != "" {
		t.Errorf("without credentials: serves %q, Ready is %s", private.servedDigest(), got)
	}
	w.registry.respond(nil)
	w.clock.SetTime(start.Add(time.Hour))
	private.reconcile()
	c := private.source()
	wantCondition(t, c, "Ready", "True Succeeded: 1 package is published.")
	if c.Status.Content.Source != w.registry.byDigest(digest) {
		t.Errorf("the source is %s", c.Status.Content.Source)
	}
	w.registry.refuse(everything)
	w.restart()
	private.controller = w.controller
	private.reconcile()
	wantCondition(t, private.source(), "Ready", "True Succeeded: 1 package is published.") // once given, it stays
}
