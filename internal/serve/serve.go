// Package serve is the HTTP content service of catalogd. It serves the catalogs of the store, read only, as files, filtered
// JSON lines, icons, GraphQL, search results and a feed of changes.
//
// The paths /catalogs/{catalog}/api/v1/all and .../metas are those of upstream catalogd
// (operator-framework/operator-controller, internal/catalogd/server) and behave the same, except that conditional requests
// follow RFC 9110, section 13.
//
// openapi.json documents every path and is served too.
package serve

import (
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"
	"k8s.io/utils/lru"

	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/limit"
	"github.com/operator-catalogs/catalogd/internal/serve/graphql"
	"github.com/operator-catalogs/catalogd/internal/serve/listing"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// DigestHeader is the image digest of the content of a response. Clients of several URLs can check that all of their
// responses belong together.
const DigestHeader = "Catalogd-Digest"

// Polls returns the times of the last and the next poll of a catalog by this process; zero means unknown.
type Polls func(catalog string) (last, next time.Time)

// Awaited describes a catalog that this replica does not serve, or of which it serves an older version.
type Awaited struct {
	Exists  bool   // the catalog is to be served
	Unknown bool   // the API server has not said yet which catalogs exist
	Digest  string // that other replicas serve; "" if there is none
}

// Config configures the service.
type Config struct {
	Catalogs    *store.Store
	Polls       Polls
	Sources     func() []Source            // all existing catalogs, also those not served; nil: unknown
	Priority    func(catalog string) int32 // orders equal search results
	Awaited     func(catalog string) Awaited
	Expected    func() []string // the catalogs that other replicas serve
	Access      Access          // nil: everybody may read
	Bundles     BundleImages    // nil: no bundle images are pulled
	Limits      *limit.Limits
	BaseURL     string                // scheme and host at which clients reach the service, without a trailing slash
	Metrics     prometheus.Registerer // nil: no metrics
	Tracer      trace.Tracer          // nil: no traces
	Version     string                // of this program; default "unknown"
	APIVersions []string              // of the kinds that this program serves and writes
	Now         func() time.Time      // nil: time.Now
	Done        <-chan struct{}       // closed when the process is about to end, which ends change feeds; nil: never
	Logger      *slog.Logger
}

// server passes requests to the parts.
type server struct {
	*parts
	responder
	gate    *gate
	tracer  trace.Tracer
	metrics *metrics
	mux     *http.ServeMux // the routes
	front   *http.ServeMux // the routes behind admit, and fallback for other paths
}

// New returns the handler of every path. GraphQL accepts GET, HEAD and POST; all other paths accept GET and HEAD. Errors are
// text/plain: the status in the first line and an explanation in the second. Errors in a GraphQL query have the form of
// GraphQL. A Registerer can be used for one handler only.
func New(cfg Config) http.Handler { return newServer(cfg) }

func newServer(cfg Config) *server {
	gate := &gate{access: cfg.Access, failures: rate.Sometimes{Interval: 5 * time.Second}, logger: cfg.Logger}
	s := &server{
		parts: newParts(cfg, gate), responder: responder{cfg.Logger}, gate: gate,
		tracer: cfg.Tracer, metrics: newMetrics(cfg.Metrics), mux: http.NewServeMux(), front: http.NewServeMux(),
	}
	for _, route := range s.routes() {
		for _, method := range route.methods {
			pattern, handler := method+" "+route.path, s.handle(route.handler)
			s.mux.Handle(pattern, handler)
			s.front.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.admit(pattern, handler, w, r) })
		}
	}
	s.front.HandleFunc("/", s.fallback)
	return s
}

// ServeHTTP implements http.Handler. For a clean path the route is looked up only once.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header()["X-Content-Type-Options"] = noSniff
	if p := r.URL.EscapedPath(); strings.HasPrefix(p, "/") && !strings.Contains(p, "//") && !strings.Contains(p, "/.") {
		s.front.ServeHTTP(w, r)
		return
	}
	s.fallback(w, r)
}

