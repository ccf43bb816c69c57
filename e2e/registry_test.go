package e2e

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/operator-catalogs/catalogd/internal/testing/registry"
)

const configsLabel = "operators.operatorframework.io.index.configs.v1"

// imageRegistry is an HTTP registry on loopback that logs its requests. It can be stopped and restarted on the same
// port with its content.
type imageRegistry struct {
	address string
	handler http.Handler
	server  *http.Server

	mu       sync.Mutex
	requests []request
	instead  http.HandlerFunc // answers the next request in place of the registry, once
}

type request struct {
	method, path string
	at           time.Time
}

func newRegistry(t *testing.T) *imageRegistry {
	t.Helper()
	r := &imageRegistry{address: "127.0.0.1:0", handler: registry.New()}
	r.start(t)
	t.Cleanup(r.stop)
	return r
}

func (r *imageRegistry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	r.requests = append(r.requests, request{req.Method, req.URL.Path, time.Now()})
	answer := r.handler.ServeHTTP
	if r.instead != nil {
		answer, r.instead = r.instead, nil
	}
	r.mu.Unlock()
	answer(w, req)
}

// once replaces the reply to the next request.
func (r *imageRegistry) once(instead http.HandlerFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.instead = instead
}

func (r *imageRegistry) start(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", r.address)
	if err != nil {
		t.Fatalf("starting the registry: %v", err)
	}
	r.address = listener.Addr().String()
	server := &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}
	r.server = server
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			panic(err)
		}
	}()
}

func (r *imageRegistry) stop() { _ = r.server.Close() }

// log returns the requests since index from.
func (r *imageRegistry) log(from int) []request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]request(nil), r.requests[from:]...)
}

// push uploads the image as repository:latest and returns the reference by tag and the digest.
func (r *imageRegistry) push(t *testing.T, repository string, image v1.Image) (ref, digest string) {
	t.Helper()
	ref = r.address + "/" + repository + ":latest"
	tag, err := name.NewTag(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, image, remote.WithContext(context.Background())); err != nil {
		t.Fatalf("pushing %s: %v", ref, err)
	}
	hash, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return ref, hash.String()
}

// catalogImage builds an index image with dir at /configs.
func catalogImage(t *testing.T, dir string) v1.Image {
	t.Helper()
	return imageOf(t, directoryLayer(t, dir))
}

func directoryLayer(t *testing.T, dir string) v1.Layer {
	t.Helper()
	file := filepath.Join(t.TempDir(), "layer.tar")
	if err := writeTar(file, dir); err != nil {
		t.Fatalf("archiving %s: %v", dir, err)
	}
	layer, err := tarball.LayerFromFile(file, tarball.WithCompressionLevel(gzip.BestSpeed))
	if err != nil {
		t.Fatalf("making a layer of %s: %v", dir, err)
	}
	return layer
}

// imageOf builds an index image of layers, the lowest first, with its catalog at /configs.
func imageOf(t *testing.T, layers ...v1.Layer) v1.Image {
	t.Helper()
	return labelled(t, map[string]string{configsLabel: "/configs"}, layers...)
}

// labelled builds an image of layers, the lowest first, with labels.
func labelled(t *testing.T, labels map[string]string, layers ...v1.Layer) v1.Image {
	t.Helper()
	image, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		t.Fatal(err)
	}
	image, err = mutate.Config(image, v1.Config{Labels: labels})
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func writeTar(file, dir string) (err error) {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	archive := tar.NewWriter(out)
	root := os.DirFS(dir)
	err = fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		header := &tar.Header{Name: path.Join("configs", name), Mode: 0o644, Typeflag: tar.TypeReg}
		if entry.IsDir() {
			header.Name, header.Mode, header.Typeflag = header.Name+"/", 0o755, tar.TypeDir
			return archive.WriteHeader(header)
		}
		content, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		header.Size = int64(len(content))
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		_, err = archive.Write(content)
		return err
	})
	return errors.Join(err, archive.Close())
}
