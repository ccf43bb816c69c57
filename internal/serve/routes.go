package serve

import (
	"net/http"

	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/limit"
	"github.com/operator-catalogs/catalogd/internal/serve/graphql"
	"github.com/operator-catalogs/catalogd/internal/store"
)

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
	queries    *queries
	feeds      *feeds
	searcher   *searcher
	about      *about
}

func newParts(cfg Config, limits *limit.Limits) *parts {
	lookup := newLookup(cfg)
	sender := &sender{encoders: newEncoders(limits.Compressions), selections: limits.Selections}
	handler := graphql.New(graphql.Config{BaseURL: cfg.BaseURL, Priority: cfg.Priority, Logger: cfg.Logger})
	return &parts{
		lookup: lookup, sender: sender,
		catalogs:   &catalogs{lookup: lookup, sender: sender, polls: cfg.Polls},
		selections: &selections{sender: sender, queries: limits.Queries},
		queries: &queries{
			lookup: lookup, sender: sender, handler: handler, slots: limits.Queries, responses: limits.Responses,
		},
		feeds: newFeeds(lookup, limits.Feeds, cfg.Done),
		searcher: &searcher{
			lookup: lookup, sender: sender, slots: limits.Queries, priority: cfg.Priority, logger: cfg.Logger, timeout: searchTimeout,
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
		{readsPosts, "/api/v1/graphql", p.queries.ofAll},
	}
	for _, v := range []struct {
		methods []string
		path    string
		view    view
	}{
		{reads, "all", sendAll},
		{reads, "metas", p.selections.metas},
		{reads, "packages", p.selections.list(store.Query{Schema: fbc.SchemaPackage}, "name")},
		{reads, "packages/{package}", p.selections.pkg},
		{reads, "packages/{package}/channels", p.selections.ofPackage(fbc.SchemaChannel)},
		{reads, "packages/{package}/bundles", p.selections.ofPackage(fbc.SchemaBundle)},
		{reads, "packages/{package}/icon", p.sender.sendIcon},
		{reads, "channels", p.selections.list(store.Query{Schema: fbc.SchemaChannel}, "package", "name")},
		{reads, "bundles", p.selections.list(store.Query{Schema: fbc.SchemaBundle}, "package", "name")},
		{reads, "bundles/{bundle}", p.selections.bundle},
		{reads, "custom", p.selections.list(store.Query{Custom: true}, "schema", "package", "name")},
		{readsPosts, "graphql", p.queries.ofCatalog},
	} {
		routes = append(routes,
			route{v.methods, "/catalogs/{catalog}/api/v1/" + v.path, p.lookup.current(v.view)},
			route{v.methods, "/catalogs/{catalog}/digests/{digest}/api/v1/" + v.path, p.lookup.versioned(v.view)})
	}
	return routes
}
