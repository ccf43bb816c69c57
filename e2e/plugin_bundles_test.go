package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// TestPluginBundles runs the commands on bundles: of the sample catalog, which has the objects of one package, and of images.
func TestPluginBundles(t *testing.T) {
	w := newWorld(t, shared, "--bundle-content")
	ref, digest := w.registry.push(t, "sample", catalogImage(t, sampleCatalog))
	w.createCatalog(t, "sample", ref, nil)
	w.waitReady(t, "sample", digest)
	const old, current = "shipwright-operator@0.9.0", "shipwright-operator@0.13.0"
	for name, args := range map[string][]string{
		"help":        {"--help"},
		"show":        {"show", "shipwright-operator"},
		"show-yaml":   {"show", old, "-o", "yaml"},
		"permissions": {"permissions", old},
		"configmaps":  {"manifests", current, "--kind", "ConfigMap"},
		"diff":        {"diff", old, current},
		"diff-json":   {"diff", old, current, "-o", "json"},
	} {
		t.Run(name, func(t *testing.T) {
			checkGolden(t, "bundles/"+name+".txt", w.plugin(t, append([]string{"bundle"}, args...)...).must(t))
		})
	}
	bundle := func(args ...string) pluginRun { return w.plugin(t, append([]string{"bundle"}, args...)...) }
	bundle("show").fails(t, 2, "specify one bundle: kubectl catalog bundle show PACKAGE[@VERSION]")
	bundle("diff", old).fails(t, 2, "specify two bundles")
	bundle("show", "shipwright-operator@").fails(t, 2, "specify PACKAGE or PACKAGE@VERSION")
	bundle("show", "shipwright-operator@9").fails(t, 3, `version "9" not found in package "shipwright-operator"`)
	bundle("show", "shipwright").fails(t, 3, `package "shipwright" not found`)
	bundle("manifests", current, "--kind", "Deployment").fails(t, 3, "no matching objects in bundle")
	bundle("manifests", current, "-o", "table").fails(t, 2, "yaml", "json")
	bundle("show", "skupper-operator").fails(t, 1, "does not pull bundle images from this location", "--bundle-registries")
	if run := bundle("diff", old, current, "--exit-code"); run.code != 1 || run.stdout == "" {
		t.Errorf("diff --exit-code: exit code %d, %q", run.code, run.stderr)
	}
	if run := bundle("diff", old, old, "--exit-code"); run.code != 0 || run.stdout != "No differences.\n" {
		t.Errorf("diff of equal bundles: exit code %d, %q", run.code, run.stdout)
	}

	kubectl := w.kubectl(t, "apply", "--dry-run=server", "-f", "-")
	kubectl.Stdin = strings.NewReader(bundle("manifests", current, "--kind", "CustomResourceDefinition").must(t))
	if out, err := kubectl.CombinedOutput(); err != nil || !strings.Contains(string(out), "created (server dry run)") {
		t.Errorf("kubectl apply: %v: %s", err, out)
	}
	dir := filepath.Join(t.TempDir(), "files")
	bundle("get", current, "--directory", dir).must(t)
	bundle("get", current, "--directory", dir).fails(t, 1, "exists; specify another --directory")
	files, err := filepath.Glob(filepath.Join(dir, "manifests", "*"))
	must.Succeed(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		must.Succeed(t, err)
		path := "/api/v1/packages/shipwright-operator/bundles/shipwright-operator.v0.13.0/content/manifests/" + filepath.Base(file)
		if got := get(t, w.contentURL("sample", path)); string(got.body) != string(text) {
			t.Errorf("%s differs", file)
		}
	}
	if len(files) != 5 {
		t.Errorf("get wrote %d files, want 5", len(files))
	}
}

// TestPluginBundleDiff compares two bundle images with what jq computes of the same files.
func TestPluginBundleDiff(t *testing.T) {
	w := newWorld(t, shared, "--bundle-content")
	const operator = `apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: demo.%s}
spec:
  install:
    spec:
      clusterPermissions: [{serviceAccountName: demo, rules: [{apiGroups: [""], resources: [secrets], verbs: [%s]}]}]
`
	const crd = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: demos.example.com}
