package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/operator-catalogs/catalogd/internal/catalogimage"
)

// registryServer is an OCI registry in this process, over HTTP.
type registryServer struct {
	server *http.Server
	log    *os.File
}

// startRegistry serves a registry with its blobs in dir, and logs each request to logPath.
func startRegistry(address, dir, logPath string) (*registryServer, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	output, err := os.Create(logPath)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, errors.Join(err, output.Close())
	}
	logger := log.New(output, "", log.LstdFlags)
	server := &http.Server{
		Handler:           registry.New(registry.Logger(logger), registry.WithBlobHandler(registry.NewDiskBlobHandler(dir))),
		ErrorLog:          logger,
		ReadHeaderTimeout: 10 * time.Second,
	}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			logger.Print(fmt.Errorf("serving: %w", err))
		}
	}()
	return &registryServer{server, output}, nil
}

// Close stops the registry immediately, with requests in flight.
func (r *registryServer) Close() error { return errors.Join(r.server.Close(), r.log.Close()) }

// push builds an image of a catalog's directory, pushes it to ref, and returns its digest.
func push(ctx context.Context, dir, ref string) (digest string, err error) {
	tag, err := name.NewTag(ref)
	if err != nil {
		return "", err
	}
	index, err := catalogimage.Build(dir)
	if err != nil {
		return "", err
	}
	if err := remote.WriteIndex(tag, index, remote.WithContext(ctx)); err != nil {
		return "", fmt.Errorf("pushing to %s: %w", tag, err)
	}
	hash, err := index.Digest()
	return hash.String(), err
}
