// Package certificate provides the serving certificate of the content service, from one of two places:
//
//   - Files, as somebody else (cert-manager, an administrator) keeps them, reloaded while they are in use;
//   - SelfSigned, an authority (CA) of catalogd's own, whose certificate is published for clients.
//
// The authority lies in Secret catalogd-serving-ca in catalogd's namespace, so that all replicas share it, and each process
// makes its serving certificates in memory. What clients have to trust stands under ca.crt in ConfigMap catalogd-ca, and in
// the Secret likewise: one certificate, two while one authority gives way to the next.
//
//	age of the authority   0             1/12           8/12           9/12           12/12
//	it                     is published  signs          next is made   next signs     expires
//
// These are parts of its own life; an administrator may have put one there that lives shorter than the year of those made here.
// The next is then made earlier, at once if need be, so that it is published for 30 days too, or for as long as there is time.
//
// The first authority of all signs at once. A bundle that was read at any time is thus good for 1/12 of a year, 30 days, at
// least; clients have to read it again within that time. If the Secret is deleted, a new authority signs within minutes, and
// clients fail until they have read the new bundle; that is how to be rid of an authority whose key got out.
//
// Until a process has reached the API server it has no authority and so no certificate: handshakes fail, and the log says
// why. Where content has to be served although the API server is gone for long, give catalogd files.
package certificate

import (
	"crypto/tls"
	"fmt"
)

// The most that a client may send to say who it is. What it sends is held as long as its connection, and Go by itself takes 256
// KiB of it: 2 MiB when parsed. Chains of people and accounts have one to three certificates, of 1 to 2 KiB.
const (
	maxChain      = 10
	maxChainBytes = 32 << 10
)

// TLSConfig returns how to serve with the certificates that get gives: Mozilla's intermediate list, version 5.7
// (https://ssl-config.mozilla.org/guidelines/5.7.json), as far as Go has it, which is TLS 1.2 and 1.3 without DHE; curves as
// Go prefers them, which is that list and post-quantum key exchange. It offers HTTP/2 and HTTP/1.1. With clientCertificates
// it asks clients for one and takes any, or none: it is for who looks at the request to verify it. Of a chain of more than 10
// certificates, or 32 KiB, the handshake fails.
func TLSConfig(get func(*tls.ClientHelloInfo) (*tls.Certificate, error), clientCertificates bool) *tls.Config {
	config := &tls.Config{
		GetCertificate: get,
		MinVersion:     tls.VersionTLS12,
		CipherSuites: []uint16{ // of TLS 1.2; those of 1.3 are all good and cannot be chosen
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
		config.VerifyConnection = limitChain // when a session is resumed, too
	}
	return config
}

// limitChain returns an error if the client sent more than it may.
func limitChain(state tls.ConnectionState) error {
	size := 0
	for _, cert := range state.PeerCertificates {
		size += len(cert.Raw)
	}
	if n := len(state.PeerCertificates); n > maxChain || size > maxChainBytes {
		return fmt.Errorf("the client sent %d certificates of %d bytes, more than %d of %d", n, size, maxChain, maxChainBytes)
	}
	return nil
}
