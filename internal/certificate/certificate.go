// Package certificate provides the serving certificate of the content service from one of two sources:
//
//   - Files, which cert-manager or an administrator maintains; they are reloaded when they change;
//   - SelfSigned, a CA of catalogd, whose certificate is published for clients.
//
// The CA is in Secret catalogd-serving-ca in the namespace of catalogd and shared by all replicas. Each process issues its
// serving certificates in memory. Clients find the certificates to trust under ca.crt in ConfigMap catalogd-ca, and in the
// Secret: one certificate, or two during a rotation.
//
//	age of the CA   0             1/12     8/12             9/12             12/12
//	                published     signs    next is created  next signs       expires
//
// The ages are parts of its lifetime. An administrator may provide a CA with a shorter lifetime than the year of those created
// here. Its successor is then created earlier, at once if necessary, to be published for 30 days or as long as possible.
//
// The first CA signs at once. A bundle is valid for at least 1/12 of a year, 30 days, after a client read it; clients must
// read it again within that time. If the Secret is deleted, a new CA signs within minutes, and clients fail until they have
// read the new bundle; use this to replace a CA whose key leaked.
//
// Before the first contact with the API server there is no certificate: handshakes fail, and the log has the cause. If content
// must be served without the API server, use Files.
package certificate

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

// The limits of a client's certificate chain, which is held as long as its connection. Go accepts 256 KiB, which is 2 MiB when
// parsed. Usual chains have one to three certificates of 1 to 2 KiB.
const (
	maxChain      = 10
	maxChainBytes = 32 << 10
)

// TLSConfig returns a server configuration with the certificates of get. It follows Mozilla's intermediate configuration 5.7
// (https://ssl-config.mozilla.org/guidelines/5.7.json) without DHE, which Go lacks, and with Go's curves, which add
// post-quantum key exchange. It offers HTTP/2 and HTTP/1.1. With clientCertificates it requests a certificate and accepts any
// or none, unverified; the handshake fails for a chain of more than 10 certificates or 32 KiB.
func TLSConfig(get func(*tls.ClientHelloInfo) (*tls.Certificate, error), clientCertificates bool) *tls.Config {
	config := &tls.Config{
		GetCertificate: get,
		MinVersion:     tls.VersionTLS12,
		CipherSuites: []uint16{ // of TLS 1.2; those of TLS 1.3 cannot be configured
			tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
			tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
			tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
			tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
			tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
			tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
		},
		NextProtos: []string{"h2", "http/1.1"},
	}
	if clientCertificates {
		config.ClientAuth = tls.RequestClientCert
		config.VerifyConnection = limitChain // also called for resumed sessions
	}
	return config
}

// limitChain returns an error if the certificate chain of the client exceeds a limit.
func limitChain(state tls.ConnectionState) error {
	size := 0
	for _, cert := range state.PeerCertificates {
		size += len(cert.Raw)
	}
	if n := len(state.PeerCertificates); n > maxChain || size > maxChainBytes {
		return fmt.Errorf("client certificate chain of %d certificates and %d bytes exceeds the limits of %d and %d", n, size, maxChain,
			maxChainBytes)
	}
	return nil
}

// rewatch is the delay before a failed watch is retried.
const rewatch = 5 * time.Second

// Files is a certificate chain and its key in two PEM files. They are reloaded when they change, also through symbolic links
// as in mounted Secrets, and every 10 s. An invalid pair is logged, and the previous one stays in use.
type Files struct {
	*certwatcher.CertWatcher
	logger *slog.Logger
}

// NewFiles reads the two files. An error names them.
func NewFiles(cert, key string, logger *slog.Logger) (*Files, error) {
	watcher, err := certwatcher.New(cert, key)
	if err != nil {
		return nil, fmt.Errorf("reading the serving certificate %s and its key %s: %w", cert, key, err)
	}
	watcher.RegisterCallback(func(pair tls.Certificate) {
		logger.Info("serving certificate read", "file", cert, "names", pair.Leaf.DNSNames, "notAfter", pair.Leaf.NotAfter)
	})
	return &Files{CertWatcher: watcher, logger: logger.With("cert", cert, "key", key)}, nil
}

// Run watches the files until ctx ends. It then returns nil.
func (f *Files) Run(ctx context.Context) error {
	for {
		err := f.Start(ctx)
		if ctx.Err() != nil {
			return nil
		}
		f.logger.Error("watching the serving certificate failed; retrying", "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(rewatch):
		}
		if err := f.ReadCertificate(); err != nil {
			f.logger.Error("reading the serving certificate failed; the previous one stays in use", "error", err)
		}
	}
}
