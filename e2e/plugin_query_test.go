package e2e

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// TestPluginReportsDroppedPackages breaks a package with an update: all commands that would show it report that it was
// dropped.
func TestPluginReportsDroppedPackages(t *testing.T) {
	w := pluginWorld(t)
	dir := t.TempDir()
	must.Succeed(t, os.CopyFS(dir, os.DirFS(sampleCatalog)))
	file := filepath.Join(dir, "skupper-operator", "catalog.json")
	must.Succeed(t,
		os.WriteFile(file, []byte(strings.Replace(readText(t, file), `"defaultChannel": "stable"`, `"defaultChannel": "stabel"`, 1)), 0o644))
	cmd := exec.CommandContext(t.Context(), pluginBinary(t), "watch")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+w.Kubeconfig)
	out, err := cmd.StdoutPipe()
	must.Succeed(t, err)
	must.Succeed(t, cmd.Start())
	watched := bufio.NewScanner(out)
	watched.Scan() // served at first

	w.registry.push(t, "sample", catalogImage(t, dir))
	const why = `default channel "stabel" not found`
	told := w.plugin(t, "refresh", "sample", "--wait").must(t)
	if want := "  ! skupper-operator: invalid: " + why + "\n0 packages added, 0 changed, 0 removed; 1 package is " +
		"invalid\n"; !strings.HasSuffix(told, want) {
		t.Errorf("refresh printed\n%s", told)
	}
	if watched.Scan(); !strings.HasSuffix(watched.Text(), "  !skupper-operator") {
		t.Errorf("watch printed %q", watched.Text())
	}
	if list := w.plugin(t, "list").must(t); !strings.Contains(list, " 9 (1 invalid) ") {
		t.Errorf("list printed\n%s", list)
	}
	for _, args := range []string{
		"show skupper-operator", "graph skupper-operator.sample", "path skupper-operator --from 1.8.0 -c sample",
		"get package skupper-operator", "get channels -p skupper-operator",
	} {
		w.plugin(t, strings.Fields(args)...).fails(t, 3,
			`package "skupper-operator" of catalog "sample" is invalid: `+why+"; see kubectl catalog describe sample")
	}

	must.Succeed(t, os.WriteFile(filepath.Join(dir, "broken.yaml"), []byte("broken: ["), 0o644))
	ref, _ := w.registry.push(t, "sample", catalogImage(t, dir))
	if run := w.plugin(t, "refresh", "sample", "--wait"); run.code != 1 {
		t.Errorf("exit code %d: %s", run.code, run.stderr)
	}
	if told := w.plugin(t, "describe", "sample").must(t); !strings.Contains(told, "Remedy:   kubectl catalog lint "+ref+" lists") {
		t.Errorf("describe printed\n%s", told)
	}
	if watched.Scan(); !strings.Contains(watched.Text(), "  sample            update failed: Cannot unpack ") {
		t.Errorf("watch printed %q", watched.Text())
	}
	w.registry.push(t, "sample", catalogImage(t, sampleCatalog))
	w.plugin(t, "refresh", "sample", "--wait").must(t)
	both := ""
	for range 2 { // in either order
		watched.Scan()
		both += watched.Text()
	}
	if !strings.Contains(both, "  sample            recovered") || !strings.Contains(both, "  ~skupper-operator") {
		t.Errorf("watch printed %q", both)
	}
	must.Succeed(t, cmd.Process.Signal(os.Interrupt))
	must.Succeed(t, cmd.Wait())
}

// TestPluginQueries sends requests to the API.
func TestPluginQueries(t *testing.T) {
	w := pluginWorld(t)
	const channels = `query($p: String!) { package(name: $p) { channels { name head { version } } } }`
	checkGolden(t, "query/channels.json", w.plugin(t, "query", channels, "-v", "p=skupper-operator").must(t))
	fromStdin := w.pluginWith(t, nil, channels, "query", "-", "-c", "sample", "--var", `p="skupper-operator"`)
	checkGolden(t, "query/channels.json", fromStdin.must(t))
	w.plugin(t, "query", "{ nope }").fails(t, 1, "nope", "line 1, column 3")
	w.plugin(t, "query").fails(t, 2, "specify a query")
	w.plugin(t, "query", "{ catalogs { name } }", "-c", "nope").fails(t, 3, `catalog "nope" not found`)

	checkGolden(t, "query/raw.jsonl",
		w.plugin(t, "get", "--raw", "/catalogs/sample/api/v1/metas?schema=olm.channel&package=dbaas-operator").must(t))
	w.plugin(t, "get", "--raw", "/catalogs/sample/api/v1/metas?nope=1").fails(t, 1, "unknown parameter")
	w.plugin(t, "get", "--raw", "/catalogs/nope").fails(t, 3, "nope")
	w.plugin(t, "get", "--raw", "catalogs").fails(t, 2, "path")
}

// TestPluginVersion prints all versions, and without a cluster only its own.
func TestPluginVersion(t *testing.T) {
	w := pluginWorld(t)
	got := w.plugin(t, "version").must(t)
	for _, want := range []string{"Client: ", "Server: ", "catalogd.operatorframework.io/v1beta1"} {
		if !strings.Contains(got, want) {
			t.Errorf("it does not tell %q but\n%s", want, got)
		}
	}
	nowhere := []string{"KUBECONFIG=" + filepath.Join(t.TempDir(), "none")}
	if got := w.pluginWith(t, nowhere, "", "version", "--client", "-o", "jsonpath={.client.platform}").must(t); !strings.Contains(got, "/") {
		t.Errorf("the platform is %q", got)
	}
}
