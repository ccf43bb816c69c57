package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
	catalogsync "github.com/operator-catalogs/catalogd/internal/sync"
	"github.com/operator-catalogs/catalogd/internal/unpack"
)

// serviceAccountNamespace holds the namespace of a pod's service account; Kubernetes mounts it.
const serviceAccountNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// config has the values of the flags.
type config struct {
	kubeconfig string
	sync       catalogsync.Config // without the URL and the clients
	dataDir    string

	clusterCatalogs        bool
	clusterCatalogRegistry string
	content                contentConfig
	olmv0                  olmv0Config
	bundles                bundleConfig
	healthAddr             string
	metricsAddr            string
	pprofAddr              string
	otlp                   string
	replicas               replicaConfig
	caDir                  string
	registries             string
	maxBlob                int64
	storage                int64
	logLevel               slog.Level
	logFormat              string
	showVersion            bool
}

const usage = `catalogd serves operator catalogs. It polls the images that CatalogSources name, unpacks them onto its
volume, publishes an OperatorPackage for each package, and serves the content over HTTP.

Usage:
  catalogd [flags]

Flags:
%s
For the HTTP API, see README.md in the source; for CatalogSources, see docs/spec/catalogsource.md.
`

// parseFlags parses the command line. It writes help to out and returns pflag.ErrHelp.
func parseFlags(args []string, out io.Writer) (config, error) {
	cfg := config{sync: catalogsync.Config{Limits: unpack.DefaultLimits()}, maxBlob: scan.DefaultMaxBlobBytes, bundles: newBundleConfig()}
	var level, pullSecret string
	f := pflag.NewFlagSet("catalogd", pflag.ContinueOnError)
	f.SortFlags = false
	f.StringVar(&cfg.kubeconfig, "kubeconfig", "", "`file` with the address and credentials of the API server (default: the pod's "+
		"service account, else $KUBECONFIG, else ~/.kube/config)")
	f.StringVar(&cfg.sync.Namespace, "namespace", defaultNamespace(),
		"`namespace` of catalogd; OperatorPackages name it as that of their catalog")
	f.StringVar(&cfg.dataDir, "data-dir", "/var/lib/catalogd", "`directory` for the content, on a persistent volume; one for each catalogd")
	cfg.content.addFlags(f)
	f.StringVar(&cfg.healthAddr, "health-bind-address", ":8081", "`address` of /healthz and /readyz")
	f.StringVar(&cfg.metricsAddr, "metrics-bind-address", ":8082", "`address` of /metrics")
	f.StringVar(&cfg.pprofAddr, "pprof-bind-address", "", "loopback `address` of /debug/pprof, such as 127.0.0.1:6060 (default: no profiles)")
	f.StringVar(&cfg.otlp, "otlp-endpoint", "", "`URL` of an OpenTelemetry collector for traces (OTLP over gRPC), such as "+
		"http://collector.example:4317; https:// for TLS (default: no traces)")
	cfg.replicas.addFlags(f)
	f.Func("catalog-selector",
		"`labels` that select the CatalogSources and ClusterCatalogs of this installation, with the syntax of kubectl --selector (default: all)",
		func(text string) (err error) {
			cfg.sync.Selector, err = parseSelector(text)
			return err
		})
	cfg.addClusterCatalogFlags(f)
	cfg.olmv0.addFlags(f)
	f.DurationVar(&cfg.sync.DefaultPollingInterval, "default-polling-interval", 15*time.Minute,
		"polling interval of CatalogSources without a schedule")
	f.IntVar(&cfg.sync.Concurrency, "concurrency", 4, "limit of images that are unpacked concurrently; from one registry half as many")
	f.StringVar(&pullSecret, "pull-secret", "",
		"`[namespace/]name` of a Secret with registry credentials for all catalogs, of type kubernetes.io/dockerconfigjson")
	f.StringVar(&cfg.sync.ServiceAccount, "service-account", cmp.Or(os.Getenv("POD_SERVICE_ACCOUNT"), "catalogd"),
		"`name` of catalogd's own ServiceAccount; its imagePullSecrets apply to all catalogs")
	f.StringVar(&cfg.caDir, "registry-ca-dir", "",
		"`directory` of *.crt and *.pem files with CA certificates to trust for all registries; reloaded on changes")
	f.StringVar(&cfg.registries, "registries-conf", "",
		"`file` with registry mirrors in the format of containers-registries.conf(5); reloaded on changes")
	cfg.addLimitFlags(f)
	cfg.bundles.addFlags(f)
	f.StringVar(&level, "log-level", "info", "least `level` to log: debug, info, warn or error")
	f.StringVar(&cfg.logFormat, "log-format", "json", "`format` of the log: json or text")
	f.BoolVar(&cfg.showVersion, "version", false, "print the version and exit")
	f.Usage = func() { fmt.Fprintf(out, usage, f.FlagUsagesWrapped(110)) }

	if err := f.Parse(args); err != nil {
		return cfg, err
	}
	if cfg.showVersion {
		return cfg, nil
	}
	if f.NArg() > 0 {
		return cfg, fmt.Errorf("unexpected argument %q: catalogd takes flags only", f.Arg(0))
	}
	// No offsets, such as debug-4: below debug, the Kubernetes client logs responses, Secrets included.
	if err := cfg.logLevel.UnmarshalText([]byte(level)); err != nil ||
		!slices.Contains([]string{"debug", "info", "warn", "error"}, strings.ToLower(level)) {
		return cfg, fmt.Errorf("--log-level %q is none of debug, info, warn, error", level)
	}
	cfg.content.complete(inPod(cfg.kubeconfig))
	cfg.replicas.complete(f, inPod(cfg.kubeconfig))
	cfg.sync.PullSecret = secretName(pullSecret, cfg.sync.Namespace)
	return cfg, cfg.validate()
}

