package sync

import (
	"context"
	"net/http"
	stdsync "sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/source"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// waitProgress advances the clock until the API server has the wanted progress.
func (w *world) waitProgress(what string, wanted func(*v1beta1.CatalogProgress) bool) *v1beta1.CatalogProgress {
	w.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		w.clock.SetTime(w.clock.Now().Add(progressEvery))
		if got := w.source().Status.Progress; got != nil && wanted(got) {
			return got
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("waited a minute in vain: %s; there is %+v", what, w.source().Status.Progress)
		}
		time.Sleep(progressCheck / 4)
	}
}

func inPhase(phase v1beta1.ProgressPhase) func(*v1beta1.CatalogProgress) bool {
	return func(p *v1beta1.CatalogProgress) bool { return p.Phase == phase }
}

// hold delays the responses to matching requests until release is called.
func (r *imageRegistry) hold(t *testing.T, match func(*http.Request) bool) (release func()) {
	t.Helper()
	held := make(chan struct{})
	release = stdsync.OnceFunc(func() { close(held) })
	t.Cleanup(release)
	r.respond(func(_ http.ResponseWriter, req *http.Request) bool {
		if match(req) {
			select {
			case <-held:
			case <-req.Context().Done():
			}
		}
		return false
	})
	return release
}

// A slow pass reports its progress and removes it at the end.
func TestProgress(t *testing.T) {
	for _, test := range []struct {
		phase v1beta1.ProgressPhase
		match func(*http.Request) bool
	}{
		{v1beta1.ProgressResolving, heads},
		{v1beta1.ProgressDownloading, blobs},
	} {
		t.Run(string(test.phase), func(t *testing.T) {
			w := newWorld(t)
			ref, digest := w.registry.push("latest", catalogOf(pkg{name: "foo"}, pkg{name: "bar"}))
			w.create(ref, nil)
			w.reconcile() // announces
			release := w.registry.hold(t, test.match)
			ended := make(chan error, 1)
			go func() { _, err := w.tryReconcile(); ended <- err }()
			got := w.waitProgress("the phase", inPhase(test.phase))
			if got.Packages != 0 || got.TotalPackages != 0 || got.Bytes > got.TotalBytes {
				t.Errorf("got %+v", got)
			}
			release()
			must.Succeed(t, <-ended)
			c := w.source()
			if c.Status.Progress != nil || c.Status.Digest != digest {
				t.Errorf("at the end of the pass: digest %s, progress %+v", c.Status.Digest, c.Status.Progress)
			}
			wantCondition(t, c, "Ready", "True Succeeded: 2 packages are published.")
		})
	}
}

// Progress is written once a second at most, and not in the first second.
func TestProgressThrottle(t *testing.T) {
	w := newWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	w.settle()
	rec := w.begin()
	p := w.newProgressReporter(rec.object)
	phase := source.Downloading
	p.phase.Store(&phase)
	p.Total(7)
	for _, step := range []struct {
		name   string
		after  time.Duration
		change func()
		writes int
		want   *v1beta1.CatalogProgress
	}{
		{"in the first second", 999 * time.Millisecond, nil, 0, nil},
		{"after it", time.Millisecond, nil, 1, &v1beta1.CatalogProgress{Phase: v1beta1.ProgressDownloading}},
		{"no news", time.Hour, nil, 0, &v1beta1.CatalogProgress{Phase: v1beta1.ProgressDownloading}},
		{
			"news",
			0,
			func() { phase = source.Publishing; p.phase.Store(&phase) },
			1,
			&v1beta1.CatalogProgress{Phase: v1beta1.ProgressPublishing, TotalPackages: 7},
		},
		{"news too soon", 999 * time.Millisecond, p.Published, 0, &v1beta1.CatalogProgress{Phase: v1beta1.ProgressPublishing, TotalPackages: 7}},
		{
			"the same, a second after the last",
			time.Millisecond,
			nil,
			1,
			&v1beta1.CatalogProgress{Phase: v1beta1.ProgressPublishing, Packages: 1, TotalPackages: 7},
		},
	} {
		w.clock.SetTime(w.clock.Now().Add(step.after))
		if step.change != nil {
			step.change()
		}
		w.requests.take()
		p.report(t.Context())
		if got := w.requests.take(); len(got) != step.writes {
			t.Errorf("%s: requests %q, want %d", step.name, got, step.writes)
		}
		if diff := cmp.Diff(step.want, w.source().Status.Progress); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}

// Indexing and publishing are phases of the pass that pulled. Publishing counts unchanged packages, and is skipped if all are.
func TestProgressOfPublishing(t *testing.T) {
	w := newWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	w.settle()
	rec := w.begin()
	p := w.newProgressReporter(rec.object)
	rec.progress = p
	rec.publish()
	if p.phase.Load() != nil {
		t.Error("progress of publishing without anything to publish")
	}
	w.registry.push("latest", catalogOf(pkg{name: "foo"}, pkg{name: "bar"}))
	w.requestPoll("now")
	rec = w.begin()
	p = w.newProgressReporter(rec.object)
	rec.progress = p
	rec.resolve()
	if got := *p.phase.Load(); got != source.Resolving {
		t.Errorf("after resolve: phase %s", got)
	}
	rec.unpack()
	got := p.state()
	if got.Phase != source.Indexing || got.Bytes == 0 || got.Bytes != got.TotalBytes {
		t.Errorf("after unpack: %+v", got)
	}
	rec.publish()
	want := source.Progress{Phase: source.Publishing, Bytes: got.Bytes, TotalBytes: got.Bytes, Packages: 2, TotalPackages: 2}
	if diff := cmp.Diff(want, p.state()); diff != "" {
		t.Errorf("after publish (-want +got):\n%s", diff)
	}
	p.stop()
}

// The next pass removes the progress that a crashed process left.
func TestProgressAfterCrash(t *testing.T) {
	for name, change := range map[string]func(*v1beta1.CatalogSource){
		"unchanged":   func(*v1beta1.CatalogSource) {},
		"suspended":   func(c *v1beta1.CatalogSource) { c.Spec.Suspend = true },
		"unavailable": func(c *v1beta1.CatalogSource) { c.Spec.Availability = v1beta1.AvailabilityUnavailable },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
			w.create(ref, nil)
			w.settle()
			w.leaveProgress()
			w.change(change)
			w.restart()
			w.reconcile()
			if got := w.source().Status.Progress; got != nil {
				t.Errorf("left: %+v", got)
			}
			w.requests.take()
			w.reconcile()
			if writes := w.requests.take(); len(writes) > 0 {
				t.Errorf("the pass after that writes %q", writes)
			}
		})
	}
	t.Run("a replica that follows leaves it", func(t *testing.T) {
		w := newWorld(t)
		ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
		w.create(ref, nil)
		w.settle()
		w.leaveProgress()
		w.Leadership = follower
		w.requests.take()
		w.reconcile()
		if writes := w.requests.take(); len(writes) > 0 || w.source().Status.Progress == nil {
			t.Errorf("it wrote %q; progress is %+v", writes, w.source().Status.Progress)
		}
	})
}

