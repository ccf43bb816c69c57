package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/operator-catalogs/catalogd/internal/testing/bundles"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
	"github.com/operator-catalogs/catalogd/internal/testing/registry"
)

// TestPluginFromNothing makes a bundle of manifests, pushes it, and adds it to a new package. opm renders the same bundle.
func TestPluginFromNothing(t *testing.T) {
	t.Parallel()
	w := offline()
	host := registry.Start(t, nil)
	dir := bundles.Spec{Package: "foo", Version: "1.0.0", Default: "stable"}.Write(t)
	must.Succeed(t, os.RemoveAll(filepath.Join(dir, "metadata")))
	icon := filepath.Join(t.TempDir(), "logo.svg")
	must.Succeed(t, os.WriteFile(icon, []byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`), 0o666))
	catalog, image := filepath.Join(t.TempDir(), "catalog"), host+"/init/foo-bundle:v1.0.0"

	w.clusterless(t, "bundle", "push", dir, image).fails(t, 1, "it has no directory metadata: kubectl catalog bundle init makes it")
	w.clusterless(t, "bundle", "init", dir, "--package", "foo").must(t)
	w.clusterless(t, "bundle", "init", dir, "--package", "foo").fails(t, 1, "metadata/annotations.yaml already exists")
	pushed := strings.TrimSpace(w.clusterless(t, "bundle", "push", dir, image).must(t))
	if again := strings.TrimSpace(w.clusterless(t, "bundle", "push", dir, image, "--dry-run").must(t)); again != pushed {
		t.Errorf("the digest changes from %s to %s", pushed, again)
	}
	w.clusterless(t, "init", "foo", "--channel", "stable", "--icon", icon, "--description", icon, "-o", catalog).must(t)
	w.clusterless(t, "init", "foo", "--channel", "stable", "-o", catalog).fails(t, 1, `the catalog already has package "foo"`)
	w.clusterless(t, "init", "bar", "--channel", "stable", "--icon", filepath.Join(dir, "metadata", "annotations.yaml")).fails(t, 1, "is not an image")
	w.clusterless(t, "bundle", "add", catalog, image, "--channel", "stable", "--pin").must(t)
	w.clusterless(t, "lint", catalog, "--no-warnings").must(t)

	blobs := authored(t, w.clusterless(t, "render", catalog).must(t))
	if got := blobs["olm.bundle foo.v1.0.0"].Image; got != pushed {
		t.Errorf("the image is %s, want %s", got, pushed)
	}
	if icon, ok := blobs["olm.package foo"].Icon.(map[string]any); !ok || icon["mediatype"] != "image/svg+xml" {
		t.Errorf("the icon is %v", blobs["olm.package foo"].Icon)
	}

	for _, test := range []struct{ ours, opm []string }{
		{[]string{image}, []string{"--migrate-level", "bundle-object-to-csv-metadata", image}},
		{[]string{image, "--target", "4.16"}, []string{image}},
		{[]string{dir, "--as", "r.example/{{.Package}}:{{.Version}}"}, []string{
			"--alpha-image-ref-template", "r.example/{{.Package}}:{{.Version}}", "--migrate-level", "bundle-object-to-csv-metadata", dir,
		}},
		{[]string{dir}, []string{dir}},
	} {
		want := runOPM(t, append([]string{"render", "-o", "json"}, test.opm...)...)
		got := w.clusterless(t, append([]string{"render"}, test.ours...)...).must(t)
		var a, b any
		must.Succeed(t, json.Unmarshal([]byte(want), &a))
		must.Succeed(t, json.Unmarshal([]byte(got), &b))
		if diff := cmp.Diff(a, b, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("render %q (-opm +ours):\n%s", test.ours, diff)
		}
	}
}
