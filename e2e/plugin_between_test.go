package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/api/crds"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/e2e/internal/system"
	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// TestPluginWatches sees a catalog's digest, a change, and another catalog that comes and goes; and ends well when it is interrupted.
func TestPluginWatches(t *testing.T) {
	w := pluginWorld(t)
	cmd := exec.CommandContext(t.Context(), pluginBinary(t), "watch", "-o", "json", "--request-timeout", "2s")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+w.Kubeconfig)
	out, err := cmd.StdoutPipe()
	must.Succeed(t, err)
	must.Succeed(t, cmd.Start())
	lines := bufio.NewScanner(out)
	type change struct {
		Type, Catalog, Digest   string
		Added, Changed, Removed []string
	}
	next := func() (c change) {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("it ended: %v", lines.Err())
		}
		must.Succeed(t, json.Unmarshal(lines.Bytes(), &c))
		return c
	}
	first := next()
	if first.Type != "digest" || first.Catalog != "sample" || first.Changed != nil {
		t.Errorf("at first %+v", first)
	}
	ref, digest := w.registry.push(t, "sample", catalogImage(t, changedSample(t)))
	w.plugin(t, "refresh", "sample").must(t)
	want := change{"digest", "sample", digest, []string{"new-operator"}, []string{"dbaas-operator"}, []string{"mercury-operator"}}
	if diff := cmp.Diff(want, next()); diff != "" {
		t.Error(diff)
	}
	w.createCatalog(t, "second", ref, nil)
	if diff := cmp.Diff(change{Type: "digest", Catalog: "second", Digest: digest}, next()); diff != "" {
		t.Error(diff)
	}
	w.plugin(t, "remove", "second", "--yes").must(t)
	if diff := cmp.Diff(change{Type: "removed", Catalog: "second"}, next()); diff != "" {
		t.Error(diff)
	}
	must.Succeed(t, cmd.Process.Signal(os.Interrupt))
	for lines.Scan() {
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after an interrupt: %v", err)
	}
	w.plugin(t, "watch", "smaple").fails(t, 3, `did you mean "sample"?`)
	w.plugin(t, "watch", "-o", "yaml").fails(t, 2, "json")
}

// TestPluginTellsWhatIsLost has an update break a package: it is told of as left out, wherever somebody misses it.
func TestPluginTellsWhatIsLost(t *testing.T) {
	w := pluginWorld(t)
	dir := t.TempDir()
	must.Succeed(t, os.CopyFS(dir, os.DirFS(sampleCatalog)))
	file := filepath.Join(dir, "skupper-operator", "catalog.json")
	must.Succeed(t, os.WriteFile(file, []byte(strings.Replace(readText(t, file), `"defaultChannel": "stable"`, `"defaultChannel": "stabel"`, 1)), 0o644))
	cmd := exec.CommandContext(t.Context(), pluginBinary(t), "watch")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+w.Kubeconfig)
	out, err := cmd.StdoutPipe()
	must.Succeed(t, err)
	must.Succeed(t, cmd.Start())
	watched := bufio.NewScanner(out)
	watched.Scan() // what is served at first

	w.registry.push(t, "sample", catalogImage(t, dir))
	const why = `there is no channel "stabel", which the package names as its default`
	told := w.plugin(t, "refresh", "sample", "--wait").must(t)
	if want := "  ! skupper-operator: left out: " + why + "\n0 packages added, 0 changed, 0 removed; 1 package is left out\n"; !strings.HasSuffix(told, want) {
		t.Errorf("refresh tells\n%s", told)
	}
	if watched.Scan(); !strings.HasSuffix(watched.Text(), "  !skupper-operator") {
		t.Errorf("watch tells %q", watched.Text())
	}
	if list := w.plugin(t, "list").must(t); !strings.Contains(list, " 9 (1 left out) ") {
		t.Errorf("list tells\n%s", list)
	}
	for _, args := range []string{
		"show skupper-operator", "graph skupper-operator.sample", "path skupper-operator --from 1.8.0 -c sample", "get package skupper-operator", "get channels -p skupper-operator",
	} {
		w.plugin(t, strings.Fields(args)...).fails(t, 3, `package "skupper-operator" of catalog "sample" is left out: `+why+"; see kubectl catalog describe sample")
	}

	must.Succeed(t, os.WriteFile(filepath.Join(dir, "broken.yaml"), []byte("broken: ["), 0o644))
	ref, _ := w.registry.push(t, "sample", catalogImage(t, dir))
	if run := w.plugin(t, "refresh", "sample", "--wait"); run.code != 1 {
		t.Errorf("exit code %d: %s", run.code, run.stderr)
	}
	if told := w.plugin(t, "describe", "sample").must(t); !strings.Contains(told, "What to do:     kubectl catalog lint "+ref+" finds") {
		t.Errorf("describe tells\n%s", told)
	}
	if watched.Scan(); !strings.Contains(watched.Text(), "  sample            cannot be brought up to date: Cannot unpack ") {
		t.Errorf("watch tells %q", watched.Text())
	}
	w.registry.push(t, "sample", catalogImage(t, sampleCatalog))
	w.plugin(t, "refresh", "sample", "--wait").must(t)
	both := ""
	for range 2 { // in either order
		watched.Scan()
		both += watched.Text()
	}
	if !strings.Contains(both, "  sample            is well again") || !strings.Contains(both, "  ~skupper-operator") {
		t.Errorf("watch tells %q", both)
	}
	must.Succeed(t, cmd.Process.Signal(os.Interrupt))
	must.Succeed(t, cmd.Wait())
}

