package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// imageRegistry is an HTTP registry on loopback. It serves blobs from files, and counts requests.
type imageRegistry struct {
	address    string
	dir        string // of the blobs
	server     *http.Server
	all, heads atomic.Int64 // requests, and HEAD requests
}

func startRegistry(dir string) (*imageRegistry, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting the registry: %w", err)
	}
	r := &imageRegistry{address: listener.Addr().String(), dir: dir}
	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithBlobHandler(registry.NewDiskBlobHandler(dir)))
	r.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		r.all.Add(1)
		if request.Method == http.MethodHead {
			r.heads.Add(1)
		}
		images.ServeHTTP(w, request)
	})}
	go func() { _ = r.server.Serve(listener) }() // ends with Close
	return r, nil
}

// counts returns the number of requests, and of HEAD requests.
func (r *imageRegistry) counts() (all, heads int) { return int(r.all.Load()), int(r.heads.Load()) }

// publish pushes a catalog as repository:latest and returns the reference and the digest.
func (r *imageRegistry) publish(ctx context.Context, repository string, c *catalog) (ref, digest string, err error) {
	tag, err := name.NewTag(r.address + "/" + repository + ":latest")
	if err != nil {
		return "", "", err
	}
	if err := remote.WriteIndex(tag, c.image, remote.WithContext(ctx)); err != nil {
		return "", "", fmt.Errorf("publishing %s: %w", repository, err)
	}
	hash, err := c.image.Digest()
	return tag.String(), hash.String(), err
}

// layerFile returns the gzipped tar archive of a published catalog.
func (r *imageRegistry) layerFile(c *catalog) (string, error) {
	hash, err := c.layer.Digest()
	return filepath.Join(r.dir, hash.Algorithm, hash.Hex), err
}
