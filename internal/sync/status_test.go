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
	"github.com/operator-catalogs/catalogd/internal/poll"
	"github.com/operator-catalogs/catalogd/internal/source"
	"github.com/operator-catalogs/catalogd/internal/sync/fault"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// The status names the served image, not the requested one.
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

// Text from catalogs is truncated in messages, at a character.
func TestConcludeLongMessage(t *testing.T) {
	w := newWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	w.settle()
	rec := w.begin()
	rec.f.content.fault = errors.New(strings.Repeat("ä", 100_000) + "\nmore")
	for i := range 3000 {
		rec.f.packages.Invalid = append(rec.f.packages.Invalid, source.InvalidPackage{
			Name: fmt.Sprint(strings.Repeat("ö", 500), i), Reason: "x",
		})
	}
	out, _ := rec.conclude()
	_, err := w.writeStatus(t.Context(), rec.object, out.status)
	must.Succeed(t, err)
	if c := w.source(); c.Status.Content.InvalidPackageCount != 3000 || len(c.Status.Content.InvalidPackages) != 20 {
		t.Errorf("counts %d invalid packages and lists %d", c.Status.Content.InvalidPackageCount, len(c.Status.Content.InvalidPackages))
	}
}

func TestWriteStatus(t *testing.T) {
	w := newWorld(t)
	w.create("registry.example/catalog", nil)
	rec := w.begin()
	_, err := w.writeStatus(t.Context(), rec.object, nil)
	must.Succeed(t, err)
	wantEqual(t, "writes of nothing", nil, w.requests.take())

	// The labels that somebody set since, and the finalizer that we did, are not the status' business. But that it was not the status has
	// to be found out.
	w.change(func(c *v1beta1.CatalogSource) { c.Labels = map[string]string{"a": "b"} })
	must.Succeed(t, rec.writeDigest("sha256:12"))
	wantEqual(t, "writes", slices.Repeat([]string{"PATCH catalogsources/" + w.catalog + "/status"}, 2), w.requests.take())
	if c := w.source(); c.Labels["a"] != "b" || c.Status.Digest != "sha256:12" {
		t.Errorf("labels %v, digest %q", c.Labels, c.Status.Digest)
	}

	must.Succeed(t, w.api.Delete(t.Context(), w.source()))
	must.Succeed(t, rec.writeDigest("sha256:34")) // nobody is left to be told
}

