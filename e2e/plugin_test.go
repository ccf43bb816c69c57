package e2e

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// updateGolden makes tests write their output to testdata/plugin. Review it before you commit it.
var updateGolden = flag.Bool("update", false, "write golden files")

// pluginRun is the result of one run of the plugin.
type pluginRun struct {
	stdout, stderr string
	code           int
}

// plugin runs the built kubectl-catalog as the administrator, without a terminal.
func (w *world) plugin(t *testing.T, args ...string) pluginRun {
	t.Helper()
	return w.pluginWith(t, nil, "", args...)
}

// pluginWith is plugin with additional environment variables and standard input.
func (w *world) pluginWith(t *testing.T, env []string, stdin string, args ...string) pluginRun {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, pluginBinary(t), args...)
	cmd.Env = append(append(os.Environ(), "KUBECONFIG="+w.Kubeconfig, "NO_COLOR="), env...)
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("kubectl catalog %s: %v", strings.Join(args, " "), err)
	}
	if ctx.Err() != nil {
		t.Fatalf("kubectl catalog %s still ran after %s; it printed\n%s%s", strings.Join(args, " "), patience, &stdout, &stderr)
	}
	return pluginRun{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

func pluginBinary(t *testing.T) string {
	t.Helper()
	bin := os.Getenv("KUBECTL_CATALOG_BIN")
	if bin == "" {
		t.Fatal("KUBECTL_CATALOG_BIN must name the built kubectl-catalog: run `make e2e`")
	}
	return bin
}

// kubectl runs kubectl as the administrator.
func (w *world) kubectl(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+w.Kubeconfig)
	return cmd
}

// must requires success and returns the standard output.
func (r pluginRun) must(t *testing.T) string {
	t.Helper()
	if r.code != 0 {
		t.Fatalf("exit code %d; it printed\n%s%s", r.code, r.stdout, r.stderr)
	}
	return r.stdout
}

// fails requires this exit code, these texts on standard error, and no standard output.
func (r pluginRun) fails(t *testing.T, code int, says ...string) {
	t.Helper()
	if r.code != code || r.stdout != "" {
		t.Errorf("exit code %d, want %d; it printed\n%s%s", r.code, code, r.stdout, r.stderr)
	}
	for _, text := range says {
		if !strings.Contains(r.stderr, text) {
			t.Errorf("it does not say %q, but\n%s", text, r.stderr)
		}
	}
}

// changing matches text that differs between runs: addresses, digests, times.
var changing = []struct {
	match *regexp.Regexp
	with  string
}{
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "HOST"},
	{regexp.MustCompile(`sha256:[0-9a-f]{64}`), "sha256:DIGEST"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`), "TIME"},
}

// checkGolden compares a text with testdata/plugin/NAME, without what differs between runs.
func checkGolden(t *testing.T, name, got string) {
	t.Helper()
	for _, c := range changing {
		got = c.match.ReplaceAllString(got, c.with)
	}
	file := filepath.Join("testdata", "plugin", name)
	if *updateGolden {
		must.Succeed(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must.Succeed(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; go test -update writes it", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got); go test -update writes it again:\n%s", file, diff)
	}
}

// pluginWorld is a world with the sample catalog, ready.
func pluginWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, shared)
	ref, digest := w.registry.push(t, "sample", catalogImage(t, sampleCatalog))
	w.createCatalog(t, "sample", ref, nil)
	w.waitReady(t, "sample", digest)
	return w
}

// TestPluginThroughKubectl runs the plugin through kubectl.
func TestPluginThroughKubectl(t *testing.T) {
	w := pluginWorld(t)
	kubectl := w.kubectl(t, "catalog", "get", "packages", "-o", "name")
	kubectl.Env = append(kubectl.Env, "PATH="+filepath.Dir(pluginBinary(t))+string(filepath.ListSeparator)+os.Getenv("PATH"))
	out, err := kubectl.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	blobs, err := readCatalog(sampleCatalog)
	must.Succeed(t, err)
	if got, want := len(bytes.Fields(out)), countSchema(blobs, "olm.package"); got != want {
		t.Errorf("%d packages, want %d:\n%s", got, want, out)
	}
}

// TestPluginGet lists the content of a catalog, in every output format.
func TestPluginGet(t *testing.T) {
	w := pluginWorld(t)
	for name, args := range map[string]string{
		"packages":                "get packages",
		"packages-wide":           "get packages -o wide",
		"package-yaml":            "get package skupper-operator -o yaml",
		"channels-of-package":     "get channels -p skupper-operator",
		"channels-all":            "get channels -A",
		"bundles-of-channel":      "get bundles -p skupper-operator --channel stable-1.6 -o wide",
		"bundles-names":           "get bundles -p skupper-operator -o name",
		"deprecations":            "get deprecations -c sample",
		"packages-by-label":       "get packages -l operatorframework.io/arch.arm64=supported",
		"packages-custom-columns": "get pkg -o custom-columns=NAME:.metadata.name,VERSION:.version",
	} {
		t.Run(name, func(t *testing.T) {
			checkGolden(t, "get/"+name+".txt", w.plugin(t, strings.Fields(args)...).must(t))
		})
	}
	w.plugin(t, "get", "packages", "-l", "provider=Nobody", "-c", "sample").fails(t, 0,
		`No packages found with the labels "provider=Nobody" in catalog "sample"`, "-o wide")
	w.plugin(t, "get", "packages", "-l", "provider=Red Hat").fails(t, 2, `--selector "provider=Red Hat": `)
	w.plugin(t, "get").fails(t, 2, "specify a type")
	w.plugin(t, "get", "cats").fails(t, 2, `"cats"`, "packages")
	w.plugin(t, "get", "bundles").fails(t, 2, "--package", "--all")
	w.plugin(t, "get", "packages", "-o", "xml").fails(t, 2, "xml", "yaml")
	w.plugin(t, "get", "packages", "--nonsense").fails(t, 2, "--nonsense")
	w.plugin(t, "get", "packages", "nope").fails(t, 3, `package "nope" not found`)
	w.plugin(t, "get", "packages", "-c", "nope").fails(t, 3, `catalog "nope" not found`, "kubectl catalog list")
}
