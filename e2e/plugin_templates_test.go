package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/testing/bundles"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
	"github.com/operator-catalogs/catalogd/internal/testing/registry"
)

// templates are templates of each schema. REGISTRY is the host of the bundle images.
var templates = map[string]string{
	"basic.yaml": `schema: olm.template.basic
entries:
- schema: olm.package
  name: foo
  defaultChannel: stable
  description: Foo & bar
  icon: {base64data: PHN2Zy8+, mediatype: image/svg+xml}
- schema: olm.bundle
  name: foo.v1.0.0
  image: REGISTRY/foo:v1.0.0
- schema: olm.bundle
  image: REGISTRY/foo:v1.1.0
- schema: olm.channel
  package: foo
  name: stable
  entries:
  - name: foo.v1.0.0
  - {name: foo.v1.1.0, replaces: foo.v1.0.0, skipRange: ">=1.0.0 <1.1.0"}
- schema: olm.deprecations
  package: foo
  entries:
  - {reference: {schema: olm.bundle, name: foo.v1.0.0}, message: It is <old>.}
- schema: example.com.note
  package: foo
  text: {z: 1, a: [true, null, 1.5]}
`,
	"basic.json": `{"schema": "olm.template.basic", "entries": [
  {"schema": "olm.package", "name": "foo", "defaultChannel": "a"},
  {"schema": "olm.channel", "package": "foo", "name": "a", "entries": [{"name": "foo.v1.0.0"}]},
  {"schema": "olm.bundle", "image": "REGISTRY/foo:v1.0.0"},
  {"schema": "other", "name": "x"}
]}`,
	"semver.yaml": `Schema: olm.semver
GenerateMajorChannels: true
GenerateMinorChannels: true
DefaultChannelTypePreference: major
Candidate:
  Bundles:
  - Image: REGISTRY/foo:v1.0.0
  - Image: REGISTRY/foo:v1.1.0
  - Image: REGISTRY/foo:v1.1.1
  - Image: REGISTRY/foo:v2.0.0
Fast:
  Bundles:
  - Image: REGISTRY/foo:v1.0.0
  - Image: REGISTRY/foo:v1.1.1
Stable:
  Bundles:
  - Image: REGISTRY/foo:v1.0.0
`,
	"semver-minor.yaml": `---
schema: olm.semver
stable:
  bundles:
  - image: REGISTRY/foo:v1.1.0
  - image: REGISTRY/foo:v1.0.0
`,
}

// bundleRegistry starts a registry with bundles of two operators, and counts requests of manifests by path.
func bundleRegistry(t *testing.T) (host string, requests func() map[string]int) {
	t.Helper()
	var mu sync.Mutex
	counts := map[string]int{}
	host = registry.Start(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/manifests/") {
				mu.Lock()
				counts[r.URL.Path]++
				mu.Unlock()
			}
			next.ServeHTTP(w, r)
		})
	})
	for _, spec := range []bundles.Spec{
		{Package: "foo", Version: "1.0.0"}, {Package: "foo", Version: "1.1.0"}, {Package: "foo", Version: "1.1.1"},
		{Package: "foo", Version: "2.0.0", Related: []string{"registry.example/z:v1", "registry.example/a:v1"}},
		{Package: "bar", Version: "1.0.0"},
	} {
		spec.Push(t, host)
	}
	return host, func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		return counts
	}
}

// writeTemplates writes files to a new directory, with the host of a registry.
func writeTemplates(t *testing.T, host string, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		must.Succeed(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Succeed(t, os.WriteFile(path, []byte(strings.ReplaceAll(text, "REGISTRY", host)), 0o644))
	}
	return dir
}

