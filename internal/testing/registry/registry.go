// Package registry starts image registries for tests and developer tools.
package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
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

// Listen serves a registry over HTTP until Close, with its blobs as files in dir. Addr of the server is host:port, also for
// port 0. observe is called for each request.
func Listen(address, dir string, output io.Writer, observe func(*http.Request)) (*http.Server, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("starting the registry: %w", err)
	}
	logger := log.New(output, "", log.LstdFlags)
	images := registry.New(registry.Logger(logger), registry.WithBlobHandler(registry.NewDiskBlobHandler(dir)))
	server := &http.Server{
		Addr:              listener.Addr().String(),
		ErrorLog:          logger,
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			observe(r)
			images.ServeHTTP(w, r)
		}),
	}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			logger.Printf("serving: %v", err)
		}
	}()
	return server, nil
}

// Push pushes an index of images to a tag and returns its digest.
func Push(ctx context.Context, tag string, index v1.ImageIndex) (digest string, err error) {
	ref, err := name.NewTag(tag)
	if err != nil {
		return "", err
	}
	if err := remote.WriteIndex(ref, index, remote.WithContext(ctx)); err != nil {
		return "", fmt.Errorf("pushing to %s: %w", ref, err)
	}
	hash, err := index.Digest()
	return hash.String(), err
}
