package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/operator-catalogs/catalogd/internal/store"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// deadline bounds the waits for what goroutines do; it is far more than they take.
const deadline = 30 * time.Second

var quiet = slog.New(slog.DiscardHandler)

const content = `{"schema":"olm.package","name":"foo","defaultChannel":"stable"}
{"schema":"olm.channel","package":"foo","name":"stable","entries":[{"name":"foo.v1.0.0"}]}
{"schema":"olm.bundle","package":"foo","name":"foo.v1.0.0","image":"registry.example/foo","properties":[{"type":"olm.package","value":{"packageName":"foo","version":"1.0.0"}}]}
`

// filledStore returns a data directory with the catalog "sample" of an earlier process.
func filledStore(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	st, err := store.Open(dir, store.Options{})
	must.Succeed(t, err)
	stage, err := st.Stage("sample", "")
	must.Succeed(t, err)
	must.Succeed(t, stage.Root().WriteFile("catalog.json", []byte(content), 0o644))
	_, err = stage.Commit(t.Context(), store.Source{Image: "registry.example/sample", Digest: "sha256:" + strings.Repeat("0", 64)})
	must.Succeed(t, err)
	must.Succeed(t, stage.Discard())
	must.Succeed(t, st.Close())
	return dir
}

// unreachable returns a kubeconfig of an API server that refuses connections.
func unreachable(t *testing.T) (file string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	must.Succeed(t, listener.Close())
	file = filepath.Join(t.TempDir(), "kubeconfig")
	must.Succeed(t, os.WriteFile(file, fmt.Appendf(nil, `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://%s"}}]
contexts: [{name: c, context: {cluster: c}}]
current-context: c
`, listener.Addr()), 0o600))
	return file
}

// freeAddress returns an address that no process listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

func testConfig(t *testing.T, dataDir string) config {
	t.Helper()
	cfg := defaults()
	cfg.kubeconfig, cfg.dataDir = unreachable(t), dataDir
	cfg.content.addr, cfg.healthAddr, cfg.metricsAddr = freeAddress(t), freeAddress(t), freeAddress(t)
	cfg.content.externalURL = cfg.content.defaultURL()
	return cfg
}

// get sends one request.
func get(url string) (status int, body string, err error) {
	resp, err := http.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// answer repeats a request until the server listens.
func answer(t *testing.T, url string) (status int, body string) {
	t.Helper()
	for end := time.Now().Add(deadline); ; {
		status, body, err := get(url)
		if err == nil {
			return status, body
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// TestRunWithoutAPIServer starts catalogd without network or API server.
func TestRunWithoutAPIServer(t *testing.T) {
	for _, test := range []struct {
		name    string
		dir     func(*testing.T) string
		content int
		ready   int
		says    string
	}{
		{"with content", filledStore, http.StatusOK, http.StatusOK, "ok"},
		{"without content", func(t *testing.T) string { return t.TempDir() }, http.StatusServiceUnavailable, http.StatusServiceUnavailable,
			"not connected to the API server, and nothing is stored"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := testConfig(t, test.dir(t))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- run(ctx, cfg, quiet) }()

			status, body := answer(t, cfg.content.externalURL+"/catalogs/sample/api/v1/all")
			if status != test.content || (status == http.StatusOK && body != content) {
				t.Errorf("content: status %d, body\n%s", status, body)
			}
			for url, want := range map[string]string{
				"http://" + cfg.healthAddr + "/healthz":  "200 ok\n",
				"http://" + cfg.healthAddr + "/readyz":   fmt.Sprintf("%d %s\n", test.ready, test.says),
				"http://" + cfg.healthAddr + "/catalogs": "404 404 page not found\n",
			} {
				if status, body := answer(t, url); fmt.Sprintf("%d %s", status, body) != want {
					t.Errorf("%s: %d %s, want %s", url, status, body, want)
				}
			}
			if status, body := answer(t, "http://"+cfg.metricsAddr+"/metrics"); status != http.StatusOK ||
				!strings.Contains(body, "go_goroutines ") {
				t.Errorf("metrics: status %d, body\n%s", status, body)
			}

			cancel()
			select {
			case err := <-ended:
				must.Succeed(t, err)
			case <-time.After(deadline):
				t.Fatal("catalogd does not end")
			}
			st, err := store.Open(cfg.dataDir, store.Options{}) // its lock is given up
			must.Succeed(t, err)
			must.Succeed(t, st.Close())
		})
	}
}

// TestRunProfiles reads profiles from the pprof port.
func TestRunProfiles(t *testing.T) {
	cfg := testConfig(t, t.TempDir())
	cfg.pprofAddr = freeAddress(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, cfg, quiet) }()
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap?debug=1", "/debug/pprof/profile?seconds=1", "/debug/pprof/symbol"} {
		if status, body := answer(t, "http://"+cfg.pprofAddr+path); status != http.StatusOK || body == "" {
			t.Errorf("%s: status %d, %d bytes", path, status, len(body))
		}
	}
	for _, other := range []string{cfg.content.addr, cfg.healthAddr, cfg.metricsAddr} {
		if status, _ := answer(t, "http://"+other+"/debug/pprof/"); status != http.StatusNotFound {
			t.Errorf("a profile at %s: status %d", other, status)
		}
	}
	cancel()
	must.Succeed(t, <-ended)
}

func TestRunErrors(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "absent"))
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	defer taken.Close()
	locked := t.TempDir()
	st, err := store.Open(locked, store.Options{})
	must.Succeed(t, err)
	defer st.Close()
	addr := taken.Addr().String()
	busy := ": listen tcp " + addr + ": bind: address already in use"
	for name, test := range map[string]struct {
		change func(*config)
		want   string
	}{
		"content port": {
			func(c *config) { c.content.addr = addr }, "listening for content requests on --content-bind-address " + addr + busy,
		},
		"health port": {func(c *config) { c.healthAddr = addr }, "listening for health requests on --health-bind-address " + addr + busy},
		"metrics port": {
			func(c *config) { c.metricsAddr = addr }, "listening for metrics requests on --metrics-bind-address " + addr + busy,
		},
		"pprof port":         {func(c *config) { c.pprofAddr = addr }, "listening for pprof requests on --pprof-bind-address " + addr + busy},
		"no kubeconfig":      {func(c *config) { c.kubeconfig = "" }, "(run in a pod, or set --kubeconfig)"},
		"absent kubeconfig":  {func(c *config) { c.kubeconfig = "/absent" }, "finding the API server: stat /absent: no such file or directory"},
		"data dir in use":    {func(c *config) { c.dataDir = locked }, "another process uses the volume; each catalogd needs its own"},
		"data dir is a file": {func(c *config) { c.dataDir = c.kubeconfig }, "opening the store: mkdir"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig(t, t.TempDir())
			test.change(&cfg)
			err := run(t.Context(), cfg, quiet)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error\n %v, want\n %s", err, test.want)
			}
		})
	}
}
