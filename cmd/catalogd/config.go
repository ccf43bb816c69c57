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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
	"github.com/operator-catalogs/catalogd/internal/unpack"
)

// serviceAccountNamespace holds the namespace of a pod's service account; Kubernetes mounts it.
const serviceAccountNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// config is what the flags say.
type config struct {
	kubeconfig  string
	namespace   string
	dataDir     string
	content     contentConfig
	healthAddr  string
	metricsAddr string
	pprofAddr   string
	otlp        string
	replicas    replicaConfig
	selector    labelSelector
	interval    time.Duration
	concurrency int
	pullSecret  types.NamespacedName
	account     string
	caDir       string
	registries  string
	limits      unpack.Limits
	maxBlob     int64
	storage     int64
	logLevel    slog.Level
	logFormat   string
	showVersion bool
}

const usage = `catalogd keeps operator catalogs: it unpacks the images that CatalogSources name onto its volume, follows
them, publishes an OperatorPackage for each package, and serves the whole content over HTTP.

Usage:
  catalogd [flags]

Flags:
%s
What is served, and how to ask for it, README.md in the source says; CatalogSources, docs/spec/catalogsource.md.
`

// parseFlags reads the command line. Help goes to out, with the error pflag.ErrHelp.
func parseFlags(args []string, out io.Writer) (config, error) {
	cfg := config{limits: unpack.DefaultLimits(), maxBlob: scan.DefaultMaxBlobBytes}
	var level, pullSecret string
	f := pflag.NewFlagSet("catalogd", pflag.ContinueOnError)
	f.SortFlags = false
	f.StringVar(&cfg.kubeconfig, "kubeconfig", "", "`file` that says how to reach the API server (default: the pod's service account, else $KUBECONFIG, else ~/.kube/config)")
	f.StringVar(&cfg.namespace, "namespace", defaultNamespace(), "`namespace` that catalogd runs in; it stands in OperatorPackages as that of their catalogs")
	f.StringVar(&cfg.dataDir, "data-dir", "/var/lib/catalogd", "`directory` for the content, on a persistent volume; one for each catalogd")
	cfg.content.addFlags(f)
	f.StringVar(&cfg.healthAddr, "health-bind-address", ":8081", "`address` of /healthz and /readyz")
	f.StringVar(&cfg.metricsAddr, "metrics-bind-address", ":8082", "`address` of /metrics")
	f.StringVar(&cfg.pprofAddr, "pprof-bind-address", "", "loopback `address` of /debug/pprof, such as 127.0.0.1:6060 (default: profiles cannot be had)")
	f.StringVar(&cfg.otlp, "otlp-endpoint", "", "`URL` of an OpenTelemetry collector to send traces to, by OTLP over gRPC, such as http://collector.example:4317; https:// for TLS (default: none are made)")
	cfg.replicas.addFlags(f)
	f.Var(&cfg.selector, "catalog-selector", "`labels` of the CatalogSources to keep, as kubectl's --selector has them; others are left to other installations (default: all)")
	f.DurationVar(&cfg.interval, "default-polling-interval", 15*time.Minute, "how often to poll an image whose CatalogSource does not say")
	f.IntVar(&cfg.concurrency, "concurrency", 4, "how many images are unpacked at a time; of one registry half as many")
	f.StringVar(&pullSecret, "pull-secret", "", "`[namespace/]name` of a Secret with registry credentials for all catalogs, of type kubernetes.io/dockerconfigjson")
	f.StringVar(&cfg.account, "service-account", cmp.Or(os.Getenv("POD_SERVICE_ACCOUNT"), "catalogd"), "`name` of catalogd's own ServiceAccount; its imagePullSecrets hold for all catalogs")
	f.StringVar(&cfg.caDir, "registry-ca-dir", "", "`directory` of *.crt and *.pem files with certificates of authorities to trust for all registries; read again when they change")
	f.StringVar(&cfg.registries, "registries-conf", "", "`file` that says where images are mirrored, as containers-registries.conf(5) has it; read again when it changes")
	f.Var((*byteCount)(&cfg.limits.TotalBytes), "max-unpacked-bytes", "most bytes that the catalog files of an image may have together")
	f.Var((*byteCount)(&cfg.limits.FileBytes), "max-file-bytes", "most bytes that one of them may have")
	f.IntVar(&cfg.limits.Files, "max-files", cfg.limits.Files, "most `files` and directories that a catalog may have")
	f.IntVar(&cfg.limits.Ratio, "max-compression-ratio", cfg.limits.Ratio, "most bytes that one byte of an image layer may unpack to, as a `ratio`")
	f.Var((*byteCount)(&cfg.limits.DatabaseBytes), "max-database-bytes", "most bytes that the SQLite database of a legacy index may have; it is converted in memory")
	f.Var((*byteCount)(&cfg.storage), "storage-limit", "most bytes that the content of all catalogs may take in the data directory, that being unpacked included; 0: what the volume has")
	f.Var((*byteCount)(&cfg.maxBlob), "max-blob-bytes", "most bytes that one blob of a catalog may have; a blob in YAML may have 4 MiB at most")
	f.StringVar(&level, "log-level", "info", "`level` from which to log: debug, info, warn or error")
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
	// Not its offsets, such as debug-4: below debug, the Kubernetes client logs what it reads, Secrets included.
	if err := cfg.logLevel.UnmarshalText([]byte(level)); err != nil || !slices.Contains([]string{"debug", "info", "warn", "error"}, strings.ToLower(level)) {
		return cfg, fmt.Errorf("--log-level %q is none of debug, info, warn, error", level)
	}
	cfg.content.complete(inPod(cfg.kubeconfig))
	cfg.replicas.complete(f, inPod(cfg.kubeconfig))
	cfg.pullSecret = secretName(pullSecret, cfg.namespace)
	return cfg, cfg.validate()
}

