// Command catalogd unpacks operator catalogs onto its volume, publishes their packages and serves their content over HTTP.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/operator-catalogs/catalogd/internal/poll"
	"github.com/operator-catalogs/catalogd/internal/store"
	catalogsync "github.com/operator-catalogs/catalogd/internal/sync"
)

// version is set when the program is built.
var version = "unknown"

func main() {
	cfg, err := parseFlags(os.Args[1:], os.Stdout)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintf(os.Stderr, "catalogd: %v\nRun 'catalogd --help' for usage.\n", err)
		os.Exit(2)
	}
	if cfg.showVersion {
		fmt.Println("catalogd", version)
		return
	}
	if os.Getenv("HOME") == "" {
		// A pod's arbitrary user has no home. The library that reads --registries-conf fails without one, but does not use it.
		_ = os.Setenv("HOME", "/") // fails for bad names only
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, cfg, setLogger(cfg)); err != nil {
		fmt.Fprintf(os.Stderr, "catalogd: %v\n", err)
		os.Exit(1) //nolint:gocritic // stop only unregisters the signals
	}
}

// setLogger sets and returns the logger of this process and its libraries.
func setLogger(cfg config) *slog.Logger {
	opts := &slog.HandlerOptions{Level: cfg.logLevel}
	var handler slog.Handler = slog.NewJSONHandler(os.Stderr, opts)
	if cfg.logFormat == "text" {
		handler = slog.NewTextHandler(os.Stderr, opts)
	}
	ctrl.SetLogger(logr.FromSlogHandler(handler))
	klog.SetLogger(logr.FromSlogHandler(handler))
	logrus.SetOutput(slog.NewLogLogger(handler, slog.LevelDebug).Writer()) // operator-registry's, about legacy indexes
	return slog.New(handler)
}

// run wires everything and works until ctx ends. It serves stored content before it needs the network or the API server.
func run(ctx context.Context, cfg config, logger *slog.Logger) error {
	logger.Info("starting", "version", version, "dataDir", cfg.dataDir, "externalURL", cfg.content.externalURL)
	limitMemory(ctx, logger)
	paceCollector(ctx)

	restConfig, err := clusterConfig(cfg.kubeconfig)
	if err != nil {
		return err
	}
	content, err := store.Open(cfg.dataDir, store.Options{Logger: logger, MaxBlobBytes: cfg.maxBlob, Limit: cfg.storage, CacheBytes: cfg.bundles.cacheLimit()})
	if err != nil {
		return err
	}
	defer content.Close() // it releases the lock

	tracer, flush, err := newTracer(ctx, cfg.otlp, logger)
	if err != nil {
		return err
	}
	defer flush()

	own := prometheus.NewRegistry()
	cluster := &cluster{
		cfg: cfg, rest: restConfig, logger: logger, store: content, polls: &poll.Log{}, registries: newRegistries(cfg, logger),
		metrics: catalogsync.NewMetrics(own), tracer: tracer, began: time.Now(),
	}
	own.MustRegister(buildInfo(), storageMetrics{content}, cluster.leadingMetric())
	if cluster.lease, err = cluster.newLease(); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	service := cluster.service(ctx)
	service.Metrics = own
	jobs := cluster.addBundles(&service, own)
	contentCfg, contentJobs, err := contentPort(cfg, restConfig, service)
	if err != nil {
		return err
	}
	ports, more, err := cluster.openPorts(contentCfg, otherPorts(cfg, cluster.ready, own, logger))
	if err != nil {
		return err
	}
	jobs = slices.Concat(jobs, contentJobs, more)
	logger.Info("serving", "catalogs", len(content.Catalogs()), "content", ports[0].Addr().String(), "protection", cfg.content.protection())

	for _, port := range ports {
		group.Go(func() error { return port.Serve(ctx) })
	}
	for _, job := range append(jobs, append(cluster.jobs(), content.Compress)...) {
		group.Go(func() error { return job(ctx) })
	}
	err = group.Wait()
	logger.Info("stopped")
	return err
}
