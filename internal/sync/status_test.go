package sync

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/store"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// TestConclude looks at the conditions after every kind of outcome, of a catalog that was Ready and of a new one.
func TestConclude(t *testing.T) {
	const image, otherDigest = "registry.example/catalog:latest", "registry.example/catalog@sha256:" + "0000000000000000000000000000000000000000000000000000000000000000"
	transient, blocked := errors.New("polling x: timed out"), &blockedError{errors.New("spec.image is wrong")}
	unserved := map[string]string{
		"Serving":        "False Unavailable: Nothing is unpacked yet.",
		"PackagesSynced": "False Unavailable: Nothing is unpacked yet.",
	}
	served := map[string]string{
		"Progressing":    "True Succeeded: " + image + " is unpacked and current.",
		"Serving":        "True Available: Serving the content of DIGEST.",
		"PackagesSynced": "True Synced: 1 package is published.",
		"Ready":          "True Succeeded: 1 package is published.",
	}
	for _, test := range []struct {
		name   string
		served bool
		none   bool // whether nothing is published
		spec   v1beta1.CatalogSourceSpec
		rec    reconciliation
		want   map[string]string // what differs from served or unserved
	}{
		{name: "nothing attempted", served: true},
		{name: "attempted and current", served: true, rec: reconciliation{attempted: true, current: true}},
		{name: "transient failure, served", served: true, rec: reconciliation{attempted: true, fetchErr: transient}, want: map[string]string{
			"Progressing": "True Retrying: Polling x: timed out. What was served before stays served.",
			"Ready":       "False Retrying: Polling x: timed out. What was served before stays served.",
		}},
		{name: "blocked, served", served: true, rec: reconciliation{attempted: true, fetchErr: blocked}, want: map[string]string{
			"Progressing": "False Blocked: Spec.image is wrong. What was served before stays served.",
			"Ready":       "False Blocked: Spec.image is wrong. What was served before stays served.",
		}},
		{name: "suspended, served", served: true, spec: v1beta1.CatalogSourceSpec{Suspend: true}, want: map[string]string{
			"Progressing": "False Suspended: Not polled, as spec.suspend is true; what is served stays served.",
			"Ready":       "True Suspended: 1 package is published. Not polled, as spec.suspend is true.",
		}},
		{name: "suspended, failing", served: true, spec: v1beta1.CatalogSourceSpec{Suspend: true}, rec: reconciliation{fetchErr: transient}, want: map[string]string{
			"Progressing": "True Retrying: Polling x: timed out. What was served before stays served.",
			"Ready":       "False Retrying: Polling x: timed out. What was served before stays served.",
		}},
		{name: "packages fail", served: true, rec: reconciliation{syncErr: errors.New("writing: refused")}, want: map[string]string{
			"PackagesSynced": "False SyncFailed: Writing: refused.",
			"Ready":          "False SyncFailed: Writing: refused.",
		}},
		{name: "image and packages fail", served: true, rec: reconciliation{fetchErr: transient, syncErr: errors.New("writing: refused")}, want: map[string]string{
			"Progressing":    "True Retrying: Polling x: timed out. What was served before stays served.",
			"PackagesSynced": "False SyncFailed: Writing: refused.",
			"Ready":          "False Retrying: Polling x: timed out. What was served before stays served.",
		}},
		{
			name: "invalid packages", served: true,
			rec: reconciliation{invalid: []store.InvalidPackage{{Name: "a", Reason: "b"}, {Name: "c", Reason: "d"}}},
			want: map[string]string{
				"PackagesSynced": "True InvalidPackages: 1 package is published, 2 are left out: \"a\" (b) and others. See status.content.invalidPackages.",
				"Ready":          "True Succeeded: 1 package is published, 2 are left out: \"a\" (b) and others. See status.content.invalidPackages.",
			},
		},
		{
			name: "nothing but invalid packages", served: true, none: true,
			rec: reconciliation{invalid: []store.InvalidPackage{{Name: "a", Reason: "b"}}},
			want: map[string]string{
				"PackagesSynced": "True InvalidPackages: 0 packages are published, 1 is left out: \"a\" (b). See status.content.invalidPackages.",
				"Ready":          "False InvalidPackages: 0 packages are published, 1 is left out: \"a\" (b). See status.content.invalidPackages.",
			},
		},
		{name: "digest reference, current", served: true, spec: v1beta1.CatalogSourceSpec{Image: otherDigest}, rec: reconciliation{current: true}, want: map[string]string{
			"Progressing": "True Succeeded: " + otherDigest + " is unpacked and current.",
		}},
		{name: "new, transient failure", rec: reconciliation{attempted: true, fetchErr: transient}, want: map[string]string{
			"Progressing": "True Retrying: Polling x: timed out.",
			"Ready":       "False Retrying: Polling x: timed out.",
		}},
		{name: "new, blocked", rec: reconciliation{attempted: true, fetchErr: blocked}, want: map[string]string{
			"Progressing": "False Blocked: Spec.image is wrong.",
			"Ready":       "False Blocked: Spec.image is wrong.",
		}},
		{name: "new, suspended", spec: v1beta1.CatalogSourceSpec{Suspend: true}, want: map[string]string{
			"Progressing": "False Suspended: Not polled, as spec.suspend is true; what is served stays served.",
			"Ready":       "False Unavailable: Nothing is unpacked yet.",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			_, digest := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
			spec, want := test.spec, map[string]string{}
			if spec.Image == "" {
				spec.Image = image
			}
			c := &v1beta1.CatalogSource{Spec: v1beta1.CatalogSourceSpec{Image: image}}
			c.Name, c.Generation = w.catalog, 3
			base := unserved
			if test.served {
				base = served
				first := &reconciliation{catalog: c, before: c.DeepCopy(), wanted: w.digest(digest)}
				w.prepare(first)
				must.Succeed(t, w.unpack(t.Context(), first))
				first.published = 1
				must.Succeed(t, w.conclude(t.Context(), first))
			} else {
				_ = w.announce(t.Context(), &reconciliation{catalog: c, image: image})
			}
			for k, v := range base {
				want[k] = strings.ReplaceAll(v, "DIGEST", digest)
			}
			for k, v := range test.want {
				want[k] = v
			}
			rec := test.rec
			rec.catalog, rec.before = c, c.DeepCopy()
			c.Spec = spec
			rec.image = spec.Image
			if test.served && !test.none {
				rec.published = 1
			}
			must.Succeed(t, w.conclude(t.Context(), &rec))
			wantEqual(t, "conditions", want, conditions(c))
			if c.Status.ObservedGeneration != 3 {
				t.Errorf("observedGeneration is %d, want 3", c.Status.ObservedGeneration)
			}
			if (c.Status.URLs != nil) != test.served || (c.Status.Content != nil) != test.served {
				t.Errorf("urls %v and content %v, served: %t", c.Status.URLs, c.Status.Content, test.served)
			}
		})
	}
}