// validate reports every flag that cannot be used, not only the first.
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
		check(err == nil, "--%s %q is no address: write host:port, or :port for all interfaces", a.flag, a.addr)
	}
	c.content.validate(check)
	c.replicas.validate(check)
	check(c.pprofAddr == "" || isLoopback(c.pprofAddr), "--pprof-bind-address %q can be reached from other machines, or is no address: profiles show what is in memory, "+
		"so write a loopback address such as 127.0.0.1:6060, and use kubectl port-forward", c.pprofAddr)
	check(c.otlp == "" || isURL(c.otlp), "--otlp-endpoint %q is no URL: write http://host:port, or https://host:port for TLS", c.otlp)
	check(len(validation.IsDNS1123Label(c.namespace)) == 0, "--namespace %q is no name of a namespace", c.namespace)
	check(c.pullSecret == types.NamespacedName{} || (len(validation.IsDNS1123Label(c.pullSecret.Namespace)) == 0 && len(validation.IsDNS1123Subdomain(c.pullSecret.Name)) == 0),
		"--pull-secret %q is no name of a Secret: write name, or namespace/name", c.pullSecret)
	check(len(validation.IsDNS1123Subdomain(c.account)) == 0, "--service-account %q is no name of a ServiceAccount", c.account)
	check(c.dataDir != "", "--data-dir must name a directory")
	check(c.interval >= time.Second, "--default-polling-interval %v is too short: it has to be 1s or more", c.interval)
	check(c.concurrency > 0, "--concurrency %d is too small: it has to be 1 or more", c.concurrency)
	for _, l := range []struct {
		flag string
		n    int64
	}{
		{"max-unpacked-bytes", c.limits.TotalBytes}, {"max-file-bytes", c.limits.FileBytes}, {"max-files", int64(c.limits.Files)},
		{"max-compression-ratio", int64(c.limits.Ratio)}, {"max-database-bytes", c.limits.DatabaseBytes}, {"max-blob-bytes", c.maxBlob},
	} {
		check(l.n > 0, "--%s %d is too small: it has to be 1 or more", l.flag, l.n)
	}
	check(c.storage >= 0, "--storage-limit %d is negative", c.storage)
	check(c.maxBlob < 4<<30, "--max-blob-bytes %d is too large: it has to be below 4 GiB (%d)", c.maxBlob, int64(4<<30))
	check(c.logFormat == "json" || c.logFormat == "text", "--log-format %q is neither json nor text", c.logFormat)
	return errors.Join(errs...)
}

// secretName reads [namespace/]name.
func secretName(text, namespace string) types.NamespacedName {
	if text == "" {
		return types.NamespacedName{}
	}
	if in, name, ok := strings.Cut(text, "/"); ok {
		return types.NamespacedName{Namespace: in, Name: name}
	}
	return types.NamespacedName{Namespace: namespace, Name: text}
}

// defaultNamespace is where this pod runs, as far as that can be told.
func defaultNamespace() string {
	mounted, _ := os.ReadFile(serviceAccountNamespace) // outside a pod there is none
	return cmp.Or(os.Getenv("POD_NAMESPACE"), strings.TrimSpace(string(mounted)), "catalogd-system")
}
