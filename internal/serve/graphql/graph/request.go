// Package graph is the GraphQL schema of catalogd and its resolvers, which read pinned catalogs through the index of the store.
//
// The types of the schema are types of this package; gqlgen generates generated.go from schema.graphqls. Fields from the index or from a
// package's summary read no blobs. Other fields read the blobs of all their siblings at once, in the order of the file. A
// request reads each blob at most once.
package graph

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/operator-catalogs/catalogd/internal/bundle"
	"github.com/operator-catalogs/catalogd/internal/serve/listing"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// Error codes in extensions.code, in addition to gqlgen's codes for parsing and validation.
const (
	CodeInput    = "BAD_USER_INPUT"        // an invalid argument
	CodeNotFound = "NOT_FOUND"             // a catalog that is not served
	CodeLimit    = "LIMIT_EXCEEDED"        // a limit; the message has the remedy
	CodeContent  = "INVALID_CONTENT"       // invalid content of the catalog
	CodeInternal = "INTERNAL_SERVER_ERROR" // the log has the cause

	CodeForbidden   = "FORBIDDEN"         // the content of a bundle image
	CodeRegistry    = "BAD_GATEWAY"       // the registry of a bundle image failed
	CodeBusy        = "TOO_MANY_REQUESTS" // a retry helps
	CodeUnavailable = "UNAVAILABLE"       // a retry helps
)

// Error is an error for the client. Other errors are only logged.
type Error struct {
	Code    string
	Message string
}

func (e *Error) Error() string { return e.Message }

func badInput(format string, args ...any) error {
	return &Error{CodeInput, fmt.Sprintf(format, args...)}
}

// Options configure a Request.
type Options struct {
	BaseURL  string                     // the external URL: scheme and host, no trailing slash
	Priority func(catalog string) int32 // higher wins
	Limits   Limits
	Cache    *Cache         // shared by requests
	Listings *listing.Cache // shared by requests
	// Content opens the content of a bundle of a catalog. It is closed by who created the request. nil: there is none.
	Content func(catalog string, of bundle.Blob) (*bundle.Archive, error)
	// Grow requests more memory than Limits.Memory, once per request; it may block. nil: always granted.
	Grow func() error
}

// Request is a GraphQL request over pinned catalogs. It caches reads until its end. Its creator calls Stop on timeout.
type Request struct {
	Options
	sources []*source // sorted by name

	finding sync.Mutex // serializes the evaluation of lists
	spent   spent
	stopped atomic.Pointer[Error]
}

// NewRequest pins catalogs for a request.
func NewRequest(opts Options, catalogs []store.Catalog) *Request {
	r := &Request{Options: opts}
	for _, c := range catalogs {
		r.sources = append(r.sources, newSource(r, c))
	}
	slices.SortFunc(r.sources, func(a, b *source) int { return cmp.Compare(a.catalog.Name, b.catalog.Name) })
	return r
}

type requestKey struct{}

// WithRequest returns a context with the request for resolvers.
func WithRequest(ctx context.Context, r *Request) context.Context {
	return context.WithValue(ctx, requestKey{}, r)
}

func requestOf(ctx context.Context) *Request { return ctx.Value(requestKey{}).(*Request) }

// Stop ends the request, unless it has ended: no further field is resolved.
func (r *Request) Stop(reason *Error) { r.stopped.CompareAndSwap(nil, reason) }

// Stopped returns the reason of an early end, or nil.
func (r *Request) Stopped() *Error { return r.stopped.Load() }

// check returns the reason if the request has ended.
func (r *Request) check(ctx context.Context) error {
	if ctx.Err() != nil {
		r.Stop(&Error{CodeLimit, context.Cause(ctx).Error()})
	}
	if reason := r.Stopped(); reason != nil {
		return reason
	}
	return nil
}

// source is a pinned catalog with the reads of the request.
type source struct {
	r        *Request
	catalog  *Catalog
	snapshot *store.Snapshot
	weak     weak.Pointer[store.Snapshot] // of snapshot, as a key of Cache
	valid    func() map[string]bool       // names of valid packages
	schemas  func() []*SchemaCount

	mu       sync.Mutex // guards the maps, and is held while reading
	blobs    map[uint32]*blob
	packages map[string]*packageFacts
}

