package certificate

import (
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
	"time"
)

// The lives of certificates; the package comment shows how they follow each other. An authority has signed for the last time
// when it is 9/12 old, and so outlives what it signed.
const (
	authorityLife = 365 * 24 * time.Hour // of those made here
	publishFor    = authorityLife / 12   // before it signs
	servingLife   = 90 * 24 * time.Hour

	// signUntil is how long before its end an authority gives way to a next that was not published for long enough: none
	// was running to make it in time, or it does not live long enough for that.
	signUntil = 24 * time.Hour
	// skew is how far the clocks of clients may be behind.
	skew = time.Hour
)

// An authority signs serving certificates.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func newAuthority(now time.Time) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the key of an authority: %w", err)
	}
	template := &x509.Certificate{
		// Each has a name of its own: OpenSSL tells authorities apart by it.
		Subject:               pkix.Name{CommonName: "catalogd serving CA " + now.UTC().Format(time.RFC3339Nano)},
		NotBefore:             now.Add(-skew),
		NotAfter:              now.Add(authorityLife),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("making the certificate of an authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("making the certificate of an authority: %w", err)
	}
	return &authority{cert: cert, key: key}, nil
}

// parseAuthority reads an authority from PEM blocks. What is returned can sign.
func parseAuthority(cert, key []byte) (*authority, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	signer, ok := pair.PrivateKey.(crypto.Signer)
	maySign := pair.Leaf.KeyUsage == 0 || pair.Leaf.KeyUsage&x509.KeyUsageCertSign != 0
	if !ok || !pair.Leaf.IsCA || !maySign || len(pair.Certificate) > 1 {
		return nil, errors.New("it is not the certificate of one authority")
	}
	return &authority{cert: pair.Leaf, key: signer}, nil
}

func (a *authority) made() time.Time { return a.cert.NotBefore.Add(skew) }

// life is how long it lives; of what somebody else made it may be less than nothing.
func (a *authority) life() time.Duration { return a.cert.NotAfter.Sub(a.made()) }

// needsNext tells whether the next has to be there, which is for long enough before a is 9/12 old.
func (a *authority) needsNext(now time.Time) bool {
	return a.ending(now) || !now.Before(a.made().Add(a.life()*9/12).Add(-publishFor))
}

// ending tells whether it must not sign any longer.
func (a *authority) ending(now time.Time) bool {
	return a.cert.NotAfter.Sub(now) < min(signUntil, a.life()/12) || !now.Before(a.cert.NotAfter)
}

// encode is the opposite of parseAuthority.
func (a *authority) encode() (cert, key []byte, err error) {
	der, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the key of an authority: %w", err)
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

// issue makes a serving certificate for names, which are host names and IP addresses.
func (a *authority) issue(names []string, now time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the serving key: %w", err)
	}
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
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("signing the serving certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("signing the serving certificate: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}

// outworn tells whether 2/3 of a serving certificate's life are over.
func outworn(serving *tls.Certificate, now time.Time) bool {
	made := serving.Leaf.NotBefore.Add(skew)
	return !now.Before(made.Add(serving.Leaf.NotAfter.Sub(made) * 2 / 3))
}
