package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/operator-catalogs/catalogd/e2e/internal/system"
	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// TestHealthAndMetrics reads the ports that serve no content.
func TestHealthAndMetrics(t *testing.T) {
	w := newWorld(t, shared)
	ref, digest := w.registry.push(t, "sample", catalogImage(t, sampleCatalog))
	w.createCatalog(t, "sample", ref, nil)
	broken, _ := w.registry.push(t, "heads", brokenImage(t, "multiple-heads"))
	w.createCatalog(t, "heads", broken, nil)
	w.waitReady(t, "sample", digest)
	w.waitReady(t, "heads", "")
	for _, url := range []string{
		"http://" + w.health + "/healthz", "http://" + w.health + "/readyz", "http://" + w.content + "/catalogs",
	} {
		if err := w.answers(url, http.StatusOK); err != nil {
			t.Error(err)
		}
	}

	blobs, err := readCatalog(sampleCatalog)
	if err != nil {
		t.Fatal(err)
	}
	text := string(get(t, "http://"+w.metrics+"/metrics").body)
	for what, pattern := range map[string]string{
		"packages":         fmt.Sprintf(`packages\{catalog="sample"\} %d`, countSchema(blobs, "olm.package")),
		"invalid packages": `invalid_packages\{catalog="heads"\} 1`,
		"bytes":            `bytes\{catalog="sample"\} [1-9]`,
		"last poll":        `last_poll\w*\{catalog="sample"[^}]*\} [1-9]`,
		"next poll":        `next_poll\w*\{catalog="sample"[^}]*\} [1-9]`,
		"last change":      `last_change\w*\{catalog="sample"[^}]*\} [1-9]`,
		"unpack seconds":   `unpack\w*seconds\w*\{catalog="sample"[^}]*\} `,
		"poll results":     `poll\w*\{[^}]*catalog="sample"[^}]*result="\w+"[^}]*\} [1-9]`,
		"requests":         `http_requests_total\{code="200",method="GET",route="/catalogs"\} [1-9]`,
		"seconds":          `http_request_duration_seconds_count\{route="/catalogs"\} [1-9]`,
		"bytes sent":       `http_response_bytes_total\{encoding="identity",route="/catalogs"\} [1-9]`,
		"in flight":        `http_requests_in_flight\{route="/catalogs"\} 0`,
		"connections":      `connections\{port="content"\} \d`,
		"reconciler's own": `controller_runtime_reconcile_total\{`,
	} {
		if !regexp.MustCompile(`(?m)^[a-z_]*` + pattern).MatchString(text) {
			t.Errorf("/metrics does not tell %s (%s); it has\n%s", what, pattern, catalogdLines(text))
		}
	}

	w.patchCatalog(t, "heads", `{"spec":{"displayName":"to be deleted"}}`)
	if _, err := w.Kubectl(t.Context(), "delete", "catalogsource", "heads", "--timeout=60s"); err != nil {
		t.Fatal(err)
	}
	eventually.Succeeds(t, "the metrics of a deleted catalog are gone", func() error {
		if text := get(t, "http://"+w.metrics+"/metrics").body; bytes.Contains(text, []byte(`catalog="heads"`)) {
			return fmt.Errorf("still there")
		}
		return nil
	})
}

