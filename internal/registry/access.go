package registry

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"hash"
	"log/slog"
	"net/url"
	"strings"
)

// Access is how one catalog reaches its registries. The zero value is anonymous, trusts what this process trusts, and goes
// through the proxy of the environment (HTTPS_PROXY, NO_PROXY). Printed or logged it shows no secret.
type Access struct {
	Credentials Credentials
	RootCAs     []byte           // PEM; trusted besides the system's and those of Config.CADir
	Certificate *tls.Certificate // shown to a registry that asks for one; nil: none
	Proxy       *url.URL         // in place of the environment's, for every host; may have user information; nil: the environment's
	Insecure    bool             // plain HTTP, and certificates that nobody vouches for, will do
	Mirrors     []Mirror         // tried in order, before those of Config.ConfFile
}

// Mirror is another place where images can be had, as a [[registry.mirror]] of containers-registries.conf(5).
type Mirror struct {
	Source   string // prefix of the images that are there: "quay.io", "quay.io/ns", "quay.io/ns/repo"; "": the image's registry
	Location string // what stands there in place of Source: "mirror.example:5000", "mirror.example/quay"
	PullFrom string // "all" (or ""), "digest-only", "tag-only"
	Insecure bool
}

// String says what is there, and no value of it.
func (a Access) String() string {
	proxy := "environment"
	if a.Proxy != nil {
		proxy = a.Proxy.Host
	}
	return fmt.Sprintf("registry.Access{%v, own CAs: %t, certificate: %t, proxy: %s, insecure: %t, mirrors: %d}",
		a.Credentials, len(a.RootCAs) > 0, a.Certificate != nil, proxy, a.Insecure, len(a.Mirrors))
}

// GoString is String, so that %#v shows no more.
func (a Access) GoString() string { return a.String() }

// LogValue is String, so that handlers that take values apart show no more.
func (a Access) LogValue() slog.Value { return slog.StringValue(a.String()) }

// via names the way to registries for the pace: "" is that of all catalogs without a setting for it.
func (a Access) via(insecure bool) string {
	var way []string
	if a.Proxy != nil {
		way = append(way, a.Proxy.Scheme+"://"+a.Proxy.Host)
	}
	if insecure {
		way = append(way, "insecure")
	}
	return strings.Join(way, ", ")
}

// fingerprint tells an Access from another, and from itself over other shared files. It does not give away what it is of.
func (a Access) fingerprint(files [sha256.Size]byte) [sha256.Size]byte {
	f := newFingerprint()
	f.add(files[:], a.Credentials.sum[:], a.RootCAs)
	if a.Certificate != nil {
		f.add(a.Certificate.Certificate...) // each is bound to its key
	}
	if a.Proxy != nil {
		f.add([]byte(a.Proxy.String()))
	}
	f.add(fmt.Appendf(nil, "%t %#v", a.Insecure, a.Mirrors))
	return f.sum()
}

// fingerprint is a hash over parts, and over where they end.
type fingerprint struct{ hash hash.Hash }

func newFingerprint() fingerprint { return fingerprint{sha256.New()} }

// add adds a group of parts, which differs from the same parts in several groups.
func (f fingerprint) add(parts ...[]byte) {
	f.hash.Write(binary.BigEndian.AppendUint64(nil, uint64(len(parts))))
	for _, part := range parts {
		f.hash.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		f.hash.Write(part)
	}
}

func (f fingerprint) sum() [sha256.Size]byte { return [sha256.Size]byte(f.hash.Sum(nil)) }
