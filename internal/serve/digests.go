package serve

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/operator-catalogs/catalogd/internal/store"
)

// isLabel tells whether a name is a DNS label (RFC 1123, section 2.1): at most 63 of a-z, 0-9 and, but at its ends, '-'.
func isLabel(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
		case c != '-' || i == 0 || i == len(name)-1:
			return false
		}
	}
	return name != "" && len(name) <= 63
}

// catalog returns the catalog of a name as it is served now.
func (s *server) catalog(name string) (store.Catalog, error) {
	if !isLabel(name) {
		return store.Catalog{}, badRequest("%q is no catalog name: a name is a DNS-1123 label, at most 63 of a-z, 0-9 and '-', "+
			"with a letter or digit first and last", name)
	}
	c, ok := s.Catalogs.Catalog(name)
	if !ok && s.Awaited(name) != "" {
		return c, awaited("the content of catalog %q", name)
	}
	if !ok {
		return c, notFound("catalog %q is not served here; GET /catalogs lists the catalogs that are", name)
	}
	return c, nil
}

// moving runs v on what the catalog that the path names serves now. What the URL leads to moves with the version, so a cache may keep a
// reply and must ask each time whether it still holds. Content-Location is the URL that does not move (RFC 9110, section 8.7).
func (s *server) moving(v view) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		c, err := s.catalog(r.PathValue("catalog"))
		if err != nil {
			return err
		}
		h := w.Header()
		h["Cache-Control"] = noCache
		h[DigestHeader] = []string{c.Snapshot.Info().Digest}
		if r.Method != http.MethodPost {
			h["Content-Location"] = []string{fixedLocation(r, c)}
		}
		return v(w, r, c)
	}
}

// fixedLocation is the URL of what r asks for that does not move, with the parameters as the client wrote them.
func fixedLocation(r *http.Request, c store.Catalog) string {
	_, below, _ := strings.Cut(r.URL.EscapedPath()[1:], "/") // of catalogs/NAME/api/v1/...
	_, below, _ = strings.Cut(below, "/")
	query := r.URL.RawQuery
	if !isQuery(query) {
		values, _ := readParams(r) // an error is for who reads the parameters to tell
		query = values.Encode()
	}
	separator := "?"
	if query == "" {
		separator = ""
	}
	return fixedPath(c) + "/" + below + separator + query
}

// isQuery tells whether a query string can stand in a header as it is: of what a URL allows there (RFC 3986, section 3.4), it
// has what programs write.
func isQuery(query string) bool {
	for i := range len(query) {
		switch c := query[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~+=&", c) >= 0:
		case c == '%' && i+2 < len(query) && isHex(query[i+1]) && isHex(query[i+2]):
		default:
			return false
		}
	}
	return true
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// fixed runs v on the content of the version that the path names, for as long as the store keeps that. It never changes, so a cache need not
// ask again; but where catalogd asks who may read, only the reader's own cache may keep it (RFC 9111, section 3.5: "public" would allow
// all to).
func (s *server) fixed(v view) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		c, err := s.catalogAt(r.PathValue("catalog"), r.PathValue("digest"))
		if err != nil {
			return err
		}
		cacheControl := "public, max-age=31536000, immutable"
		if s.Authorize != nil {
			cacheControl = "private, max-age=31536000, immutable"
		}
		w.Header().Set("Cache-Control", cacheControl)
		w.Header().Set(DigestHeader, c.Snapshot.Info().Digest)
		return v(w, r, c)
	}
}

// versionForm is that of store.Snapshot.Version: what comes after the digest says in which directory of the image the catalog lies.
var versionForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}(-[0-9a-f]{8})?$`)

func (s *server) catalogAt(name, version string) (store.Catalog, error) {
	now, err := s.catalog(name)
	if err != nil {
		return now, err
	}
	current := s.BaseURL + fixedPath(now)
	if !versionForm.MatchString(version) {
		return now, notFound("%q is no version, which is sha256: and 64 hex digits, and where a configDir is set a dash and 8 more; "+
			"what catalog %q serves now is at %s", version, name, current)
	}
	at, ok := s.Catalogs.CatalogAt(name, version)
	if !ok {
		if digest := s.Awaited(name); digest != "" && strings.HasPrefix(version, digest) && digest != now.Snapshot.Info().Digest {
			return at, awaited("version %s of catalog %q", version, name)
		}
		return at, notFound("catalog %q has no version %s, or keeps it no longer; what it serves now is at %s", name, version, current)
	}
	return at, nil
}

// awaited is the error of what other replicas have, and this one is about to.
func awaited(format string, args ...any) error {
	return &statusError{
		code: http.StatusServiceUnavailable, text: fmt.Sprintf(format, args...) + " is on its way to this replica: come again",
		headers: map[string]string{"Retry-After": "1"},
	}
}

// fixedPath is the path below which the catalog's content stays as it is.
func fixedPath(c store.Catalog) string {
	return "/catalogs/" + c.Name + "/digests/" + c.Snapshot.Version()
}
