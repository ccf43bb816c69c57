package lease

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

var start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// record returns what an elector writes to acquire or renew the lease.
func record(holder string, at time.Time) resourcelock.LeaderElectionRecord {
	return resourcelock.LeaderElectionRecord{HolderIdentity: holder, RenewTime: metav1.NewTime(at), LeaseDurationSeconds: 15}
}

func newLease(clock clock.PassiveClock, change func(*Config)) *Lease {
	cfg := Config{
		Namespace: "ns", Name: "lease", Identity: "me", Duration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		Clock: clock, Logger: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&cfg)
	}
	return New(cfg)
}

// The lease counts from the request, not from the response, and work in progress has time to end.
func TestLeft(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(start)
	l := newLease(now, nil)
	wantLeft := func(when string, want time.Duration) {
		t.Helper()
		if got := l.Left(); got != want {
			t.Errorf("%s: %s are left, want %s", when, got, want)
		}
	}
	after := func(d time.Duration) { now.SetTime(now.Now().Add(d)) }
	write := func(err error) func(context.Context, resourcelock.LeaderElectionRecord) error {
		return func(context.Context, resourcelock.LeaderElectionRecord) error {
			after(3 * time.Second)
			return err
		}
	}
	wantLeft("before the election", 0)
	if err := l.take(t.Context(), record("me", now.Now()), write(errors.New("down"))); err == nil {
		t.Error("a write that fails is no error")
	}
	wantLeft("after a write that failed", 0)
	must.Succeed(t, l.take(t.Context(), record("me", now.Now()), write(nil)))
	wantLeft("when it is had", 12*time.Second)
	after(6*time.Second + 999*time.Millisecond)
	wantLeft("just before the deadline", 5*time.Second+time.Millisecond)
	after(time.Millisecond)
	wantLeft("at the deadline", 0)
	must.Succeed(t, l.take(t.Context(), record("me", now.Now()), write(nil)))
	wantLeft("renewed", 12*time.Second)
	must.Succeed(t, l.take(t.Context(), record("", now.Now()), func(context.Context, resourcelock.LeaderElectionRecord) error {
		wantLeft("while it is given up", 0)
		return nil
	}))
	wantLeft("given up", 0)
}

func TestStandBack(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(start)
	behind := errors.New("not served yet: a")
	l := newLease(now, func(c *Config) { c.CaughtUp = func(context.Context) error { return behind } })
	take := func() bool {
		return l.take(t.Context(), record("me", now.Now()), func(context.Context, resourcelock.LeaderElectionRecord) error { return nil }) == nil
	}
	after := func(d time.Duration) { now.SetTime(now.Now().Add(d)) }
	other := func() { r := record("other", now.Now()); l.observe(&r) }

	other() // what the API server has of one that is long gone
	if take() {
		t.Error("it takes the lease though it has not caught up")
	}
	after(standBack - time.Second)
	if take() {
		t.Error("it takes the lease before others had time to")
	}
	other() // takes it, and ends later
	after(time.Hour)
	if take() {
		t.Error("it takes the lease though others had no time to since it is free again")
	}
	dead := record("other", start.Add(standBack-time.Second))
	l.observe(&dead) // is still what the API server says
	after(standBack)
	if !take() {
		t.Error("it leaves the lease to others who do not exist")
	}
	after(time.Second)
	if !take() {
		t.Error("a leader does not renew its lease as it has not caught up with something new")
	}
	after(time.Minute)
	behind = nil
	if !take() {
		t.Error("it does not take the lease though it has caught up")
	}
}

func TestNotWorking(t *testing.T) {
	working := error(nil)
	l := newLease(clock.RealClock{}, func(c *Config) { c.Working = func(context.Context) error { return working } })
	write := func(context.Context, resourcelock.LeaderElectionRecord) error { return nil }
	must.Succeed(t, l.take(t.Context(), record("me", time.Now()), write))
	working = errors.New("the volume does not answer")
	if err := l.take(t.Context(), record("me", time.Now()), write); err == nil ||
		!strings.Contains(err.Error(), "the volume does not answer") {
		t.Errorf("got %v, want that the volume does not answer", err)
	}
	must.Succeed(t, l.take(t.Context(), record("", time.Now()), write)) // giving it up is what it should do
}

