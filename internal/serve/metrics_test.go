package serve

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
)

func TestMetrics(t *testing.T) {
	cfg := testConfig(newTestStore(t))
	registry := prometheus.NewRegistry()
	cfg.Metrics = registry
	s := newServer(cfg)
	url := startServer(t, s)
	sizes := map[string]int{}
	for _, request := range []struct{ method, path, encoding string }{
		{http.MethodGet, "/catalogs/small/api/v1/all", ""},
		{http.MethodGet, "/catalogs/icons/api/v1/all", ""},
		{http.MethodHead, "/catalogs/small/api/v1/all", ""},
		{http.MethodGet, "/catalogs/small/digests/" + digestOf("1") + "/api/v1/bundles", "gzip"},
		{http.MethodGet, "/catalogs/nowhere/api/v1/all", ""},
		{http.MethodGet, "/made/up", ""},
		{"MADEUP", "/catalogs", ""},
	} {
		_, body := do(t, request.method, url+request.path, "", "Accept-Encoding", request.encoding)
		sizes[request.path] += len(body)
	}
	all := sizes["/catalogs/small/api/v1/all"] + sizes["/catalogs/icons/api/v1/all"] + sizes["/catalogs/nowhere/api/v1/all"]
	digestRoute := "/catalogs/{catalog}/digests/{digest}/api/v1/bundles"
	// The client has the reply before it is counted.
	eventually.Holds(t, "every request to be counted", func() bool {
		return valueOf(t, s.metrics.requests.WithLabelValues("other", "GET", "404")) == 1 &&
			valueOf(t, s.metrics.requests.WithLabelValues("other", "other", "405")) == 1
	})
	for _, test := range []struct {
		name string
		got  prometheus.Metric
		want float64
	}{
		{"GET all", s.metrics.requests.WithLabelValues("/catalogs/{catalog}/api/v1/all", "GET", "200"), 2},
		{"HEAD all", s.metrics.requests.WithLabelValues("/catalogs/{catalog}/api/v1/all", "HEAD", "200"), 1},
		{"no catalog", s.metrics.requests.WithLabelValues("/catalogs/{catalog}/api/v1/all", "GET", "404"), 1},
		{"bytes of all", s.metrics.bytes.WithLabelValues("/catalogs/{catalog}/api/v1/all", "identity"), float64(all)},
		{
			"bytes of bundles",
			s.metrics.bytes.WithLabelValues(digestRoute, "gzip"),
			float64(sizes["/catalogs/small/digests/"+digestOf("1")+"/api/v1/bundles"]),
		},
		{"in flight", s.metrics.inFlight.WithLabelValues("/catalogs/{catalog}/api/v1/all"), 0},
	} {
		if got := valueOf(t, test.got); got != test.want {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if value := label.GetValue(); strings.Contains(value, "small") || strings.Contains(strings.ToLower(value), "made") {
					t.Errorf("%s has a label that a client made up: %s", family.GetName(), value)
				}
			}
		}
	}
}

func valueOf(t *testing.T, m prometheus.Metric) float64 {
	t.Helper()
	var out dto.Metric
	if err := m.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.GetCounter().GetValue() + out.GetGauge().GetValue()
}

// TestMetricsInFlight counts requests during a response, and after a handler panicked.
func TestMetricsInFlight(t *testing.T) {
	m := newMetrics(nil)
	inFlight := m.inFlight.WithLabelValues("/a")
	func() {
		defer func() { _ = recover() }()
		defer m.start("GET /a", http.MethodGet)(&replyWriter{ResponseWriter: httptest.NewRecorder()})
		if got := valueOf(t, inFlight); got != 1 {
			t.Errorf("%v in flight, want 1", got)
		}
		panic(http.ErrAbortHandler)
	}()
	if got := valueOf(t, inFlight); got != 0 {
		t.Errorf("%v in flight after a panic, want 0", got)
	}
}
