package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// valuesOf decodes blobs by schema, package and name, in order, and keeps the text of numbers.
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

// TestPluginExports reads the export with opm, and compares it with the original.
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
		if !strings.HasSuffix(output, ".yaml") { // which has no JSON escapes
			w.plugin(t, "diff", "sample", path, "--exit-code").must(t) // compares hashes of all bytes
		}
		w.plugin(t, "lint", path).must(t) // a file is a catalog like a directory
		w.plugin(t, "push", path, w.registry.address+"/exported:latest").must(t)
		w.plugin(t, "export", "sample", "-o", path).fails(t, 2, "--force")
		w.plugin(t, "export", "sample", "-o", path, "--force").must(t)
	}
	checkGolden(t, "export/package.json", w.plugin(t, "export", "sample", "dbaas-operator", "-o", "json").must(t))
	checkGolden(t, "export/package.yaml", w.plugin(t, "export", "sample", "dbaas-operator", "-o", "yaml").must(t))
	part := filepath.Join(t.TempDir(), "part")
	w.plugin(t, "export", "sample", "skupper-operator/stable@1.8.0..", "--packages", "dbaas-operator@heads", "-o", part).must(t)
	if text, err := exec.CommandContext(t.Context(), os.Getenv("OPM"), "validate", part).CombinedOutput(); err != nil {
		t.Errorf("a part: opm validate: %v: %s", err, text)
	}
	cut, err := readCatalog(part)
	must.Succeed(t, err)
	if countSchema(cut, "olm.package") != 2 || countSchema(cut, "olm.channel") != 2 {
		t.Errorf("a part has %d packages and %d channels, want 2 each", countSchema(cut, "olm.package"), countSchema(cut, "olm.channel"))
	}
	w.plugin(t, "export", "sample", "skupper-operator/nosuch", "-o", part+"2").fails(t, 3, `channel "nosuch" of package "skupper-operator"`)
	w.plugin(t, "export", "sample", "skupper-operator@1.8.0", "-o", part+"2").fails(t, 2, "@=VERSION")
	none := filepath.Join(t.TempDir(), "none")
	w.plugin(t, "export", "sample", "dbaas-operator", "dbass-operator", "-o", none).fails(t, 3, `did you mean "dbaas-operator"?`)
	if _, err := os.Stat(none); err == nil {
		t.Error("a failed export leaves something")
	}
	w.plugin(t, "export", "sample").fails(t, 2, "-o DIR")
	w.plugin(t, "export", "nope", "-o", none).fails(t, 3, `catalog "nope" not found`)
}

// TestPluginDiffs compares a catalog of the cluster with a directory, an image, and its former version.
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
	w.plugin(t, "diff", "sample").fails(t, 2, "specify two catalogs")
	w.plugin(t, "diff", "sample", "./nope").fails(t, 3, "directory or file ./nope not found")
}
