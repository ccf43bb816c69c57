package sync

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/operator-catalogs/catalogd/internal/poll"
	"github.com/operator-catalogs/catalogd/internal/source"
	"github.com/operator-catalogs/catalogd/internal/sync/status"
)

// Metrics are the metrics of each catalog, as this process sees it. Only the leader sets them, but for behind.
type Metrics struct {
	lastPoll, nextPoll, lastChange, unpackSeconds *prometheus.GaugeVec
	current, interval                             *prometheus.GaugeVec
	bytes, packages, invalidPackages              *prometheus.GaugeVec
	ready, insecure, behind, contested            *prometheus.GaugeVec
	gauges                                        []*prometheus.GaugeVec // all of them
	polls                                         *prometheus.CounterVec
}

// NewMetrics creates and registers the metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	var gauges []*prometheus.GaugeVec
	gauge := func(name, help string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "catalogd", Name: name, Help: help}, []string{"catalog"})
		registry.MustRegister(g)
		gauges = append(gauges, g)
		return g
	}
	m := &Metrics{
		lastPoll: gauge("last_poll_timestamp_seconds", "Time of the last poll of a catalog's image, as a Unix time."),
		nextPoll: gauge("next_poll_timestamp_seconds",
			"Time of the next poll of a catalog's image, as a Unix time; absent if none is planned."),
		lastChange: gauge("last_change_timestamp_seconds", "Time at which a catalog last changed to another digest, as a Unix time."),
		current: gauge("content_current_timestamp_seconds",
			"Time at which a poll last found the served content current, as a Unix time; absent before this process found it."),
		interval:        gauge("polling_interval_seconds", "Time between two polls of a catalog by its schedule; absent if it is not polled."),
		unpackSeconds:   gauge("unpack_seconds", "Duration of the last successful unpacking of a catalog."),
		bytes:           gauge("content_bytes", "Size of the content of a catalog as JSON lines."),
		packages:        gauge("packages", "Published packages of a catalog."),
		invalidPackages: gauge("invalid_packages", "Invalid packages of a catalog, which are not published."),
		ready:           gauge("ready", "1 if a catalog is Ready, else 0."),
		insecure:        gauge("insecure", "1 if insecure is set for a registry or mirror of the catalog, else 0."),
		behind:          gauge("replica_behind", "1 if this replica serves another digest of a catalog than its status names, or none, else 0."),
		contested:       gauge("contested", "1 if catalogd leaves the object of a catalog to another program that maintains it, else 0."),
		polls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "catalogd", Name: "polls_total", Help: "Polls of the image of a catalog by result: success or failure.",
		}, []string{"catalog", "result"}),
	}
	registry.MustRegister(m.polls)
	m.gauges = gauges
	return m
}

// Polled counts a poll.
func (m *Metrics) Polled(catalog string, at time.Time, err error) {
	result := "success"
	if err != nil {
		result = "failure"
	}
	m.polls.WithLabelValues(catalog, result).Inc()
	m.lastPoll.WithLabelValues(catalog).Set(float64(at.Unix()))
}

// Current records a poll that found the served content current.
func (m *Metrics) Current(catalog string, at time.Time) {
	m.current.WithLabelValues(catalog).Set(float64(at.Unix()))
}

// Scheduled records the time between two polls; 0 if there are none.
func (m *Metrics) Scheduled(catalog string, interval time.Duration) {
	if interval <= 0 {
		m.interval.DeleteLabelValues(catalog)
		return
	}
	m.interval.WithLabelValues(catalog).Set(interval.Seconds())
}

// Unpacked records the duration of an unpacking.
func (m *Metrics) Unpacked(catalog string, took time.Duration) {
	m.unpackSeconds.WithLabelValues(catalog).Set(took.Seconds())
}

// Follow records whether a follower is behind, and drops the metrics of a leader.
func (m *Metrics) Follow(catalog string, behind bool) {
	m.Forget(catalog)
	m.behind.WithLabelValues(catalog).Set(number(behind))
}

// Contested records whether another program maintains the object of a catalog.
func (m *Metrics) Contested(catalog string, contested bool) {
	m.contested.WithLabelValues(catalog).Set(number(contested))
}

// Observe sets the gauges of a catalog after a pass.
func (m *Metrics) Observe(catalog string, s source.Status, entry poll.Entry, insecure, behind bool) {
	m.behind.WithLabelValues(catalog).Set(number(behind))
	if entry.Next.IsZero() {
		m.nextPoll.DeleteLabelValues(catalog)
	} else {
		m.nextPoll.WithLabelValues(catalog).Set(float64(entry.Next.Unix()))
	}
	if !s.Changed.IsZero() {
		m.lastChange.WithLabelValues(catalog).Set(float64(s.Changed.Unix()))
	}
	content := s.Content
	if content == nil {
		content = &source.Content{}
	}
	m.bytes.WithLabelValues(catalog).Set(float64(content.Bytes))
	m.packages.WithLabelValues(catalog).Set(float64(content.Packages))
	m.invalidPackages.WithLabelValues(catalog).Set(float64(content.InvalidCount))
	m.ready.WithLabelValues(catalog).Set(number(status.IsReady(s)))
	m.insecure.WithLabelValues(catalog).Set(number(insecure))
}

// number returns 1 for true and 0 for false.
func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Forget drops the metrics of a catalog.
func (m *Metrics) Forget(catalog string) {
	for _, g := range m.gauges {
		g.DeleteLabelValues(catalog)
	}
	m.polls.DeletePartialMatch(prometheus.Labels{"catalog": catalog})
}
