package serve

import (
	"io"
	"net/http"

	"github.com/operator-catalogs/catalogd/internal/store"
)

// serveAll serves the whole catalog straight from its file. Like upstream it ignores parameters.
func serveAll(w http.ResponseWriter, r *http.Request, c store.Catalog) error {
	file, err := c.Snapshot.OpenAll()
	if err != nil {
		return err
	}
	defer file.Close()
	serveJSONLines(w, r, c, c.Snapshot.Key(), file)
	return nil
}

func serveJSONLines(w http.ResponseWriter, r *http.Request, c store.Catalog, tag string, content io.ReadSeeker) {
	w.Header().Set("Content-Type", "application/jsonl")
	serveContent(w, r, c, tag, content)
}

// serveContent leaves HEAD, ranges and conditional requests to the standard library. The tag is a
// strong validator (RFC 9110, section 8.8.1): it names the bytes. Last-Modified is when the digest
// was first served, so polls that find nothing new do not move it.
func serveContent(w http.ResponseWriter, r *http.Request, c store.Catalog, tag string, content io.ReadSeeker) {
	w.Header().Set("ETag", `"`+tag+`"`)
	http.ServeContent(w, r, "", c.Since, content)
}