// Whoever asked for something else finds what is served in the status, not what he asked for.
func TestConcludeImage(t *testing.T) {
	w := newWorld(t)
	ref, first := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	_, second := w.registry.push("next", catalogOf(pkg{name: "foo", version: "2.0.0"}))
	w.create(ref, nil)
	w.settle()
	w.registry.refuse(blobs)
	w.change(func(c *v1beta1.CatalogSource) { c.Spec.Image = w.registry.byDigest(second) })
	for range 2 { // the second pass comes before the backoff is over
		w.reconcile()
		if s := w.source().Status; s.Image != ref || s.Digest != first {
			t.Errorf("status names %s at %s, want %s at %s", s.Image, s.Digest, ref, first)
		}
	}
	w.registry.refuse(nil)
	w.clock.SetTime(start.Add(time.Minute))
	w.reconcile()
	if s := w.source().Status; s.Image != w.registry.byDigest(second) || s.Digest != second {
		t.Errorf("status names %s at %s, want %s", s.Image, s.Digest, w.registry.byDigest(second))
	}
}

// Messages do not grow with what catalogs say, and stay text.
func TestConcludeLongMessage(t *testing.T) {
	w := newWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	w.settle()
	rec := w.begin()
	rec.attempted, rec.fetchErr = true, errors.New(strings.Repeat("ä", 100_000)+"\nmore")
	for i := range 3000 {
		rec.invalid = append(rec.invalid, store.InvalidPackage{Name: fmt.Sprint(strings.Repeat("ö", 500), i), Reason: "x"})
	}
	must.Succeed(t, w.conclude(t.Context(), rec))
	must.Succeed(t, w.writeStatus(t.Context(), rec))
	if c := w.source(); c.Status.Content.InvalidPackageCount != 3000 || len(c.Status.Content.InvalidPackages) != maxInvalidPackages {
		t.Errorf("counts %d invalid packages and lists %d", c.Status.Content.InvalidPackageCount, len(c.Status.Content.InvalidPackages))
	}
}

