package sync

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

func TestReconcileNewCatalog(t *testing.T) {
	w := newWorld(t)
	ref, digest := w.registry.push("latest", catalogOf(pkg{name: "bar"}, pkg{name: "foo"}))
	w.create(ref, nil)

	if next := w.reconcile(); next != time.Millisecond {
		t.Errorf("after the announcement the next pass is in %v, want at once", next)
	}
	wantEqual(t, "writes of the first pass", []string{
		"PATCH catalogsources/" + w.catalog, "PATCH catalogsources/" + w.catalog + "/status",
	}, w.requests.take())
	wantEqual(t, "requests to the registry in the first pass", nil, w.registry.take())
	wantEqual(t, "conditions after the first pass", map[string]string{
		"Progressing":    "True Unpacking: Unpacking and publishing " + ref + ".",
		"Serving":        "False Unavailable: No content is unpacked yet.",
		"PackagesSynced": "False Unavailable: No content is unpacked yet.",
		"Ready":          "False Unpacking: Unpacking and publishing " + ref + ".",
	}, conditions(w.source()))

	next := w.reconcile()
	if least, most := 15*time.Minute, 16*time.Minute+30*time.Second; next < least || next > most {
		t.Errorf("the next pass is in %v, want the interval and up to a tenth more", next)
	}
	writes := w.requests.take()
	slices.Sort(writes)
	wantEqual(t, "writes of the second pass", []string{
		"PATCH catalogsources/" + w.catalog + "/status", "POST operatorpackages", "POST operatorpackages",
	}, writes)
	wantEqual(t, "requests to the registry in the second pass", []string{
		"HEAD manifests", "GET manifests", "GET blobs", "GET blobs",
	}, w.registry.take())
	c := w.source()
	wantEqual(t, "conditions", map[string]string{
		"Progressing":    "True Succeeded: " + ref + " is unpacked and current.",
		"Serving":        "True Available: Serving the content of " + digest + ".",
		"PackagesSynced": "True Synced: 2 packages are published.",
		"Ready":          "True Succeeded: 2 packages are published.",
	}, conditions(c))
	wantEqual(t, "events", []string{"Normal Unpacked Serving " + ref + " at " + digest + ": 2 packages, 2 bundles."}, w.events())
	now := metav1.NewTime(start.Local())
	c.Status.Conditions = nil
	wantEqual(t, "status", v1beta1.CatalogSourceStatus{
		ObservedGeneration: 1,
		Image:              ref,
		Digest:             digest,
		URLs:               &v1beta1.CatalogSourceURLs{Base: "http://catalogd.example/catalogs/" + w.catalog},
		Content: &v1beta1.CatalogContent{
			Packages: 2, Channels: 2, Bundles: 2, Blobs: 6, Bytes: int64(
				len(pkg{name: "bar"}.json()) + len(pkg{name: "foo"}.json())), UnpackedAt: &now,
			Source: w.registry.byDigest(digest),
		},
		Poll: &v1beta1.PollStatus{LastChangeTime: &now},
	}, c.Status)
	if got, want := w.served(), (pkg{name: "bar"}).json()+(pkg{name: "foo"}).json(); got != want {
		t.Errorf("serves\n%s, want\n%s", got, want)
	}
}

// An unchanged digest costs one HEAD request and no write of any kind.
func TestReconcileUnchanged(t *testing.T) {
	w := newWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}, pkg{name: "bad", head: "absent"}))
	w.create(ref, nil)
	before := w.settle()
	files := fileTimes(t, w.dir)

	for _, test := range []struct {
		name    string
		after   time.Duration
		request []string
	}{
		{"not due", time.Minute, nil},
		{"due", time.Hour, []string{"HEAD manifests"}},
		{"due again", time.Hour, []string{"HEAD manifests"}},
	} {
		w.clock.SetTime(w.clock.Now().Add(test.after))
		w.reconcile()
		wantEqual(t, test.name+": requests to the registry", test.request, w.registry.take())
		wantEqual(t, test.name+": writes", nil, w.requests.take())
		wantEqual(t, test.name+": events", nil, w.events())
	}
	if got := w.source().ResourceVersion; got != before.ResourceVersion {
		t.Errorf("the resource version became %s, was %s", got, before.ResourceVersion)
	}
	wantEqual(t, "files and their times", files, fileTimes(t, w.dir))
}

