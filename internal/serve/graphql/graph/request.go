// Package graph is the GraphQL schema of catalogd and what answers it: pinned catalogs, read through the index of the store.
//
// The types that the schema names are those of this package; generated.go, made of schema.graphqls by gqlgen, calls them. A field that
// the index or a package's summary can answer reads no blob. Any other reads the blobs of all its siblings in the answer at once, in
// the order of the file, and each blob at most once a request.
package graph

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// The codes of errors, in extensions.code, beside those of gqlgen for what does not parse or fit the schema.
const (
	CodeInput    = "BAD_USER_INPUT"        // an argument cannot be used; the message says which and why
	CodeNotFound = "NOT_FOUND"             // an argument names a catalog that is not served
	CodeLimit    = "LIMIT_EXCEEDED"        // the message says the limit and what to do
	CodeContent  = "INVALID_CONTENT"       // the catalog holds something that cannot be read
	CodeInternal = "INTERNAL_SERVER_ERROR" // the log has the cause
)

// Error is an error with a message for the client. Any other error stays in the log.
type Error struct {
	Code    string
	Message string
}

func (e *Error) Error() string { return e.Message }

func badInput(format string, args ...any) error {
	return &Error{CodeInput, fmt.Sprintf(format, args...)}
}

// Options are what answers depend on beside the catalogs.
type Options struct {
	BaseURL  string                     // where clients reach the service: scheme and host, no trailing slash
	Priority func(catalog string) int32 // higher wins; nil: all 0
	Limits   Limits
	Kept     *Kept // of all requests; nil: the request keeps what it finds for itself
	// Grow asks for leave to take more memory than Limits.Memory, once a request; it may wait. nil: it is always given.
	Grow func() error
}

// Request is one GraphQL request over catalogs as they were when it came. It belongs to that request and keeps what it read until its end.
// Whoever makes it calls Stop when its time is over.
type Request struct {
	Options
	sources []*source // sorted by name

	finding sync.Mutex // held while a list is found
	spent   spent
	stopped atomic.Pointer[Error]
}

// NewRequest pins catalogs for a request.
func NewRequest(opts Options, catalogs []store.Catalog) *Request {
	r := &Request{Options: opts}
	if r.Kept == nil {
		r.Kept = NewKept()
	}
	for _, c := range catalogs {
		s := &source{r: r, at: c, snapshot: weak.Make(c.Snapshot), blobs: map[uint32]*blob{}, packages: map[string]*packageFacts{}}
		if opts.Priority != nil {
			s.priority = opts.Priority(c.Name)
		}
		s.sound = sync.OnceValue(s.readSound)
		s.schemas = sync.OnceValue(s.countSchemas)
		r.sources = append(r.sources, s)
	}
	slices.SortFunc(r.sources, func(a, b *source) int { return cmp.Compare(a.at.Name, b.at.Name) })
	return r
}

type requestKey struct{}

// WithRequest gives the resolvers that run with the context their request.
func WithRequest(ctx context.Context, r *Request) context.Context {
	return context.WithValue(ctx, requestKey{}, r)
}

func requestOf(ctx context.Context) *Request { return ctx.Value(requestKey{}).(*Request) }

// Stop ends the request for the reason given, unless it has ended already: no further field is resolved.
func (r *Request) Stop(reason *Error) { r.stopped.CompareAndSwap(nil, reason) }

// Stopped is why the request ended early, nil if it did not.
func (r *Request) Stopped() *Error { return r.stopped.Load() }

// check tells whether the request may go on.
func (r *Request) check(ctx context.Context) error {
	if ctx.Err() != nil {
		r.Stop(&Error{CodeLimit, context.Cause(ctx).Error()})
	}
	if reason := r.Stopped(); reason != nil {
		return reason
	}
	return nil
}

// turn waits until no other list of the request is being found, so that many of them end when the request does. The caller calls done.
func (r *Request) turn(ctx context.Context) (done func(), err error) {
	r.finding.Lock()
	if err := r.check(ctx); err != nil {
		r.finding.Unlock()
		return nil, err
	}
	return r.finding.Unlock, nil
}

// source is one pinned catalog and what the request has read of it.
type source struct {
	r        *Request
	at       store.Catalog
	snapshot weak.Pointer[store.Snapshot] // that of at, as what is kept names it
	priority int32
	sound    func() map[string]bool // the names of the sound packages
	schemas  func() []*SchemaCount

	mu       sync.Mutex // guards the maps, and is held while reading
	blobs    map[uint32]*blob
	packages map[string]*packageFacts
}

func (s *source) readSound() map[string]bool {
	names := s.soundNames()
	sound := make(map[string]bool, len(names))
	for _, name := range names {
		sound[name] = true
	}
	return sound
}

// selectSound selects blobs of sound packages.
func (s *source) selectSound(q store.Query) *store.Blobs {
	sound := s.sound()
	return s.keep(s.at.Snapshot.Select(q), func(e store.Entry) bool { return sound[e.Package] })
}

// keep is Blobs.Keep, which may hold an entry against much and be asked of 100,000s of them: it is quick once the request has stopped.
func (s *source) keep(blobs *store.Blobs, holds func(store.Entry) bool) *store.Blobs {
	return blobs.Keep(func(e store.Entry) bool { return s.r.Stopped() == nil && holds(e) })
}

// scope are the catalogs that a filter names: one, or all. It is an error to name one that is not among those of the request.
func (r *Request) scope(catalog *string) ([]*source, error) {
	name := deref(catalog)
	if name == "" {
		return r.sources, nil
	}
	for _, s := range r.sources {
		if s.at.Name == name {
			return []*source{s}, nil
		}
	}
	return nil, &Error{CodeNotFound, fmt.Sprintf("catalog %q is not served here; {catalogs{name}} lists the catalogs that are", name)}
}

// deref takes what is not given for empty.
func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// orNull takes what is empty for not given.
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// deprecation is one with a message, nil without.
func deprecation(message string) *Deprecation {
	if message == "" {
		return nil
	}
	return &Deprecation{Message: message}
}

// summarySize is about how many bytes are read for a summary.
func summarySize(s fbc.Summary) int64 {
	return int64(300 + len(s.Name) + len(s.DisplayName) + len(s.ShortDescription) + len(s.Description) + len(s.Head))
}
