package main

import (
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/operator-catalogs/catalogd/internal/serve"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// Loopback ports without authentication refuse foreign hosts, which stops DNS rebinding.
func TestPortsRefuseForeignHosts(t *testing.T) {
	allowed := []string{"catalogs.example", "proxy.example"}
	for name, test := range map[string]struct {
		addr, auth string
		want       []string
	}{
		"loopback":                     {"127.0.0.1:0", authNone, allowed},
		"loopback with authentication": {"127.0.0.1:0", authKubernetes, nil},
		"any address":                  {":0", authNone, nil},
	} {
		cfg := config{metricsAddr: "127.0.0.1:0", healthAddr: ":0", pprofAddr: "localhost:0"}
		cfg.content = contentConfig{
			addr: test.addr, auth: test.auth, plainHTTP: true, externalURL: "http://catalogs.example", allowedHosts: allowed[1:], maxQueries: 1,
		}
		content, _, err := contentPort(cfg, &rest.Config{}, serve.Config{Metrics: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler)})
		must.Succeed(t, err)
		got := map[string][]string{content.Name: content.Hosts}
		for _, port := range otherPorts(cfg, nil, prometheus.NewRegistry(), slog.New(slog.DiscardHandler)) {
			got[port.Name] = port.Hosts
		}
		want := map[string][]string{"content": test.want, "health": nil, "metrics": allowed, "pprof": allowed}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: allowed hosts (-want +got):\n%s", name, diff)
		}
	}
}
