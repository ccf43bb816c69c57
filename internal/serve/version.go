package serve

import (
	"cmp"
	"net/http"
	"runtime"
)

// versionInfo says what answers. Names and values are as those of /version of an API server, as far as there are such.
type versionInfo struct {
	GitVersion  string   `json:"gitVersion"`
	GoVersion   string   `json:"goVersion"`
	Platform    string   `json:"platform"`
	APIVersions []string `json:"apiVersions"`
}

func (s *server) version(w http.ResponseWriter, r *http.Request) error {
	return s.sendJSON(w, r, versionInfo{
		GitVersion: cmp.Or(s.Version, "unknown"), GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		APIVersions: append([]string{}, s.APIVersions...),
	})
}
