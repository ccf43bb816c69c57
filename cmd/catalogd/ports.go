package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/auth"
	"github.com/operator-catalogs/catalogd/internal/certificate"
	"github.com/operator-catalogs/catalogd/internal/limit"
	"github.com/operator-catalogs/catalogd/internal/listen"
	"github.com/operator-catalogs/catalogd/internal/page"
	"github.com/operator-catalogs/catalogd/internal/serve"
)

// job runs beside the ports until ctx ends.
type job func(ctx context.Context) error

// openPorts opens all ports, so that a port in use is an error before anything starts.
func openPorts(configs ...listen.Config) ([]*listen.Server, error) {
	var ports []*listen.Server
	for _, cfg := range configs {
		port, err := listen.Listen(cfg)
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}

// contentPort returns the configuration of the content port, and its background jobs. It sends no request to the
// API server.
func contentPort(cfg config, restConfig *rest.Config, service serve.Config) (listen.Config, []job, error) {
	port := listen.Config{
		Name: "content", Flag: "--content-bind-address", Address: cfg.content.addr,
		MaxConnections: cfg.content.maxConnections, Metrics: service.Metrics, Logger: service.Logger,
		// Also with authentication, because a web page could use --anonymous-read.
		Hosts: cfg.content.hostsAt(cfg.content.addr),
	}
	var jobs []job
	if cfg.content.auth == authKubernetes {
		authorizer, err := auth.New(auth.Config{REST: restConfig, Anonymous: cfg.content.anonymousRead, Logger: service.Logger})
		if err != nil {
			return port, nil, fmt.Errorf("configuring authorization by the API server: %w", err)
		}
		service.Access = authorizer
		jobs = append(jobs, authorizer.Run)
	}
	source, err := certificates(cfg, restConfig, service.Logger)
	if err != nil {
		return port, nil, err
	}
	if warning := cfg.content.misleads(); warning != "" {
		service.Logger.Warn(warning, "externalURL", cfg.content.externalURL)
	}
	if source != nil {
		port.TLS = certificate.TLSConfig(source.GetCertificate, cfg.content.auth == authKubernetes)
		jobs = append(jobs, source.Run)
		service.Metrics.MustRegister(certificateMetrics{source})
	}
	service.Version, service.APIVersions = version, []string{v1beta1.GroupVersion.Version}
	service.Limits = limit.New(cfg.content.maxQueries)
	service.BaseURL = cfg.content.externalURL
	port.Handler = serve.New(service)
	if cfg.content.page {
		port.Handler = page.Mount(port.Handler, page.Config{
			Login: cfg.content.auth == authKubernetes, Namespace: cfg.sync.Namespace, Version: version, Logger: service.Logger,
		})
	}
	return port, jobs, nil
}

// otherPorts returns the configurations of all ports but the content port.
func otherPorts(cfg config, ready func(context.Context) error, own prometheus.Gatherer, logger *slog.Logger) []listen.Config {
	ports := []listen.Config{
		{Name: "health", Flag: "--health-bind-address", Address: cfg.healthAddr, Handler: healthHandler(ready), Logger: logger},
		{Name: "metrics", Flag: "--metrics-bind-address", Address: cfg.metricsAddr, Handler: metricsHandler(own), Logger: logger},
	}
	if cfg.pprofAddr != "" {
		ports = append(ports, listen.Config{
			Name: "pprof", Flag: "--pprof-bind-address", Address: cfg.pprofAddr, Handler: pprofHandler(), Logger: logger,
		})
	}
	for i := range ports {
		ports[i].Hosts = cfg.content.hostsAt(ports[i].Address)
	}
	return ports
}

// certificateSource returns the certificate of the content service, and keeps it current while Run runs.
type certificateSource interface {
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
	Run(ctx context.Context) error
}

// certificates returns the source of the certificate, or nil for plain HTTP.
func certificates(cfg config, restConfig *rest.Config, logger *slog.Logger) (certificateSource, error) {
	switch {
	case cfg.content.hasFiles():
		files, err := certificate.NewFiles(cfg.content.certFile, cfg.content.keyFile, logger)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert-file and --tls-private-key-file: %w", err)
		}
		return files, nil
	case cfg.content.selfSigned():
		client, err := corev1client.NewForConfig(restConfig)
		if err != nil {
			return nil, fmt.Errorf("creating a client for Secrets and ConfigMaps: %w", err)
		}
		return &certificate.SelfSigned{
			Client: client, Namespace: cfg.sync.Namespace, Names: cfg.content.names(), Clock: clock.RealClock{}, Logger: logger,
		}, nil
	}
	return nil, nil
}

// healthHandler serves liveness, which always succeeds, and readiness.
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

// metricsHandler serves catalogd's own metrics and those of controller-runtime.
func metricsHandler(own prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(prometheus.Gatherers{metrics.Registry, own}, promhttp.HandlerOpts{}))
	return mux
}

// pprofHandler serves profiles for `go tool pprof`.
func pprofHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol) // the tool sends POST
	return mux
}
