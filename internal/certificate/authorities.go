package certificate

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"time"
)

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