func (c *config) addClusterCatalogFlags(f *pflag.FlagSet) {
	f.BoolVar(&c.clusterCatalogs, "cluster-catalogs", false, "serve the ClusterCatalogs of OLM v1, and offer CatalogSources with "+
		"spec.olmv1 to OLM v1; requires the CRD and the permissions of config/components/cluster-catalogs")
	f.StringVar(&c.clusterCatalogRegistry, "cluster-catalog-registry", "catalogd-cluster-catalogs",
		"`name` of a ConfigMap in catalogd's namespace, which may be missing, whose key registry.yaml has the access to the registries "+
			"of all ClusterCatalogs, in the form of spec.registry of a CatalogSource")
}

// addLimitFlags adds the flags that limit the content of an image and of the data directory.
func (c *config) addLimitFlags(f *pflag.FlagSet) {
	f.Var((*byteCount)(&c.sync.Limits.TotalBytes), "max-unpacked-bytes", "limit of the total bytes of the catalog files of an image")
	f.Var((*byteCount)(&c.sync.Limits.FileBytes), "max-file-bytes", "limit of the bytes of one catalog file")
	f.IntVar(&c.sync.Limits.Files, "max-files", c.sync.Limits.Files, "limit of the number of `files` and directories of a catalog")
	f.IntVar(&c.sync.Limits.Ratio, "max-compression-ratio", c.sync.Limits.Ratio, "limit of the compression `ratio` of an image layer")
	f.Var((*byteCount)(&c.sync.Limits.DatabaseBytes), "max-database-bytes",
		"limit of the bytes of the SQLite database of a legacy index, which is converted in memory")
	f.Var((*byteCount)(&c.storage), "storage-limit",
		"limit of the bytes in the data directory, content that is being unpacked included; 0: the size of the volume")
	f.Var((*byteCount)(&c.maxBlob), "max-blob-bytes", "limit of the bytes of one blob of a catalog; a blob in YAML is limited to 4 MiB")
}

