package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/e2e/internal/system"
	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// ages matches relative times with the spaces that pad them.
var (
	ages   = regexp.MustCompile(`\b(\d+[smhd])+( ago)?\b`)
	spaces = regexp.MustCompile(`  +`)
)

// withoutAges replaces everything that differs between runs.
func withoutAges(text string) string {
	return spaces.ReplaceAllString(ages.ReplaceAllString(text, "AGE"), "  ")
}

// changedSample is the sample catalog with one package removed, one added and one changed.
func changedSample(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must.Succeed(t, os.CopyFS(dir, os.DirFS(sampleCatalog)))
	must.Succeed(t, os.RemoveAll(filepath.Join(dir, "mercury-operator")))
	added := strings.ReplaceAll(readText(t, filepath.Join(dir, "lib-bucket-provisioner", "catalog.json")), "lib-bucket-provisioner",
		"new-operator")
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "new-operator.json"), []byte(added), 0o644))
	changed := filepath.Join(dir, "dbaas-operator", "catalog.json")
	must.Succeed(t,
		os.WriteFile(changed, []byte(strings.Replace(readText(t, changed), `"description": "`, `"description": "Changed. `, 1)), 0o644))
	return dir
}

func readText(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	must.Succeed(t, err)
	return string(text)
}

func TestPluginLists(t *testing.T) {
	w := pluginWorld(t)
	checkGolden(t, "catalogs/list.txt", withoutAges(w.plugin(t, "list").must(t)))
	checkGolden(t, "catalogs/list-wide.txt", withoutAges(w.plugin(t, "ls", "-o", "wide").must(t)))
	if got := w.plugin(t, "list", "-o", "jsonpath={.items[*].metadata.name}").must(t); got != "sample" {
		t.Errorf("got %q", got)
	}
	w.plugin(t, "list", "smaple").fails(t, 3, `did you mean "sample"?`)
	w.plugin(t, "list", "--sort-by", ".spec.nope").fails(t, 2, "--sort-by")
	w.createCatalog(t, "another", w.registry.address+"/none:latest", func(c *unstructured.Unstructured) {
		must.Succeed(t, unstructured.SetNestedField(c.Object, int64(-5), "spec", "priority"))
	})
	sorted := w.plugin(t, "list", "--sort-by", ".spec.priority", "--no-headers", "-o", "custom-columns=:.metadata.name").must(t)
	if strings.Join(strings.Fields(sorted), " ") != "another sample" {
		t.Errorf("sorted by priority: %q", sorted)
	}
}

// TestPluginListWatches prints a row for a change of a catalog; an interrupt ends the command without error.
func TestPluginListWatches(t *testing.T) {
	w := pluginWorld(t)
	cmd := exec.CommandContext(t.Context(), pluginBinary(t), "list", "--watch")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+w.Kubeconfig)
	out, err := cmd.StdoutPipe()
	must.Succeed(t, err)
	must.Succeed(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for _, want := range []string{"NAME", "in "} {
		if !lines.Scan() || !strings.Contains(lines.Text(), want) {
			t.Fatalf("got %q, want %q", lines.Text(), want)
		}
	}
	w.plugin(t, "suspend", "sample").must(t)
	for lines.Scan() && !strings.Contains(lines.Text(), "suspended") {
	}
	if !strings.HasPrefix(lines.Text(), "sample") {
		t.Errorf("the last line is %q", lines.Text())
	}
	must.Succeed(t, cmd.Process.Signal(os.Interrupt))
	for lines.Scan() {
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after an interrupt: %v", err)
	}
}