// After a crash either the new content is committed and the status is old, or both are old.
func TestReconcileAfterCrash(t *testing.T) {
	statusOf := func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/status") }
	for _, test := range []struct {
		name           string
		committed      bool
		registryDown   bool
		restarted      bool
		wantNew        bool
		wantProgress   string
		changeOfStatus bool
	}{
		{name: "committed, registry up", committed: true, restarted: true, wantNew: true, wantProgress: "Succeeded", changeOfStatus: true},
		{
			name:           "committed, registry down",
			committed:      true,
			restarted:      true,
			registryDown:   true,
			wantNew:        true,
			wantProgress:   "Retrying",
			changeOfStatus: true,
		},
		{name: "committed, only the write failed", committed: true, wantNew: true, wantProgress: "Succeeded", changeOfStatus: true},
		{name: "not committed, registry up", restarted: true, wantNew: true, wantProgress: "Succeeded", changeOfStatus: true},
		{name: "not committed, registry down", restarted: true, registryDown: true, wantProgress: "Retrying"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			ref, first := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
			w.create(ref, nil)
			w.settle()
			_, second := w.registry.push("latest", catalogOf(pkg{name: "foo", version: "2.0.0"}))
			w.clock.SetTime(start.Add(time.Hour))
			if test.committed {
				heal := w.requests.failing(statusOf)
				if result, err := w.tryReconcile(); err == nil || result.RequeueAfter != 0 {
					t.Fatalf("got %+v, %v; want an error and no time of its own, as the status was not written", result, err)
				}
				heal()
				if w.servedDigest() != second || w.source().Status.Digest != first {
					t.Fatal("want the new content served and the old status")
				}
			}
			if test.restarted {
				w.restart()
			}
			if test.registryDown {
				w.registry.refuse(everything)
			}
			w.reconcile()

			want, version := first, "1.0.0"
			if test.wantNew {
				want, version = second, "2.0.0"
			}
			c := w.source()
			if w.servedDigest() != want || c.Status.Digest != want {
				t.Errorf("serves %s, status %s, want %s", w.servedDigest(), c.Status.Digest, want)
			}
			if got := w.getPackage("foo").Status.Summary.Version; got != version {
				t.Errorf("the OperatorPackage has version %s, want %s", got, version)
			}
			if got := meta.FindStatusCondition(c.Status.Conditions, "Progressing").Reason; got != test.wantProgress {
				t.Errorf("Progressing has reason %s, want %s", got, test.wantProgress)
			}
			changed := start
			if test.changeOfStatus {
				changed = start.Add(time.Hour)
			}
			if got := c.Status.Poll.LastChangeTime; !got.Time.Equal(changed) {
				t.Errorf("lastChangeTime is %v, want %v", got, changed)
			}
		})
	}
}

// A lost volume is filled again with the digest in the status, with or without a poll.
func TestReconcileLostVolume(t *testing.T) {
	for _, test := range []struct {
		name    string
		suspend bool
		refuse  func(*http.Request) bool
		want    []string
	}{
		{"polled", false, nil, []string{"HEAD manifests", "GET manifests", "GET blobs", "GET blobs"}},
		{"poll failed", false, heads, []string{"HEAD manifests", "GET manifests", "GET blobs", "GET blobs"}},
		{"suspended", true, nil, []string{"GET manifests", "GET blobs", "GET blobs"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			ref, digest := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
			w.create(ref, nil)
			w.settle()
			packages := w.packages()
			if test.suspend {
				w.change(func(c *v1beta1.CatalogSource) { c.Spec.Suspend = true })
				w.reconcile()
				w.registry.take()
			}
			w.dir = t.TempDir()
			w.restart()
			w.registry.refuse(test.refuse)
			w.reconcile()
			if w.servedDigest() != digest {
				t.Errorf("serves %q, want %s", w.servedDigest(), digest)
			}
			wantEqual(t, "requests to the registry", test.want, w.registry.take())
			wantEqual(t, "packages and their resource versions", packages, w.packages())
			if got := w.source().Status.Poll.LastChangeTime; !got.Time.Equal(start) {
				t.Errorf("lastChangeTime is %v, but nothing changed since %v", got, start)
			}
		})
	}
}