// runOPM returns the output of opm. It pulls images only with a policy of signatures.
func runOPM(t *testing.T, args ...string) string {
	t.Helper()
	home := t.TempDir()
	policy := filepath.Join(home, ".config", "containers", "policy.json")
	must.Succeed(t, os.MkdirAll(filepath.Dir(policy), 0o755))
	must.Succeed(t, os.WriteFile(policy, []byte(`{"default": [{"type": "insecureAcceptAnything"}]}`), 0o644))
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), needed(t, "OPM", "hack/opm/build.sh"), append(args, "--use-http")...)
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+filepath.Join(home, ".config"))
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("opm %s: %v\n%s", strings.Join(args, " "), err, &stderr)
	}
	return stdout.String()
}

// uncached runs the plugin without a cluster, and with an empty cache.
func (w *world) uncached(t *testing.T, args ...string) pluginRun {
	t.Helper()
	return w.pluginWith(t, append([]string{"XDG_CACHE_HOME=" + t.TempDir()}, clusterless...), "", args...)
}

// offline returns a world without a catalogd.
func offline() *world { return &world{ControlPlane: shared} }

// TestPluginTemplateRender compares with opm, for both formats of bundles.
func TestPluginTemplateRender(t *testing.T) {
	t.Parallel()
	w := offline()
	host, _ := bundleRegistry(t)
	dir := writeTemplates(t, host, templates)
	entries := w.uncached(t, "template", "render", filepath.Join(dir, "basic.json"), "--target", "4.16").must(t)
	entries = "[" + strings.TrimSuffix(strings.ReplaceAll(entries, "\n}\n", "\n},\n"), ",\n") + "]"
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "substitutes.json"), fmt.Appendf(nil, `{"schema": "olm.template.substitutes",
"entries": %s, "substitutions": [{"name": "%s/foo:v1.1.0", "base": "foo.v1.0.0"}]}`, entries, host), 0o644))
	files, err := os.ReadDir(dir)
	must.Succeed(t, err)
	for _, file := range files {
		for target, level := range map[string]string{"4.16": "none", "4.17": "bundle-object-to-csv-metadata"} {
			for _, format := range []string{"json", "yaml", "mermaid"} {
				t.Run(file.Name()+" "+target+" "+format, func(t *testing.T) {
					path := filepath.Join(dir, file.Name())
					want := runOPM(t, "alpha", "render-template", path, "--migrate-level", level, "-o", format)
					got := w.uncached(t, "template", "render", path, "--target", target, "-o", format).must(t)
					if diff := cmp.Diff(want, got); diff != "" || got == "" {
						t.Errorf("-opm +catalogd:\n%s", diff)
					}
				})
			}
		}
	}
}

// TestPluginTemplateConvert compares with opm, and renders the template again.
func TestPluginTemplateConvert(t *testing.T) {
	t.Parallel()
	w := offline()
	host, _ := bundleRegistry(t)
	dir := writeTemplates(t, host, templates)
	for _, name := range []string{"basic.yaml", "semver.yaml"} {
		catalog := filepath.Join(dir, "of-"+name)
		w.uncached(t, "template", "render", filepath.Join(dir, name), "-o", catalog).must(t)
		for _, kind := range []string{"basic", "substitutes"} {
			for _, format := range []string{"json", "yaml"} {
				want := strings.TrimSpace(runOPM(t, "alpha", "convert-template", kind, catalog, "-o", format))
				got := strings.TrimSpace(w.uncached(t, "template", "convert", catalog, "--to", kind, "-o", format).must(t))
				if diff := cmp.Diff(want, got); diff != "" || got == "" {
					t.Errorf("%s as %s (-opm +catalogd):\n%s", name, kind, diff)
				}
			}
			again := filepath.Join(dir, "again-"+kind+"-"+name)
			w.uncached(t, "template", "convert", catalog, "--to", kind, "-o", again).must(t)
			got := w.uncached(t, "template", "render", again, "-o", "yaml").must(t)
			if diff := cmp.Diff(readText(t, catalog), got); diff != "" {
				t.Errorf("%s, converted to %s and rendered (-before +after):\n%s", name, kind, diff)
			}
		}
	}
}

