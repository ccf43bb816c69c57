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
	"log/slog"
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
	clients   map[string]*Client
}

// New sends no request. An error in ConfFile or CADir is logged at once, before the first Client is needed. It
// keeps the process from pulling, not from serving.
func New(config Config) *Registries {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Registries{config: config, pace: newPace(config.Now, config.Backoff), clients: map[string]*Client{}}
	_ = r.refresh() // it logs the error; Client returns it
	return r
}

// Client returns the client of catalog. It stays the same, with its sessions and tokens, while access and the
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
	old := r.clients[catalog]
	if old != nil && old.sum == sum {
		return old, nil
	}
	client, err := newClient(r.config, access, r.shared, r.pace)
	if err != nil {
		return nil, err
	}
	client.sum = sum
	r.clients[catalog] = client
	old.close()
	return client, nil
}

// Forget drops the client of catalog and closes its idle connections. Requests in flight continue.
func (r *Registries) Forget(catalog string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clients[catalog].close()
	delete(r.clients, catalog)
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