func TestPluginDescribes(t *testing.T) {
	w := pluginWorld(t)
	checkGolden(t, "catalogs/describe.txt", w.description(t, "sample", "Unpacked"))

	dir := t.TempDir()
	must.Succeed(t, os.CopyFS(dir, os.DirFS(sampleCatalog)))
	for i := range 25 { // more than a status names
		must.Succeed(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("broken-%02d.json", i)),
			fmt.Appendf(nil, `{"schema": "olm.package", "name": "broken-%02d", "defaultChannel": "none"}`, i), 0o644))
	}
	ref, digest := w.registry.push(t, "broken", catalogImage(t, dir))
	w.createCatalog(t, "broken", ref, func(c *unstructured.Unstructured) {
		must.Succeed(t, unstructured.SetNestedField(c.Object, "0 3 * * *", "spec", "pollingSchedule"))
		unstructured.RemoveNestedField(c.Object, "spec", "pollingInterval")
	})
	w.waitReady(t, "broken", digest)
	checkGolden(t, "catalogs/describe-broken.txt", w.description(t, "broken", "InvalidPackages"))

	w.createCatalog(t, "blocked", ref, func(c *unstructured.Unstructured) {
		must.Succeed(t, unstructured.SetNestedField(c.Object, []any{map[string]any{"name": "nope"}}, "spec", "registry", "pullSecrets"))
	})
	w.eventuallyCatalog(t, "blocked", "Blocked", func(c *unstructured.Unstructured) error { return wantCondition(c, "Ready", "False") })
	checkGolden(t, "catalogs/describe-blocked.txt", w.description(t, "blocked", "Failed"))
	w.plugin(t, "describe").fails(t, 2, "specify a catalog")
	w.plugin(t, "describe", "none").fails(t, 3, `catalog "none" not found`)
}

// description returns the output of describe once an event exists: events are recorded after the status.
func (w *world) description(t *testing.T, catalog, event string) string {
	t.Helper()
	text := ""
	eventually.Succeeds(t, "an event "+event, func() error {
		text = withoutAges(w.plugin(t, "describe", catalog).must(t))
		if _, events, _ := strings.Cut(text, "\nEvents\n"); !strings.Contains(events, "  "+event+"  ") {
			return fmt.Errorf("the events are %q", events)
		}
		return nil
	})
	return text
}

func TestPluginAdds(t *testing.T) {
	w := pluginWorld(t)
	ref := w.registry.address + "/sample:latest"
	got := w.plugin(t, "add", "mine", ref, "--wait", "--interval", "45m", "--label", "team=a").must(t)
	want := "catalogsource.catalogd.operatorframework.io/mine created\ncatalog \"mine\" is ready: 10 packages are published.\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	mine := w.catalog(t, "mine")
	if mine.GetLabels()["team"] != "a" {
		t.Errorf("the labels are %v", mine.GetLabels())
	}
	must.Succeed(t, wantString(mine, "45m0s", "spec", "pollingInterval"))
	if got := w.plugin(t, "add", "other", ref, "--wait", "-o", "jsonpath={.status.content.packages}").must(t); got != "10" {
		t.Errorf("-o prints %q, not the catalog as it is after the wait", got)
	}
	if got := w.plugin(t, "add", "dry", ref, "--dry-run=server").must(t); !strings.Contains(got, "created (server dry run)") ||
		w.gone(t, "dry") != nil {
		t.Errorf("a dry run: %q", got)
	}
	w.plugin(t, "add", "mine", ref).fails(t, 1, `catalog "mine" already exists`)
	w.plugin(t, "add", "wrong", ref, "--interval", "1ms").fails(t, 2, "error: --interval must be at least 1s: choose a longer one\n")
	w.plugin(t, "add", "wrong", sampleCatalog).fails(t, 2, "is a local path, and catalogd pulls images")
	w.plugin(t, "add", "a.b", ref).fails(t, 2, `error: invalid name "a.b"`)
}

// TestPluginAddFails fails immediately where only a user can help, and at the time limit where the error may be
// temporary.
func TestPluginAddFails(t *testing.T) {
	w := pluginWorld(t)
	blocked := w.plugin(t, "add", "blocked", w.registry.address+"/sample:latest", "--pull-secret", "nope", "--wait")
	if blocked.code != 1 || !strings.Contains(blocked.stderr, `warning: Secret "nope" (pull secret) not found in namespace `+namespace) ||
		!strings.Contains(blocked.stderr, "error: Secret nope of spec.registry.pullSecrets not found in namespace") {
		t.Errorf("exit code %d:\n%s", blocked.code, blocked.stderr)
	}
	none := w.plugin(t, "add", "none", w.registry.address+"/none:latest", "--wait")
	if none.code != 1 || !strings.Contains(none.stderr, "error: Finding the digest") ||
		!strings.Contains(none.stderr, "\nthe catalog was created, and catalogd continues to process it: ") {
		t.Errorf("exit code %d:\n%s", none.code, none.stderr)
	}
	late := w.plugin(t, "add", "late", "127.0.0.1:1/none:latest", "--wait", "--timeout", "2s")
	if late.code != 1 || !strings.Contains(late.stderr, "Retrying: Finding the digest") ||
		!strings.Contains(late.stderr, `timed out after 2s: catalog "late" is not ready: Finding`) {
		t.Errorf("exit code %d:\n%s", late.code, late.stderr)
	}
}

