package main

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/operator-catalogs/catalogd/internal/bundle/pull"
	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
	"github.com/operator-catalogs/catalogd/internal/lease"
	catalogsync "github.com/operator-catalogs/catalogd/internal/sync"
	"github.com/operator-catalogs/catalogd/internal/unpack"
)

// defaults returns the default configuration with a loopback address, as :8443 requires --content-auth outside a pod.
func defaults() config {
	return config{
		sync: catalogsync.Config{
			Namespace: "catalogd-system", DefaultPollingInterval: 15 * time.Minute, Concurrency: 4, Limits: unpack.DefaultLimits(),
			ServiceAccount: "catalogd",
		},
		clusterCatalogRegistry: "catalogd-cluster-catalogs",
		dataDir:                "/var/lib/catalogd",
		content: contentConfig{
			addr: "127.0.0.1:8080", externalURL: "http://127.0.0.1:8080", auth: authNone,
			maxConnections: 1000, maxQueries: 32,
		},
		olmv0:       olmv0Config{grpcService: "catalogd", clusterDomain: "cluster.local"},
		bundles:     newBundleConfig(),
		healthAddr:  ":8081",
		metricsAddr: ":8082",
		replicas: replicaConfig{
			lease: lease.Config{Duration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second},
		},
		maxBlob:   scan.DefaultMaxBlobBytes,
		logLevel:  slog.LevelInfo,
		logFormat: "json",
	}
}

