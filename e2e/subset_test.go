package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// subsetOf returns the lines that /all of some packages has, in the order of the catalog.
func subsetOf(t *testing.T, blobs []blob, packages ...string) string {
	t.Helper()
	var out bytes.Buffer
	for _, b := range blobs {
		pkg := b.Package
		if b.Schema == "olm.package" {
			pkg = b.Name
		}
		if slices.Contains(packages, pkg) {
			must.Succeed(t, json.Compact(&out, b.raw))
			out.WriteByte('\n')
		}
	}
	return out.String()
}

// including returns a merge patch that selects packages.
func including(packages ...string) string {
	var rules []string
	for _, name := range packages {
		rules = append(rules, fmt.Sprintf(`{"package":%q}`, name))
	}
	return `{"spec":{"include":[` + strings.Join(rules, ",") + `]}}`
}

// checkSubset waits until exactly these packages are served and published.
func checkSubset(t *testing.T, w *world, name string, blobs []blob, packages ...string) {
	t.Helper()
	want := subsetOf(t, blobs, packages...)
	eventually.Succeeds(t, "the subset is served", func() error {
		got, err := tryGet(w.contentURL(name, "/api/v1/all"))
		if err == nil && got.status != http.StatusOK {
			err = fmt.Errorf("status %d", got.status)
		}
		if err == nil && string(got.body) != want {
			err = fmt.Errorf("/all: %s", firstDifference([]byte(want), got.body))
		}
		return err
	})
	w.waitReady(t, name, "")
	var names []string
	for published := range w.packages(t, name) {
		names = append(names, strings.TrimSuffix(published, "."+name))
	}
	slices.Sort(names)
	slices.Sort(packages)
	if diff := cmp.Diff(packages, names); diff != "" {
		t.Errorf("OperatorPackages (-want +got): %s", diff)
	}
}

// pulls returns the GETs of blobs since request number from.
func (r *imageRegistry) pulls(from int) (n int) {
	for _, request := range r.log(from) {
		if request.method == http.MethodGet && strings.Contains(request.path, "/blobs/") {
			n++
		}
	}
	return n
}

// TestSubset serves parts of a catalog, and changes them without a pull.
func TestSubset(t *testing.T) {
	blobs, err := readCatalog(sampleCatalog)
	must.Succeed(t, err)
	w := newWorld(t, shared)
	ref, digest := w.registry.push(t, "sample", catalogImage(t, sampleCatalog))
	three := []string{"skupper-operator", "mercury-operator", "dbaas-operator"}
	w.createCatalog(t, "sample", ref, func(c *unstructured.Unstructured) {
		var rules []any
		for _, name := range append([]string{"no-such-operator"}, three...) {
			rules = append(rules, map[string]any{"package": name})
		}
		must.Succeed(t, unstructured.SetNestedSlice(c.Object, rules, "spec", "include"))
	})
	w.waitReady(t, "sample", digest)
	checkSubset(t, w, "sample", blobs, three...)
	c := w.catalog(t, "sample")
	left, _, _ := unstructured.NestedInt64(c.Object, "status", "content", "subset", "leftOut", "blobs")
	served, _, _ := unstructured.NestedInt64(c.Object, "status", "content", "blobs")
	missing, _, _ := unstructured.NestedStringSlice(c.Object, "status", "content", "subset", "notFound")
	if int(left+served) != len(blobs) || !slices.Equal(missing, []string{`package "no-such-operator"`}) {
		t.Errorf("%d of %d blobs are served, %d left out, not found: %q", served, len(blobs), left, missing)
	}
	if metas := get(t, w.contentURL("sample", "/api/v1/metas?schema=olm.package")); bytes.Count(metas.body, []byte("\n")) != 3 {
		t.Errorf("/metas has the packages\n%s", metas.body)
	}

	from := len(w.registry.log(0))
	w.patchCatalog(t, "sample", including("skupper-operator"))
	checkSubset(t, w, "sample", blobs, "skupper-operator")
	w.kill(t)
	w.start(t)
	w.patchCatalog(t, "sample", including("skupper-operator", "dbaas-operator"))
	checkSubset(t, w, "sample", blobs, "skupper-operator", "dbaas-operator")

	w.patchCatalog(t, "sample", including("no-such-operator"))
	w.eventuallyCatalog(t, "sample", "refused", func(c *unstructured.Unstructured) error {
		if got, _ := conditionOf(c, "Ready"); got.status != "False" || got.reason != "FilterFailed" {
			return fmt.Errorf("Ready is %+v", got)
		}
		return nil
	})
	if got := get(t, w.contentURL("sample", "/api/v1/all")); string(got.body) != subsetOf(t, blobs, "skupper-operator", "dbaas-operator") {
		t.Error("a filter that leaves nothing changes the content")
	}
	w.patchCatalog(t, "sample", `{"spec":{"include":null}}`)
	w.waitReady(t, "sample", digest)
	w.eventuallyCatalog(t, "sample", "whole", func(c *unstructured.Unstructured) error {
		if got, _, _ := unstructured.NestedInt64(c.Object, "status", "content", "blobs"); got != int64(len(blobs)) {
			return fmt.Errorf("%d of %d blobs", got, len(blobs))
		}
		return nil
	})
	checkContent(t, w, "sample", blobs)
	if n := w.registry.pulls(from); n > 0 {
		t.Errorf("%d blobs were pulled again", n)
	}
}

