package page

import (
	"net/http"
	"strings"
)

// Beside returns the handler of a port that serves an API and, below /ui/, the page of it, with the permissions of each reader.
// A browser that opens /ui or / is led there. It sets cfg.Source.
func Beside(api http.Handler, cfg Config) http.Handler {
	cfg.Source = func(reader *http.Request) Source { return Inside(api, reader) }
	below := http.StripPrefix("/ui", New(cfg))
	enter := safe(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "ui/") // works below any path, too
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
