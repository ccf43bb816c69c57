package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// pairSource gives a certificate, or none.
type pairSource struct{ pair *tls.Certificate }

func (s pairSource) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if s.pair == nil {
		return nil, errors.New("none yet")
	}
	return s.pair, nil
}

func (pairSource) Run(context.Context) error { return nil }

func TestCertificateMetrics(t *testing.T) {
	early, late := time.Unix(2_000_000_000, 0), time.Unix(3_000_000_000, 0)
	for name, test := range map[string]struct {
		chain []time.Time // when each of the certificates expires, the leaf first; nil: there is no certificate yet
		want  []float64
	}{
		"leaf":         {[]time.Time{late}, []float64{3e9}},
		"leaf, first":  {[]time.Time{early, late}, []float64{2e9}},
		"issuer first": {[]time.Time{late, early}, []float64{2e9}},
		"none yet":     {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewPedanticRegistry()
			registry.MustRegister(certificateMetrics{pairSource{chainOf(t, test.chain)}})
			families, err := registry.Gather()
			must.Succeed(t, err)
			var got []float64
			for _, family := range families {
				for _, metric := range family.GetMetric() {
					got = append(got, metric.GetGauge().GetValue())
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
		})
	}
}

// chainOf returns a chain of certificates with these expiries.
func chainOf(t *testing.T, expiries []time.Time) *tls.Certificate {
	t.Helper()
	if expiries == nil {
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.Succeed(t, err)
	chain := &tls.Certificate{PrivateKey: key}
	for _, expiry := range expiries {
		template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: expiry}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		must.Succeed(t, err)
		chain.Certificate = append(chain.Certificate, der)
	}
	return chain
}
