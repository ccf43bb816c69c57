// Package registry provides access to image registries: with which credentials, whom to trust, through which proxy, at which
// mirrors, and how soon again. It knows nothing of Kubernetes, and nothing of what is in an image.
//
// A Client per catalog says which endpoints an image has and in which order to ask them; requests themselves are those of
// go-containerregistry, through transports made here. From the wire up: the transport with the catalog's certificates and
// proxy; a watch that cuts stalled bodies; the pace, one for all catalogs, that keeps to what registries ask for; the
// resumption of broken blobs; bounds for all other answers; the guard against plain HTTP and against redirects that lead
// inwards or nowhere. What fails is explained in a sentence for people (Explain).
package registry

import (
	"log/slog"
	"sync"
	"time"
)

// Config is what all catalogs share. Fields without a word on their zero value must be set.
type Config struct {
	UserAgent string // "": go-containerregistry's
	ConfFile  string // containers-registries.conf(5), version 2; "": none. Read again when it changes
	CADir     string // directory of *.crt and *.pem files to trust; "": none. Read again when it changes
	Jobs      int    // blobs fetched at a time by one catalog; 0: go-containerregistry's 4

	Now     func() time.Time
	Backoff func(failures int) time.Duration // how long to wait after so many failures in a row, jitter included
	Logger  *slog.Logger                     // nil: nothing is logged
}

// Registries is the process's access to registries, shared by all catalogs. It is kept in memory only: after a restart no
// session is open and no registry has asked for patience. Its methods may be called by several goroutines at a time.
type Registries struct {
	config Config
	pace   *pace

	mu        sync.Mutex
	shared    shared
	read      bool   // whether shared is a version of the files
	complaint string // what was logged about the files as they are now; "": nothing is wrong with them
	clients   map[string]*Client
}

// New asks nothing of any registry. A fault of ConfFile or CADir, such as that it is not there, is logged at once, and not only
// when the first Client is wanted; it keeps the process from pulling, not from serving what it has.
func New(config Config) *Registries {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Registries{config: config, pace: newPace(config.Now, config.Backoff), clients: map[string]*Client{}}
	_ = r.refresh() // which logs it; Client says it again
	return r
}

// Client returns the client of catalog, which is the same, with its sessions and tokens, as long as access and the content
// of ConfFile and CADir are. Both are looked at anew each time; while what they hold is broken, the last good version goes
// on to count, and the fault is logged once. An error is an *Error of kind Configuration and says what in access is wrong, or
// in the files if there was no good version yet.
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

// Forget drops the client of catalog and closes its idle connections. One that is in use goes on to work.
func (r *Registries) Forget(catalog string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clients[catalog].close()
	delete(r.clients, catalog)
}

// refresh reads the shared files again if they changed. It is an error if there is no good version of them. Its caller
// holds mu.
func (r *Registries) refresh() error {
	files, err := readShared(r.config, r.shared)
	if err == nil {
		r.shared, r.read, r.complaint = files, true, ""
		return nil
	}
	if complaint := err.Error(); complaint != r.complaint {
		r.complaint = complaint
		r.config.Logger.Error("A file about registries cannot be used; its last good version, if any, goes on to count", "error", err)
	}
	if !r.read {
		return &Error{Kind: Configuration, text: err.Error(), cause: err}
	}
	return nil
}
