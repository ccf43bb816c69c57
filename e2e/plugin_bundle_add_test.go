package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/operator-catalogs/catalogd/internal/testing/bundles"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
	"github.com/operator-catalogs/catalogd/internal/testing/registry"
)

// v returns a version of package foo. The CSV replaces and skips bundles.
func v(version, replaces string, skips ...string) bundles.Spec {
	return bundles.Spec{Package: "foo", Version: version, Replaces: replaces, Skips: skips, SkipRange: "<" + version}
}

// authoredBlob is a blob of a catalog, with what authors decide.
type authoredBlob struct {
	Schema, Name, Package, DefaultChannel, Image string
	Entries                                      []struct {
		Name, Replaces, SkipRange string
		Skips                     []string
	}
	Properties    []struct{ Type, Value any }
	RelatedImages []struct{ Image string }
	Icon          any
}

// authored returns the blobs that a program prints, without the manifests and the order of which opm is not sure.
func authored(t *testing.T, stream string) map[string]authoredBlob {
	t.Helper()
	all := map[string]authoredBlob{}
	for dec := json.NewDecoder(strings.NewReader(stream)); dec.More(); {
		var b authoredBlob
		must.Succeed(t, dec.Decode(&b))
		for i := range b.Entries {
			slices.Sort(b.Entries[i].Skips)
		}
		slices.SortFunc(b.Entries, func(a, b struct {
			Name, Replaces, SkipRange string
			Skips                     []string
		}) int {
			return strings.Compare(a.Name, b.Name)
		})
		b.Properties = slices.DeleteFunc(b.Properties, func(p struct{ Type, Value any }) bool {
			return p.Type == "olm.csv.metadata" || p.Type == "olm.bundle.object"
		})
		all[b.Schema+" "+b.Name] = b
	}
	return all
}

// TestPluginBundleAddLikeOPM adds bundles to a new catalog in each mode, and compares it with that of `opm registry add` and `opm
// migrate`. opm is asked for one bundle at a time, as it adds several in random order.
func TestPluginBundleAddLikeOPM(t *testing.T) {
	t.Parallel()
	w, registryHost := offline(), registry.Start(t, nil)
	for name, test := range map[string]struct {
		mode  string
		specs []bundles.Spec
	}{
		"chain":       {"replaces", []bundles.Spec{v("1.0.0", ""), v("1.1.0", "foo.v1.0.0"), v("1.2.0", "foo.v1.1.0")}},
		"skips":       {"replaces", []bundles.Spec{v("1.0.0", ""), v("1.1.0", "foo.v1.0.0"), v("1.2.0", "foo.v1.0.0", "foo.v1.1.0", "foo.v0.9.0")}},
		"prunes":      {"replaces", []bundles.Spec{v("1.0.0", ""), v("1.1.0", "foo.v1.0.0"), v("1.2.0", "foo.v1.0.0")}},
		"is skipped":  {"replaces", []bundles.Spec{v("1.0.0", ""), v("1.2.0", "foo.v1.0.0", "foo.v1.1.0"), v("1.1.0", "foo.v1.0.0")}},
		"semver":      {"semver", []bundles.Spec{v("1.0.0", ""), v("1.1.0", "foo.v0.1.0", "foo.v1.0.5"), v("1.2.0", "")}},
		"between":     {"semver", []bundles.Spec{v("1.0.0", ""), v("1.2.0", ""), v("1.1.0", "foo.v0.1.0", "foo.v1.0.5")}},
		"lowest":      {"semver", []bundles.Spec{v("1.2.0", ""), v("1.3.0-rc.1", ""), v("1.1.0", "")}},
		"patches":     {"semver-skippatch", []bundles.Spec{v("1.1.0", ""), v("1.1.1", ""), v("1.1.2", "")}},
		"late patch":  {"semver-skippatch", []bundles.Spec{v("1.1.0", ""), v("1.1.1", ""), v("1.1.3", ""), v("1.1.2", "")}},
		"three lines": {"semver-skippatch", []bundles.Spec{v("1.0.0", ""), v("1.1.0", ""), v("1.2.0", "")}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var refs []string
			for _, spec := range test.specs {
				refs = append(refs, spec.Push(t, registryHost+"/"+strings.ReplaceAll(name, " ", "-")))
			}
			for _, ref := range refs {
				add := exec.CommandContext(t.Context(), needed(t, "OPM", "hack/opm/build.sh"),
					"registry", "add", "-d", "x.db", "-b", ref, "--mode", test.mode, "--container-tool", "none", "--use-http")
				add.Dir = dir
				if out, err := add.CombinedOutput(); err != nil {
					t.Fatalf("opm: %v\n%s", err, out)
				}
			}
			migrate := exec.CommandContext(t.Context(), needed(t, "OPM", "hack/opm/build.sh"), "migrate", "x.db", "out", "-o", "json")
			migrate.Dir = dir
			must.Succeed(t, migrate.Run())
			want, err := os.ReadFile(filepath.Join(dir, "out", "foo", "catalog.json"))
			must.Succeed(t, err)

			mine := filepath.Join(dir, "mine")
			must.Succeed(t, os.Mkdir(mine, 0o777))
			for _, ref := range refs {
				w.clusterless(t, "bundle", "add", mine, ref, "--mode", test.mode).must(t)
			}
			got := w.clusterless(t, "render", mine).must(t)
			if diff := cmp.Diff(authored(t, string(want)), authored(t, got), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("-opm +ours:\n%s", diff)
			}
		})
	}
}

