package serve

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
)

// metrics count requests by route. The route is the matched pattern, so clients cannot create series.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	bytes    *prometheus.CounterVec
	inFlight *prometheus.GaugeVec
	routes   sync.Map // pattern -> *routeMetrics
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	factory := promauto.With(registerer)
	return &metrics{
		requests: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "catalogd_http_requests_total",
			Help: "Answered requests for content.",
		}, []string{"route", "method", "code"}),
		seconds: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "catalogd_http_request_duration_seconds",
			Help:    "Duration of requests for content, from the header of the request to the end of the response; of change feeds, their lifetime.",
			Buckets: []float64{.001, .005, .025, .1, .5, 2.5, 10, 60, 300},
		}, []string{"route"}),
		bytes: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "catalogd_http_response_bytes_total",
			Help: "Bytes of response bodies after compression, counted at the end of a response.",
		}, []string{"route", "encoding"}),
		inFlight: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: "catalogd_http_requests_in_flight",
			Help: "Requests for content in flight, including change feeds.",
		}, []string{"route"}),
	}
}

// routeMetrics are the metrics of a route. The most common series are looked up by their labels once, at their first use.
type routeMetrics struct {
	route    string
	inFlight prometheus.Gauge
	seconds  prometheus.Observer
	found    func() prometheus.Counter // GETs with status 200
	plain    func() prometheus.Counter // bytes without encoding
}

// of returns the metrics of a pattern of http.ServeMux; an empty pattern matched no route.
func (m *metrics) of(pattern string) *routeMetrics {
	if known, ok := m.routes.Load(pattern); ok {
		return known.(*routeMetrics)
	}
	route := "other"
	if _, path, ok := strings.Cut(pattern, " "); ok {
		route = path
	}
	known, _ := m.routes.LoadOrStore(pattern, &routeMetrics{
		route:    route,
		inFlight: m.inFlight.WithLabelValues(route),
		seconds:  m.seconds.WithLabelValues(route),
		found:    sync.OnceValue(func() prometheus.Counter { return m.requests.WithLabelValues(route, http.MethodGet, "200") }),
		plain:    sync.OnceValue(func() prometheus.Counter { return m.bytes.WithLabelValues(route, string(identity)) }),
	})
	return known.(*routeMetrics)
}

// start counts a request as in flight. The returned function counts its response.
func (m *metrics) start(pattern, method string) func(*replyWriter) {
	begun := time.Now()
	route := m.of(pattern)
	route.inFlight.Inc()
	return func(reply *replyWriter) {
		route.inFlight.Dec()
		route.seconds.Observe(time.Since(begun).Seconds())
		if status := reply.status(); status == http.StatusOK && method == http.MethodGet {
			route.found().Inc()
		} else {
			m.requests.WithLabelValues(route.route, knownMethod(method), strconv.Itoa(status)).Inc()
		}
		if method == http.MethodHead {
			return
		}
		if encoding := reply.Header().Get("Content-Encoding"); encoding == "" {
			route.plain().Add(float64(reply.bytes))
		} else {
			m.bytes.WithLabelValues(route.route, encoding).Add(float64(reply.bytes))
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

// startSpan starts the span of a request within the trace of the client, if that sent one (W3C Trace Context). It returns the
// request with the span and a function that ends it. Spans contain neither query strings nor headers.
func startSpan(tracer trace.Tracer, route string, r *http.Request) (*http.Request, func(*replyWriter)) {
	ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	method := knownMethod(r.Method)
	ctx, span := tracer.Start(ctx, method+" "+route, trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(semconv.HTTPRequestMethodKey.String(method), semconv.HTTPRoute(route)))
	r = r.WithContext(ctx)
	return r, func(reply *replyWriter) {
		status := reply.status()
		span.SetAttributes(semconv.HTTPResponseStatusCode(status))
		if catalog := r.PathValue("catalog"); catalog != "" {
			span.SetAttributes(attribute.String("catalogd.catalog", catalog))
		}
		if digest := reply.Header().Get(DigestHeader); digest != "" {
			span.SetAttributes(attribute.String("catalogd.digest", digest))
		}
		if status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}
