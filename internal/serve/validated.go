package serve

import (
	"net/http"
	"slices"

	"github.com/operator-catalogs/catalogd/internal/store"
)

// validated returns what a request that needs to know the packages of catalogs can be answered from. A catalog serves its first content
// some seconds before it is known which of its packages are sound: among others it is left out meanwhile, and asked for alone it is an
// error, 503.
func validated(catalogs []store.Catalog) ([]store.Catalog, error) {
	unknown := func(c store.Catalog) bool { return !c.Snapshot.Validated() }
	if len(catalogs) == 1 && unknown(catalogs[0]) {
		return nil, &statusError{
			code:    http.StatusServiceUnavailable,
			text:    "catalog \"" + catalogs[0].Name + "\" is new, and its packages are still being examined; come again in a moment, or read all of it at /api/v1/all",
			headers: map[string]string{"Retry-After": "1"},
		}
	}
	return slices.DeleteFunc(slices.Clone(catalogs), unknown), nil
}
