package sync

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiversion "k8s.io/apimachinery/pkg/version"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
)

// besides returns another catalog of an image, announced but not polled yet.
func (w *world) besides(ref string) *world {
	w.t.Helper()
	other := w.another()
	other.create(ref, nil)
	other.reconcile()
	return other
}

// A registry that fails for other catalogs postpones a poll, but not for long.
func TestPostpone(t *testing.T) {
	w := newWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	w.settle()
	broken := w.besides(w.registry.host + "/broken:latest")
	w.registry.failRepository("broken")
	due := w.Polls.Get(w.catalog).Next
	for now := start; now.Before(due.Add(maxPostponed)); now = now.Add(time.Minute) {
		w.clock.SetTime(now)
		broken.requestPoll(now.String())
		broken.reconcile()
		if now.Before(due) {
			continue
		}
		w.registry.take()
		if next := w.reconcile(); next < time.Second || next > due.Add(maxPostponed).Sub(now) {
			t.Fatalf("%v after it was due the poll is put off for another %v", now.Sub(due), next)
		}
		wantEqual(t, "requests while the registry fails others", nil, w.registry.take())
		wantCondition(t, w.source(), "Ready", "True Succeeded: 1 package is published.")
	}
	w.clock.SetTime(due.Add(maxPostponed))
	w.reconcile()
	wantEqual(t, "requests when it was put off long enough", []string{"HEAD manifests"}, w.registry.take())

	w.clock.SetTime(due.Add(2 * maxPostponed))
	broken.requestPoll("last")
	broken.reconcile()
	w.registry.take()
	w.requestPoll("now") // a person is not made to wait
	w.reconcile()
	wantEqual(t, "requests when asked for", []string{"HEAD manifests"}, w.registry.take())
}

// After a change of the image or the access, the status reports that the registry refuses requests.
func TestPostponeReportsChange(t *testing.T) {
	w := newWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	w.settle()
	other := w.besides(ref)
	w.registry.limit("7200")
	other.reconcile()
	w.registry.take()
	w.change(func(c *v1beta1.CatalogSource) { c.Spec.Image = strings.Replace(ref, "latest", "v2", 1) })
	next := w.reconcile()
	wantEqual(t, "requests", nil, w.registry.take())
	if got := conditions(w.source())["Ready"]; !strings.HasPrefix(got,
		"False RateLimited: Finding the digest of "+w.registry.host+"/catalog:v2: ") {
		t.Errorf("Ready is %s", got)
	}
	if next < 2*time.Hour {
		t.Errorf("the next pass is in %v", next)
	}
}

// A registry that fails for others does not postpone the poll after a changed template.
func TestPostponeNotOnChange(t *testing.T) {
	w := newWorld(t)
	version := "v1.36.0"
	w.Config.ServerVersion = func(context.Context) (*apiversion.Info, error) { return &apiversion.Info{GitVersion: version}, nil }
	ref, _ := w.registry.push("v1.36", catalogOf(pkg{name: "foo"}))
	_, next := w.registry.push("v1.37", catalogOf(pkg{name: "foo", version: "2.0.0"}))
	w.create("", func(c *v1beta1.CatalogSource) {
		c.Spec.ImageTemplate = strings.Replace(ref, ":v1.36", templateTag, 1)
		c.Spec.PollingInterval = &metav1.Duration{Duration: 24 * time.Hour}
	})
	w.settle()
	broken := w.besides(w.registry.host + "/broken:latest")
	version = "v1.37.0"
	w.clock.SetTime(start.Add(versionAge))
	w.registry.failRepository("broken")
	broken.reconcile()
	w.reconcile()
	if w.servedDigest() != next {
		t.Errorf("serves %s, want %s", w.servedDigest(), next)
	}
}

// A short Retry-After does not shorten the backoff.
func TestRetryAfterKeepsBackoff(t *testing.T) {
	w := newWorld(t)
	w.registry.limit("1")
	w.create(w.registry.host+"/catalog:latest", nil)
	w.reconcile()
	wait := time.Duration(0)
	for range 10 {
		wait = w.reconcile()
		w.clock.SetTime(w.clock.Now().Add(wait))
	}
	if wait < 3*time.Minute {
		t.Errorf("after 10 failures the pause is %v", wait)
	}
}

// After a start all catalogs are due and take turns; a requested poll is made at once.
func TestFirstPollsTakeTurns(t *testing.T) {
	w := newWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	worlds := []*world{w, w.another(), w.another(), w.another(), w.another()}
	for _, one := range worlds {
		one.create(ref, nil)
		one.settle()
	}
	w.restart()
	for i, one := range worlds {
		one.controller = w.controller
		for range 2 { // whatever else it comes for
			one.requests.take()
			if next, turn := one.reconcile(), time.Duration(i)*time.Second; i > 0 && next != turn {
				t.Errorf("catalog %d is polled in %v, want %v", i, next, turn)
			}
			wantEqual(t, "writes", nil, one.requests.take())
		}
	}
	wantEqual(t, "requests to the registry at the start", []string{"HEAD manifests"}, w.registry.take())
	last := worlds[len(worlds)-1]
	last.requestPoll("now")
	last.reconcile()
	wantEqual(t, "requests when asked for", []string{"HEAD manifests"}, w.registry.take())
	w.clock.SetTime(start.Add(time.Second))
	for _, one := range worlds {
		one.reconcile()
	}
	wantEqual(t, "requests a second later", []string{"HEAD manifests"}, w.registry.take())
	w.clock.SetTime(start.Add(time.Minute))
	for _, one := range worlds {
		one.reconcile()
	}
	wantEqual(t, "requests when all had their turns", []string{"HEAD manifests", "HEAD manifests"}, w.registry.take())
}
