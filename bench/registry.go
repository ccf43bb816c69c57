package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const configsLabel = "operators.operatorframework.io.index.configs.v1"

// imageRegistry is an HTTP registry on loopback. It serves layers from their files at almost no cost, and counts
// requests.
type imageRegistry struct {
	address string
	server  *http.Server
	handler http.Handler

	mu       sync.Mutex
	layers   map[v1.Hash]string // files
	configs  map[v1.Hash][]byte
	requests map[string]int // by method
}

func startRegistry() (*imageRegistry, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting the registry: %w", err)
	}
	r := &imageRegistry{
		address: listener.Addr().String(), layers: map[v1.Hash]string{}, configs: map[v1.Hash][]byte{}, requests: map[string]int{},
	}
	r.handler = registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithBlobHandler(r))
	r.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(r.count)}
	go func() { _ = r.server.Serve(listener) }() // ends with Close
	return r, nil
}

func (r *imageRegistry) count(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	r.requests[request.Method]++
	r.mu.Unlock()
	r.handler.ServeHTTP(w, request)
}

// counts returns the number of requests, and of HEAD requests.
func (r *imageRegistry) counts() (all, head int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.requests {
		all += n
	}
	return all, r.requests[http.MethodHead]
}

// Stat and Get implement registry.BlobHandler.
func (r *imageRegistry) Stat(_ context.Context, _ string, h v1.Hash) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if config, ok := r.configs[h]; ok {
		return int64(len(config)), nil
	}
	file, ok := r.layers[h]
	if !ok {
		return 0, registry.ErrNotFound
	}
	info, err := os.Stat(file)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (r *imageRegistry) Get(_ context.Context, _ string, h v1.Hash) (io.ReadCloser, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if config, ok := r.configs[h]; ok {
		return io.NopCloser(bytes.NewReader(config)), nil
	}
	if file, ok := r.layers[h]; ok {
		return os.Open(file)
	}
	return nil, registry.ErrNotFound
}

// publish makes an image of the layer and tags it as repository:latest. It returns the reference and the digest.
func (r *imageRegistry) publish(repository string, l *layer) (ref, digest string, err error) {
	image, err := mutate.AppendLayers(empty.Image, l)
	if err == nil {
		image, err = mutate.Config(image, v1.Config{Labels: map[string]string{configsLabel: "/configs"}})
	}
	if err != nil {
		return "", "", fmt.Errorf("making an image: %w", err)
	}
	config, err := image.RawConfigFile()
	configName, nameErr := image.ConfigName()
	manifest, manifestErr := image.RawManifest()
	hash, digestErr := image.Digest()
	if err := errors.Join(err, nameErr, manifestErr, digestErr); err != nil {
		return "", "", fmt.Errorf("making an image: %w", err)
	}
	r.mu.Lock()
	r.layers[l.Hash], r.configs[configName] = l.File, config
	r.mu.Unlock()
	put := httptest.NewRequest(http.MethodPut, "/v2/"+repository+"/manifests/latest", bytes.NewReader(manifest))
	put.Header.Set("Content-Type", string(types.DockerManifestSchema2))
	answer := httptest.NewRecorder()
	r.handler.ServeHTTP(answer, put)
	if answer.Code != http.StatusCreated {
		return "", "", fmt.Errorf("publishing %s: status %d: %s", repository, answer.Code, answer.Body)
	}
	return r.address + "/" + repository + ":latest", hash.String(), nil
}

// layer is a catalog as an image layer, in a gzipped tar file. The cache keeps its exported fields.
type layer struct {
	File     string
	Hash     v1.Hash
	Unpacked v1.Hash // of the tar archive
	Bytes    int64   // of the file
	Contents contents
}

// These methods implement v1.Layer.
func (l *layer) Digest() (v1.Hash, error)             { return l.Hash, nil }
func (l *layer) DiffID() (v1.Hash, error)             { return l.Unpacked, nil }
func (l *layer) Size() (int64, error)                 { return l.Bytes, nil }
func (l *layer) MediaType() (types.MediaType, error)  { return types.DockerLayer, nil }
func (l *layer) Compressed() (io.ReadCloser, error)   { return os.Open(l.File) }
func (l *layer) Uncompressed() (io.ReadCloser, error) { return nil, errors.ErrUnsupported }