spec:
  group: example.com
  names: {kind: Demo, plural: demos}
  scope: Namespaced
  versions: [%s]
`
	version := func(name, required string, storage bool) string {
		return fmt.Sprintf("{name: %s, served: true, storage: %t, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, "+
			"required: [%s], properties: {size: {type: integer}}}}}}}", name, storage, required)
	}
	before := map[string]string{
		"manifests/csv.yaml": fmt.Sprintf(operator, "v1", "get"),
		"manifests/crd.yaml": fmt.Sprintf(crd, version("v1alpha1", "", false)+", "+version("v1", "", true)),
	}
	after := map[string]string{
		"manifests/csv.yaml": fmt.Sprintf(operator, "v2", "get, list"),
		"manifests/crd.yaml": fmt.Sprintf(crd, version("v1", "size", true)),
	}
	images := map[string]string{}
	for name, files := range map[string]map[string]string{"v1": before, "v2": after} {
		ref, digest := w.registry.push(t, "demo/"+name, labelled(t, bundleLabels, filesLayer(t, files)))
		images[name] = strings.TrimSuffix(ref, ":latest") + "@" + digest
	}
	ref, digest := w.registry.push(t, "ns/catalog", bundleCatalog(t, images))
	w.createCatalog(t, "demo", ref, nil)
	w.waitReady(t, "demo", digest)
	checkGolden(t, "bundles/diff-images.txt", w.plugin(t, "bundle", "diff", "demo@0.0.0", "demo@0.1.0").must(t))

	jq := func(filter string, args ...string) string {
		t.Helper()
		cmd := exec.Command("jq", append([]string{"-cS", filter}, args...)...)
		out, err := cmd.Output()
		must.Succeed(t, err)
		return string(out)
	}
	dir := t.TempDir()
	save := func(name, text string) string { return writeFile(t, dir, name, []byte(text)) }
	a := save("a", w.plugin(t, "bundle", "manifests", "demo@0.0.0", "-o", "json").must(t))
	b := save("b", w.plugin(t, "bundle", "manifests", "demo@0.1.0", "-o", "json").must(t))
	d := save("d", w.plugin(t, "bundle", "diff", "demo@0.0.0", "demo@0.1.0", "-o", "json").must(t))
	for _, c := range []struct{ name, want, got string }{
		{"verbs", jq(`[$b[] | select(.kind == "ClusterServiceVersion").spec.install.spec.clusterPermissions[].rules[].verbs[]]
			- [$a[] | select(.kind == "ClusterServiceVersion").spec.install.spec.clusterPermissions[].rules[].verbs[]]`,
			"-n", "--slurpfile", "a", a, "--slurpfile", "b", b), jq(`[.rightsGained[].verbs[]]`, d)},
		{"versions", jq(`[$a[] | select(.kind == "CustomResourceDefinition").spec.versions[].name]
			- [$b[] | select(.kind == "CustomResourceDefinition").spec.versions[].name]`,
			"-n", "--slurpfile", "a", a, "--slurpfile", "b", b), jq(`[.crdVersions[] | select(.added | not).version]`, d)},
		{"required", jq(`[$b[] | select(.kind == "CustomResourceDefinition").spec.versions[] | .schema.openAPIV3Schema.properties.spec.required[]]
			- [$a[] | select(.kind == "CustomResourceDefinition").spec.versions[] | .schema.openAPIV3Schema.properties.spec.required[]?]
			| map("spec." + .)`, "-n", "--slurpfile", "a", a, "--slurpfile", "b", b), jq(`[.breakingChanges[].path]`, d)},
	} {
		if c.got != c.want || len(c.want) < 5 {
			t.Errorf("%s: got %s, want %s", c.name, c.got, c.want)
		}
	}
}