func TestPluginAddCreatesCAConfigMap(t *testing.T) {
	w := pluginWorld(t)
	ca := filepath.Join(t.TempDir(), "ca.crt")
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	must.Succeed(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	w.plugin(t, "add", "private", w.registry.address+"/sample:latest", "--ca-file", ca, "--wait").must(t)
	made := system.NewObject(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, "private-ca")
	made.SetNamespace(namespace)
	must.Succeed(t, w.Get(t.Context(), client.ObjectKeyFromObject(made), made))
	defer func() { must.Succeed(t, w.Delete(t.Context(), made)) }() // this control plane collects no garbage
	must.Succeed(t, wantString(made, readText(t, ca), "data", "ca.crt"))
	owners := made.GetOwnerReferences()
	if len(owners) != 1 || owners[0].UID != w.catalog(t, "private").GetUID() {
		t.Errorf("its owners are %v", owners)
	}
	// The API server rejects the catalog, and nothing is left behind.
	w.plugin(t, "add", "refused", "none.example/c", "--interval", "1ms", "--ca-file", ca).fails(t, 2, "--interval must be at least 1s")
	left := system.NewObject(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, "refused-ca")
	if err := w.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "refused-ca"}, left); err == nil {
		t.Error("ConfigMap refused-ca is left behind")
	}
}

// TestPluginAddShowsProgress makes a registry send half of a layer, and the rest once the status shows progress.
func TestPluginAddShowsProgress(t *testing.T) {
	w := pluginWorld(t)
	ref, _ := w.registry.push(t, "slow", catalogImage(t, changedSample(t)))
	proxy := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		recorded := httptest.NewRecorder()
		w.registry.handler.ServeHTTP(recorded, req)
		for name, values := range recorded.Header() {
			rw.Header()[name] = values
		}
		rw.WriteHeader(recorded.Code)
		body := recorded.Body.Bytes()
		if half := len(body) / 2; strings.Contains(req.URL.Path, "/blobs/") && half > 10_000 {
			_, _ = rw.Write(body[:half])
			_ = http.NewResponseController(rw).Flush()
			body = body[half:]
			if err := eventually.Within(t.Context(), patience, func() error { return w.downloads("slow") }); err != nil {
				t.Error(err)
			}
		}
		_, _ = rw.Write(body)
	}))
	defer proxy.Close()
	_, path, _ := strings.Cut(ref, "/")
	run := w.plugin(t, "add", "slow", strings.TrimPrefix(proxy.URL, "http://")+"/"+path, "--wait")
	run.must(t)
	if !regexp.MustCompile(`(?m)^Downloading: [0-9.]+ KiB of [0-9.]+ KiB \(\d+%\)`).MatchString(run.stderr) {
		t.Errorf("it says nothing of the download:\n%s", run.stderr)
	}
}

// downloads checks that the status of a catalog shows downloaded bytes.
func (w *world) downloads(name string) error {
	var c unstructured.Unstructured
	c.SetGroupVersionKind(system.CatalogKind)
	if err := w.Get(context.Background(), client.ObjectKey{Name: name}, &c); err != nil {
		return err
	}
	if n, _, _ := unstructured.NestedInt64(c.Object, "status", "progress", "bytes"); n == 0 {
		return fmt.Errorf("status.progress is %v", c.Object["status"])
	}
	return nil
}

