package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	discoveryv1client "k8s.io/client-go/kubernetes/typed/discovery/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/operator-catalogs/catalogd/internal/listen"
	"github.com/operator-catalogs/catalogd/internal/olmv0"
	"github.com/operator-catalogs/catalogd/internal/sync/v0catalog"
)

// olmv0Config has the values of the flags about OLM v0.
type olmv0Config struct {
	grpcAddr      string // empty: no gRPC
	grpcTLS       bool
	grpcService   string
	offer         bool
	clusterDomain string
}

func (c *olmv0Config) addFlags(f *pflag.FlagSet) {
	f.StringVar(&c.grpcAddr, "grpc-bind-address", "", "`address` of OLM v0's registry API (gRPC), such as :50051; OLM v0 knows no "+
		"encryption and no authentication (default: no gRPC)")
	f.BoolVar(&c.grpcTLS, "grpc-tls", false, "encrypt gRPC with the certificate of the content service; OLM v0 cannot connect then")
	f.StringVar(&c.grpcService, "grpc-service", "catalogd", "`name` of the Service in catalogd's namespace with the port grpc")
	f.BoolVar(&c.offer, "olm-v0", false, "offer CatalogSources with spec.olmv0 to OLM v0; requires --grpc-bind-address, and the "+
		"permissions of config/components/olm-v0")
	f.StringVar(&c.clusterDomain, "cluster-domain", domainOf("/etc/resolv.conf"), "`domain` of the cluster's Services")
}

func (c *olmv0Config) validate(check func(ok bool, format string, args ...any)) {
	if c.grpcAddr != "" {
		_, _, err := net.SplitHostPort(c.grpcAddr)
		check(err == nil, "--grpc-bind-address %q is not an address: write host:port, or :port for all interfaces", c.grpcAddr)
	}
	check(c.grpcAddr != "" || !c.offer, "--olm-v0 requires --grpc-bind-address: write --grpc-bind-address=:50051 too")
	check(!c.grpcTLS || !c.offer, "--olm-v0 and --grpc-tls exclude each other: OLM v0 cannot connect with TLS")
	check(len(validation.IsDNS1035Label(c.grpcService)) == 0, "--grpc-service %q is not a valid Service name", c.grpcService)
	check(len(validation.IsDNS1123Subdomain(c.clusterDomain)) == 0, "--cluster-domain %q is not a valid domain", c.clusterDomain)
}

// domainOf returns the domain of the cluster, which the kubelet writes into a pod's list of search domains.
func domainOf(file string) string {
	const usual = "cluster.local"
	f, err := os.Open(file)
	if err != nil {
		return usual
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		for _, word := range strings.Fields(lines.Text()) {
			if domain, ok := strings.CutPrefix(word, "svc."); ok {
				return strings.TrimSuffix(domain, ".")
			}
		}
	}
	return usual
}

// idleClient is after how long the channel of a gRPC client becomes idle: 30 minutes. Closing its connection before makes
// OLM v0 read the whole catalog again.
const idleClient = 45 * time.Minute

// openPorts opens all ports, and returns the jobs of that of OLM v0's registry API, which it adds if a flag says so.
func (c *cluster) openPorts(content listen.Config, others []listen.Config) ([]*listen.Server, []job, error) {
	cfgs := append([]listen.Config{content}, others...)
	if c.cfg.olmv0.grpcAddr == "" {
		ports, err := openPorts(cfgs...)
		return ports, nil, err
	}
	c.registryAPI = olmv0.New(olmv0.Config{
		Store: c.store, Metrics: content.Metrics, Logger: c.logger,
		Awaited: func(catalog string) bool { return c.awaited(catalog).Exists },
	})
	ports, err := openPorts(append(cfgs, grpcPort(c.cfg, content, c.registryAPI))...)
	if err != nil {
		return nil, nil, err
	}
	r := olmv0.Reconnect{Server: c.registryAPI, Drain: ports[len(ports)-1].Drain, TLS: c.cfg.olmv0.grpcTLS}
	if c.cfg.replicas.elect {
		client, err := discoveryv1client.NewForConfig(c.rest)
		if err != nil {
			return nil, nil, fmt.Errorf("creating a client for EndpointSlices: %w", err)
		}
		r.Replicas = func(ctx context.Context) ([]string, error) {
			slices, err := client.EndpointSlices(c.cfg.sync.Namespace).List(ctx,
				metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + c.cfg.olmv0.grpcService})
			if err != nil {
				return nil, fmt.Errorf("listing the replicas: %w", err)
			}
			return readyAddresses(slices.Items), nil
		}
	}
	return ports, []job{r.Run}, nil
}

// grpcPort returns the configuration of the port of OLM v0's registry API.
//
// It accepts any host, also on loopback, because the host names the catalog (olmv0.Server.CatalogOf). DNS rebinding fails: the port
// supports only HTTP/2, and browsers use HTTP/2 only over TLS. With --grpc-tls, the certificate does not match the name of the web
// page.
func grpcPort(cfg config, content listen.Config, handler http.Handler) listen.Config {
	port := listen.Config{
		Name: "grpc", Flag: "--grpc-bind-address", Address: cfg.olmv0.grpcAddr, Handler: handler, HTTP2: true,
		MaxConnections: cfg.content.maxConnections, Idle: idleClient, Metrics: content.Metrics, Logger: content.Logger,
	}
	if cfg.olmv0.grpcTLS {
		port.TLS = content.TLS
	}
	return port
}

// readyAddresses returns the addresses (host:port) of the ready endpoints with a port grpc.
func readyAddresses(slices []discoveryv1.EndpointSlice) (out []string) {
	for _, slice := range slices {
		for _, port := range slice.Ports {
			if port.Name == nil || *port.Name != "grpc" || port.Port == nil {
				continue
			}
			for _, e := range slice.Endpoints {
				if e.Conditions.Ready == nil || *e.Conditions.Ready {
					out = append(out, net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(*port.Port))))
				}
			}
		}
	}
	return out
}

// offers returns what offers CatalogSources to OLM v0.
func (c *cluster) offers(mgr ctrl.Manager) v0catalog.Mirror {
	cfg := c.cfg.olmv0
	return v0catalog.Mirror{
		Enabled: cfg.offer, Client: mgr.GetClient(), Live: mgr.GetAPIReader(),
		Target: cfg.grpcService + "." + c.cfg.sync.Namespace + ".svc." + cfg.clusterDomain,
		Missing: func(ctx context.Context, catalog string) ([]string, error) {
			served, ok := c.store.Catalog(catalog)
			if !ok {
				return nil, nil
			}
			report, err := c.registryAPI.Report(ctx, served.Snapshot) // --olm-v0 requires the flag that makes it
			return report.Missing(), err
		},
	}
}
