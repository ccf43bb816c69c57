package main

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/lease"
	"github.com/operator-catalogs/catalogd/internal/poll"
	"github.com/operator-catalogs/catalogd/internal/serve"
	"github.com/operator-catalogs/catalogd/internal/store"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

func TestReady(t *testing.T) {
	current := "sha256:" + strings.Repeat("0", 64) // what filledStore has
	for _, test := range []struct {
		name  string
		dir   string
		cache *catalogList // nil: not connected
		ready bool         // whether it was ready before
		began time.Time    // if beside others
		tried error        // what became of the last attempt to bring the catalog up to date
		want  string       // the error; "" none
	}{
		{name: "not connected, with content", dir: filledStore(t)},
		{name: "not connected, without content", dir: t.TempDir(), want: "not connected to the API server, and nothing is stored"},
		{name: "not connected yet, beside others", dir: filledStore(t), began: time.Now(), want: "not connected to the API server yet"},
		{name: "not connected in time, beside others", dir: filledStore(t), began: time.Now().Add(-connectTime)},
		{name: "not connected any more, beside others", dir: filledStore(t), began: time.Now(), ready: true},
		{name: "no catalogs", dir: t.TempDir(), cache: &catalogList{}},
		{name: "all served", dir: filledStore(t), cache: &catalogList{items: []v1beta1.CatalogSource{catalogSource("sample", current)}}},
		{name: "new catalogs", dir: t.TempDir(), cache: &catalogList{items: []v1beta1.CatalogSource{catalogSource("new", "")}}},
		{
			name: "some not served", dir: filledStore(t), want: "not served yet: a, b",
			cache: &catalogList{
				items: []v1beta1.CatalogSource{catalogSource("a", "sha256:1"), catalogSource("b", "sha256:2"), catalogSource("sample", current)},
			},
		},
		{
			name: "an older version served, at start", dir: filledStore(t), want: "not brought up to date yet: sample",
			cache: &catalogList{items: []v1beta1.CatalogSource{catalogSource("sample", "sha256:1")}},
		},
		{
			name: "an older version served, as the new one cannot be had", dir: filledStore(t), tried: errors.New("down"),
			cache: &catalogList{items: []v1beta1.CatalogSource{catalogSource("sample", "sha256:1")}},
		},
		{
			name: "an older version served, later", dir: filledStore(t), ready: true,
			cache: &catalogList{items: []v1beta1.CatalogSource{catalogSource("sample", "sha256:1")}},
		},
		{
			name: "not served, later", dir: filledStore(t), ready: true, want: "not served yet: a",
			cache: &catalogList{items: []v1beta1.CatalogSource{catalogSource("a", "sha256:1")}},
		},
		{name: "cache fails", dir: filledStore(t), cache: &catalogList{err: errors.New("gone")}, want: "listing CatalogSources: gone"},
	} {
		t.Run(test.name, func(t *testing.T) {
			st, err := store.Open(test.dir, store.Options{})
			must.Succeed(t, err)
			defer st.Close()
			c := &cluster{cfg: defaults(), logger: quiet, store: st, polls: &poll.Log{}}
			c.caughtUp.Store(test.ready)
			if c.began = test.began; !c.began.IsZero() {
				c.lease = &lease.Lease{}
			}
			c.polls.Record("sample", "", time.Time{}, test.tried)
			if test.cache != nil {
				reader := client.Reader(test.cache)
				c.cache.Store(&reader)
			}
			got := ""
			if err := c.ready(t.Context()); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestFit(t *testing.T) {
	st, err := store.Open(t.TempDir(), store.Options{})
	must.Succeed(t, err)
	defer st.Close()
	c := &cluster{store: st}
	for _, working := range []bool{false, true, false} {
		c.working.Store(working)
		if err := c.fit(t.Context()); (err == nil) != working {
			t.Errorf("working %v: got %v", working, err)
		}
	}
}

func TestNewLease(t *testing.T) {
	st, err := store.Open(t.TempDir(), store.Options{})
	must.Succeed(t, err)
	defer st.Close()
	c := &cluster{cfg: defaults(), logger: quiet, store: st, rest: &rest.Config{Host: "http://127.0.0.1:1"}}
	if c.lease, err = c.newLease(); err != nil || c.lease != nil {
		t.Errorf("without election: got %v, %v, want none", c.lease, err)
	}
	if got := gauge(t, c.leadingMetric()); got != 1 {
		t.Errorf("alone, leading is %v", got)
	}
	c.cfg.replicas.elect = true
	if c.lease, err = c.newLease(); err != nil || c.lease == nil {
		t.Fatalf("with election: got %v, %v", c.lease, err)
	}
	if got := gauge(t, c.leadingMetric()); got != 0 {
		t.Errorf("before the election, leading is %v", got)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.rest.Host, strings.NewReader("x"))
	must.Succeed(t, err)
	if _, err := c.lease.Fence(nil).RoundTrip(request); err == nil {
		t.Error("a write got through before the election")
	}
}

// gauge returns the value of a metric without labels.
func gauge(t *testing.T, c prometheus.Collector) float64 {
	t.Helper()
	metrics, m := make(chan prometheus.Metric, 1), dto.Metric{}
	c.Collect(metrics)
	must.Succeed(t, (<-metrics).Write(&m))
	return m.GetGauge().GetValue()
}

func TestAwaited(t *testing.T) {
	now := metav1.Now()
	served, gone, withdrawn := catalogSource("a", "sha256:1"), catalogSource("b", "sha256:2"), catalogSource("c", "sha256:3")
	gone.DeletionTimestamp = &now
	withdrawn.Spec.Availability = v1beta1.AvailabilityUnavailable
	st, err := store.Open(t.TempDir(), store.Options{})
	must.Succeed(t, err)
	defer st.Close()
	c := &cluster{store: st}
	if got, want := c.awaited("a"), (serve.Awaited{Unknown: true}); got != want {
		t.Errorf("not connected: awaits %+v, want %+v", got, want)
	}
	reader := client.Reader(catalogList{items: []v1beta1.CatalogSource{served, gone, withdrawn, catalogSource("e", "")}})
	c.cache.Store(&reader)
	for catalog, want := range map[string]serve.Awaited{
		"a": {Exists: true, Digest: "sha256:1"}, "b": {}, "c": {}, "d": {}, "e": {Exists: true},
	} {
		if got := c.awaited(catalog); got != want {
			t.Errorf("%s: awaits %+v, want %+v", catalog, got, want)
		}
	}
	if got, want := c.expected(), []string{"a"}; !slices.Equal(got, want) {
		t.Errorf("expects %q, want %q", got, want)
	}
}