// fallback lets the mux answer where no route matches: with a redirect to the clean path, 404 or 405.
func (s *server) fallback(w http.ResponseWriter, r *http.Request) {
	_, pattern := s.mux.Handler(r)
	s.admit(pattern, s.mux, w, r)
}

// admit counts and traces a request, and passes it on if its sender may read the path.
func (s *server) admit(pattern string, next http.Handler, w http.ResponseWriter, r *http.Request) {
	reply := &replyWriter{ResponseWriter: w}
	defer s.metrics.start(pattern, r.Method)(reply)
	if s.tracer != nil {
		traced, end := startSpan(s.tracer, s.metrics.of(pattern).route, r)
		defer end(reply)
		r = traced
	}
	user, err := s.gate.check(r)
	if err != nil {
		s.fail(reply, r, err)
		return
	}
	reply.user = user
	next.ServeHTTP(reply, r)
}

// Values of headers that many responses share. They must not be modified.
var (
	noSniff      = []string{"nosniff"}
	noCache      = []string{"no-cache"}
	linesHeader  = []string{typeLines}
	varyEncoding = []string{"Accept-Encoding"}
)

// addVary declares that the response depends on Accept-Encoding.
func addVary(h http.Header) {
	if h["Vary"] == nil {
		h["Vary"] = varyEncoding
		return
	}
	h.Add("Vary", "Accept-Encoding")
}

// A handler answers a request. It returns an error only before it has written anything.
type handler func(http.ResponseWriter, *http.Request) error

// A view is a handler for the content of a catalog. The catalog is looked up once for each request, so a view sees one
// version even if another is committed meanwhile.
type view func(http.ResponseWriter, *http.Request, store.Catalog) error

// A route is a path, as a pattern of http.ServeMux, and its handler.
type route struct {
	methods []string // GET includes HEAD
	path    string
	handler handler
}

var (
	reads      = []string{http.MethodGet}
	readsPosts = []string{http.MethodGet, http.MethodPost}
)

// parts answer the requests of the routes.
type parts struct {
	lookup     *lookup
	catalogs   *catalogs
	sender     *sender
	selections *selections
	bundles    *bundles
	thumbnails *thumbnails
	upgrades   *upgrades
	diffs      *diffs
	queries    *queries
	feeds      *feeds
	searcher   *searcher
	about      *about
}

func newParts(cfg Config, gate *gate) *parts {
	if cfg.Sources == nil {
		cfg.Sources = func() []Source { return nil }
	}
	lookup := newLookup(cfg)
	sender := &sender{encoders: newEncoders(cfg.Limits.Compressions), selections: cfg.Limits.Selections, now: time.Now}
	if cfg.Now != nil {
		sender.now = cfg.Now
	}
	listings := listing.NewCache()
	handler := graphql.New(graphql.Config{
		BaseURL: cfg.BaseURL, Priority: cfg.Priority, Limits: graphql.DefaultLimits(), Listings: listings, Logger: cfg.Logger,
	})
	builder := &builder{sender: sender, queries: cfg.Limits.Queries, memory: cfg.Limits.Responses}
	bundles := &bundles{builder: builder, images: cfg.Bundles, gate: gate, known: lru.New(maxKnownBlobs)}
	return &parts{
		lookup: lookup, sender: sender, bundles: bundles,
		upgrades:   &upgrades{builder},
		diffs:      &diffs{lookup: lookup, builder: builder, timeout: diffTimeout},
		catalogs:   &catalogs{lookup: lookup, sender: sender, polls: cfg.Polls, sources: cfg.Sources},
		selections: &selections{sender: sender, queries: cfg.Limits.Queries},
		thumbnails: &thumbnails{
			sender: sender, listings: listings, immutable: lookup.immutable, making: make(chan struct{}, 1), known: lru.New(maxThumbnails),
		},
		queries: &queries{
			lookup: lookup, sender: sender, handler: handler, slots: cfg.Limits.Queries, responses: cfg.Limits.Responses,
			bundles: bundles,
		},
		feeds: newFeeds(lookup, cfg.Limits.Feeds, cfg.Done),
		searcher: &searcher{
			lookup: lookup, sender: sender, slots: cfg.Limits.Queries, priority: cfg.Priority, logger: cfg.Logger, timeout: searchTimeout,
		},
		about: &about{sender: sender, version: cfg.Version, apiVersions: cfg.APIVersions},
	}
}