func catalogdLines(metrics string) string {
	var kept []string
	for line := range strings.Lines(metrics) {
		if strings.HasPrefix(line, "catalogd_") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// TestGracefulShutdown stops catalogd while a client reads content.
func TestGracefulShutdown(t *testing.T) {
	w := newWorld(t, shared)
	ref, digest := w.registry.push(t, "large", catalogImage(t, largeCatalog(t)))
	w.createCatalog(t, "large", ref, nil)
	w.waitReady(t, "large", digest)
	want := get(t, w.contentURL("large", "/api/v1/all")).body

	reader := openSlowly(t, w.content, "/catalogs/large/api/v1/all")
	w.signal(t, syscall.SIGTERM)
	eventually.Succeeds(t, "no new connections are taken", func() error {
		if r, err := tryGet(w.contentURL("large", "/api/v1/all")); err == nil {
			return fmt.Errorf("status %d", r.status)
		}
		return nil
	})
	if !w.alive() {
		t.Error("catalogd ended before the request in flight did")
	}
	if got := readSlowly(t, reader); !bytes.Equal(got, want) {
		t.Errorf("the request in flight got %d bytes, want %d", len(got), len(want))
	}
	if code := w.wait(t, patience); code != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0", code)
	}
	w.start(t) // for the cleanup
}

// TestReadyOnlyWhenServed starts on an empty volume after another volume served content: until the content is there
// again, the process is alive but not ready.
func TestReadyOnlyWhenServed(t *testing.T) {
	w := newWorld(t, shared)
	ref, digest := w.registry.push(t, "sample", catalogImage(t, sampleCatalog))
	w.createCatalog(t, "sample", ref, nil)
	w.waitReady(t, "sample", digest)
	etag := get(t, w.contentURL("sample", "/api/v1/all")).header.Get("ETag")

	w.kill(t)
	w.registry.stop()
	entries, err := os.ReadDir(w.dataDir)
	must.Succeed(t, err)
	for _, entry := range entries {
		must.Succeed(t, os.RemoveAll(filepath.Join(w.dataDir, entry.Name())))
	}
	w.start(t)
	eventually.Succeeds(t, "alive", func() error { return w.answers("http://"+w.health+"/healthz", http.StatusOK) })
	w.eventuallyCatalog(t, "sample", "known to be not served", func(c *unstructured.Unstructured) error {
		return wantCondition(c, "Serving", "False")
	})
	if err := w.answers("http://"+w.health+"/readyz", http.StatusOK); err == nil {
		t.Error("ready without the content that status names")
	}
	w.registry.start(t)
	w.requestPoll(t, "sample", "again")
	w.waitReady(t, "sample", digest)
	eventually.Succeeds(t, "ready again", func() error { return w.answers("http://"+w.health+"/readyz", http.StatusOK) })
	if got := get(t, w.contentURL("sample", "/api/v1/all")).header.Get("ETag"); got != etag {
		t.Errorf("ETag %s after the volume was lost, was %s", got, etag)
	}
}

// TestCommandLine runs the binary as a user in a terminal does.
func TestCommandLine(t *testing.T) {
	busy := newRegistry(t).address
	for name, test := range map[string]struct {
		args []string
		fail bool
		want []string // in the output
	}{
		"help": {args: []string{"--help"}, want: []string{"--kubeconfig", "--namespace", "--data-dir", "/var/lib/catalogd",
			"--content-bind-address", ":8443", "--external-url", "--tls-cert-file", "--tls-private-key-file", "--content-auth",
			"--max-connections", "--max-concurrent-queries", "--health-bind-address", ":8081", "--metrics-bind-address", ":8082",
			"--pprof-bind-address", "--otlp-endpoint", "--default-polling-interval", "15m", "--pull-secret", "--service-account",
			"--registry-ca-dir", "--registries-conf",
			"--max-unpacked-bytes", "--max-file-bytes", "--max-files", "--max-compression-ratio", "--max-blob-bytes", "--max-database-bytes",
			"--log-level", "--log-format", "--version"}},
		"version":      {args: []string{"--version"}, want: []string{"catalogd"}},
		"unknown flag": {args: []string{"--nonsense"}, fail: true, want: []string{"--nonsense"}},
		"argument":     {args: []string{"nonsense"}, fail: true, want: []string{"nonsense"}},
		"log level":    {args: []string{"--log-level", "loud"}, fail: true, want: []string{"log-level", "loud"}},
		"log format":   {args: []string{"--log-format", "xml"}, fail: true, want: []string{"log-format", "xml"}},
		"interval":     {args: []string{"--default-polling-interval", "-1m"}, fail: true, want: []string{"default-polling-interval"}},
		"no interval": {
			args: []string{"--default-polling-interval", "soon"}, fail: true, want: []string{"default-polling-interval", "soon"},
		},
		"pull secret":  {args: []string{"--pull-secret", "a/b/c"}, fail: true, want: []string{"pull-secret", "a/b/c"}},
		"limit":        {args: []string{"--max-files", "0"}, fail: true, want: []string{"max-files", "0"}},
		"external URL": {args: []string{"--external-url", "catalogd:8080"}, fail: true, want: []string{"external-url", "catalogd:8080"}},
		"address":      {args: []string{"--content-bind-address", "8080"}, fail: true, want: []string{"content-bind-address", "8080"}},
		"kubeconfig":   {args: []string{"--kubeconfig", "/nonexistent/kubeconfig"}, fail: true, want: []string{"/nonexistent/kubeconfig"}},
		"open profiles": {
			args: []string{"--pprof-bind-address", ":6060"}, fail: true, want: []string{"pprof-bind-address", ":6060", "loopback"},
		},
		"busy port": {
			args: []string{"--kubeconfig", shared.DaemonKubeconfig, "--content-bind-address", busy}, fail: true, want: []string{busy, "in use"},
		},
		"no data dir": {
			args: []string{"--kubeconfig", shared.DaemonKubeconfig, "--data-dir", "/dev/null/x"}, fail: true, want: []string{"/dev/null"},
		},
		"strange data dir": {
			args: []string{"--kubeconfig", shared.DaemonKubeconfig, "--data-dir", strangeDataDir(t)},
			fail: true,
			want: []string{"not from a store of catalogd"},
		},
		"foreign data dir": {args: []string{"--data-dir", ""}, fail: true, want: []string{"data-dir"}},
	} {
		t.Run(name, func(t *testing.T) {
			out, code := runBinary(t, append(defaultsFor(t, test.args), test.args...))
			if (code != 0) != test.fail {
				t.Errorf("exit code %d, want failure: %t", code, test.fail)
			}
			for _, want := range test.want {
				if !strings.Contains(out, want) {
					t.Errorf("it does not say %q:\n%s", want, out)
				}
			}
			if strings.Contains(out, "goroutine ") {
				t.Errorf("a stack trace for a person:\n%s", out)
			}
		})
	}
}

// defaultsFor keeps a run that should fail from doing harm if it does not: with free ports and a temporary
// directory.
func defaultsFor(t *testing.T, args []string) []string {
	if len(args) == 1 && (args[0] == "--help" || args[0] == "--version") {
		return nil
	}
	return []string{"--namespace", namespace, "--data-dir", t.TempDir(), "--content-bind-address", system.FreeAddress(t),
		"--health-bind-address", system.FreeAddress(t), "--metrics-bind-address", system.FreeAddress(t)}
}

// strangeDataDir is a volume of another program.
func strangeDataDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "format"), []byte("qcow2\n"), 0o600))
	return dir
}

// runBinary returns the output of the binary and its exit code.
func runBinary(t *testing.T, args []string) (out string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience/2)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Getenv("CATALOGD_BIN"), args...)
	printed, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		t.Errorf("still running after %s", patience/2)
	}
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(printed), cmd.ProcessState.ExitCode()
}
