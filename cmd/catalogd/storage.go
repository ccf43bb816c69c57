package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/operator-catalogs/catalogd/internal/store"
)

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
