package serve

import (
	"cmp"
	_ "embed"
	"net/http"
	"runtime"
	"time"
)

// openAPI documents the service. Tests compare it with the routes and their responses.
//
//go:embed openapi.json
var openAPI []byte

// about serves what clients need to know about the server.
type about struct {
	*sender
	version     string
	apiVersions []string
}

// versionInfo identifies the server, as /version of an API server does.
type versionInfo struct {
	GitVersion  string   `json:"gitVersion"`
	GoVersion   string   `json:"goVersion"`
	Platform    string   `json:"platform"`
	APIVersions []string `json:"apiVersions"`
}

func (s *about) serveVersion(w http.ResponseWriter, r *http.Request) error {
	return s.sendJSON(w, r, versionInfo{
		GitVersion: cmp.Or(s.version, "unknown"), GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		APIVersions: append([]string{}, s.apiVersions...),
	})
}

func (s *about) openAPI(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", typeJSON)
	w.Header().Set("Cache-Control", "no-cache")
	return s.sendContent(w, r, time.Time{}, "", openAPI)
}