func TestPlanNext(t *testing.T) {
	const digestRef = "registry.example/catalog@sha256:0000000000000000000000000000000000000000000000000000000000000000"
	hourly := &metav1.Duration{Duration: time.Hour}
	failed := errors.New("down")
	for _, test := range []struct {
		name        string
		spec        v1beta1.CatalogSourceSpec
		f           findings
		least, most time.Duration // from now; both zero: never
	}{
		{name: "default interval", f: findings{poll: polled{at: start}}, least: 15 * time.Minute, most: 16*time.Minute + 30*time.Second},
		{
			name:  "interval",
			spec:  v1beta1.CatalogSourceSpec{PollingInterval: hourly},
			f:     findings{poll: polled{at: start}},
			least: time.Hour,
			most:  66 * time.Minute,
		},
		{
			name: "interval counts from the poll, not from the end of the unpacking",
			spec: v1beta1.CatalogSourceSpec{PollingInterval: hourly}, f: findings{poll: polled{at: start.Add(-30 * time.Minute)}},
			least: 30 * time.Minute, most: 36 * time.Minute,
		},
		{
			name:  "schedule",
			spec:  v1beta1.CatalogSourceSpec{PollingSchedule: "0 18 * * *"},
			f:     findings{poll: polled{at: start}},
			least: 6 * time.Hour,
			most:  6*time.Hour + 10*time.Minute,
		},
		{
			name: "schedule in a zone", spec: v1beta1.CatalogSourceSpec{PollingSchedule: "CRON_TZ=Europe/Prague 0 18 * * *"},
			f: findings{poll: polled{at: start}}, least: 5 * time.Hour, most: 5*time.Hour + 10*time.Minute,
		},
		{name: "digest reference", spec: v1beta1.CatalogSourceSpec{Image: digestRef}, f: findings{poll: polled{attempted: true}}},
		{name: "suspended", spec: v1beta1.CatalogSourceSpec{Suspend: true}},
		{
			name: "bad schedule",
			spec: v1beta1.CatalogSourceSpec{PollingSchedule: "61 * * * *"},
			f:    findings{poll: polled{attempted: true, fault: fault.Block(failed)}},
		},
		{
			name: "bad reference",
			spec: v1beta1.CatalogSourceSpec{Image: "registry.example/UPPER"},
			f:    findings{poll: polled{attempted: true, fault: fault.Block(failed)}},
		},
		{
			name: "refused image", f: findings{poll: polled{attempted: true, at: start, fault: fault.Block(failed)}},
			least: 15 * time.Minute, most: 16*time.Minute + 30*time.Second,
		},
		{
			name:  "failure",
			f:     findings{poll: polled{attempted: true, at: start, fault: failed}},
			least: 1600 * time.Millisecond,
			most:  2400 * time.Millisecond,
		},
		{
			name: "failure of a digest reference", spec: v1beta1.CatalogSourceSpec{Image: digestRef},
			f: findings{poll: polled{attempted: true, fault: failed}}, least: 1600 * time.Millisecond, most: 2400 * time.Millisecond,
		},
		{
			name: "failure while suspended", spec: v1beta1.CatalogSourceSpec{Suspend: true},
			f: findings{poll: polled{attempted: true, fault: failed}}, least: 1600 * time.Millisecond, most: 2400 * time.Millisecond,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			c := &v1beta1.CatalogSource{Spec: test.spec}
			c.Name = w.catalog
			if c.Spec.Image == "" {
				c.Spec.Image = "registry.example/catalog:latest"
			}
			tr := w.prepare(c)
			tr.f.poll = test.f.poll
			next := w.planNext(tr.src, tr.f)
			if !w.Polls.Get(w.catalog).Next.Equal(next) {
				t.Errorf("the poll log says %v, the pass %v", w.Polls.Get(w.catalog).Next, next)
			}
			if test.most == 0 {
				if !next.IsZero() {
					t.Errorf("comes again at %v, want never", next)
				}
				return
			}
			if wait := next.Sub(w.clock.Now()); wait < test.least || wait > test.most {
				t.Errorf("comes again in %v, want %v to %v", wait, test.least, test.most)
			}
		})
	}
}

// A blocked catalog is not retried.
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

// The backoff grows with each failed poll or unpack in a row and ends with the first success.
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

// Unpacking without a poll does not change the time of the next poll.
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

func TestTimingNext(t *testing.T) {
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	failed := errors.New("down")
	planned := poll.Entry{Next: at(5), Due: at(5)}
	for _, test := range []struct {
		name   string
		timing timing
		from   time.Time
		window time.Duration
		isTurn bool
	}{
		{"the schedule decides", timing{attempted: true, due: at(15), window: time.Minute}, at(15), time.Minute, false},
		{"no schedule", timing{attempted: true}, time.Time{}, 0, false},
		{"a failure is retried", timing{attempted: true, fault: failed, retryAt: at(2), due: at(15)}, at(2), time.Minute, false},
		{"a fault that stays is not", timing{attempted: true, fault: fault.Block(failed), retryAt: at(2), due: at(15)}, at(15), 0, false},
		{"a postponed poll has its turn", timing{postponed: at(3), due: at(15)}, at(3), 0, true},
		{"a failure comes before that", timing{fault: failed, retryAt: at(2), postponed: at(3)}, at(2), time.Minute, false},
		{"an earlier pass postponed it", timing{entry: poll.Entry{Next: at(5), Due: at(1)}, due: at(15)}, at(5), 0, true},
		{"an attempt ends that", timing{entry: poll.Entry{Next: at(5), Due: at(1)}, attempted: true, due: at(15)}, at(15), 0, false},
		{"it was only planned", timing{entry: planned, due: at(15)}, at(15), 0, false},
		{"a backoff lasts", timing{entry: poll.Entry{Next: at(5), Due: at(5), Err: failed}, due: at(15)}, at(5), 0, true},
		{"a backoff is over", timing{entry: poll.Entry{Next: at(-1), Due: at(-1), Err: failed}, due: at(15)}, at(15), 0, false},
	} {
		test.timing.now = start
		from, window, isTurn := test.timing.next()
		if !from.Equal(test.from) || window != test.window || isTurn != test.isTurn {
			t.Errorf("%s: got %v, %v, %t; want %v, %v, %t", test.name, from, window, isTurn, test.from, test.window, test.isTurn)
		}
	}
}
