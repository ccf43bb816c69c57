package main

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"sync/atomic"

	"github.com/operator-catalogs/catalogd/internal/testing/registry"
)

// imageRegistry is an HTTP registry on loopback. It serves blobs from files, and counts requests.
type imageRegistry struct {
	server     *http.Server
	dir        string       // of the blobs
	all, heads atomic.Int64 // requests, and HEAD requests
}

func startRegistry(dir string) (r *imageRegistry, err error) {
	r = &imageRegistry{dir: dir}
	r.server, err = registry.Listen("127.0.0.1:0", dir, io.Discard, func(request *http.Request) {
		r.all.Add(1)
		if request.Method == http.MethodHead {
			r.heads.Add(1)
		}
	})
	return r, err
}

// counts returns the number of requests, and of HEAD requests.
func (r *imageRegistry) counts() (all, heads int) { return int(r.all.Load()), int(r.heads.Load()) }

// publish pushes a catalog as repository:latest and returns the reference and the digest.
func (r *imageRegistry) publish(ctx context.Context, repository string, c *catalog) (ref, digest string, err error) {
	ref = r.server.Addr + "/" + repository + ":latest"
	digest, err = registry.Push(ctx, ref, c.image)
	return ref, digest, err
}

// layerFile returns the gzipped tar archive of a published catalog.
func (r *imageRegistry) layerFile(c *catalog) (string, error) {
	hash, err := c.layer.Digest()
	return filepath.Join(r.dir, hash.Algorithm, hash.Hex), err
}
