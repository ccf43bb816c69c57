package main

import (
	"crypto/x509"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// buildInfo tells which catalogd this is.
func buildInfo() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "catalogd_build_info", Help: "1; the labels say which version of catalogd runs, and the version of Go that built it.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	}, func() float64 { return 1 })
}

// certificateMetrics tells when the certificate of the content service expires, as it is when it is asked.
type certificateMetrics struct{ source certificateSource }

var certificateExpiry = prometheus.NewDesc("catalogd_certificate_expiry_timestamp_seconds",
	"When the certificate of the content service, or the first of its chain, expires, as a Unix time; absent without one.", nil, nil)

// Describe implements prometheus.Collector.
func (certificateMetrics) Describe(to chan<- *prometheus.Desc) { to <- certificateExpiry }

// Collect implements prometheus.Collector. Without a certificate yet it collects nothing: why, the log says.
func (m certificateMetrics) Collect(to chan<- prometheus.Metric) {
	pair, err := m.source.GetCertificate(nil)
	if err != nil {
		return
	}
	var first time.Time
	for _, der := range pair.Certificate {
		c, err := x509.ParseCertificate(der)
		if err == nil && (first.IsZero() || c.NotAfter.Before(first)) {
			first = c.NotAfter
		}
	}
	if !first.IsZero() {
		to <- prometheus.MustNewConstMetric(certificateExpiry, prometheus.GaugeValue, float64(first.Unix()))
	}
}