func (w *world) leaveProgress() {
	w.t.Helper()
	c := w.source()
	from := c.DeepCopy()
	c.Status.Progress = &v1beta1.CatalogProgress{Phase: v1beta1.ProgressDownloading, Bytes: 1, TotalBytes: 2}
	must.Succeed(w.t, w.api.Status().Patch(w.t.Context(), c, client.MergeFrom(from)))
}

// A pass does not fail if the response to a progress write is lost, or if it conflicts.
func TestProgressConflicts(t *testing.T) {
	for name, meanwhile := range map[string]func(w *world){
		"somebody changed the object": func(w *world) { w.requestPoll("meanwhile") },
		"it was made, unknown to us":  (*world).leaveProgress,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ref, digest := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
			w.create(ref, nil)
			w.reconcile()
			release := w.registry.hold(t, blobs)
			ended := make(chan error, 1)
			go func() { _, err := w.tryReconcile(); ended <- err }()
			w.waitProgress("a first write", inPhase(v1beta1.ProgressDownloading))
			meanwhile(w)
			w.clock.SetTime(w.clock.Now().Add(progressEvery))
			release()
			must.Succeed(t, <-ended)
			if c := w.source(); c.Status.Digest != digest || c.Status.Progress != nil {
				t.Errorf("digest %s, progress %+v", c.Status.Digest, c.Status.Progress)
			}
		})
	}
}

// A failed write of progress is the last one of the pass, which does not fail.
func TestProgressFails(t *testing.T) {
	w := newWorld(t)
	ref, digest := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	w.reconcile()
	release := w.registry.hold(t, blobs)
	failed := make(chan struct{})
	fail := stdsync.OnceFunc(func() { close(failed) })
	stop := w.requests.failing(func(r *http.Request) bool {
		if r.Method != http.MethodPatch {
			return false
		}
		fail()
		return true
	})
	ended := make(chan error, 1)
	go func() { _, err := w.tryReconcile(); ended <- err }()
	for waiting := true; waiting; {
		w.clock.SetTime(w.clock.Now().Add(progressEvery))
		select {
		case <-failed:
			waiting = false
		case <-time.After(progressCheck / 4):
		}
	}
	stop()
	release()
	must.Succeed(t, <-ended)
	if c := w.source(); c.Status.Digest != digest || c.Status.Progress != nil {
		t.Errorf("digest %s, progress %+v", c.Status.Digest, c.Status.Progress)
	}
}

// An interrupted pass removes its progress.
func TestProgressInterrupted(t *testing.T) {
	w := newWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	w.reconcile()
	w.registry.hold(t, blobs)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	ended := make(chan error, 1)
	go func() { _, err := w.Reconcile(ctx, w.request()); ended <- err }()
	w.waitProgress("a first write", inPhase(v1beta1.ProgressDownloading))
	w.change(func(c *v1beta1.CatalogSource) { c.Spec.Priority++ })
	c := w.source()
	w.interrupts.changed(c.UID, c.Generation)
	must.Succeed(t, <-ended)
	if got := w.source().Status.Progress; got != nil {
		t.Errorf("left: %+v", got)
	}
}
