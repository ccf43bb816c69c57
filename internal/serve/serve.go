// Package serve provides catalogd's HTTP content service: the catalogs of the store, read only, as
// files, filtered JSON lines, icons, GraphQL, search results and a feed of changes.
//
// The paths /catalogs/{catalog}/api/v1/all and .../metas are those of upstream catalogd
// (operator-framework/operator-controller, internal/catalogd/server) and answer as it does; what
// differs is that conditional requests follow RFC 9110, section 13.
//
// openapi.json describes every path; it is served, too.
package serve

import (
	"cmp"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"

	"github.com/operator-catalogs/catalogd/internal/serve/graphql"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// DigestHeader names, in every content reply, the image digest the content came from, so that a
// client of several URLs can tell whether all its answers belong together.
const DigestHeader = "Catalogd-Digest"

// Catalogs is what is served; *store.Store implements it.
type Catalogs interface {
	// Catalog returns the catalog of that name, and whether there is one.
	Catalog(name string) (store.Catalog, bool)
	// Catalogs returns every catalog, sorted by name.
	Catalogs() []store.Catalog
	// CatalogAt returns the catalog with the content of a version, which it serves, or served and still keeps.
	CatalogAt(name, version string) (store.Catalog, bool)
	// Changed returns a channel that is closed at the next change of any catalog: ask for it before you look.
	Changed() <-chan struct{}
}

// Polls tells when this process last polled a catalog and when it will next; zero means unknown.
type Polls func(catalog string) (last, next time.Time)

// Config is what the service is made of. Catalogs and Logger have to be given.
type Config struct {
	Catalogs    Catalogs
	Polls       Polls                       // nil: unknown
	Priority    func(catalog string) int32  // of two packages that fit a search equally, the one of the higher comes first; nil: all 0
	Awaited     func(catalog string) string // the digest that a catalog is to serve, here as elsewhere; "" if none is known. nil: there is nobody else
	Expected    func() []string             // the catalogs that are to be served here, as elsewhere; nil: those that are
	Authorize   Authorize                   // nil: everybody may read
	BaseURL     string                      // where clients reach the service: scheme and host, no trailing slash
	MaxQueries  int                         // how many requests that take work are answered at a time; default 32
	Metrics     prometheus.Registerer       // nil: none are kept
	Tracer      trace.Tracer                // nil: nothing is traced
	Version     string                      // of this program; default "unknown"
	APIVersions []string                    // of its kinds, those that it serves and writes
	Done        <-chan struct{}             // closed when the process is told to end: change feeds end then; nil: never
	Logger      *slog.Logger
}

type server struct {
	Config
	mux        *http.ServeMux // of the routes
	front      *http.ServeMux // the same, and elsewhere for all others
	graphql    *graphql.Handler
	metrics    *metrics
	encoders   *encoders
	queries    slots
	selected   budget // of blobs
	answers    budget // of GraphQL, in bytes
	watches    slots
	complaints *rate.Sometimes // about the API server: many requests may have the same to say
	told       *eventCache
	patience   time.Duration           // how long a search may take
	heartbeat  func() <-chan time.Time // gives something when a feed was quiet for long
	lifetime   func() <-chan time.Time // gives something when a feed that begins now has to end
}

// New returns the handler of every path. All but GraphQL's answer GET and HEAD only. An error is text/plain: the status on the first
// line, a sentence for people on the second; but for errors in a GraphQL query, which have the form of GraphQL. Metrics may be given
// to one handler only.
func New(cfg Config) http.Handler { return newServer(cfg) }

func newServer(cfg Config) *server {
	if cfg.Polls == nil {
		cfg.Polls = func(string) (last, next time.Time) { return time.Time{}, time.Time{} }
	}
	if cfg.Priority == nil {
		cfg.Priority = func(string) int32 { return 0 }
	}
	if cfg.Awaited == nil {
		cfg.Awaited = func(string) string { return "" }
	}
	if cfg.Expected == nil {
		cfg.Expected = func() []string { return nil }
	}
	s := &server{
		Config:     cfg,
		mux:        http.NewServeMux(),
		front:      http.NewServeMux(),
		graphql:    graphql.New(graphql.Config{BaseURL: cfg.BaseURL, Priority: cfg.Priority, Logger: cfg.Logger}),
		metrics:    newMetrics(cfg.Metrics),
		encoders:   newEncoders(cmp.Or(cfg.MaxQueries, 32)),
		queries:    make(slots, cmp.Or(cfg.MaxQueries, 32)),
		selected:   newSelected(),
		answers:    newAnswers(),
		watches:    make(slots, maxWatches),
		complaints: &rate.Sometimes{Interval: 5 * time.Second},
		told:       newEventCache(),
		patience:   searchTime,
		heartbeat:  func() <-chan time.Time { return time.After(quiet) },
		lifetime: func() <-chan time.Time {
			return time.After(lifetime + rand.N(lifetime)) //nolint:gosec // G404: no secret, only so that they do not all come again at once
		},
	}
	for _, route := range s.routes() {
		for _, method := range route.methods {
			pattern, handler := method+" "+route.path, s.adapt(route.handler)
			s.mux.Handle(pattern, handler)
			s.front.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.admit(pattern, handler, w, r) })
		}
	}
	s.front.HandleFunc("/", s.elsewhere)
	return s
}

// ServeHTTP implements http.Handler. A path is looked up once if it is one of a route as it stands.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header()["X-Content-Type-Options"] = noSniff
	if p := r.URL.EscapedPath(); strings.HasPrefix(p, "/") && !strings.Contains(p, "//") && !strings.Contains(p, "/.") {
		s.front.ServeHTTP(w, r)
		return
	}
	s.elsewhere(w, r) // the mux may redirect to the path that is meant
}

// elsewhere leaves to the mux what to say where no route answers.
func (s *server) elsewhere(w http.ResponseWriter, r *http.Request) {
	_, pattern := s.mux.Handler(r)
	s.admit(pattern, s.mux, w, r)
}

// admit counts a request, and has it answered if its sender may read. Who may not learns nothing, not even which paths there are.
func (s *server) admit(pattern string, next http.Handler, w http.ResponseWriter, r *http.Request) {
	reply := &replyWriter{ResponseWriter: w}
	defer s.metrics.start(pattern, r.Method)(reply)
	if s.Tracer != nil {
		traced, end := s.trace(s.metrics.of(pattern).route, r)
		defer end(reply)
		r = traced
	}
	if err := s.access(r); err != nil {
		s.fail(reply, r, err)
		return
	}
	next.ServeHTTP(reply, r)
}

// Values of headers that many replies have. Nobody changes them.
var (
	noSniff      = []string{"nosniff"}
	noCache      = []string{"no-cache"}
	linesHeader  = []string{typeLines}
	acceptRanges = []string{"bytes"}
	varyEncoding = []string{"Accept-Encoding"}
)

// addVary notes that the reply depends on Accept-Encoding.
func addVary(h http.Header) {
	if h["Vary"] == nil {
		h["Vary"] = varyEncoding
		return
	}
	h.Add("Vary", "Accept-Encoding")
}