// TestPluginTemplateRenderCI renders all catalogs of a ci.yaml: each bundle is pulled once, and the files are those that
// operator-pipelines writes with opm.
func TestPluginTemplateRenderCI(t *testing.T) {
	t.Parallel()
	w := offline()
	host, requests := bundleRegistry(t)
	dir := writeTemplates(t, host, map[string]string{
		"operators/foo/catalog-templates/basic.yaml":  templates["basic.yaml"],
		"operators/foo/catalog-templates/semver.yaml": templates["semver.yaml"],
		"operators/foo/ci.yaml": `---
updateGraph: replaces-mode
fbc:
  enabled: true
  catalog_mapping:
  - template_name: basic.yaml
    catalog_names: [v4.15, v4.16]
    type: olm.template.basic
  - template_name: semver.yaml
    catalog_names: [v4.17, v4.18]
    type: olm.semver
`,
	})
	ci := filepath.Join(dir, "operators", "foo", "ci.yaml")
	run := w.uncached(t, "template", "render", ci)
	if run.must(t); !strings.Contains(run.stderr, "4 catalogs rendered from 4 bundles") {
		t.Errorf("it says %q", run.stderr)
	}
	for path, n := range requests() {
		if n != 1 {
			t.Errorf("%d requests of %s", n, path)
		}
	}
	for catalog, args := range map[string][]string{
		"v4.15": {"basic"}, "v4.16": {"basic"},
		"v4.17": {"semver", "--migrate-level", "bundle-object-to-csv-metadata"}, "v4.18": {"semver", "--migrate-level", "bundle-object-to-csv-metadata"},
	} {
		file := filepath.Join(filepath.Dir(ci), "catalog-templates", args[0]+".yaml")
		want := runOPM(t, append([]string{"alpha", "render-template", args[0], file, "-o", "yaml"}, args[1:]...)...)
		got := readText(t, filepath.Join(dir, "catalogs", catalog, "foo", "catalog.yaml"))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-opm +catalogd):\n%s", catalog, diff)
		}
		w.uncached(t, "lint", filepath.Join(dir, "catalogs", catalog), "--target", catalog, "--no-warnings").must(t)
	}

	must.Succeed(t, os.Rename(filepath.Join(dir, "catalogs", "v4.18"), filepath.Join(dir, "catalogs", "v4.14")))
	other := filepath.Join(dir, "catalogs", "v4.14", "foo", "catalog.yaml")
	if run := w.uncached(t, "template", "render", ci); !strings.Contains(run.stderr, other+" is not in fbc.catalog_mapping") {
		t.Errorf("of a catalog that is not rendered it says %q", run.stderr)
	}

	before := treeOf(t, dir)
	broken := filepath.Join(filepath.Dir(ci), "catalog-templates", "basic.yaml")
	before[broken] = strings.ReplaceAll(before[broken], "foo:v1.1.0", "foo:absent")
	must.Succeed(t, os.WriteFile(broken, []byte(before[broken]), 0o644))
	w.uncached(t, "template", "render", ci).fails(t, 1, "basic.yaml: entries[2] (olm.bundle): ", host+"/foo:absent")
	if diff := cmp.Diff(before, treeOf(t, dir)); diff != "" {
		t.Errorf("a failure changed files (-before +after):\n%s", diff)
	}
}

