package page

import (
	"net/http"
	"strings"
)

// Mount returns a handler that serves the page below /ui/ and the API at all other paths. The page reads the API with the
// permissions of each reader; Mount sets cfg.Source. It redirects /ui, and / in a browser, to /ui/.
func Mount(api http.Handler, cfg Config) http.Handler {
	cfg.Source = func(reader *http.Request) Source { return Inside(api, reader) }
	below := http.StripPrefix("/ui", New(cfg))
	enter := protect(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "ui/") // relative, for proxies that add a prefix
		w.WriteHeader(http.StatusSeeOther)
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.EscapedPath(); {
		case strings.HasPrefix(path, "/ui/"):
			below.ServeHTTP(w, r)
		case path == "/ui", path == "/" && strings.Contains(r.Header.Get("Accept"), "text/html"):
			enter.ServeHTTP(w, r)
		default:
			api.ServeHTTP(w, r)
		}
	})
}