func newSource(r *Request, c store.Catalog) *source {
	s := &source{
		r: r, snapshot: c.Snapshot, weak: weak.Make(c.Snapshot),
		blobs: map[uint32]*blob{}, packages: map[string]*packageFacts{},
	}
	info := c.Snapshot.Info()
	s.catalog = &Catalog{
		src: s, Name: c.Name, Image: c.Image, Digest: info.Digest, URL: r.BaseURL + "/catalogs/" + c.Name,
		Priority: int(r.Priority(c.Name)), LastModified: c.Since, Counts: info,
	}
	s.valid = sync.OnceValue(s.readValid)
	s.schemas = sync.OnceValue(s.countSchemas)
	return s
}

func (s *source) readValid() map[string]bool {
	valid := map[string]bool{}
	for _, name := range s.validNames() {
		valid[name] = true
	}
	return valid
}

// selectValid selects blobs of valid packages.
func (s *source) selectValid(q store.Query) *store.Blobs {
	valid := s.valid()
	return s.keep(s.snapshot.Select(q), func(e store.Entry) bool { return valid[e.Package] })
}

// keep is Blobs.Keep, but skips the filter after the request has stopped.
func (s *source) keep(blobs *store.Blobs, holds func(store.Entry) bool) *store.Blobs {
	return blobs.Keep(func(e store.Entry) bool { return s.r.Stopped() == nil && holds(e) })
}

// scope returns the catalog of a filter, or all catalogs.
func (r *Request) scope(catalog *string) ([]*source, error) {
	name := deref(catalog)
	if name == "" {
		return r.sources, nil
	}
	for _, s := range r.sources {
		if s.catalog.Name == name {
			return []*source{s}, nil
		}
	}
	return nil, &Error{CodeNotFound, fmt.Sprintf("catalog %q is not served; {catalogs{name}} lists the served catalogs", name)}
}

// deref returns the zero value for nil.
func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// orNull returns nil for an empty string.
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// deprecation returns nil for an empty message.
func deprecation(message string) *Deprecation {
	if message == "" {
		return nil
	}
	return &Deprecation{Message: message}
}

// Catalog is a pinned catalog.
type Catalog struct {
	src                      *source
	Name, Image, Digest, URL string
	Priority                 int
	LastModified             time.Time
	Counts                   store.Info
}

// Version returns the name of the version in URLs.
func (c *Catalog) Version() string { return c.src.snapshot.Version() }

// InvalidPackages returns the packages that failed validation.
func (c *Catalog) InvalidPackages() ([]store.InvalidPackage, error) {
	invalid, err := c.src.snapshot.InvalidPackages()
	if err != nil {
		return nil, fmt.Errorf("reading the invalid packages of catalog %s: %w", c.Name, err)
	}
	return invalid, nil
}

// Schemas returns the number of blobs by schema, sorted by name.
func (c *Catalog) Schemas() []*SchemaCount { return c.src.schemas() }

func (s *source) countSchemas() []*SchemaCount {
	counts := map[string]*SchemaCount{}
	all := s.snapshot.Select(store.Query{})
	for i := range all.Len() {
		if s.r.Stopped() != nil {
			break // the request fails
		}
		schema := all.Entry(i).Schema
		if counts[schema] == nil {
			counts[schema] = &SchemaCount{Name: schema}
		}
		counts[schema].Blobs++
	}
	return slices.SortedFunc(maps.Values(counts), func(a, b *SchemaCount) int { return cmp.Compare(a.Name, b.Name) })
}

// Blob is any blob.
type Blob struct{ node }

func newBlob(n node) *Blob { return &Blob{n} }

// Package returns the value of the field package.
func (b *Blob) Package() *string { return orNull(b.Entry.Package) }

// Name returns the name.
func (b *Blob) Name() *string { return orNull(b.Entry.Name) }

// Content returns the JSON.
func (b *Blob) Content() (JSON, error) {
	content, err := b.content()
	return content, err
}

// JSON is a value of the scalar JSON, as text.
type JSON json.RawMessage

// MarshalGQL writes the text unchanged.
func (j JSON) MarshalGQL(w io.Writer) {
	_, _ = w.Write(j) // into the buffer of the reply
}

// UnmarshalGQL returns an error, because no argument has this type.
func (*JSON) UnmarshalGQL(any) error { return errors.New("the scalar JSON occurs only in replies") }
