package main

import (
	"crypto/x509"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/operator-catalogs/catalogd/internal/store"
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

// storageMetrics is the usage of the volume, measured on collection.
type storageMetrics struct{ store *store.Store }

var (
	storageUsed  = prometheus.NewDesc("catalogd_storage_used_bytes", "Size of the content on the volume in bytes.", nil, nil)
	storageLimit = prometheus.NewDesc("catalogd_storage_limit_bytes",
		"Limit of the size of the content in bytes (--storage-limit); absent without a limit.", nil, nil)
	storageFree = prometheus.NewDesc("catalogd_storage_free_bytes", "Free bytes within the limit, or on the volume if it has fewer.", nil, nil)
)

// Describe implements prometheus.Collector.
func (storageMetrics) Describe(to chan<- *prometheus.Desc) {
	to <- storageUsed
	to <- storageLimit
	to <- storageFree
}

// Collect implements prometheus.Collector.
func (m storageMetrics) Collect(to chan<- prometheus.Metric) {
	u, err := m.store.Usage()
	if err != nil {
		to <- prometheus.NewInvalidMetric(storageUsed, err)
		return
	}
	to <- prometheus.MustNewConstMetric(storageUsed, prometheus.GaugeValue, float64(u.Used))
	to <- prometheus.MustNewConstMetric(storageFree, prometheus.GaugeValue, float64(u.Free))
	if u.Limit > 0 {
		to <- prometheus.MustNewConstMetric(storageLimit, prometheus.GaugeValue, float64(u.Limit))
	}
}