// Of two replicas one leads until it ends, then the other. client-go's fake is the API server.
func TestRun(t *testing.T) {
	api := fake.NewClientset()
	one, endOne := campaign(t, api, "one")
	await(t, "the first leads", one)
	two, endTwo := campaign(t, api, "two")
	endOne()
	if one.Left() != 0 {
		t.Error("the first leads after its end")
	}
	await(t, "the second leads", two)
	endTwo()
	lease, err := api.CoordinationV1().Leases("ns").Get(t.Context(), "lease", metav1.GetOptions{})
	must.Succeed(t, err)
	if got := holder(lease); got != "" {
		t.Errorf("the lease is still held, by %q", got)
	}
}

func holder(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// campaign makes a replica take part in the election. end waits until it has left.
func campaign(t *testing.T, api kubernetes.Interface, identity string) (_ *Lease, end func()) {
	t.Helper()
	l := newLease(clock.RealClock{}, func(c *Config) {
		c.Client, c.Identity, c.RetryPeriod = api.CoordinationV1(), identity, 10*time.Millisecond
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	return l, func() {
		cancel()
		must.Succeed(t, <-ended)
	}
}

// await waits until a replica leads.
func await(t *testing.T, what string, l *Lease) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		changed := l.Changed()
		if l.Left() > 0 {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("timed out: %s", what)
		}
	}
}

func TestRunConfig(t *testing.T) {
	l := newLease(clock.RealClock{}, func(c *Config) { c.RenewDeadline = c.Duration })
	if err := l.Run(t.Context()); err == nil {
		t.Error("a deadline as long as the lease is no error")
	}
}

func TestFence(t *testing.T) {
	var seen []string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Method)
		_, _ = io.WriteString(w, "answer")
	}))
	defer api.Close()
	now := clocktesting.NewFakePassiveClock(start)
	l := newLease(now, nil)
	client := &http.Client{Transport: l.Fence(http.DefaultTransport)}
	request := func(method string) (string, error) {
		r, err := http.NewRequestWithContext(t.Context(), method, api.URL, strings.NewReader("{}"))
		must.Succeed(t, err)
		response, err := client.Do(r)
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		return string(text), err
	}
	for _, step := range []struct {
		held  bool
		after time.Duration // since it was renewed
		write bool          // whether writes get through
	}{
		{false, 0, false},
		{true, 0, true},
		{true, 9 * time.Second, true},
		{true, 10 * time.Second, false},
		{true, time.Hour, false},
	} {
		l.keep(time.Time{})
		if step.held {
			l.keep(now.Now())
		}
		now.SetTime(now.Now().Add(step.after))
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodGet} {
			seen = nil
			answer, err := request(method)
			through := err == nil && answer == "answer" && len(seen) == 1
			refused := l.Refused(err) && len(seen) == 0
			if want := step.write || method == http.MethodGet; through != want || refused == want {
				t.Errorf("held %v, %s after it was renewed: %s got %q, %v, and the API server saw %v", step.held, step.after, method, answer, err, seen)
			}
		}
	}
}

// A write does not outlive the lease.
func TestFenceEnds(t *testing.T) {
	unblock := make(chan struct{})
	api := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-unblock }))
	defer api.Close()
	defer close(unblock)
	l := newLease(clock.RealClock{}, func(c *Config) { c.Duration, c.RenewDeadline = 50*time.Millisecond, 40*time.Millisecond })
	l.keep(time.Now().Add(20 * time.Millisecond)) // so that a slow machine has time to begin
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, api.URL, nil)
	must.Succeed(t, err)
	if _, err := l.Fence(http.DefaultTransport).RoundTrip(r); !l.Refused(err) {
		t.Errorf("a write went on after the lease ended, or ended with %v", err)
	}
}

