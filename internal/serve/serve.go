// Package serve provides catalogd's HTTP content service: the catalogs of the store, read only, as
// files, filtered JSON lines and icons.
//
// The paths /catalogs/{catalog}/api/v1/all and .../metas are those of upstream catalogd
// (operator-framework/operator-controller, internal/catalogd/server) and answer as it does; what
// differs is that conditional requests follow RFC 9110, section 13.
package serve

import (
	"log/slog"
	"net/http"
	"regexp"
	"time"

	"github.com/operator-catalogs/catalogd/internal/fbc"
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
}

// Polls tells when this process last polled a catalog and when it will next; zero means unknown.
type Polls func(catalog string) (last, next time.Time)

// Config is what the service is made of.
type Config struct {
	Catalogs Catalogs
	Polls    Polls
	BaseURL  string // where clients reach the service: scheme and host, no trailing slash
	Logger   *slog.Logger
}

type server struct{ Config }

// New returns the handler of every path below /catalogs. All answer GET and HEAD only. An error is
// text/plain: the status on the first line, a sentence for people on the second.
func New(cfg Config) http.Handler {
	s := &server{cfg}
	mux := http.NewServeMux()
	mux.Handle("GET /catalogs", s.adapt(s.listCatalogs))
	mux.Handle("GET /catalogs/{catalog}", s.adapt(s.inCatalog(s.describeCatalog)))
	for path, view := range map[string]view{
		"all":                         serveAll,
		"metas":                       list(store.Query{}, "schema", "package", "name"),
		"packages":                    list(store.Query{Schema: fbc.SchemaPackage}, "name"),
		"channels":                    list(store.Query{Schema: fbc.SchemaChannel}, "package", "name"),
		"bundles":                     list(store.Query{Schema: fbc.SchemaBundle}, "package", "name"),
		"bundles/{bundle}":            serveBundle,
		"custom":                      list(store.Query{Custom: true}, "schema", "package", "name"),
		"packages/{package}":          servePackage,
		"packages/{package}/channels": listOfPackage(fbc.SchemaChannel),
		"packages/{package}/bundles":  listOfPackage(fbc.SchemaBundle),
		"packages/{package}/icon":     serveIcon,
	} {
		mux.Handle("GET /catalogs/{catalog}/api/v1/"+path, s.adapt(s.inCatalog(view)))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		mux.ServeHTTP(&replyWriter{ResponseWriter: w}, r)
	})
}

// A handler answers a request, or returns an error before it has written anything.
type handler func(http.ResponseWriter, *http.Request) error

// A view is a handler of one catalog's content. The catalog is looked up once a request: a view
// that keeps to it sees one digest, whatever is committed meanwhile.
type view func(http.ResponseWriter, *http.Request, store.Catalog) error

// inCatalog runs v on the catalog that the path names. What the URL leads to moves with the digest,
// so a cache may keep a reply and must ask each time whether it still holds.
func (s *server) inCatalog(v view) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		name := r.PathValue("catalog")
		if !isLabel(name) {
			return badRequest("%q is no catalog name: a name is a DNS-1123 label, at most 63 of a-z, 0-9 and '-', "+
				"with a letter or digit first and last", name)
		}
		catalog, ok := s.Catalogs.Catalog(name)
		if !ok {
			return notFound("catalog %q is not served here; GET /catalogs lists the catalogs that are", name)
		}
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set(DigestHeader, catalog.Snapshot.Info().Digest)
		return v(w, r, catalog)
	}
}

var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

func isLabel(name string) bool { return len(name) <= 63 && label.MatchString(name) }
