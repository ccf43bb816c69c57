// Package registry provides access to image registries: credentials, trust, proxies, mirrors, retry times and
// errors for people. It knows neither Kubernetes nor the content of images.
//
// A Client per catalog lists the endpoints of an image in the order to try. Requests are those of
// go-containerregistry, through transports made here. From the wire up: the transport with the catalog's
// certificates and proxy; the cancellation of stalled bodies; the pace, shared by all catalogs, that obeys
// Retry-After and backoff; the resumption of broken blobs; size limits for other responses; the guard against
// plain HTTP and unsafe redirects. Explain turns failures into sentences for people.
package registry

import (
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"
)

// ReferenceForm is the remedy for an invalid image reference.
const ReferenceForm = "write registry/repository:tag, all lower case except the tag, or registry/repository@sha256: and 64 hex digits"

// Config is shared by all catalogs. Fields are required unless their comment gives a meaning for the zero value.
type Config struct {
	UserAgent string // "": go-containerregistry's
	ConfFile  string // containers-registries.conf(5), version 2; "": none. Reloaded when it changes
	CADir     string // directory of *.crt and *.pem files to trust; "": none. Reloaded when it changes
	Jobs      int    // concurrent blobs of one catalog; 0: the 4 of go-containerregistry

	Now     func() time.Time
	Backoff func(failures int) time.Duration // wait after that many failures in a row, with jitter
	Logger  *slog.Logger                     // nil: nothing is logged

	resolver *net.Resolver // for Access.Confined; nil: the system's
}

// Registries is the process's access to registries, shared by all catalogs. It is kept in memory only: a restart
// drops sessions and requested pauses. Its methods may be called concurrently.
type Registries struct {
	config Config
	pace   *pace

	mu        sync.Mutex
	shared    shared
	read      bool   // whether shared was ever loaded
	complaint string // last logged error of the files; "": none
	clients   map[clientKey]*Client
}

// clientKey names a client: a catalog can have one for its own image, and a confined one.
type clientKey struct {
	catalog  string
	confined bool
}

// New sends no request. An error in ConfFile or CADir is logged at once, before the first Client is needed. It
// keeps the process from pulling, not from serving.
func New(config Config) *Registries {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Registries{config: config, pace: newPace(config.Now, config.Backoff), clients: map[clientKey]*Client{}}
	_ = r.refresh() // it logs the error; Client returns it
	return r
}

// Client returns the client of catalog, or its confined one. It stays the same, with its sessions and tokens, while access and the
// content of ConfFile and CADir do. Both files are checked each time. While they are broken, the last good
// version applies and the error is logged once. An error is an *Error of kind Configuration that names the fault
// in access, or in the files if no version was good.
func (r *Registries) Client(catalog string, access Access) (*Client, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.refresh(); err != nil {
		return nil, err
	}
	sum := access.fingerprint(r.shared.sum)
	key := clientKey{catalog, access.Confined}
	old := r.clients[key]
	if old != nil && old.sum == sum {
		return old, nil
	}
	client, err := newClient(r.config, access, r.shared, r.pace)
	if err != nil {
		return nil, err
	}
	client.sum = sum
	r.clients[key] = client
	old.close()
	return client, nil
}

// Forget drops the clients of catalog and closes their idle connections. Requests in flight continue.
func (r *Registries) Forget(catalog string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, confined := range []bool{false, true} {
		key := clientKey{catalog, confined}
		r.clients[key].close()
		delete(r.clients, key)
	}
}

// refresh reloads the shared files if they changed. It fails if no version of them was good. The caller holds
// mu.
func (r *Registries) refresh() error {
	files, err := readShared(r.config, r.shared)
	if err == nil {
		r.shared, r.read, r.complaint = files, true, ""
		return nil
	}
	if complaint := err.Error(); complaint != r.complaint {
		r.complaint = complaint
		r.config.Logger.Error("Loading registry settings failed; using the last good version, if any", "error", err)
	}
	if !r.read {
		return &Error{Kind: Configuration, text: err.Error(), cause: err}
	}
	return nil
}

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

	// Confined is for images that no admin chose: they are pulled from the registries in Only, host[:port], and from
	// configured mirrors. All other hosts, to which a registry redirects or which issue its tokens, must have a
	// public address.
	Confined bool
	Only     []string
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
	return digestOf(files, a.Credentials.sum, a.RootCAs, certificate, a.Proxy, a.Insecure, a.Mirrors, a.Confined, a.Only)
}

// digest identifies settings without revealing them.
type digest [sha256.Size]byte

// digestOf hashes values in their quoted form, which keeps their boundaries.
func digestOf(values ...any) digest { return sha256.Sum256(fmt.Appendf(nil, "%q", values)) }