// routes returns every path. Each view of a catalog has two: one for the current version and one below a fixed version.
func (p *parts) routes() []route {
	routes := []route{
		{reads, "/openapi.json", p.about.openAPI},
		{reads, "/version", p.about.serveVersion},
		{reads, "/catalogs", p.catalogs.list},
		{reads, "/catalogs/{catalog}", p.catalogs.get},
		{reads, "/catalogs/{catalog}/digests/{digest}", p.catalogs.getVersion},
		{reads, "/catalogs/{catalog}/api/v1/watch", p.feeds.watch},
		{reads, "/api/v1/search", p.searcher.search},
		{reads, "/api/v1/diff", p.diffs.ofAll},
		{reads, "/api/v1/watch", p.feeds.watchAll},
		{readsPosts, "/api/v1/graphql", p.queries.ofAll},
	}
	for _, v := range []struct {
		methods []string
		path    string
		view    view
	}{
		{reads, "all", p.sender.sendAll},
		{reads, "metas", p.selections.metas},
		{reads, "packages", p.selections.list(store.Query{Schema: fbc.SchemaPackage}, "name")},
		{reads, "packages/{package}", p.selections.pkg},
		{reads, "packages/{package}/channels", p.selections.ofPackage(fbc.SchemaChannel)},
		{reads, "packages/{package}/channels/{channel}/graph", p.upgrades.graph},
		{reads, "packages/{package}/channels/{channel}/path", p.upgrades.path},
		{reads, "packages/{package}/bundles", p.selections.ofPackage(fbc.SchemaBundle)},
		{reads, "packages/{package}/bundles/{bundle}/content", p.bundles.of(nil, p.bundles.sendIndex)},
		{reads, "packages/{package}/bundles/{bundle}/content/{path...}", p.bundles.of(nil, p.bundles.sendFile)},
		{reads, "packages/{package}/bundles/{bundle}/content.tar", p.bundles.of(nil, p.bundles.sendTar)},
		{reads, "packages/{package}/bundles/{bundle}/manifests", p.bundles.of([]string{"kind", "name"}, p.bundles.sendObjects)},
		{reads, "packages/{package}/bundles/{bundle}/permissions", p.bundles.of(nil, p.bundles.sendPermissions)},
		{reads, "packages/{package}/icon", p.sender.sendIcon},
		{reads, "icons/{hash}/80", p.thumbnails.send},
		{reads, "channels", p.selections.list(store.Query{Schema: fbc.SchemaChannel}, "package", "name")},
		{reads, "bundles", p.selections.list(store.Query{Schema: fbc.SchemaBundle}, "package", "name")},
		{reads, "bundles/{bundle}", p.selections.bundle},
		{reads, "custom", p.selections.list(store.Query{Custom: true}, "schema", "package", "name")},
		{reads, "diff", p.diffs.ofCatalog},
		{readsPosts, "graphql", p.queries.ofCatalog},
	} {
		routes = append(routes,
			route{v.methods, "/catalogs/{catalog}/api/v1/" + v.path, p.lookup.current(v.view)},
			route{v.methods, "/catalogs/{catalog}/digests/{digest}/api/v1/" + v.path, p.lookup.versioned(v.view)})
	}
	return routes
}
