package main

import (
	"crypto/x509"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// buildInfo is a metric with the version.
func buildInfo() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "catalogd_build_info", Help: "1, with the versions of catalogd and of the Go that built it as labels.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	}, func() float64 { return 1 })
}

// certificateMetrics is the expiry of the content service's current certificate.
type certificateMetrics struct{ source certificateSource }

var certificateExpiry = prometheus.NewDesc("catalogd_certificate_expiry_timestamp_seconds",
	"Expiry of the content service's certificate chain as a Unix time; absent without a certificate.", nil, nil)

// Describe implements prometheus.Collector.
func (certificateMetrics) Describe(to chan<- *prometheus.Desc) { to <- certificateExpiry }

// Collect implements prometheus.Collector. Without a certificate it collects nothing; the log has the cause.
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