// Only writes canceled by the end of the lease return ErrNotHeld.
func TestFenceErrors(t *testing.T) {
	for _, test := range []struct {
		name    string
		lasts   time.Duration // the lease
		answers bool          // whether the answer begins before it ends
		end     func(l *Lease, giveUp context.CancelFunc)
		want    bool
	}{
		{"lost before the answer", time.Minute, false, func(l *Lease, _ context.CancelFunc) { l.keep(time.Time{}) }, true},
		{"run out before the answer", time.Second, false, func(*Lease, context.CancelFunc) {}, true},
		{"run out in the answer", time.Second, true, func(*Lease, context.CancelFunc) {}, true},
		{"given up before the answer", time.Minute, false, func(_ *Lease, giveUp context.CancelFunc) { giveUp() }, false},
		{"given up in the answer", time.Minute, true, func(_ *Lease, giveUp context.CancelFunc) { giveUp() }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			came := make(chan struct{})
			api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if test.answers {
					w.WriteHeader(http.StatusOK)
					w.(http.Flusher).Flush()
				}
				close(came)
				<-r.Context().Done()
			}))
			defer api.Close()
			l := newLease(clock.RealClock{}, func(c *Config) { c.Duration, c.RenewDeadline = test.lasts, test.lasts })
			l.keep(time.Now())
			ctx, giveUp := context.WithCancel(t.Context())
			defer giveUp()
			go func() { <-came; test.end(l, giveUp) }()
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, api.URL, nil)
			must.Succeed(t, err)
			response, err := l.Fence(http.DefaultTransport).RoundTrip(r)
			if err == nil {
				_, err = io.ReadAll(response.Body)
				must.Succeed(t, response.Body.Close())
			}
			if err == nil || l.Refused(err) != test.want {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A starting replica requests the lease only after it has caught up.
func TestCatchUp(t *testing.T) {
	api := fake.NewClientset()
	asked, tell := make(chan struct{}), make(chan error)
	l := newLease(clock.RealClock{}, func(c *Config) {
		c.Client, c.RetryPeriod = api.CoordinationV1(), time.Millisecond
		c.CaughtUp = func(context.Context) error { asked <- struct{}{}; return <-tell }
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	for range 3 {
		<-asked
		if n := len(api.Actions()); n != 0 {
			t.Errorf("%d requests before it has caught up: %v", n, api.Actions())
		}
		tell <- errors.New("not yet")
	}
	go func() {
		for {
			select {
			case <-asked:
				tell <- nil
			case <-ctx.Done():
				return
			}
		}
	}()
	await(t, "it leads", l)
	cancel()
	must.Succeed(t, <-ended)
}

// If no replica catches up, one leads nevertheless.
func TestCatchUpTimesOut(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(start)
	l := newLease(now, func(c *Config) {
		c.RetryPeriod = time.Millisecond
		c.CaughtUp = func(context.Context) error {
			now.SetTime(now.Now().Add(standBack / 2))
			return errors.New("not served yet: a")
		}
	})
	l.catchUp(t.Context())
	must.Succeed(t,
		l.take(t.Context(), record("me", now.Now()), func(context.Context, resourcelock.LeaderElectionRecord) error { return nil }))
}
func TestRunOut(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(start)
	l := newLease(now, nil)
	ok := func(context.Context, resourcelock.LeaderElectionRecord) error { return nil }
	must.Succeed(t, l.take(t.Context(), record("me", now.Now()), ok))
	now.SetTime(now.Now().Add(11 * time.Second))
	changed := l.Changed()
	if l.Left() != 0 {
		t.Fatal("left")
	}
	must.Succeed(t, l.take(t.Context(), record("me", now.Now()), ok))
	select {
	case <-changed:
	default:
		t.Errorf("Left went from 0 to %s, and nobody was told", l.Left())
	}
}

func TestTakenByAnother(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(start)
	l := newLease(now, nil)
	ok := func(context.Context, resourcelock.LeaderElectionRecord) error { return nil }
	must.Succeed(t, l.take(t.Context(), record("me", now.Now()), ok))
	now.SetTime(now.Now().Add(2 * time.Second))
	other := record("other", now.Now())
	l.observe(&other)
	if l.Left() != 0 {
		t.Errorf("it was seen that another holds the lease, and %s are left", l.Left())
	}
}