// TestPluginBundleAddFails adds bundles that the catalog has, or that leave it invalid. No byte changes.
func TestPluginBundleAddFails(t *testing.T) {
	t.Parallel()
	w, registryHost := offline(), registry.Start(t, nil)
	dir := t.TempDir()
	host := registryHost + "/fails"
	old, next := v("1.0.0", "").Push(t, host), v("1.1.0", "foo.v1.0.0").Push(t, host)
	w.clusterless(t, "bundle", "add", dir, old, next).must(t)
	before := treeOf(t, dir)
	same := bundles.Spec{Package: "foo", Version: "1.1.1"}
	same.Files = map[string]string{"manifests/foo.clusterserviceversion.yaml": strings.Replace(
		v("1.1.0", "").AllFiles()["manifests/foo.clusterserviceversion.yaml"], "name: foo.v1.1.0", "name: foo.other", 1)}
	twice := same.Push(t, host+"/other")
	for _, test := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{next}, 1, `adding bundle "foo.v1.1.0" to package "foo": the package already has a bundle of that name`},
		{[]string{twice}, 1, `bundle "foo.v1.1.0" already has version 1.1.0`},
		{[]string{old, "--overwrite"}, 1, "only the head of a channel can be overwritten"},
		{[]string{v("0.9.0", "").Push(t, host)}, 1, "version 0.9.0 is lower than that of the head, 1.1.0"},
		{[]string{v("1.2.0", "").Push(t, host), host + "/nosuch:v1"}, 1, "rendering bundle " + host + "/nosuch:v1"},
		{[]string{v("1.2.0", "").Push(t, host), "--replaces", "foo.v1.0.0"}, 1, "the catalog would have new errors"},
		{[]string{next, "--mode", "newest"}, 2, "valid values are head, replaces, semver, semver-skippatch"},
	} {
		w.clusterless(t, append([]string{"bundle", "add", dir}, test.args...)...).fails(t, test.code, test.says)
	}
	if diff := cmp.Diff(before, treeOf(t, dir)); diff != "" {
		t.Errorf("files after failures (-want +got):\n%s", diff)
	}
	w.clusterless(t, "bundle", "add", dir, next, "--overwrite", "--as", host+"/foo:again").must(t)
	var heads []string
	for key, b := range authored(t, w.clusterless(t, "render", dir).must(t)) {
		if strings.HasPrefix(key, "olm.bundle") {
			heads = append(heads, b.Name+" "+strings.TrimPrefix(b.Image, host))
		}
	}
	slices.Sort(heads)
	if diff := cmp.Diff([]string{"foo.v1.0.0 /foo:v1.0.0", "foo.v1.1.0 /foo:again"}, heads); diff != "" {
		t.Errorf("bundles after --overwrite (-want +got):\n%s", diff)
	}
}

