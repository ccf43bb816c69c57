// Package registry starts image registries for tests.
package registry

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
)

// New returns a registry that keeps its images in memory and logs nothing.
func New() http.Handler { return registry.New(registry.Logger(log.New(io.Discard, "", 0))) }

// Start serves a new registry until the test ends, and returns its host and port. wrap, if not nil, may alter replies.
func Start(t testing.TB, wrap func(http.Handler) http.Handler) (host string) {
	t.Helper()
	handler := New()
	if wrap != nil {
		handler = wrap(handler)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}
