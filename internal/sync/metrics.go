package sync

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/operator-catalogs/catalogd/internal/poll"
	"github.com/operator-catalogs/catalogd/internal/source"
	"github.com/operator-catalogs/catalogd/internal/sync/status"
)

// Metrics are the numbers that are kept of each catalog. They are of this process; what outlives it stands in status. All but behind are
// those of the replica that leads.
type Metrics struct {
	lastPoll, nextPoll, lastChange, unpackSeconds *prometheus.GaugeVec
	current, interval                             *prometheus.GaugeVec
	bytes, packages, invalidPackages              *prometheus.GaugeVec
	ready, insecure, behind                       *prometheus.GaugeVec
	polls                                         *prometheus.CounterVec
}

// NewMetrics makes the metrics and registers them.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	gauge := func(name, help string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "catalogd", Name: name, Help: help}, []string{"catalog"})
		registry.MustRegister(g)
		return g
	}
	m := &Metrics{
		lastPoll:        gauge("last_poll_timestamp_seconds", "When the image of a catalog was last polled, as a Unix time."),
		nextPoll:        gauge("next_poll_timestamp_seconds", "When the image of a catalog will next be polled, as a Unix time; absent if it will not be."),
		lastChange:      gauge("last_change_timestamp_seconds", "When a catalog last changed to another digest, as a Unix time."),
		current:         gauge("content_current_timestamp_seconds", "When the content that is served of a catalog was last found to be what its image has, as a Unix time; absent until this process did."),
		interval:        gauge("polling_interval_seconds", "How much time lies between two polls of a catalog, as its schedule says; absent if it is not polled."),
		unpackSeconds:   gauge("unpack_seconds", "How long the last unpacking of a catalog took that succeeded."),
		bytes:           gauge("content_bytes", "Size of the content of a catalog as JSON lines."),
		packages:        gauge("packages", "Packages of a catalog that are published."),
		invalidPackages: gauge("invalid_packages", "Packages of a catalog that are not valid and not published."),
		ready:           gauge("ready", "1 if a catalog is Ready, else 0."),
		insecure:        gauge("insecure", "1 if a registry that the catalog is looked for at is not verified (insecure is set for it), else 0."),
		behind:          gauge("replica_behind", "1 if this replica serves another version of a catalog than the one that its status names, or none, else 0."),
		polls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "catalogd", Name: "polls_total", Help: "Polls of the image of a catalog by result: success or failure.",
		}, []string{"catalog", "result"}),
	}
	registry.MustRegister(m.polls)
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

// Current notes that a poll at that time found what is served to be what the image has.
func (m *Metrics) Current(catalog string, at time.Time) {
	m.current.WithLabelValues(catalog).Set(float64(at.Unix()))
}

// Scheduled notes how much time lies between two polls; 0 if there are none.
func (m *Metrics) Scheduled(catalog string, interval time.Duration) {
	if interval <= 0 {
		m.interval.DeleteLabelValues(catalog)
		return
	}
	m.interval.WithLabelValues(catalog).Set(interval.Seconds())
}

// Unpacked notes how long an unpacking took.
func (m *Metrics) Unpacked(catalog string, took time.Duration) {
	m.unpackSeconds.WithLabelValues(catalog).Set(took.Seconds())
}

// Follow notes how far a replica is that does not lead. What it knew of the catalog as a leader is of no use any more.
func (m *Metrics) Follow(catalog string, behind bool) {
	m.Forget(catalog)
	m.behind.WithLabelValues(catalog).Set(number(behind))
}

// Observe copies what the status of a catalog says.
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

// number is what a metric has for yes and no.
func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Forget drops what is kept of a catalog that is no more.
func (m *Metrics) Forget(catalog string) {
	for _, g := range []*prometheus.GaugeVec{
		m.lastPoll, m.nextPoll, m.lastChange, m.current, m.interval, m.unpackSeconds, m.bytes, m.packages, m.invalidPackages, m.ready, m.insecure, m.behind,
	} {
		g.DeleteLabelValues(catalog)
	}
	m.polls.DeletePartialMatch(prometheus.Labels{"catalog": catalog})
}
