package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/operator-catalogs/catalogd/internal/listen"
	"github.com/operator-catalogs/catalogd/internal/poll"
	"github.com/operator-catalogs/catalogd/internal/serve"
	"github.com/operator-catalogs/catalogd/internal/store"
	catalogsync "github.com/operator-catalogs/catalogd/internal/sync"
)

// run wires everything and works until ctx ends. It serves stored content before it needs the network or the API server.
func run(ctx context.Context, cfg config, logger *slog.Logger) error {
	logger.Info("starting", "version", version, "dataDir", cfg.dataDir, "externalURL", cfg.content.externalURL)
	manageMemory(ctx, logger)

	restConfig, err := clusterConfig(cfg.kubeconfig)
	if err != nil {
		return err
	}
	content, err := store.Open(cfg.dataDir, store.Options{Logger: logger, MaxBlobBytes: cfg.maxBlob, Limit: cfg.storage})
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
	contentCfg, jobs, err := contentPort(cfg, restConfig, serve.Config{
		Catalogs: content,
		Polls:    cluster.pollTimes,
		Priority: cluster.priority,
		Awaited:  cluster.awaited,
		Expected: cluster.expected,
		Metrics:  own,
		Tracer:   tracer,
		Done:     ctx.Done(),
		Logger:   logger,
	})
	if err != nil {
		return err
	}
	ports, err := openPorts(append([]listen.Config{contentCfg}, otherPorts(cfg, cluster.ready, own, logger)...)...)
	if err != nil {
		return err
	}
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
