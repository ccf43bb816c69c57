package serve

import (
	_ "embed"
	"net/http"
	"time"
)

// openAPI describes the service. A test holds it to the routes, and replies to it.
//
//go:embed openapi.json
var openAPI []byte

func (s *server) serveOpenAPI(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", typeJSON)
	w.Header().Set("Cache-Control", "no-cache")
	return s.serveBytes(w, r, time.Time{}, "", openAPI)
}