// TestPluginTemplateFailures requires the file and the entry in errors, and that nothing is written.
func TestPluginTemplateFailures(t *testing.T) {
	t.Parallel()
	w := offline()
	host, _ := bundleRegistry(t)
	basic := templates["basic.yaml"]
	change := func(old, text string) string { return strings.Replace(basic, old, text, 1) }
	for name, test := range map[string]struct {
		text string
		says []string
	}{
		"an absent image": {
			change("foo:v1.1.0", "foo:absent"),
			[]string{"template.yaml: entries[2] (olm.bundle): rendering bundle " + host + "/foo:absent: "},
		},
		"an unknown field of an entry": {
			change("replaces: foo", "replace: foo"),
			[]string{`template.yaml: entries[3] (olm.channel "stable"): unknown field "replace"`},
		},
		"a rendered bundle": {
			change("name: foo.v1.0.0\n", "name: foo.v1.0.0\n  package: foo\n"), []string{`template.yaml: entries[1] (olm.bundle "foo.v1.0.0") must have only`},
		},
		"a catalog with errors": {
			change("defaultChannel: stable", "defaultChannel: fast"),
			[]string{"template.yaml: the rendered catalog would have errors:", `default channel "fast" not found`, "(default-channel)"},
		},
		"two packages": {
			strings.Replace(templates["semver.yaml"], "REGISTRY/foo:v1.1.0", "REGISTRY/bar:v1.0.0", 1),
			[]string{`template.yaml: candidate.bundles[0] is of package "foo", and candidate.bundles[1] is of package "bar"`},
		},
		"a bundle twice": {
			strings.Replace(templates["semver.yaml"], "REGISTRY/foo:v1.1.0", "REGISTRY/foo:v1.0.0", 1),
			[]string{"template.yaml: candidate.bundles[0] and candidate.bundles[1] have the same version 1.0.0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := writeTemplates(t, host, map[string]string{"template.yaml": test.text, "out/foo/catalog.yaml": "old"})
			before := treeOf(t, dir)
			run := w.uncached(t, "template", "render", filepath.Join(dir, "template.yaml"), "-o", filepath.Join(dir, "out"))
			run.fails(t, 1, test.says...)
			if diff := cmp.Diff(before, treeOf(t, dir)); diff != "" || run.stdout != "" {
				t.Errorf("it printed %q and changed files (-before +after):\n%s", run.stdout, diff)
			}
		})
	}
	dir := writeTemplates(t, host, templates)
	ci := filepath.Join(writeTemplates(t, host, map[string]string{
		"ci.yaml":                      "fbc: {catalog_mapping: [{template_name: basic.yaml, catalog_names: [latest]}]}",
		"ci-other.yaml":                "fbc: {catalog_mapping: [{template_name: basic.yaml, catalog_names: [v4.17], type: olm.semver}]}",
		"catalog-templates/basic.yaml": basic,
	}), "ci.yaml")
	for _, test := range []struct {
		args string
		code int
		says string
	}{
		{"template render", 2, "specify a file"},
		{"template render " + dir + "/basic.yaml -o " + dir + "/basic.yaml", 2, "is a template: specify another file"},
		{"bundle remove " + dir + "/semver.yaml foo.v1.0.0", 2, "is a semver template: only bundle add can change it"},
		{"template render nosuch.yaml", 3, "file nosuch.yaml not found"},
		{"template render " + dir + "/basic.yaml --target 3", 2, "unknown target"},
		{"template render " + ci + " -o json", 2, "is rendered to files"},
		{"template render " + ci, 1, `fbc.catalog_mapping[0]: catalog "latest" is not named after a version of OpenShift`},
		{"template render " + filepath.Dir(ci) + "/ci-other.yaml", 1, "ci-other.yaml: fbc.catalog_mapping[0] has type olm.semver, but"},
		{"template convert " + dir + "/basic.yaml", 2, "valid values are basic, substitutes"},
		{"template convert " + dir + "/basic.yaml --to basic -o x.txt", 2, ".json, .yaml or .yml"},
	} {
		w.uncached(t, strings.Fields(test.args)...).fails(t, test.code, test.says)
	}
	stdin := strings.ReplaceAll(basic, "REGISTRY", host)
	if got := w.pluginWith(t, clusterless, stdin, "template", "render", "-", "--no-cache").must(t); !strings.Contains(got, `"olm.bundle"`) {
		t.Errorf("of standard input it made %s", got)
	}
}