func TestParseFlags(t *testing.T) {
	for _, test := range []struct {
		name string
		args string
		env  string // POD_NAMESPACE
		want func(*config)
	}{
		{name: "defaults", want: func(*config) {}},
		{name: "namespace of the pod", env: "here", want: func(c *config) { c.sync.Namespace = "here" }},
		{name: "namespace by flag", args: "--namespace=there", env: "here", want: func(c *config) { c.sync.Namespace = "there" }},
		{
			name: "every flag",
			args: "--kubeconfig=k --namespace=n --data-dir=d --content-bind-address=h:1 --external-url=https://x.example --tls-cert-file=c " +
				"--tls-private-key-file=k --content-auth=kubernetes --allowed-hosts=a.example,b.example --max-connections=16 " +
				"--max-concurrent-queries=17 --page --grpc-bind-address=h:6 --grpc-tls --grpc-service=svc " +
				"--cluster-domain=d.example --health-bind-address=h:2 " +
				"--metrics-bind-address=h:3 --pprof-bind-address=[::1]:4 --otlp-endpoint=https://o.example:5 --default-polling-interval=1h " +
				"--concurrency=9 --max-unpacked-bytes=10 --max-file-bytes=11 --max-files=12 " +
				"--max-compression-ratio=13 --max-blob-bytes=14 --max-database-bytes=15 --storage-limit=16 --pull-secret=ns/pull " +
				"--bundle-content --bundle-registries=a.example,b.example:5 --bundle-cache-bytes=20Mi --max-bundle-bytes=18 " +
				"--max-bundle-file-bytes=19 --max-bundle-files=20 --service-account=sa --cluster-catalogs --cluster-catalog-registry=cc --anonymous-read " +
				"--registry-ca-dir=cas --registries-conf=conf --log-level=debug --log-format=text --leader-elect --leader-elect-lease-duration=20s " +
				"--leader-elect-renew-deadline=14s --leader-elect-retry-period=3s --catalog-selector=team=a",
			want: func(c *config) {
				*c = config{
					"k", catalogsync.Config{
						Namespace: "n", DefaultPollingInterval: time.Hour, Concurrency: 9,
						Limits:         unpack.Limits{TotalBytes: 10, FileBytes: 11, Files: 12, Ratio: 13, DatabaseBytes: 15},
						ServiceAccount: "sa", PullSecret: types.NamespacedName{Namespace: "ns", Name: "pull"},
						Selector: labels.SelectorFromSet(labels.Set{"team": "a"}),
					}, "d", true, "cc", contentConfig{
						"h:1", "https://x.example", "c", "k", false, authKubernetes, true, []string{"a.example", "b.example"}, 16, 17, true,
					}, olmv0Config{"h:6", true, "svc", false, "d.example"}, bundleConfig{
						true, []string{"a.example", "b.example:5"}, 20 << 20, pull.Limits{Bytes: 18, FileBytes: 19, Files: 20, Ratio: 200},
					}, "h:2", "h:3", "[::1]:4", "https://o.example:5",
					replicaConfig{
						true, lease.Config{Duration: 20 * time.Second, RenewDeadline: 14 * time.Second, RetryPeriod: 3 * time.Second},
					}, "cas", "conf", 14, 16, slog.LevelDebug, "text", false,
				}
			},
		},
		{
			name: "pull secret in catalogd's namespace", args: "--pull-secret=pull --namespace=there",
			want: func(c *config) {
				c.sync.Namespace, c.sync.PullSecret = "there", types.NamespacedName{Namespace: "there", Name: "pull"}
			},
		},
		{
			name: "a path in the URL",
			args: "--external-url=https://x.example/catalogd/",
			want: func(c *config) { c.content.externalURL = "https://x.example/catalogd" },
		},
		{
			name: "bytes as quantities",
			args: "--max-unpacked-bytes=16Gi --max-file-bytes=500M --max-database-bytes=1.5Ki --max-blob-bytes=1e6 --storage-limit=0",
			want: func(c *config) {
				c.sync.Limits.TotalBytes, c.sync.Limits.FileBytes, c.sync.Limits.DatabaseBytes, c.maxBlob = 16<<30, 500e6, 1536, 1e6
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("POD_NAMESPACE", test.env)
			got, err := parseFlags(strings.Fields("--content-bind-address=127.0.0.1:8080 "+test.args), nil)
			if err != nil {
				t.Fatal(err)
			}
			want := defaults()
			test.want(&want)
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(config{}, bundleConfig{}, contentConfig{}, olmv0Config{}, replicaConfig{})); diff != "" {
				t.Errorf("config (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseFlagsErrors(t *testing.T) {
	const address = " is not an address: write host:port, or :port for all interfaces"
	const reachable = " can be reached from other machines, or is no address: profiles show what is in memory, so write a loopback " +
		"address such as 127.0.0.1:6060, and use kubectl port-forward"
	const tooSmall = " must be at least 1"
	const noBytes = "write a number of bytes, such as 500M or 8Gi"
	for args, want := range map[string]string{
		"--nonsense":                      "unknown flag: --nonsense",
		"serve":                           `unexpected argument "serve": catalogd takes flags only`,
		"--log-level=loud":                `--log-level "loud" is none of debug, info, warn, error`,
		"--log-level=debug-4":             `--log-level "debug-4" is none of debug, info, warn, error`,
		"--log-format=xml":                `--log-format "xml" is neither json nor text`,
		"--content-bind-address=8080":     `--content-bind-address "8080"` + address,
		"--health-bind-address=localhost": `--health-bind-address "localhost"` + address,
		"--metrics-bind-address=::1":      `--metrics-bind-address "::1"` + address,
		"--external-url=x.example":        `--external-url "x.example" is not a URL: write http://host[:port] or https://host[:port]`,
		"--external-url=ftp://x.example":  `--external-url "ftp://x.example" is not a URL: write http://host[:port] or https://host[:port]`,
		"--external-url=http://":          `--external-url "http:/" is not a URL: write http://host[:port] or https://host[:port]`,
		"--external-url=http://x?a=b":     `--external-url "http://x?a=b" is not a URL: write http://host[:port] or https://host[:port]`,
		"--pprof-bind-address=:6060":      `--pprof-bind-address ":6060"` + reachable,
		"--pprof-bind-address=10.0.0.1:1": `--pprof-bind-address "10.0.0.1:1"` + reachable,
		"--pprof-bind-address=localhost":  `--pprof-bind-address "localhost"` + reachable,
		"--otlp-endpoint=collector:4317": `--otlp-endpoint "collector:4317" is not a URL: write http://host:port, or ` +
			`https://host:port for TLS`,
		"--namespace=Not_One":              `--namespace "Not_One" is not a valid namespace name`,
		"--pull-secret=a/b/c":              `--pull-secret "a/b/c" is not a valid Secret name: write name or namespace/name`,
		"--pull-secret=/x":                 `--pull-secret "/x" is not a valid Secret name: write name or namespace/name`,
		"--service-account=A_B":            `--service-account "A_B" is not a valid ServiceAccount name`,
		"--max-database-bytes=0":           "--max-database-bytes 0" + tooSmall,
		"--max-unpacked-bytes=8GB":         `invalid argument "8GB" for "--max-unpacked-bytes" flag: ` + noBytes,
		"--max-blob-bytes=100m":            `invalid argument "100m" for "--max-blob-bytes" flag: ` + noBytes,
		"--storage-limit=":                 `invalid argument "" for "--storage-limit" flag: ` + noBytes,
		"--storage-limit=-1Ki":             "--storage-limit -1024 must not be negative",
		"--data-dir=":                      "--data-dir must not be empty",
		"--default-polling-interval=999ms": "--default-polling-interval 999ms must be at least 1s",
		"--default-polling-interval=fast":  `invalid argument "fast" for "--default-polling-interval" flag: time: invalid duration "fast"`,
		"--concurrency=0":                  "--concurrency 0" + tooSmall,
		"--max-unpacked-bytes=0":           "--max-unpacked-bytes 0" + tooSmall,
		"--max-file-bytes=-1":              "--max-file-bytes -1" + tooSmall,
		"--max-files=0":                    "--max-files 0" + tooSmall,
		"--max-compression-ratio=0":        "--max-compression-ratio 0" + tooSmall,
		"--max-blob-bytes=0":               "--max-blob-bytes 0" + tooSmall,
		"--max-blob-bytes=4294967296":      "--max-blob-bytes 4294967296 must be below 4 GiB (4294967296)",
		"--concurrency=0 --max-files=0":    "--concurrency 0" + tooSmall + "\n--max-files 0" + tooSmall,
		"--max-connections=0":              "--max-connections 0" + tooSmall,
		"--max-concurrent-queries=0":       "--max-concurrent-queries 0" + tooSmall,
		"--content-auth=some":              `--content-auth "some" is neither kubernetes nor none`,
		"--tls-cert-file=c":                "--tls-cert-file and --tls-private-key-file must be set together",
		"--tls-private-key-file=k":         "--tls-cert-file and --tls-private-key-file must be set together",
		"--catalog-selector=a=b=c": `invalid argument "a=b=c" for "--catalog-selector" flag: use the syntax of kubectl's ` +
			`--selector, such as team=a or env in (test,stage): found '=', expected: ',' or 'end of string'`,
		"--leader-elect-renew-deadline=15s": "--leader-elect-lease-duration 15s must be longer than --leader-elect-renew-deadline 15s",
		"--leader-elect-retry-period=5s":    "--leader-elect-renew-deadline 10s must be longer than twice --leader-elect-retry-period 5s",
		"--max-file-bytes=0 --max-files=-5": "--max-file-bytes 0" + tooSmall + "\n--max-files -5" + tooSmall,
	} {
		_, err := parseFlags(strings.Fields("--content-bind-address=127.0.0.1:8080 "+args), nil)
		if err == nil || err.Error() != want {
			t.Errorf("%s: got error\n %v, want\n %s", args, err, want)
		}
	}
}

func TestParseFlagsHelp(t *testing.T) {
	var out bytes.Buffer
	if _, err := parseFlags([]string{"--help"}, &out); !errors.Is(err, pflag.ErrHelp) {
		t.Errorf("got error %v, want that help was asked for", err)
	}
	for _, want := range []string{
		"catalogd serves operator catalogs", "Usage:\n  catalogd [flags]\n", "--kubeconfig file", "--namespace namespace", "--data-dir directory",
		`(default "/var/lib/catalogd")`, "--content-bind-address address", "--external-url URL", "--tls-cert-file file",
		"--tls-private-key-file file", "--content-auth method", "--allowed-hosts names", "--page", "--max-connections int",
		"--max-concurrent-queries int", "--health-bind-address", "--metrics-bind-address", "--pprof-bind-address address", "--otlp-endpoint URL",
		"--default-polling-interval duration", "(default 15m0s)", "--concurrency", "--max-unpacked-bytes quantity", "(default 8Gi)",
		"--max-file-bytes", "--max-files files",
		"--max-compression-ratio", "--max-database-bytes quantity", "--max-blob-bytes", "--pull-secret [namespace/]name",
		"--service-account name", "--leader-elect ", "--leader-elect-lease-duration duration", "--catalog-selector labels",
		"--registry-ca-dir directory", "--registries-conf file", "--log-level level", "--log-format format", "--version",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("help lacks %q:\n%s", want, out.String())
		}
	}
	for line := range strings.Lines(out.String()) {
		if len(line) > 121 {
			t.Errorf("a line of the help has %d characters: %s", len(line), line)
		}
	}
}
