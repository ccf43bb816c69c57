package certificate

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"
)

// Lifetimes; see the package comment. A CA stops signing at 9/12 of its lifetime, so it outlives what it signed.
const (
	authorityLife = 365 * 24 * time.Hour // of those made here
	publishFor    = authorityLife / 12   // before it signs
	servingLife   = 90 * 24 * time.Hour

	// signUntil is the time before its expiry at which a CA is replaced even if its successor was not published for long
	// enough.
	signUntil = 24 * time.Hour
	// skew is the tolerance for clients whose clocks are slow.
	skew = time.Hour
)

// An authority is a CA that signs serving certificates.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func newAuthority(now time.Time) (*authority, error) {
	template := &x509.Certificate{
		// OpenSSL distinguishes CAs by their names.
		Subject:               pkix.Name{CommonName: "catalogd serving CA " + now.UTC().Format(time.RFC3339Nano)},
		NotBefore:             now.Add(-skew),
		NotAfter:              now.Add(authorityLife),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	cert, key, err := sign(template, nil)
	if err != nil {
		return nil, fmt.Errorf("creating a CA: %w", err)
	}
	return &authority{cert: cert, key: key}, nil
}

// sign creates a key and its certificate, which the CA signs; without a CA it is self-signed.
func sign(template *x509.Certificate, ca *authority) (*x509.Certificate, crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if ca == nil {
		ca = &authority{template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return cert, key, err
}

// parseAuthority parses a CA that can sign from PEM blocks.
func parseAuthority(cert, key []byte) (*authority, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	signer, ok := pair.PrivateKey.(crypto.Signer)
	maySign := pair.Leaf.KeyUsage == 0 || pair.Leaf.KeyUsage&x509.KeyUsageCertSign != 0
	if !ok || !pair.Leaf.IsCA || !maySign || len(pair.Certificate) > 1 {
		return nil, errors.New("not the certificate of a single CA")
	}
	return &authority{cert: pair.Leaf, key: signer}, nil
}

func (a *authority) made() time.Time { return a.cert.NotBefore.Add(skew) }

// life returns the lifetime; that of a provided CA may be negative.
func (a *authority) life() time.Duration { return a.cert.NotAfter.Sub(a.made()) }

// needsNext reports whether the successor must exist, so that it is published for long enough before a is 9/12 old.
func (a *authority) needsNext(now time.Time) bool {
	return a.ending(now) || !now.Before(a.made().Add(a.life()*9/12).Add(-publishFor))
}

// ending reports whether it must stop signing.
func (a *authority) ending(now time.Time) bool {
	return a.cert.NotAfter.Sub(now) < min(signUntil, a.life()/12) || !now.Before(a.cert.NotAfter)
}

// encode returns the PEM blocks that parseAuthority parses.
func (a *authority) encode() (cert, key []byte, err error) {
	der, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the key of a CA: %w", err)
	}
	return encodeCertificates(a.cert), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

func encodeCertificates(certs ...*x509.Certificate) []byte {
	var out []byte
	for _, cert := range certs {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})...)
	}
	return out
}

