package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/operator-catalogs/catalogd/internal/poll"
	"github.com/operator-catalogs/catalogd/internal/registry"
	"github.com/operator-catalogs/catalogd/internal/serve"
	"github.com/operator-catalogs/catalogd/internal/store"
	catalogsync "github.com/operator-catalogs/catalogd/internal/sync"
)

// shutdownGrace is how long requests in flight may take to end when catalogd is told to.
const shutdownGrace = 25 * time.Second

// run wires everything and works until ctx ends. What is stored is served before anything else is asked for, and
// whatever becomes of the API server.
func run(ctx context.Context, cfg config, logger *slog.Logger) error {
	logger.Info("starting", "version", version, "dataDir", cfg.dataDir, "externalURL", cfg.externalURL)

	restConfig, err := clusterConfig(cfg.kubeconfig)
	if err != nil {
		return err
	}
	content, err := store.Open(cfg.dataDir, store.Options{Logger: logger, MaxBlobBytes: cfg.maxBlob})
	if err != nil {
		return err
	}
	defer content.Close() // it only gives up the lock, as the end of the process does

	registries := registry.New(registry.Config{
		UserAgent: "catalogd/" + version,
		ConfFile:  cfg.registries,
		CADir:     cfg.caDir,
		Jobs:      2, // manifests and layers of an image come one after another; a second is for the image that interrupts it
		Now:       time.Now,
		Backoff:   poll.Backoff,
		Logger:    logger,
	})
	polls, own := &poll.Log{}, prometheus.NewRegistry()
	cluster := &cluster{
		cfg: cfg, rest: restConfig, logger: logger, store: content, polls: polls, registries: registries,
		metrics: catalogsync.NewMetrics(own),
	}
	servers := []*httpServer{
		{name: "content", addr: cfg.contentAddr, handler: serve.New(serve.Config{
			Catalogs: content,
			Polls: func(catalog string) (last, next time.Time) {
				entry := polls.Get(catalog)
				return entry.Last, entry.Next
			},
			BaseURL: cfg.externalURL,
			Logger:  logger,
		})},
		{name: "health", addr: cfg.healthAddr, handler: healthHandler(cluster.ready)},
		{name: "metrics", addr: cfg.metricsAddr, handler: metricsHandler(prometheus.Gatherers{metrics.Registry, own})},
	}
	for _, s := range servers {
		if err := s.listen(); err != nil {
			return err
		}
	}
	logger.Info("serving", "catalogs", len(content.Catalogs()), "content", servers[0].listener.Addr().String())

	group, ctx := errgroup.WithContext(ctx)
	for _, s := range servers {
		group.Go(func() error { return s.serve(ctx) })
	}
	group.Go(func() error { return cluster.run(ctx) })
	err = group.Wait()
	logger.Info("stopped")
	return err
}

// httpServer is one HTTP port.
type httpServer struct {
	name, addr string
	handler    http.Handler
	listener   net.Listener
}

// listen takes the port, so that one that is taken is an error before anything starts.
func (s *httpServer) listen() error {
	var err error
	if s.listener, err = net.Listen("tcp", s.addr); err != nil {
		return fmt.Errorf("listening for %s requests on --%s-bind-address %s: %w", s.name, s.name, s.addr, err)
	}
	return nil
}

// serve answers until ctx ends, and then lets the requests in flight end.
func (s *httpServer) serve(ctx context.Context) error {
	srv := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(s.listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving %s requests: %w", s.name, err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	if err := srv.Shutdown(grace); err != nil {
		return errors.Join(fmt.Errorf("%s requests were cut off: %w", s.name, err), srv.Close())
	}
	return nil
}

// healthHandler answers liveness, always, and readiness, as ready says.
func healthHandler(ready func(context.Context) error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := ready(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return mux
}

func metricsHandler(gatherer prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{}))
	return mux
}
