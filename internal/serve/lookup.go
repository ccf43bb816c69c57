package serve

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/operator-catalogs/catalogd/internal/store"
)

// MissingHeader names the catalogs that other replicas serve and this one does not serve yet. Responses about all catalogs
// have it.
const MissingHeader = "Catalogd-Missing"

// lookup finds the catalogs that paths name.
type lookup struct {
	catalogs  *store.Store
	awaited   func(catalog string) Awaited
	expected  func() []string
	baseURL   string
	immutable string // Cache-Control of content that never changes
}

func newLookup(cfg Config) *lookup {
	l := &lookup{
		catalogs: cfg.Catalogs, awaited: cfg.Awaited, expected: cfg.Expected, baseURL: cfg.BaseURL,
		immutable: "public, max-age=31536000, immutable",
	}
	if cfg.Access != nil { // "public" would let a shared cache answer anybody (RFC 9111, section 3.5)
		l.immutable = "private, max-age=31536000, immutable"
	}
	return l
}

// all returns the served catalogs. It names the missing ones in the header of the response.
func (l *lookup) all(w http.ResponseWriter) []store.Catalog {
	missing := l.expected()
	catalogs := l.catalogs.Catalogs()
	for _, c := range catalogs {
		missing = slices.DeleteFunc(missing, func(name string) bool { return name == c.Name })
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		w.Header().Set(MissingHeader, strings.Join(missing, ", "))
	}
	return catalogs
}

// catalog returns the catalog of a name with its current content.
func (l *lookup) catalog(name string) (store.Catalog, error) {
	if !isName(name) {
		return store.Catalog{}, badRequest("invalid catalog name %q: a name is a DNS-1123 subdomain of at most 253 characters: "+
			"a-z, 0-9, '-' and '.', each part between dots starting and ending with a letter or digit", name)
	}
	c, ok := l.catalogs.Catalog(name)
	if !ok {
		return c, l.absent(name)
	}
	return c, nil
}

// absent returns the error for a catalog that is not served. Only a catalog that does not exist, or is withdrawn, is not found:
// clients such as the console of OpenShift drop a catalog at a 404.
func (l *lookup) absent(name string) error {
	switch awaited := l.awaited(name); {
	case awaited.Digest != "":
		return notYetServed("catalog %q", name)
	case awaited.Exists:
		return unavailable(5, "catalog %q has no content yet; its conditions show why; retry later", name)
	case awaited.Unknown:
		return unavailable(5, "catalog %q is not served, and the API server has not said yet whether it exists; retry later", name)
	}
	return notFound("catalog %q not found; GET /catalogs lists the served catalogs", name)
}

// versionForm is the form of store.Snapshot.Version: a digest and, if the CatalogSource sets a configDir or a subset, their hash.
var versionForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}(-[0-9a-f]{8})?$`)

// catalogAt returns the catalog of a name with the content of a version that the store still keeps.
func (l *lookup) catalogAt(name, version string) (store.Catalog, error) {
	now, err := l.catalog(name)
	if err != nil {
		return now, err
	}
	current := l.baseURL + versionPath(now)
	if !versionForm.MatchString(version) {
		return now, notFound("invalid version %q: a version is sha256: and 64 hex digits, and 8 more after a dash for a configDir or a subset; "+
			"the current version of catalog %q is at %s", version, name, current)
	}
	at, ok := l.catalogs.CatalogAt(name, version)
	if !ok {
		if digest := l.awaited(name).Digest; digest != "" && strings.HasPrefix(version, digest) && digest != now.Snapshot.Info().Digest {
			return at, notYetServed("version %s of catalog %q", version, name)
		}
		if version == now.Snapshot.Info().Digest {
			return at, notFound("version %s of catalog %q not found: the CatalogSource sets a configDir or a subset, so the version has 8 more digits; "+
				"the current version is at %s", version, name, current)
		}
		return at, notFound("version %s of catalog %q not found, or no longer kept; the current version is at %s", version, name, current)
	}
	return at, nil
}

// notYetServed is the error for content that other replicas serve and this one is unpacking.
func notYetServed(format string, args ...any) error {
	return unavailable(1, "%s is not served by this replica yet; retry later", fmt.Sprintf(format, args...))
}

// current returns a handler that applies v to the current content of the catalog. A cache may keep the response but must
// revalidate it. Content-Location is the URL of the same content below its version (RFC 9110, section 8.7).
func (l *lookup) current(v view) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		c, err := l.catalog(r.PathValue("catalog"))
		if err != nil {
			return err
		}
		h := w.Header()
		h["Cache-Control"] = noCache
		h[DigestHeader] = []string{c.Snapshot.Info().Digest}
		if r.Method != http.MethodPost {
			h["Content-Location"] = []string{versionLocation(r, c)}
		}
		return v(w, r, c)
	}
}

// versioned returns a handler that applies v to the version that the path names, as long as the store keeps it.
func (l *lookup) versioned(v view) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		c, err := l.catalogAt(r.PathValue("catalog"), r.PathValue("digest"))
		if err != nil {
			return err
		}
		w.Header().Set("Cache-Control", l.immutable)
		w.Header().Set(DigestHeader, c.Snapshot.Info().Digest)
		return v(w, r, c)
	}
}

// versionPath is the path below which the content of the catalog never changes.
func versionPath(c store.Catalog) string {
	return "/catalogs/" + c.Name + "/digests/" + c.Snapshot.Version()
}

// versionLocation is the URL of the requested content below its version, with the parameters as the client wrote them.
func versionLocation(r *http.Request, c store.Catalog) string {
	_, below, _ := strings.Cut(r.URL.EscapedPath()[1:], "/") // of catalogs/NAME/api/v1/...
	_, below, _ = strings.Cut(below, "/")
	query := r.URL.RawQuery
	if !isQuery(query) {
		values, _ := readParams(r) // the view reports an error
		query = values.Encode()
	}
	separator := "?"
	if query == "" {
		separator = ""
	}
	return versionPath(c) + "/" + below + separator + query
}

// isQuery reports whether a query string can be part of a header unchanged. It accepts the characters that programs write,
// a subset of RFC 3986, section 3.4.
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

// isName reports whether name is a DNS subdomain as Kubernetes defines it, the only form of a ClusterCatalog's name. Names of
// CatalogSources have no dots.
func isName(name string) bool {
	for part := range strings.SplitSeq(name, ".") {
		if !isLabel(part) {
			return false
		}
	}
	return len(name) <= 253
}

// isLabel reports whether a part of a name is a DNS label (RFC 1123, section 2.1) of any length.
func isLabel(part string) bool {
	for i := range len(part) {
		switch c := part[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
		case c != '-' || i == 0 || i == len(part)-1:
			return false
		}
	}
	return part != ""
}

// validated returns the catalogs whose packages are validated. New content is served some seconds before its validation
// ends. If a single catalog is requested and not validated, validated returns an error.
func validated(catalogs []store.Catalog) ([]store.Catalog, error) {
	pending := func(c store.Catalog) bool { return !c.Snapshot.Validated() }
	if len(catalogs) == 1 && pending(catalogs[0]) {
		return nil, unavailable(1, "the packages of catalog %q are being validated; retry later, or read the whole catalog at /api/v1/all",
			catalogs[0].Name)
	}
	return slices.DeleteFunc(slices.Clone(catalogs), pending), nil
}