// TestPluginQueries asks the API itself.
func TestPluginQueries(t *testing.T) {
	w := pluginWorld(t)
	const channels = `query($p: String!) { package(name: $p) { channels { name head { version } } } }`
	checkGolden(t, "query/channels.json", w.plugin(t, "query", channels, "-v", "p=skupper-operator").must(t))
	fromStdin := w.pluginWith(t, nil, channels, "query", "-", "-c", "sample", "--var", `p="skupper-operator"`)
	checkGolden(t, "query/channels.json", fromStdin.must(t))
	w.plugin(t, "query", "{ nope }").fails(t, 1, "nope", "line 1, column 3")
	w.plugin(t, "query").fails(t, 2, "say what to ask")
	w.plugin(t, "query", "{ catalogs { name } }", "-c", "nope").fails(t, 3, `no catalog "nope"`)

	checkGolden(t, "query/raw.jsonl", w.plugin(t, "get", "--raw", "/catalogs/sample/api/v1/metas?schema=olm.channel&package=dbaas-operator").must(t))
	w.plugin(t, "get", "--raw", "/catalogs/sample/api/v1/metas?nope=1").fails(t, 1, "unknown parameter")
	w.plugin(t, "get", "--raw", "/catalogs/nope").fails(t, 3, "nope")
	w.plugin(t, "get", "--raw", "catalogs").fails(t, 2, "path")
}

// valuesOf decodes blobs, and keeps the spelling of numbers: by schema, package and name, in their order.
func valuesOf(t *testing.T, blobs []blob) map[string][]any {
	t.Helper()
	values := map[string][]any{}
	for _, b := range blobs {
		decoder := json.NewDecoder(bytes.NewReader(b.raw))
		decoder.UseNumber()
		var value any
		must.Succeed(t, decoder.Decode(&value))
		key := b.Schema + " " + b.Package + " " + b.Name
		values[key] = append(values[key], value)
	}
	return values
}