// issue returns a serving certificate for host names and IP addresses.
func (a *authority) issue(names []string, now time.Time) (*tls.Certificate, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "catalogd"},
		NotBefore:   now.Add(-skew),
		NotAfter:    now.Add(servingLife),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if template.NotAfter.After(a.cert.NotAfter) {
		template.NotAfter = a.cert.NotAfter
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	leaf, key, err := sign(template, a)
	if err != nil {
		return nil, fmt.Errorf("creating the serving certificate: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}, nil
}

// needsRenewal reports whether 2/3 of the lifetime of a serving certificate are over.
func needsRenewal(serving *tls.Certificate, now time.Time) bool {
	made := serving.Leaf.NotBefore.Add(skew)
	return !now.Before(made.Add(serving.Leaf.NotAfter.Sub(made) * 2 / 3))
}

// Keys of the Secret, and the first of them of the ConfigMap too.
const (
	bundleKey      = "ca.crt" // what clients must trust
	signingCertKey = "tls.crt"
	signingKeyKey  = "tls.key"
	nextCertKey    = "next.crt" // only during a rotation
	nextKeyKey     = "next.key"
)

// authorities is the content of the Secret.
type authorities struct {
	signing *authority          // nil: none yet
	next    *authority          // published, signs later; nil: none
	former  []*x509.Certificate // have signed; published until they expire
}

// parseAuthorities parses the data of the Secret. It skips damaged entries and returns them as problems.
func parseAuthorities(data map[string][]byte) (held authorities, problems []string) {
	read := func(certKey, keyKey string) *authority {
		a, err := parseAuthority(data[certKey], data[keyKey])
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s and %s: %v", certKey, keyKey, err))
		}
		return a
	}
	held.signing = read(signingCertKey, signingKeyKey)
	if data[nextCertKey] != nil || data[nextKeyKey] != nil {
		held.next = read(nextCertKey, nextKeyKey)
	}
	for block, rest := pem.Decode(data[bundleKey]); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s: %v", bundleKey, err))
			continue
		}
		held.former = append(held.former, cert)
	}
	held.former = slices.DeleteFunc(held.former, func(cert *x509.Certificate) bool { return held.has(cert) })
	return held, problems
}

// has reports whether cert belongs to the signing CA or the next one.
func (h *authorities) has(cert *x509.Certificate) bool {
	return h.signing != nil && h.signing.cert.Equal(cert) || h.next != nil && h.next.cert.Equal(cert)
}

// advance does what is due at a time. The result depends only on the Secret and the time, so any replica can call it at any
// time. It returns what it did, for the log.
func (h *authorities) advance(now time.Time) (done []string, err error) {
	if h.next != nil && h.next.ending(now) {
		h.next = nil // nothing has run for a year
	}
	if h.signing == nil && h.next == nil {
		if h.signing, err = newAuthority(now); err != nil {
			return nil, err
		}
		done = append(done, "created a CA")
	}
	if h.next == nil && h.signing.needsNext(now) {
		if h.next, err = newAuthority(now); err != nil {
			return nil, err
		}
		done = append(done, "created the next CA; clients must read "+bundleKey+" again before it signs")
	}
	if h.next != nil && (h.signing == nil || h.signing.ending(now) || !now.Before(h.next.made().Add(publishFor))) {
		done = append(done, h.handOver(now))
	}
	h.former = slices.DeleteFunc(h.former, func(cert *x509.Certificate) bool { return now.After(cert.NotAfter) })
	return done, nil
}

// handOver lets the next CA sign. It returns what it did, for the log.
func (h *authorities) handOver(now time.Time) string {
	did := "the next CA signs from now on"
	if h.signing != nil {
		if !now.Before(h.signing.cert.NotAfter) {
			did += "; the previous one had expired, so clients failed"
		}
		h.former = append(h.former, h.signing.cert)
	}
	h.signing, h.next = h.next, nil
	return did
}

// bundle returns the certificates that clients must trust in PEM form: of the signing CA, the next and former ones.
func (h *authorities) bundle() []byte {
	certs := []*x509.Certificate{h.signing.cert}
	if h.next != nil {
		certs = append(certs, h.next.cert)
	}
	return encodeCertificates(append(certs, h.former...)...)
}

// store writes the authorities into the data of the Secret and reports whether that changed it. It keeps other keys.
func (h *authorities) store(data map[string][]byte) (changed bool, err error) {
	want := map[string][]byte{bundleKey: h.bundle(), nextCertKey: nil, nextKeyKey: nil}
	if want[signingCertKey], want[signingKeyKey], err = h.signing.encode(); err != nil {
		return false, err
	}
	if h.next != nil {
		if want[nextCertKey], want[nextKeyKey], err = h.next.encode(); err != nil {
			return false, err
		}
	}
	for key, value := range want {
		if bytes.Equal(data[key], value) {
			continue
		}
		changed = true
		if data[key] = value; value == nil {
			delete(data, key)
		}
	}
	return changed, nil
}
