package pull

import "github.com/prometheus/client_golang/prometheus"

// metrics count requests for bundle images, by their result.
type metrics struct {
	requests *prometheus.CounterVec
}

func newMetrics() *metrics {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "catalogd_bundle_requests_total",
		Help: "Requests for bundle images and pulls of them, by result.",
	}, []string{"result"})
	for _, result := range []string{"hit", "pulled", "refused"} { // so that they exist from the start
		requests.WithLabelValues(result)
	}
	return &metrics{requests}
}

var (
	cacheBytes = prometheus.NewDesc("catalogd_bundle_cache_bytes", "Bytes of cached bundles.", nil, nil)
	cacheLimit = prometheus.NewDesc("catalogd_bundle_cache_limit_bytes", "Limit of catalogd_bundle_cache_bytes.", nil, nil)
	cacheFiles = prometheus.NewDesc("catalogd_bundle_cache_bundles", "Cached bundles.", nil, nil)
	evictions  = prometheus.NewDesc("catalogd_bundle_cache_evictions_total", "Bundles that were evicted from the cache.", nil, nil)
)

// Describe implements prometheus.Collector.
func (p *Puller) Describe(ch chan<- *prometheus.Desc) {
	p.metrics.requests.Describe(ch)
	for _, d := range []*prometheus.Desc{cacheBytes, cacheLimit, cacheFiles, evictions} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (p *Puller) Collect(ch chan<- prometheus.Metric) {
	p.metrics.requests.Collect(ch)
	u := p.config.Cache.Usage()
	ch <- prometheus.MustNewConstMetric(cacheBytes, prometheus.GaugeValue, float64(u.Bytes))
	ch <- prometheus.MustNewConstMetric(cacheLimit, prometheus.GaugeValue, float64(u.Limit))
	ch <- prometheus.MustNewConstMetric(cacheFiles, prometheus.GaugeValue, float64(u.Files))
	ch <- prometheus.MustNewConstMetric(evictions, prometheus.CounterValue, float64(u.Evicted))
}
