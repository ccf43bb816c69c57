package main

import (
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
)

// registryServer is an OCI registry in this process, over plain HTTP.
type registryServer struct {
	server *http.Server
	log    *os.File
}

// startRegistry serves a registry whose blobs lie in dir and whose requests are logged to logPath, a line each.
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

// Close ends the registry at once, requests in flight included.
func (r *registryServer) Close() error { return errors.Join(r.server.Close(), r.log.Close()) }