func TestPluginRefreshes(t *testing.T) {
	w := pluginWorld(t)
	unchanged := w.plugin(t, "refresh", "sample", "--wait").must(t)
	if !strings.Contains(unchanged, `catalog "sample" is unchanged: `) {
		t.Errorf("got\n%s", unchanged)
	}
	_, digest := w.registry.push(t, "sample", catalogImage(t, changedSample(t)))
	run := w.plugin(t, "refresh", "--all", "--wait")
	changed := regexp.MustCompile(`\b[0-9a-f]{12}\b`).ReplaceAllString(run.must(t), "DIGEST")
	checkGolden(t, "catalogs/refresh.txt", changed)
	// The former digest is printed in full, as the user cannot find it elsewhere.
	more := regexp.MustCompile(
		`(?m)^for details within 15 minutes: kubectl catalog (diff sample@sha256:.* sample)$`).FindStringSubmatch(run.stderr)
	if more == nil {
		t.Fatalf("refresh suggests no command for details:\n%s", run.stderr)
	}
	if text := w.plugin(t, strings.Fields(more[1])...).must(t); !strings.Contains(text, "packages: ") {
		t.Errorf("%s says\n%s", more[1], text)
	}
	must.Succeed(t, wantString(w.catalog(t, "sample"), digest, "status", "digest"))

	w.registry.once(func(rw http.ResponseWriter, _ *http.Request) { http.Error(rw, "no", http.StatusForbidden) })
	failed := w.plugin(t, "refresh", "sample", "--wait")
	if failed.code != 1 || !strings.Contains(failed.stderr, `error: catalog "sample": Finding the digest`) {
		t.Errorf("exit code %d:\n%s", failed.code, failed.stderr)
	}
	w.plugin(t, "refresh").fails(t, 2, "specify a catalog or --all")
	w.plugin(t, "refresh", "none").fails(t, 3, `catalog "none" not found`)
	w.plugin(t, "suspend", "sample").must(t)
	w.plugin(t, "refresh", "sample").fails(t, 1, "kubectl catalog resume sample")
}

// TestPluginSuspends sets a single field, and owns it while it is set.
func TestPluginSuspends(t *testing.T) {
	w := pluginWorld(t)
	for _, step := range []struct {
		command, says string
		owned         bool
	}{
		{"suspend", "suspended", true},
		{"suspend", "already suspended", true},
		{"resume", "resumed", false},
		{"resume", "already resumed", false},
	} {
		got := w.plugin(t, step.command, "sample").must(t)
		if want := "catalogsource.catalogd.operatorframework.io/sample " + step.says + "\n"; got != want {
			t.Errorf("%s: got %q, want %q", step.command, got, want)
		}
		c := w.catalog(t, "sample")
		if is, _, _ := unstructured.NestedBool(c.Object, "spec", "suspend"); is != step.owned {
			t.Errorf("%s: spec.suspend is %t", step.command, is)
		}
		managers, err := json.Marshal(c.GetManagedFields())
		must.Succeed(t, err)
		if owned := strings.Contains(string(managers), `"f:suspend"`) &&
			strings.Contains(string(managers), `"kubectl-catalog"`); owned != step.owned {
			t.Errorf("%s: owns the field: %t, want %t: %s", step.command, owned, step.owned, managers)
		}
	}
	w.plugin(t, "suspend").fails(t, 2, "specify a catalog or --all")
	w.plugin(t, "resume", "none").fails(t, 3, `catalog "none" not found`)
}

func TestPluginRemoves(t *testing.T) {
	w := pluginWorld(t)
	w.plugin(t, "remove", "sample").fails(t, 2, `Remove catalog "sample" with 10 packages?`, "--yes")
	w.plugin(t, "remove").fails(t, 2, "specify a catalog")
	w.plugin(t, "remove", "sample", "none", "--yes").fails(t, 3, `catalog "none" not found`)
	w.plugin(t, "remove", "sample", "--dry-run=server").must(t)
	if w.gone(t, "sample") == nil {
		t.Fatal("it is gone, though nothing said that it should")
	}
	got := w.plugin(t, "rm", "sample", "none", "--yes", "--ignore-not-found").must(t)
	if got != "catalogsource.catalogd.operatorframework.io/sample removed\ncatalog \"sample\" deleted\n" {
		t.Errorf("got %q", got)
	}
	must.Succeed(t, w.gone(t, "sample"))
	if left := w.packages(t, "sample"); len(left) > 0 {
		t.Errorf("%d packages are left", len(left))
	}
}