func TestWriteStatus(t *testing.T) {
	w := newWorld(t)
	w.create("registry.example/catalog", nil)
	rec := w.begin()
	must.Succeed(t, w.writeStatus(t.Context(), rec))
	wantEqual(t, "writes of nothing", nil, w.requests.take())

	// The labels that somebody set since, and the finalizer that we did, are not the status' business. But that it was not the status has
	// to be found out.
	w.change(func(c *v1beta1.CatalogSource) { c.Labels = map[string]string{"a": "b"} })
	rec.catalog.Status.Digest = "sha256:12"
	must.Succeed(t, w.writeStatus(t.Context(), rec))
	wantEqual(t, "writes", slices.Repeat([]string{"PATCH catalogsources/" + w.catalog + "/status"}, 2), w.requests.take())
	if c := w.source(); c.Labels["a"] != "b" || c.Status.Digest != "sha256:12" {
		t.Errorf("labels %v, digest %q", c.Labels, c.Status.Digest)
	}

	must.Succeed(t, w.api.Delete(t.Context(), w.source()))
	rec = &reconciliation{catalog: rec.catalog, before: rec.catalog.DeepCopy()}
	rec.catalog.Status.Digest = "sha256:34"
	must.Succeed(t, w.writeStatus(t.Context(), rec)) // there is nobody left to be told
}

func TestPlanNext(t *testing.T) {
	const digestRef = "registry.example/catalog@sha256:0000000000000000000000000000000000000000000000000000000000000000"
	hourly := &metav1.Duration{Duration: time.Hour}
	failed := errors.New("down")
	for _, test := range []struct {
		name        string
		spec        v1beta1.CatalogSourceSpec
		rec         reconciliation
		least, most time.Duration // from now; both zero: never
	}{
		{name: "default interval", rec: reconciliation{polledAt: start}, least: 15 * time.Minute, most: 16*time.Minute + 30*time.Second},
		{name: "interval", spec: v1beta1.CatalogSourceSpec{PollingInterval: hourly}, rec: reconciliation{polledAt: start}, least: time.Hour, most: 66 * time.Minute},
		{
			name: "interval counts from the poll, not from the end of the unpacking",
			spec: v1beta1.CatalogSourceSpec{PollingInterval: hourly}, rec: reconciliation{polledAt: start.Add(-30 * time.Minute)},
			least: 30 * time.Minute, most: 36 * time.Minute,
		},
		{name: "schedule", spec: v1beta1.CatalogSourceSpec{PollingSchedule: "0 18 * * *"}, rec: reconciliation{polledAt: start}, least: 6 * time.Hour, most: 6*time.Hour + 10*time.Minute},
		{
			name: "schedule in a zone", spec: v1beta1.CatalogSourceSpec{PollingSchedule: "CRON_TZ=Europe/Prague 0 18 * * *"},
			rec: reconciliation{polledAt: start}, least: 5 * time.Hour, most: 5*time.Hour + 10*time.Minute,
		},
		{name: "digest reference", spec: v1beta1.CatalogSourceSpec{Image: digestRef}, rec: reconciliation{attempted: true}},
		{name: "suspended", spec: v1beta1.CatalogSourceSpec{Suspend: true}},
		{name: "bad schedule", spec: v1beta1.CatalogSourceSpec{PollingSchedule: "61 * * * *"}, rec: reconciliation{attempted: true, fetchErr: &blockedError{failed}}},
		{name: "bad reference", spec: v1beta1.CatalogSourceSpec{Image: "registry.example/UPPER"}, rec: reconciliation{attempted: true, fetchErr: &blockedError{failed}}},
		{
			name: "refused image", rec: reconciliation{attempted: true, polledAt: start, fetchErr: &blockedError{failed}},
			least: 15 * time.Minute, most: 16*time.Minute + 30*time.Second,
		},
		{name: "failure", rec: reconciliation{attempted: true, polledAt: start, fetchErr: failed}, least: 1600 * time.Millisecond, most: 2400 * time.Millisecond},
		{
			name: "failure of a digest reference", spec: v1beta1.CatalogSourceSpec{Image: digestRef},
			rec: reconciliation{attempted: true, fetchErr: failed}, least: 1600 * time.Millisecond, most: 2400 * time.Millisecond,
		},
		{
			name: "failure while suspended", spec: v1beta1.CatalogSourceSpec{Suspend: true},
			rec: reconciliation{attempted: true, fetchErr: failed}, least: 1600 * time.Millisecond, most: 2400 * time.Millisecond,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			rec := test.rec
			rec.catalog = &v1beta1.CatalogSource{Spec: test.spec}
			rec.catalog.Name = w.catalog
			if rec.catalog.Spec.Image == "" {
				rec.catalog.Spec.Image = "registry.example/catalog:latest"
			}
			w.prepare(&rec)
			w.planNext(&rec)
			if !w.Polls.Get(w.catalog).Next.Equal(rec.next) {
				t.Errorf("the poll log says %v, the pass %v", w.Polls.Get(w.catalog).Next, rec.next)
			}
			if test.most == 0 {
				if !rec.next.IsZero() || w.result(&rec).RequeueAfter != 0 {
					t.Errorf("comes again at %v, want never", rec.next)
				}
				return
			}
			if wait := w.result(&rec).RequeueAfter; wait < test.least || wait > test.most {
				t.Errorf("comes again in %v, want %v to %v", wait, test.least, test.most)
			}
		})
	}
}