// validate returns the errors of all invalid flags, not only the first.
func (c config) validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	for _, a := range []struct{ flag, addr string }{
		{"content-bind-address", c.content.addr}, {"health-bind-address", c.healthAddr}, {"metrics-bind-address", c.metricsAddr},
	} {
		_, _, err := net.SplitHostPort(a.addr)
		check(err == nil, "--%s %q is not an address: write host:port, or :port for all interfaces", a.flag, a.addr)
	}
	c.content.validate(check)
	c.replicas.validate(check)
	c.olmv0.validate(check)
	c.bundles.validate(check)
	check(c.pprofAddr == "" || isLoopback(c.pprofAddr),
		"--pprof-bind-address %q can be reached from other machines, or is no address: profiles show what is in memory, "+
			"so write a loopback address such as 127.0.0.1:6060, and use kubectl port-forward", c.pprofAddr)
	check(c.otlp == "" || isURL(c.otlp), "--otlp-endpoint %q is not a URL: write http://host:port, or https://host:port for TLS", c.otlp)
	check(len(validation.IsDNS1123Label(c.sync.Namespace)) == 0, "--namespace %q is not a valid namespace name", c.sync.Namespace)
	check(c.sync.PullSecret == types.NamespacedName{} || (len(validation.IsDNS1123Label(c.sync.PullSecret.Namespace)) == 0 &&
		len(validation.IsDNS1123Subdomain(c.sync.PullSecret.Name)) == 0),
		"--pull-secret %q is not a valid Secret name: write name or namespace/name", c.sync.PullSecret)
	check(len(validation.IsDNS1123Subdomain(c.sync.ServiceAccount)) == 0, "--service-account %q is not a valid ServiceAccount name",
		c.sync.ServiceAccount)
	check(len(validation.IsDNS1123Subdomain(c.clusterCatalogRegistry)) == 0, "--cluster-catalog-registry %q is not a valid ConfigMap name",
		c.clusterCatalogRegistry)
	check(c.dataDir != "", "--data-dir must not be empty")
	check(c.sync.DefaultPollingInterval >= time.Second, "--default-polling-interval %v must be at least 1s", c.sync.DefaultPollingInterval)
	check(c.sync.Concurrency > 0, "--concurrency %d must be at least 1", c.sync.Concurrency)
	for _, l := range []struct {
		flag string
		n    int64
	}{
		{"max-unpacked-bytes", c.sync.Limits.TotalBytes}, {"max-file-bytes", c.sync.Limits.FileBytes}, {"max-files", int64(c.sync.Limits.Files)},
		{"max-compression-ratio", int64(c.sync.Limits.Ratio)}, {"max-database-bytes", c.sync.Limits.DatabaseBytes}, {"max-blob-bytes", c.maxBlob},
	} {
		check(l.n > 0, "--%s %d must be at least 1", l.flag, l.n)
	}
	check(c.storage >= 0, "--storage-limit %d must not be negative", c.storage)
	check(c.maxBlob < 4<<30, "--max-blob-bytes %d must be below 4 GiB (%d)", c.maxBlob, int64(4<<30))
	check(c.logFormat == "json" || c.logFormat == "text", "--log-format %q is neither json nor text", c.logFormat)
	return errors.Join(errs...)
}

// secretName parses [namespace/]name.
func secretName(text, namespace string) types.NamespacedName {
	if text == "" {
		return types.NamespacedName{}
	}
	if in, name, ok := strings.Cut(text, "/"); ok {
		return types.NamespacedName{Namespace: in, Name: name}
	}
	return types.NamespacedName{Namespace: namespace, Name: text}
}

// defaultNamespace returns the namespace of this pod, if it is known.
func defaultNamespace() string {
	mounted, _ := os.ReadFile(serviceAccountNamespace) // missing outside a pod
	return cmp.Or(os.Getenv("POD_NAMESPACE"), strings.TrimSpace(string(mounted)), "catalogd-system")
}

// byteCount is a flag value in bytes, written as a Kubernetes quantity: 8Gi, 500M or 1000.
type byteCount int64

func (b *byteCount) Set(text string) error {
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Cmp(*resource.NewQuantity(q.Value(), q.Format)) != 0 { // 100m would be a tenth of a byte
		return errors.New("write a number of bytes, such as 500M or 8Gi")
	}
	*b = byteCount(q.Value())
	return nil
}

func (b *byteCount) String() string {
	return resource.NewQuantity(int64(*b), resource.BinarySI).String()
}

func (b *byteCount) Type() string { return "quantity" }

// parseSelector parses a selector as kubectl's --selector does; nil selects all.
func parseSelector(text string) (labels.Selector, error) {
	selector, err := labels.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("use the syntax of kubectl's --selector, such as team=a or env in (test,stage): %w", err)
	}
	if selector.Empty() {
		return nil, nil
	}
	return selector, nil
}
