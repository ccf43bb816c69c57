package serve

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// A selection finds blobs, or returns an error if there is nothing of that name.
type selection func() (*store.Blobs, error)

// list serves the blobs that base selects, narrowed by the parameters given, in the order of the
// catalog. No match is an empty 200, as upstream answers.
func (s *server) list(base store.Query, params ...string) view {
	return func(w http.ResponseWriter, r *http.Request, c store.Catalog) error {
		query, err := parseQuery(r, base, params...)
		if err != nil {
			return err
		}
		return s.serveSelection(w, r, c, queryTag(c, query), func() (*store.Blobs, error) { return c.Snapshot.Select(query), nil })
	}
}

// listOfPackage serves the blobs of one schema of the package that the path names.
func (s *server) listOfPackage(schema string) view {
	return func(w http.ResponseWriter, r *http.Request, c store.Catalog) error {
		query, err := parseQuery(r, store.Query{Schema: schema, Package: r.PathValue("package")}, "name")
		if err != nil {
			return err
		}
		return s.serveSelection(w, r, c, queryTag(c, query), func() (*store.Blobs, error) {
			if c.Snapshot.Package(query.Package).Len() == 0 {
				return nil, noPackage(c, query.Package)
			}
			return c.Snapshot.Select(query), nil
		})
	}
}

// metas serves the blobs that match all parameters given. Without any that is the file of all, which is no work.
func (s *server) metas(w http.ResponseWriter, r *http.Request, c store.Catalog) error {
	params := []string{"schema", "package", "name"}
	query, err := parseQuery(r, store.Query{}, params...)
	if err != nil {
		return err
	}
	if query == (store.Query{}) {
		return serveAll(w, r, c)
	}
	return s.list(store.Query{}, params...)(w, r, c)
}

// servePackage serves the olm.package blob and every blob that belongs to the package.
func (s *server) servePackage(w http.ResponseWriter, r *http.Request, c store.Catalog) error {
	if _, err := parseQuery(r, store.Query{}); err != nil {
		return err
	}
	name := r.PathValue("package")
	return s.serveSelection(w, r, c, queryTag(c, store.Query{Package: name})+"-whole", func() (*store.Blobs, error) {
		blobs := c.Snapshot.Package(name)
		if blobs.Len() == 0 {
			return nil, noPackage(c, name)
		}
		return blobs, nil
	})
}

// serveBundle serves the bundle of that name: more than one where packages share a bundle name and
// the package parameter does not choose.
func (s *server) serveBundle(w http.ResponseWriter, r *http.Request, c store.Catalog) error {
	query, err := parseQuery(r, store.Query{Schema: fbc.SchemaBundle, Name: r.PathValue("bundle")}, "package")
	if err != nil {
		return err
	}
	return s.serveSelection(w, r, c, queryTag(c, query), func() (*store.Blobs, error) {
		blobs := c.Snapshot.Select(query)
		if blobs.Len() == 0 {
			return nil, notFound("catalog %q has no bundle %q%s", c.Name, query.Name, ofPackage(query.Package))
		}
		return blobs, nil
	})
}

func ofPackage(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf(" in package %q", name)
}

func noPackage(c store.Catalog, name string) error {
	return notFound("catalog %q has no package %q", c.Name, name)
}

// parseQuery narrows base by the parameters that a route knows, which are none that base fixes. As
// upstream does: the first value of a repeated parameter counts, an empty value is one not given.
func parseQuery(r *http.Request, base store.Query, known ...string) (store.Query, error) {
	values, err := parseParams(r, known...)
	if err != nil {
		return base, err
	}
	narrow := func(field *string, name string) {
		if value := values.Get(name); value != "" {
			*field = value
		}
	}
	narrow(&base.Schema, "schema")
	narrow(&base.Package, "package")
	narrow(&base.Name, "name")
	return base, nil
}

// parseParams reads the parameters of a route. An unknown one is refused, as upstream does. A query
// string that does not parse is refused too, for what is left of it would select more than was asked.
func parseParams(r *http.Request, known ...string) (url.Values, error) {
	values, err := readParams(r)
	if err != nil {
		return nil, badRequest("the query string cannot be read: %v", err)
	}
	var unknown []string
	for name := range values {
		if !slices.Contains(known, name) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		return nil, badRequest("unknown parameter %q; %s", slices.Min(unknown), knownParams(known))
	}
	return values, nil
}

// readParams reads the query string, of which an error leaves out what cannot be read. It is read once a request: r keeps it if all is well.
func readParams(r *http.Request) (url.Values, error) {
	if r.Form != nil {
		return r.Form, nil
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err == nil {
		r.Form = values
	}
	return values, err
}

func knownParams(known []string) string {
	if len(known) == 0 {
		return "this path takes none"
	}
	return "known are " + strings.Join(known, ", ")
}

// queryTag names the result of a query on a snapshot: equal tags mean equal bytes. It covers every field of the query.
func queryTag(c store.Catalog, q store.Query) string {
	var buf [512]byte
	sum := sha256.Sum256(fmt.Appendf(buf[:0], "%#v", q)) // names every field and quotes strings, so it is unambiguous
	return c.Snapshot.Key() + "-" + hex.EncodeToString(sum[:8])
}
