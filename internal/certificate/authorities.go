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
	bundleKey      = "ca.crt" // all that clients have to trust
	signingCertKey = "tls.crt"
	signingKeyKey  = "tls.key"
	nextCertKey    = "next.crt" // these two only while there is a next
	nextKeyKey     = "next.key"
)

// authorities is what the Secret holds.
type authorities struct {
	signing *authority          // nil: none was made yet
	next    *authority          // is published, and will sign; nil: none
	former  []*x509.Certificate // have signed, and are published until they expire
}

// parseAuthorities reads the data of the Secret. What is damaged is left out, and told in problems.
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

// has tells whether cert is that of the authority which signs, or of the next.
func (h *authorities) has(cert *x509.Certificate) bool {
	return h.signing != nil && h.signing.cert.Equal(cert) || h.next != nil && h.next.cert.Equal(cert)
}

// advance brings the authorities to what they have to be at a time. It is a function of what the Secret holds and of the
// time, so that it does not matter which replica calls it, nor how often. It returns what it did, in words for the log.
func (h *authorities) advance(now time.Time) (done []string, err error) {
	if h.next != nil && h.next.ending(now) {
		h.next = nil // nobody ran for a year
	}
	if h.signing == nil && h.next == nil {
		if h.signing, err = newAuthority(now); err != nil {
			return nil, err
		}
		done = append(done, "made an authority")
	}
	if h.next == nil && h.signing.needsNext(now) {
		if h.next, err = newAuthority(now); err != nil {
			return nil, err
		}
		done = append(done, "made the next authority; clients have to read "+bundleKey+" again before it signs")
	}
	if h.next != nil && (h.signing == nil || h.signing.ending(now) || !now.Before(h.next.made().Add(publishFor))) {
		done = append(done, h.handOver(now))
	}
	h.former = slices.DeleteFunc(h.former, func(cert *x509.Certificate) bool { return now.After(cert.NotAfter) })
	return done, nil
}

// handOver lets the next authority sign, and returns that in words for the log.
func (h *authorities) handOver(now time.Time) string {
	did := "the next authority signs from now on"
	if h.signing != nil {
		if !now.Before(h.signing.cert.NotAfter) {
			did += "; the one before had expired, so that clients failed"
		}
		h.former = append(h.former, h.signing.cert)
	}
	h.signing, h.next = h.next, nil
	return did
}

// bundle is what clients have to trust: the authority that signs, the next, and those before, in PEM form.
func (h *authorities) bundle() []byte {
	certs := []*x509.Certificate{h.signing.cert}
	if h.next != nil {
		certs = append(certs, h.next.cert)
	}
	return encodeCertificates(append(certs, h.former...)...)
}

// store puts the authorities into the data of the Secret, and tells whether that altered it. Other keys are left alone.
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
