package serve

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/limit"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// selections serves parts of a catalog as JSON lines.
type selections struct {
	*sender
	queries limit.Slots
}

// list serves the blobs that base selects, narrowed by the given parameters, in the order of the catalog. No match is an
// empty response with status 200, as upstream sends it.
func (s *selections) list(base store.Query, params ...string) view {
	return func(w http.ResponseWriter, r *http.Request, c store.Catalog) error {
		return s.query(w, r, c, base, nil, params...)
	}
}

// ofPackage serves the blobs of one schema of the package that the path names.
func (s *selections) ofPackage(schema string) view {
	return func(w http.ResponseWriter, r *http.Request, c store.Catalog) error {
		query := store.Query{Schema: schema, Package: r.PathValue("package")}
		return s.query(w, r, c, query, func(q store.Query) error {
			if c.Snapshot.Package(q.Package).Len() == 0 {
				return noPackage(c, q.Package)
			}
			return nil
		}, "name")
	}
}

// metas serves the blobs that match all given parameters. Without parameters it serves the whole catalog, which takes no slot.
func (s *selections) metas(w http.ResponseWriter, r *http.Request, c store.Catalog) error {
	params := []string{"schema", "package", "name"}
	if query, err := parseQuery(r, store.Query{}, params...); err == nil && query == (store.Query{}) {
		return s.sendAll(w, r, c)
	}
	return s.query(w, r, c, store.Query{}, nil, params...)
}

// pkg serves the olm.package blob and every blob that belongs to the package.
func (s *selections) pkg(w http.ResponseWriter, r *http.Request, c store.Catalog) error {
	if _, err := parseQuery(r, store.Query{}); err != nil {
		return err
	}
	name := r.PathValue("package")
	return s.send(w, r, c, queryTag(c, store.Query{Package: name})+"-whole", func() (*store.Blobs, error) {
		blobs := c.Snapshot.Package(name)
		if blobs.Len() == 0 {
			return nil, noPackage(c, name)
		}
		return blobs, nil
	})
}

// bundle serves the bundles of a name: several if packages share the name and the package parameter does not choose one.
func (s *selections) bundle(w http.ResponseWriter, r *http.Request, c store.Catalog) error {
	query := store.Query{Schema: fbc.SchemaBundle, Name: r.PathValue("bundle")}
	return s.query(w, r, c, query, func(q store.Query) error {
		if q.Package != "" {
			return notFound("bundle %q not found in package %q of catalog %q", q.Name, q.Package, c.Name)
		}
		return notFound("bundle %q not found in catalog %q", q.Name, c.Name)
	}, "package")
}

// query serves the blobs that base selects, narrowed by the parameters. It calls empty, if not nil, when there are none; an
// error of empty is the response.
func (s *selections) query(
	w http.ResponseWriter, r *http.Request, c store.Catalog, base store.Query, empty func(store.Query) error, params ...string,
) error {
	query, err := parseQuery(r, base, params...)
	if err != nil {
		return err
	}
	return s.send(w, r, c, queryTag(c, query), func() (*store.Blobs, error) {
		blobs := c.Snapshot.Select(query)
		if blobs.Len() == 0 && empty != nil {
			return blobs, empty(query)
		}
		return blobs, nil
	})
}

func noPackage(c store.Catalog, name string) error {
	return notFound("package %q not found in catalog %q", name, c.Name)
}

// send sends the blobs that find returns. The slot for find is released before the response is sent, so slow clients hold none.
func (s *selections) send(w http.ResponseWriter, r *http.Request, c store.Catalog, tag string, find func() (*store.Blobs, error)) error {
	blobs, err := s.find(find)
	if err != nil {
		return err
	}
	release, err := s.selections.Acquire(int64(blobs.Len()))
	if err != nil {
		return err
	}
	defer release()
	return s.sendBlobs(w, r, c, tag, blobs)
}

func (s *selections) find(find func() (*store.Blobs, error)) (*store.Blobs, error) {
	release, err := s.queries.Acquire()
	if err != nil {
		return nil, err
	}
	defer release()
	return find()
}

// parseQuery narrows base by the parameters of the request. known are the parameters of the route. As in upstream, the first
// value of a repeated parameter counts and an empty value counts as not given.
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

// parseParams returns the parameters of the request. Like upstream it rejects unknown ones. It also rejects a malformed query
// string, because its valid part would select more than was requested.
func parseParams(r *http.Request, known ...string) (url.Values, error) {
	values, err := readParams(r)
	if err != nil {
		return nil, badRequest("parsing the query string: %v", err)
	}
	var unknown []string
	for name := range values {
		if !slices.Contains(known, name) {
			unknown = append(unknown, name)
		}
	}
	switch {
	case len(unknown) == 0:
		return values, nil
	case len(known) == 0:
		return nil, badRequest("unknown parameter %q; this path takes no parameters", slices.Min(unknown))
	}
	return nil, badRequest("unknown parameter %q; valid parameters are %s", slices.Min(unknown), strings.Join(known, ", "))
}

// readParams parses the query string once for each request and keeps the result in r.Form. With an error it returns the
// valid parameters.
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

// queryTag names the result of a query on a snapshot: equal tags mean equal bytes. Its test fails for a field that is missing
// here. Printing the query by reflection took 5 % of a request (docs/design/016-fast-paths.md).
func queryTag(c store.Catalog, q store.Query) string {
	var text []byte
	for _, field := range [...]string{
		q.Schema, q.Package, q.Name, strconv.FormatBool(q.Custom), q.Property, q.Provides.Group, q.Provides.Version, q.Provides.Kind,
	} {
		text = strconv.AppendQuote(text, field)
	}
	sum := sha256.Sum256(text)
	return c.Snapshot.Key() + "-" + hex.EncodeToString(sum[:8])
}