// A catalog that nobody can follow is not tried over and over: a fault that stays has no timer.
func TestReconcileBlockedRests(t *testing.T) {
	for name, change := range map[string]func(*v1beta1.CatalogSource){
		"bad reference":         func(c *v1beta1.CatalogSource) { c.Spec.Image = "registry.example/UPPER" },
		"bad digest":            func(c *v1beta1.CatalogSource) { c.Spec.Image = "registry.example/catalog@sha256:12" },
		"bad schedule":          func(c *v1beta1.CatalogSource) { c.Spec.PollingSchedule = "61 * * * *" },
		"schedule never occurs": func(c *v1beta1.CatalogSource) { c.Spec.PollingSchedule = "0 0 31 2 *" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
			w.create(ref, change)
			w.reconcile()
			if next := w.reconcile(); next != 0 {
				t.Errorf("comes again in %v, want never", next)
			}
			w.requests.take()
			if next := w.reconcile(); next != 0 {
				t.Errorf("comes again in %v, want never", next)
			}
			wantEqual(t, "writes", nil, w.requests.take())
		})
	}
}

// The backoff grows with every failure in a row, of polls and of unpackings after polls that worked, and ends with the
// first success.
func TestPlanNextBackoffGrows(t *testing.T) {
	w := newWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	w.settle()
	w.registry.push("latest", catalogOf(pkg{name: "foo", version: "2.0.0"}))
	w.clock.SetTime(start.Add(time.Hour))
	wait, least := time.Duration(0), 1600*time.Millisecond
	for i := range 6 {
		w.registry.refuse(blobs)
		if i%2 == 1 {
			w.registry.refuse(heads)
		}
		wait = w.reconcile()
		if most := least * 3 / 2; wait < least || wait > most {
			t.Errorf("after %d failures the pause is %v, want %v to %v", i+1, wait, least, most)
		}
		if asked := w.registry.take(); len(asked) == 0 {
			t.Errorf("attempt %d was not made", i+1)
		}
		least *= 2
		w.clock.SetTime(w.clock.Now().Add(wait))
	}
	w.registry.refuse(nil)
	if next := w.reconcile(); next < 15*time.Minute {
		t.Errorf("after a success the next pass is in %v", next)
	}
	w.registry.refuse(everything)
	w.requestPoll("now")
	if wait := w.reconcile(); wait > 2400*time.Millisecond {
		t.Errorf("the first failure after a success waits %v", wait)
	}
}

// What was unpacked without a poll leaves the time of the next poll as it was.
func TestPlanNextKeepsSchedule(t *testing.T) {
	w := newWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	w.settle()
	before := w.Polls.Get(w.catalog)
	damage(t, w)
	_, err := w.Store.Scrub(t.Context())
	must.Succeed(t, err)
	w.clock.SetTime(start.Add(time.Minute))
	w.reconcile()
	wantEqual(t, "requests to the registry", []string{"GET manifests", "GET blobs", "GET blobs"}, w.registry.take())
	wantEqual(t, "polls", before, w.Polls.Get(w.catalog))
}
