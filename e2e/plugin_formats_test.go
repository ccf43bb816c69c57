package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// TestPluginPrintsAsKubectl compares the formats of the plugin with those of kubectl for the same objects.
func TestPluginPrintsAsKubectl(t *testing.T) {
	w := newWorld(t, shared)
	for name, priority := range map[string]int64{"a": 9, "b": 10, "c": -3} {
		w.createCatalog(t, name, "registry.example/none:"+name, func(u *unstructured.Unstructured) {
			spec := u.Object["spec"].(map[string]any)
			spec["pollingInterval"] = "24h0m0s" // as the plugin prints durations
			spec["suspend"], spec["priority"], spec["displayName"] = true, priority, "Catalog: \"quotes\" "+name
		})
		w.waitMessage(t, name, "No content is unpacked")
	}
	file := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		must.Succeed(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	for _, args := range [][]string{
		{"-o", "name"},
		{"-o", "jsonpath={.items[*].metadata.name}"},
		{"-o", "jsonpath={range .items[*]}{.metadata.name}{\"\\t\"}{.spec.priority}{\"\\n\"}{end}"},
		{"-o", "jsonpath-as-json={.items[*].spec.priority}"},
		{"-o", "jsonpath-file=" + file("path", "{.items[0].spec.image}")},
		{"-o", "jsonpath", "--template", "{.items[0].metadata.name}"},
		{"-o", "go-template={{range .items}}{{.metadata.name}} {{.spec.none}}{{end}}"},
		{"-o", "template={{len .items}}"},
		{"--template", "{{len .items}}"},
		{"-o", "go-template-file=" + file("template", "{{len .items}}")},
		{"-o", "templatefile", "--template", file("template", "{{(index .items 0).spec.image}}")},
		{"-o", "custom-columns=NAME:.metadata.name,PRIORITY:{.spec.priority},NONE:spec.none,TITLE:.spec.displayName"},
		{"-o", "custom-columns=NAME:metadata.name,CONDITIONS:.status.conditions[*].type", "--no-headers"},
		{"-o", "custom-columns-file=" + file("columns", "NAME PRIORITY\n.metadata.name .spec.priority\n")},
		{"-o", "name", "--sort-by", ".spec.priority"},
		{"-o", "name", "--sort-by", "{.metadata.name}"},
		{"-o", "name", "--sort-by", "spec.image"},
		{"a", "-o", "json"},
		{"a", "-o", "yaml"},
		{"a", "-o", "kyaml"},
		{"a", "-o", "JSON", "--show-managed-fields"},
		{"a", "-o", "jsonpath={.spec.displayName}"},
		{"a", "-o", "custom-columns=NAME:.metadata.name"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			got := w.plugin(t, append([]string{"list"}, args...)...).must(t)
			want, err := w.kubectl(t, append([]string{"get", "catalogsources"}, args...)...).Output()
			must.Succeed(t, err)
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("(-kubectl +plugin):\n%s", diff)
			}
		})
	}
	for _, args := range [][]string{
		{"-o", "nope"}, {"-o", "jsonpath"}, {"-o", "jsonpath={.a"}, {"-o", "go-template={{.a"}, {"-o", "custom-columns=A"},
		{"-o", "custom-columns-file=none"}, {"-o", "name", "--sort-by", ".spec.nope"}, {"-o", "go-template={{.a}}", "--template", "{{.b}}"},
		{"-o", "go-template={{.spec.none}}", "--allow-missing-template-keys=false"},
	} {
		t.Run("refused "+strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			got := w.plugin(t, append([]string{"list"}, args...)...)
			if _, err := w.kubectl(t, append([]string{"get", "catalogsources"}, args...)...).Output(); err == nil || got.code == 0 {
				t.Errorf("kubectl: %v; the plugin: exit code %d", err, got.code)
			}
		})
	}
}