// TestPluginExports has opm read what is exported, and compares it with what went in.
func TestPluginExports(t *testing.T) {
	w := pluginWorld(t)
	want, err := readCatalog(sampleCatalog)
	must.Succeed(t, err)
	for _, output := range []string{"dir", "file/catalog.json", "other/catalog.yaml"} {
		root := filepath.Join(t.TempDir(), "root")
		path := filepath.Join(root, output)
		must.Succeed(t, os.MkdirAll(filepath.Dir(path), 0o755))
		run := w.plugin(t, "export", "sample", "-o", path)
		run.must(t)
		if !strings.Contains(run.stderr, "10 packages") {
			t.Errorf("it says %q", run.stderr)
		}
		got, err := readCatalog(root)
		must.Succeed(t, err)
		if diff := cmp.Diff(valuesOf(t, want), valuesOf(t, got)); diff != "" {
			t.Errorf("%s: %s", output, diff)
		}
		if text, err := exec.CommandContext(t.Context(), os.Getenv("OPM"), "validate", root).CombinedOutput(); err != nil {
			t.Errorf("%s: opm validate: %v: %s", output, err, text)
		}
		if !strings.HasSuffix(output, ".yaml") { // which has no escapes of JSON
			w.plugin(t, "diff", "sample", path, "--exit-code").must(t) // by hashes, which are of all bytes
		}
		w.plugin(t, "lint", path).must(t) // a file is a catalog as a directory is
		w.plugin(t, "push", path, w.registry.address+"/exported:latest").must(t)
		w.plugin(t, "export", "sample", "-o", path).fails(t, 2, "--force")
		w.plugin(t, "export", "sample", "-o", path, "--force").must(t)
	}
	checkGolden(t, "export/package.json", w.plugin(t, "export", "sample", "dbaas-operator", "-o", "json").must(t))
	checkGolden(t, "export/package.yaml", w.plugin(t, "export", "sample", "dbaas-operator", "-o", "yaml").must(t))
	none := filepath.Join(t.TempDir(), "none")
	w.plugin(t, "export", "sample", "dbaas-operator", "dbass-operator", "-o", none).fails(t, 3, `did you mean "dbaas-operator"?`)
	if _, err := os.Stat(none); err == nil {
		t.Error("a failed export leaves something")
	}
	w.plugin(t, "export", "sample").fails(t, 2, "-o DIR")
	w.plugin(t, "export", "nope", "-o", none).fails(t, 3, `no catalog "nope"`)
}

// TestPluginDiffs compares a catalog of the cluster with a directory, an image, and itself as it was.
func TestPluginDiffs(t *testing.T) {
	w := pluginWorld(t)
	changed := changedSample(t)
	before := strings.TrimSpace(w.plugin(t, "list", "sample", "-o", "jsonpath={.status.digest}").must(t))
	name := func(text string) string { return strings.ReplaceAll(text, changed, "DIR") }
	checkGolden(t, "diff/directory.txt", name(w.plugin(t, "diff", "sample", changed).must(t)))
	checkGolden(t, "diff/directory.yaml", name(w.plugin(t, "diff", "sample", changed, "-o", "yaml").must(t)))
	if run := w.plugin(t, "diff", "sample", changed, "--exit-code"); run.code != 1 || run.stderr != "" {
		t.Errorf("exit code %d of catalogs that differ; %s", run.code, run.stderr)
	}
	w.plugin(t, "diff", "sample", changed, "--exit-code", "-p", "skupper-operator").must(t)

	ref, digest := w.registry.push(t, "sample", catalogImage(t, changed))
	w.plugin(t, "diff", ref, changed, "--exit-code").must(t)
	w.plugin(t, "refresh", "sample").must(t)
	w.waitReady(t, "sample", digest)
	earlier := w.plugin(t, "diff", "sample@"+before, "sample").must(t)
	_, rest, _ := strings.Cut(earlier, "\n")
	_, same, _ := strings.Cut(readText(t, "testdata/plugin/diff/directory.txt"), "\n")
	if diff := cmp.Diff(same, rest); diff != "" {
		t.Errorf("as it was and as it is: %s", diff)
	}
	w.plugin(t, "diff", "sample@sha256:"+strings.Repeat("0", 64), "sample").fails(t, 3, "15 minutes")
	w.plugin(t, "diff", "sample").fails(t, 2, "which two")
	w.plugin(t, "diff", "sample", "./nope").fails(t, 3, "no directory or file ./nope")
}

// TestPluginMigrates applies what it made of a CatalogSource of OLM v0.
func TestPluginMigrates(t *testing.T) {
	w := pluginWorld(t)
	made := w.plugin(t, "migrate", "-f", "../config/samples/olm-v0/catalogsource.yaml").must(t)
	checkGolden(t, "migrate/sample.yaml", made)
	apply := w.kubectl(t, "apply", "--dry-run=server", "-f", "-")
	apply.Stdin = strings.NewReader(made)
	if out, err := apply.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	w.plugin(t, "migrate", "--from-cluster", "-A").fails(t, 3, "no CatalogSources of OLM v0")
	w.plugin(t, "migrate").fails(t, 2, "--from-cluster")
}