func TestReconcileDamagedSnapshot(t *testing.T) {
	w := newWorld(t)
	ref, digest := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	w.settle()
	want := w.served()
	since, _ := w.Store.Catalog(w.catalog)
	damage(t, w)
	damaged, err := w.Store.Scrub(t.Context())
	must.Succeed(t, err)
	wantEqual(t, "damaged catalogs", []string{w.catalog}, damaged)

	w.registry.refuse(everything)
	w.reconcile()
	if w.served() == "" {
		t.Fatal("damaged content is not served, although it has no replacement")
	}
	w.registry.refuse(nil)
	w.registry.take()
	w.clock.SetTime(start.Add(10 * time.Second)) // the backoff is over, the next poll is not due
	next := w.reconcile()
	if got := w.served(); got != want {
		t.Errorf("serves\n%s, want\n%s", got, want)
	}
	repaired, _ := w.Store.Catalog(w.catalog)
	if !repaired.Since.Equal(since.Since) || repaired.Snapshot.Info().Digest != digest {
		t.Errorf("is served since %v, want since %v: it is the same content", repaired.Since, since.Since)
	}
	if next < 14*time.Minute {
		t.Errorf("the next pass is in %v, want at the next poll", next)
	}
	wantCondition(t, w.source(), "Ready", "True Succeeded: 1 package is published.")
	if damaged, _ := w.Store.Scrub(t.Context()); damaged != nil {
		t.Errorf("still damaged: %v", damaged)
	}
}

func TestReconcileUnavailableAndBack(t *testing.T) {
	w := newWorld(t)
	ref, digest := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	w.settle()
	w.change(func(c *v1beta1.CatalogSource) { c.Spec.Availability = v1beta1.AvailabilityUnavailable })
	if next := w.reconcile(); next != 0 {
		t.Errorf("the next pass is in %v, want none", next)
	}
	if w.served() != "" || len(w.packages()) != 0 {
		t.Errorf("still there: packages %v, content %q", w.packages(), w.served())
	}
	w.requests.take()
	w.reconcile()
	wantEqual(t, "writes of a pass with nothing to do", nil, w.requests.take())

	w.change(func(c *v1beta1.CatalogSource) { c.Spec.Availability = v1beta1.AvailabilityAvailable })
	w.events()
	w.reconcile()
	c := w.source()
	wantCondition(t, c, "Ready", "True Succeeded: 1 package is published.")
	if w.servedDigest() != digest || len(w.packages()) != 1 {
		t.Errorf("serves %q, packages %v", w.servedDigest(), w.packages())
	}
	wantEqual(t, "events", []string{"Normal Unpacked Serving " + ref + " at " + digest + ": 1 package, 1 bundle."}, w.events())
}

// An invalid new image does not stop the old content from being served.
func TestReconcileBrokenImage(t *testing.T) {
	w := newWorld(t)
	good, digest := w.registry.push("good", catalogOf(pkg{name: "foo"}))
	bad, _ := w.registry.push("bad", brokenCatalog())
	w.create(good, nil)
	w.settle()
	packages, content := w.packages(), w.served()

	w.change(func(c *v1beta1.CatalogSource) { c.Spec.Image = bad })
	for range 3 { // what a later pass finds is the same
		w.reconcile()
		c := w.source()
		if progressing := meta.FindStatusCondition(c.Status.Conditions, "Progressing"); progressing.Reason != "Blocked" ||
			!strings.Contains(progressing.Message, "foo/catalog.json") {
			t.Errorf("Progressing is %v, want Blocked with the file", conditions(c)["Progressing"])
		}
		if c.Status.Digest != digest || c.Status.Image != good {
			t.Errorf("status names %s at %s, want %s at %s", c.Status.Image, c.Status.Digest, good, digest)
		}
		wantCondition(t, c, "Serving", "True Available: Serving the content of "+digest+".")
		wantCondition(t, c, "PackagesSynced", "True Synced: 1 package is published.")
	}
	if w.served() != content {
		t.Error("the content changed")
	}
	wantEqual(t, "packages", packages, w.packages())
}

// A process that is stopped during a pass reports no fault.
func TestReconcileToldToStop(t *testing.T) {
	for name, match := range map[string]func(*http.Request) bool{"polling": heads, "unpacking": blobs} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
			w.create(ref, nil)
			w.reconcile()
			status := w.source().Status
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			w.registry.refuse(func(r *http.Request) bool {
				if match(r) {
					stop()
				}
				return match(r)
			})
			if _, err := w.Reconcile(ctx, w.request()); !errors.Is(err, context.Canceled) {
				t.Errorf("got error %v, want that of the context", err)
			}
			wantEqual(t, "events", nil, w.events())
			wantEqual(t, "status", status, w.source().Status)
			if entry := w.Polls.Get(w.catalog); entry.Failures != 0 {
				t.Errorf("it counts as a failure: %+v", entry)
			}
		})
	}
}