// treeOf returns the files of a directory with their content.
func treeOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	must.Succeed(t, filepath.WalkDir(dir, func(name string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		files[name] = string(text)
		return err
	}))
	return files
}

const commentedTemplate = `# The catalog of foo.
schema: olm.template.basic
name: foo
entries:
  # The package.
  - schema: olm.package
    name: foo
    defaultChannel: stable # for everybody
  - schema: olm.channel
    package: foo
    name: stable
    entries:
      - name: foo.v1.0.0 # the first
        skipRange: "<1.0.0"
  # The bundles, oldest first.
  - schema: olm.bundle
    image: %s # released in May
`

// TestPluginBundleAddToTemplates adds a bundle to a commented template. The difference has added lines only.
func TestPluginBundleAddToTemplates(t *testing.T) {
	t.Parallel()
	w, registryHost := offline(), registry.Start(t, nil)
	host := registryHost + "/templates"
	old, next := v("1.0.0", "").Push(t, host), v("1.1.0", "").Push(t, host)
	operator := t.TempDir()
	templates := filepath.Join(operator, "catalog-templates")
	must.Succeed(t, os.Mkdir(templates, 0o777))
	before := fmt.Sprintf(commentedTemplate, old)
	one, two := filepath.Join(templates, "v4.17.yaml"), filepath.Join(templates, "v4.18.yaml")
	for _, file := range []string{one, two} {
		must.Succeed(t, os.WriteFile(file, []byte(before), 0o666))
	}
	added := w.clusterless(t, "bundle", "add", one, next, "--dry-run").must(t)
	for line := range strings.Lines(added) {
		if strings.HasPrefix(line, "-") && !strings.HasPrefix(line, "--- a/") {
			t.Errorf("the difference removes %q:\n%s", line, added)
		}
	}
	w.clusterless(t, "bundle", "add", one, next).must(t)
	want := strings.Replace(before, "skipRange: \"<1.0.0\"\n", "skipRange: \"<1.0.0\"\n      - name: foo.v1.1.0\n        replaces: foo.v1.0.0\n        skipRange: <1.1.0\n", 1) +
		"  - image: " + next + "\n    schema: olm.bundle\n"
	got, err := os.ReadFile(one)
	must.Succeed(t, err)
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("template (-want +got):\n%s", diff)
	}

	config := filepath.Join(operator, "release-config.yaml")
	text := "catalog_templates:\n- template_name: v4.18.yaml\n  channels: [stable]\n  replaces: foo.v1.0.0\n  skips: [foo.v1.0.1]\n"
	must.Succeed(t, os.WriteFile(config, []byte(text+"- template_name: v4.17.yaml\n  channels: [stable]\n  replaces: foo.v1.1.0\n"), 0o666))
	w.clusterless(t, "bundle", "add", operator, next, "--release-config", config).fails(t, 1, "v4.17.yaml", "already has a bundle of that name")
	must.Succeed(t, os.WriteFile(config, []byte(text), 0o666))
	w.clusterless(t, "bundle", "add", operator, next, "--release-config", config).must(t)
	rest, err := os.ReadFile(two)
	must.Succeed(t, err)
	if !strings.Contains(string(rest), "      - name: foo.v1.1.0\n        replaces: foo.v1.0.0\n        skips:\n        - foo.v1.0.1\n") {
		t.Errorf("template of the release config:\n%s", rest)
	}
}
