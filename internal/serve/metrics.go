package serve

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics count requests by route: the pattern that matched, never the path that was asked for, so that clients cannot make up series.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	bytes    *prometheus.CounterVec
	inFlight *prometheus.GaugeVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	factory := promauto.With(registerer)
	return &metrics{
		requests: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "catalogd_http_requests_total",
			Help: "Requests of content that were answered.",
		}, []string{"route", "method", "code"}),
		seconds: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "catalogd_http_request_duration_seconds",
			Help:    "How long requests of content took, from their header read to their reply written; of change feeds, how long they lasted.",
			Buckets: []float64{.001, .005, .025, .1, .5, 2.5, 10, 60, 300},
		}, []string{"route"}),
		bytes: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "catalogd_http_response_bytes_total",
			Help: "Bytes of the bodies of replies as they were sent, so after compression; counted when a reply ends.",
		}, []string{"route", "encoding"}),
		inFlight: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: "catalogd_http_requests_in_flight",
			Help: "Requests of content that are being answered, change feeds among them.",
		}, []string{"route"}),
	}
}

// start counts a request in; the function it returns counts it out, with its reply.
func (m *metrics) start(pattern, method string) func(*replyWriter) {
	begun := time.Now()
	route := "other"
	if _, path, ok := strings.Cut(pattern, " "); ok {
		route = path
	}
	inFlight := m.inFlight.WithLabelValues(route)
	inFlight.Inc()
	return func(reply *replyWriter) {
		inFlight.Dec()
		m.seconds.WithLabelValues(route).Observe(time.Since(begun).Seconds())
		m.requests.WithLabelValues(route, knownMethod(method), strconv.Itoa(reply.status())).Inc()
		if method != http.MethodHead {
			encoding := reply.Header().Get("Content-Encoding")
			if encoding == "" {
				encoding = string(identity)
			}
			m.bytes.WithLabelValues(route, encoding).Add(float64(reply.bytes))
		}
	}
}

func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost:
		return method
	}
	return "other"
}
