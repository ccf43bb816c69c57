package registry

import (
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
)

// Access holds the settings by which one catalog reaches its registries. The zero value is anonymous, trusts
// what the process trusts and uses the proxy of the environment (HTTPS_PROXY, NO_PROXY). Its printed form
// contains no secret.
type Access struct {
	Credentials Credentials
	RootCAs     []byte           // PEM; trusted besides the system's and those of Config.CADir
	Certificate *tls.Certificate // presented when a registry requests one; nil: none
	Proxy       *url.URL         // http or https, for every host; may contain user information; nil: that of the environment
	Insecure    bool             // allows plain HTTP and unverified certificates
	Mirrors     []Mirror         // tried in order, before those of Config.ConfFile
}

// Mirror is an alternative location of images, like a [[registry.mirror]] of containers-registries.conf(5).
type Mirror struct {
	Source   string // image prefix: "quay.io", "quay.io/ns", "quay.io/ns/repo"; "": the image's registry
	Location string // replaces Source: "mirror.example:5000", "mirror.example/quay"
	PullFrom string // "all" (or ""), "digest-only", "tag-only"
	Insecure bool
}

// String returns a summary without any secret.
func (a Access) String() string {
	proxy := "environment"
	if a.Proxy != nil {
		proxy = a.Proxy.Host
	}
	return fmt.Sprintf("registry.Access{%v, own CAs: %t, certificate: %t, proxy: %s, insecure: %t, mirrors: %d}",
		a.Credentials, len(a.RootCAs) > 0, a.Certificate != nil, proxy, a.Insecure, len(a.Mirrors))
}

// GoString returns String, so that %#v shows no secret.
func (a Access) GoString() string { return a.String() }

// LogValue returns String, so that log handlers show no secret.
func (a Access) LogValue() slog.Value { return slog.StringValue(a.String()) }

// via returns the route to registries, as a key for the pace. "" is the default route.
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

// fingerprint returns a hash that changes with the Access or the shared files. It reveals neither.
func (a Access) fingerprint(files digest) digest {
	var certificate [][]byte
	if a.Certificate != nil {
		certificate = a.Certificate.Certificate // it identifies its key
	}
	return digestOf(files, a.Credentials.sum, a.RootCAs, certificate, a.Proxy, a.Insecure, a.Mirrors)
}

// digest identifies settings without revealing them.
type digest [sha256.Size]byte

// digestOf hashes values in their quoted form, which keeps their boundaries.
func digestOf(values ...any) digest { return sha256.Sum256(fmt.Appendf(nil, "%q", values)) }