// TestSubsetValidation tries rules that the API server refuses.
func TestSubsetValidation(t *testing.T) {
	for rule, want := range map[string]string{
		`"include":[]`: "include must not be empty",
		`"include":[{"package":"a","channels":["x"],"defaultChannel":"y"}]`: "defaultChannel is not in channels",
		`"include":[{"package":"a","minVersion":"1.2"}]`:                    "minVersion must be a semantic version",
		`"exclude":[{"package":"a","defaultChannel":"x"}]`:                  "name channels, or remove it",
		`"exclude":[{"channels":["x"]}]`:                                    "package",
	} {
		file := filepath.Join(t.TempDir(), "catalog.json")
		text := `{"apiVersion":"catalogd.operatorframework.io/v1beta1","kind":"CatalogSource","metadata":{"name":"refused"},"spec":{"image":"r.example/a:b",` + rule + `}}`
		must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
		if out, err := shared.Kubectl(t.Context(), "apply", "--dry-run=server", "-f", file); err == nil || !strings.Contains(out+err.Error(), want) {
			t.Errorf("%s: got %s%v, want %s", rule, out, err, want)
		}
	}
}

// TestSubsetOfCommunityCatalog measures what a subset of three packages takes, beside the whole catalog.
func TestSubsetOfCommunityCatalog(t *testing.T) {
	dir := os.Getenv("COMMUNITY_CATALOG")
	if dir == "" {
		t.Skip("COMMUNITY_CATALOG does not name the directory of a catalog")
	}
	blobs, err := readCatalog(dir)
	must.Succeed(t, err)
	var three []string
	for _, b := range blobs {
		if b.Schema == "olm.package" && len(three) < 3 {
			three = append(three, b.Name)
		}
	}
	for _, subset := range []bool{false, true} {
		w := newWorld(t, shared)
		ref, digest := w.registry.push(t, "community", catalogImage(t, dir))
		w.createCatalog(t, "community", ref, func(c *unstructured.Unstructured) {
			if subset {
				rules := []any{map[string]any{"package": three[0]}, map[string]any{"package": three[1]}, map[string]any{"package": three[2]}}
				must.Succeed(t, unstructured.SetNestedSlice(c.Object, rules, "spec", "include"))
			}
		})
		w.waitReady(t, "community", digest)
		w.signal(t, os.Interrupt)
		w.wait(t, patience)
		w.start(t) // without the garbage of the unpack
		eventually.Succeeds(t, "the catalog is served", func() error {
			got, err := tryGet(w.contentURL("community", "/api/v1/metas?schema=olm.package"))
			if err == nil && got.status != http.StatusOK {
				err = fmt.Errorf("status %d", got.status)
			}
			return err
		})
		t.Logf("subset: %t; %s; VmRSS %d MiB", subset, sizesOf(t, w.dataDir), w.memory(t, "VmRSS")>>20)
		w.close(t)
	}
}

// sizesOf returns the sizes of the directories of a volume.
func sizesOf(t *testing.T, dir string) string {
	t.Helper()
	sizes := map[string]int64{}
	must.Succeed(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		rel, _ := filepath.Rel(dir, name)
		top, _, _ := strings.Cut(rel, string(filepath.Separator))
		sizes[top] += info.Size()
		return err
	}))
	return fmt.Sprintf("snapshots %d KiB, whole %d KiB", sizes["snapshots"]>>10, sizes["whole"]>>10)
}