// TestPluginMigratesCluster reads what a cluster with OLM v0 has, whose CatalogSources are another kind of the same name, applies what it made
// of it, and finds its own as before.
func TestPluginMigratesCluster(t *testing.T) {
	w := pluginWorld(t)
	crd, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crds.CatalogSource())
	must.Succeed(t, err)
	olm := &unstructured.Unstructured{Object: crd}
	must.Succeed(t, w.Create(t.Context(), olm))
	t.Cleanup(func() {
		must.Succeed(t, w.Delete(context.Background(), olm)) // and its objects
		eventually.Succeeds(t, "the CRD is gone", func() error {
			if err := w.Get(context.Background(), client.ObjectKeyFromObject(olm), olm); !apierrors.IsNotFound(err) {
				return errors.Join(errors.New("it is not"), err)
			}
			return nil
		})
	})
	create := func(namespace, name string, spec map[string]any) {
		object := system.NewObject(schema.GroupVersionKind{Group: "operators.coreos.com", Version: "v1alpha1", Kind: "CatalogSource"}, name)
		object.SetNamespace(namespace)
		object.Object["spec"] = spec
		eventually.Succeeds(t, "the API server takes it", func() error { return w.Create(t.Context(), object) })
	}
	create("default", "certified", map[string]any{"sourceType": "grpc", "image": "registry.example.com/certified:v1", "secrets": []any{"pull"}, "priority": int64(-200), "updateStrategy": map[string]any{"registryPoll": map[string]any{"interval": "10m"}}})
	create("kube-public", "certified", map[string]any{"sourceType": "grpc", "image": "registry.example.com/other:v1", "displayName": "Other"})
	create("default", "old", map[string]any{"sourceType": "configmap", "configMap": "packages"})

	one := w.plugin(t, "migrate", "--from-cluster", "-n", "kube-public").must(t)
	checkGolden(t, "migrate/namespace.yaml", one)
	w.plugin(t, "migrate", "--from-cluster", "-n", "kube-system").fails(t, 3, `namespace "kube-system"`, "--all-namespaces")
	all := w.plugin(t, "migrate", "--from-cluster", "-A")
	if all.code != 1 || !strings.Contains(all.stderr, "default/old cannot be migrated") {
		t.Errorf("exit code %d, and it says %s", all.code, all.stderr)
	}
	checkGolden(t, "migrate/cluster.yaml", all.stdout)
	apply := w.kubectl(t, "apply", "-f", "-")
	apply.Stdin = strings.NewReader(all.stdout)
	if out, err := apply.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if got := strings.Fields(w.plugin(t, "list", "-o", "name").must(t)); len(got) != 3 {
		t.Errorf("there are %q, want two more than the sample", got)
	}
}

// TestPluginTellsVersions asks for all versions there are, and for its own without a cluster.
func TestPluginTellsVersions(t *testing.T) {
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

// TestPluginGetWatches has a list go on with the rows that change.
func TestPluginGetWatches(t *testing.T) {
	w := pluginWorld(t)
	cmd := exec.CommandContext(t.Context(), pluginBinary(t), "get", "channels", "-l", "catalog=sample", "--watch", "-o", "custom-columns=:.package.name,:.name,:.head.version", "--no-headers")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+w.Kubeconfig)
	out, err := cmd.StdoutPipe()
	must.Succeed(t, err)
	must.Succeed(t, cmd.Start())
	lines := bufio.NewScanner(out)
	next := func() string {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("it ended: %v", lines.Err())
		}
		return strings.Join(strings.Fields(lines.Text()), " ")
	}
	blobs, err := readCatalog(sampleCatalog)
	must.Succeed(t, err)
	for range countSchema(blobs, "olm.channel") {
		next()
	}
	w.registry.push(t, "sample", catalogImage(t, changedSample(t)))
	w.plugin(t, "refresh", "sample").must(t)
	var got []string
	for range 4 {
		got = append(got, next())
	}
	want := []string{"new-operator alpha 2.0.0", "mercury-operator 1.0.x 1.0.1", "mercury-operator dev 1.0.2", "mercury-operator stable 1.0.2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the channels of a package that is new, and of one that is gone (-want +got):\n%s", diff)
	}
	must.Succeed(t, cmd.Process.Signal(os.Interrupt))
	if err := cmd.Wait(); err != nil {
		t.Errorf("after an interrupt: %v", err)
	}
}
