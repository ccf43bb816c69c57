package serve

import (
	"net/http"

	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// A handler answers a request, or returns an error before it has written anything.
type handler func(http.ResponseWriter, *http.Request) error

// A view is a handler of one catalog's content. The catalog is looked up once a request: a view
// that keeps to it sees one digest, whatever is committed meanwhile.
type view func(http.ResponseWriter, *http.Request, store.Catalog) error

// A route is a path, as a pattern of http.ServeMux, and who answers there.
type route struct {
	methods []string // "GET" is HEAD, too
	path    string
	handler handler
}

var (
	reads   = []string{http.MethodGet}
	queries = []string{http.MethodGet, http.MethodPost}
)

// routes lists every path. Each view of a catalog has two: one that moves with the catalog and one below its version, that does not.
func (s *server) routes() []route {
	routes := []route{
		{reads, "/openapi.json", s.serveOpenAPI},
		{reads, "/version", s.version},
		{reads, "/catalogs", s.listCatalogs},
		{reads, "/catalogs/{catalog}", s.describeCatalog},
		{reads, "/catalogs/{catalog}/digests/{digest}", s.describeVersion},
		{reads, "/catalogs/{catalog}/api/v1/watch", s.watch},
		{reads, "/api/v1/search", s.search},
		{queries, "/api/v1/graphql", s.graphqlOfAll},
	}
	for _, v := range []struct {
		methods []string
		path    string
		view    view
	}{
		{reads, "all", serveAll},
		{reads, "metas", s.metas},
		{reads, "packages", s.list(store.Query{Schema: fbc.SchemaPackage}, "name")},
		{reads, "packages/{package}", s.servePackage},
		{reads, "packages/{package}/channels", s.listOfPackage(fbc.SchemaChannel)},
		{reads, "packages/{package}/bundles", s.listOfPackage(fbc.SchemaBundle)},
		{reads, "packages/{package}/icon", s.serveIcon},
		{reads, "channels", s.list(store.Query{Schema: fbc.SchemaChannel}, "package", "name")},
		{reads, "bundles", s.list(store.Query{Schema: fbc.SchemaBundle}, "package", "name")},
		{reads, "bundles/{bundle}", s.serveBundle},
		{reads, "custom", s.list(store.Query{Custom: true}, "schema", "package", "name")},
		{queries, "graphql", s.graphqlOfCatalog},
	} {
		routes = append(routes,
			route{v.methods, "/catalogs/{catalog}/api/v1/" + v.path, s.moving(v.view)},
			route{v.methods, "/catalogs/{catalog}/digests/{digest}/api/v1/" + v.path, s.fixed(v.view)})
	}
	return routes
}
