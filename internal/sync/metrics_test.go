package sync

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/poll"
	"github.com/operator-catalogs/catalogd/internal/source"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// series returns all series of a registry by name and label values.
func series(t testing.TB, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	must.Succeed(t, err)
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			key := f.GetName()
			for _, l := range m.GetLabel() {
				key += " " + l.GetValue()
			}
			out[key] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return out
}

// seriesOf returns the series of a catalog; nil if there are none.
func seriesOf(t testing.TB, registry *prometheus.Registry, catalog string) map[string]float64 {
	t.Helper()
	var out map[string]float64
	for key, v := range series(t, registry) {
		if !strings.Contains(key+" ", " "+catalog+" ") {
			continue
		}
		if out == nil {
			out = map[string]float64{}
		}
		out[key] = v
	}
	return out
}

func value(t *testing.T, registry *prometheus.Registry, metric, catalog string) float64 {
	t.Helper()
	v, ok := series(t, registry)[metric+" "+catalog]
	if !ok {
		t.Errorf("there is no %s of %s", metric, catalog)
	}
	return v
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	s := source.Status{
		Conditions: []metav1.Condition{{Type: "Ready", Status: "True"}},
		Content:    &source.Content{Packages: 3, Bytes: 500, InvalidCount: 2},
		Changed:    time.Unix(1000, 0),
	}
	m.Polled("a", time.Unix(2000, 0), nil)
	m.Polled("a", time.Unix(3000, 0), errors.New("down"))
	m.Current("a", time.Unix(2000, 0))
	m.Scheduled("a", 15*time.Minute)
	m.Unpacked("a", 1500*time.Millisecond)
	m.Observe("a", s, poll.Entry{Next: time.Unix(4000, 0)}, true, true)
	m.Polled("b", time.Unix(1, 0), nil)
	all := map[string]float64{
		"catalogd_polls_total a success":               1,
		"catalogd_polls_total a failure":               1,
		"catalogd_last_poll_timestamp_seconds a":       3000,
		"catalogd_next_poll_timestamp_seconds a":       4000,
		"catalogd_last_change_timestamp_seconds a":     1000,
		"catalogd_content_current_timestamp_seconds a": 2000,
		"catalogd_polling_interval_seconds a":          900,
		"catalogd_unpack_seconds a":                    1.5,
		"catalogd_content_bytes a":                     500,
		"catalogd_packages a":                          3,
		"catalogd_invalid_packages a":                  2,
		"catalogd_ready a":                             1,
		"catalogd_insecure a":                          1,
		"catalogd_replica_behind a":                    1,
	}
	wantEqual(t, "series of a", all, seriesOf(t, registry, "a"))

	s.Content, s.Conditions = nil, nil
	m.Observe("a", s, poll.Entry{}, false, false)
	m.Scheduled("a", 0)
	delete(all, "catalogd_next_poll_timestamp_seconds a")
	delete(all, "catalogd_polling_interval_seconds a")
	for _, gone := range []string{"content_bytes", "packages", "invalid_packages", "ready", "insecure", "replica_behind"} {
		all["catalogd_"+gone+" a"] = 0
	}
	wantEqual(t, "series of a that serves nothing and is not polled", all, seriesOf(t, registry, "a"))

	m.Forget("a")
	wantEqual(t, "series of a that is forgotten", nil, seriesOf(t, registry, "a"))
	if len(seriesOf(t, registry, "b")) != 2 {
		t.Errorf("series of b are %v", seriesOf(t, registry, "b"))
	}
}

// Only a successful poll whose digest is served makes content current.
func TestMeasureCurrency(t *testing.T) {
	w := newWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, func(c *v1beta1.CatalogSource) { c.Spec.PollingInterval = &metav1.Duration{Duration: time.Hour} })
	w.settle()
	want := func(what string, current time.Time, interval float64) {
		t.Helper()
		all := seriesOf(t, w.metrics, w.catalog)
		if got := all["catalogd_content_current_timestamp_seconds "+w.catalog]; got != float64(current.Unix()) {
			t.Errorf("%s: the content was current at %v, want %v", what, time.Unix(int64(got), 0).UTC(), current)
		}
		if got := all["catalogd_polling_interval_seconds "+w.catalog]; got != interval {
			t.Errorf("%s: the interval is %v, want %v", what, got, interval)
		}
	}
	later := func(d time.Duration) { w.clock.SetTime(w.clock.Now().Add(d)); w.reconcile() }
	want("new", start, 3600)
	later(2 * time.Hour)
	want("polled again", start.Add(2*time.Hour), 3600)
	later(time.Minute)
	want("no poll is due", start.Add(2*time.Hour), 3600)

	w.registry.refuse(everything)
	later(2 * time.Hour)
	want("polling fails", start.Add(2*time.Hour), 3600)
	w.registry.refuse(nil)
	w.registry.push("latest", brokenCatalog())
	later(2 * time.Hour)
	want("the new image is refused", start.Add(2*time.Hour), 3600)
	later(time.Minute)
	want("the new image is refused, no poll is due", start.Add(2*time.Hour), 3600)

	w.change(func(c *v1beta1.CatalogSource) { c.Spec.Suspend = true })
	later(time.Minute)
	want("suspended", start.Add(2*time.Hour), 0)
}
