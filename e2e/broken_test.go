package e2e

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// besidePackage is the one package of soundDir.
const besidePackage = "beside"

var soundDir = filepath.Join("testdata", "sound")

// verdict is the expected outcome of a broken catalog.
type verdict struct {
	// blocked are parts of the message that refuses the whole image; nil means that the catalog is served.
	blocked []string
	// invalid maps each invalid package to a part of the reason.
	invalid map[string]string
	// packages are the published packages.
	packages []string
}

func refused(parts ...string) verdict { return verdict{blocked: parts} }

// without expects a served catalog with an invalid package; the valid package beside it is published.
func without(pkg, reason string) verdict {
	return verdict{invalid: map[string]string{pkg: reason}, packages: []string{besidePackage}}
}

// and adds another invalid package.
func (v verdict) and(pkg, reason string) verdict {
	v.invalid[pkg] = reason
	return v
}

// TestBrokenCatalogs creates a CatalogSource for each broken catalog of testdata/broken (see its README), all at
// once, beside a valid one. No content may crash the process or affect the valid catalog, and each fault must be
// reported.
func TestBrokenCatalogs(t *testing.T) {
	w := newWorld(t, shared)
	sound, digest := w.registry.push(t, "sound", catalogImage(t, sampleCatalog))
	w.createCatalog(t, "sound", sound, nil)
	w.waitReady(t, "sound", digest)
	url := w.contentURL("sound", "/api/v1/all")
	before, packages := get(t, url), w.packages(t, "sound")
	pid := w.cmd.Process.Pid

	cases := brokenCases(t)
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		ref, _ := w.registry.push(t, "broken/"+name, cases[name].image)
		w.createCatalog(t, objectName(name), ref, nil)
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) { checkVerdict(t, w, objectName(name), cases[name].verdict) })
	}

	if !w.alive() || w.cmd.Process.Pid != pid {
		t.Fatal("catalogd has ended")
	}
	if log := w.log.String(); strings.Contains(log, "panic") || strings.Contains(log, "goroutine 1") {
		t.Error("the log holds a panic")
	}
	if after := get(t, url); after.status != http.StatusOK ||
		after.header.Get("ETag") != before.header.Get("ETag") || string(after.body) != string(before.body) {
		t.Errorf("the valid catalog changed: status %d, ETag %s; want 200, %s", after.status, after.header.Get("ETag"), before.header.Get("ETag"))
	}
	checkOnlyChanged(t, packages, w.packages(t, "sound"), "")
	if err := w.answers("http://"+w.health+"/readyz", http.StatusOK); err != nil {
		t.Error(err)
	}
	if escaped, err := filepath.Glob(filepath.Join(w.dataDir, "*evil*")); err != nil || len(escaped) > 0 {
		t.Errorf("an archive wrote outside of its stage: %v %v", escaped, err)
	}
}

// objectName turns the name of a case, which may end in .tar.gz, into the name of a CatalogSource.
func objectName(name string) string {
	return "case-" + strings.ReplaceAll(name, ".", "-")
}

func checkVerdict(t *testing.T, w *world, name string, want verdict) {
	w.eventuallyCatalog(t, name, "judged", func(c *unstructured.Unstructured) error {
		progress, _ := conditionOf(c, "Progressing")
		if progress.reason == "Blocked" || progress.reason == "Succeeded" || progress.reason == "Retrying" {
			return nil
		}
		return fmt.Errorf("Progressing is %+v", progress)
	})
	if want.blocked != nil {
		checkRefused(t, w, name, want.blocked)
		return
	}
	w.waitReady(t, name, "")
	c := w.catalog(t, name)
	invalid := invalidPackages(c)
	for pkg, reason := range want.invalid {
		if got, ok := invalid[pkg]; !ok || !strings.Contains(got, reason) {
			t.Errorf("invalid package %q has the reason %q, want one with %q", pkg, got, reason)
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want.invalid)), slices.Sorted(maps.Keys(invalid))); diff != "" {
		t.Errorf("invalid packages (-want +got):\n%s%v", diff, invalid)
	}
	var names []string
	for _, object := range w.packages(t, name) {
		pkg, _, _ := unstructured.NestedString(object.Object, "spec", "packageName")
		names = append(names, pkg)
	}
	slices.Sort(names)
	if diff := cmp.Diff(want.packages, names); diff != "" {
		t.Errorf("published packages (-want +got):\n%s", diff)
	}
	if err := w.answers(w.contentURL(name, "/api/v1/all"), http.StatusOK); err != nil {
		t.Error(err)
	}
}

// checkRefused requires a permanent refusal, since the content of a digest never changes.
func checkRefused(t *testing.T, w *world, name string, parts []string) {
	t.Helper()
	c := w.catalog(t, name)
	got, _ := conditionOf(c, "Progressing")
	if got.status != "False" || got.reason != "Blocked" {
		t.Errorf("Progressing is %+v, want False with reason Blocked", got)
	}
	for _, part := range parts {
		if !strings.Contains(got.message, part) {
			t.Errorf("the message %q does not say %q", got.message, part)
		}
	}
	if err := errors.Join(wantCondition(c, "Ready", "False"), wantCondition(c, "Serving", "False")); err != nil {
		t.Error(err)
	}
	if n := len(w.packages(t, name)); n > 0 {
		t.Errorf("%d packages of a refused image are published", n)
	}
	if err := w.answers(w.contentURL(name, "/api/v1/all"), http.StatusServiceUnavailable); err != nil {
		t.Error(err)
	}
}

func invalidPackages(c *unstructured.Unstructured) map[string]string {
	found := map[string]string{}
	list, _, _ := unstructured.NestedSlice(c.Object, "status", "content", "invalidPackages")
	for _, item := range list {
		if m, ok := item.(map[string]any); ok {
			name, _ := m["name"].(string)
			reason, _ := m["reason"].(string)
			found[name] = reason
		}
	}
	return found
}

type brokenCase struct {
	image   v1.Image
	verdict verdict
}

// brokenCases builds the images of the corpus. A case without a verdict, or a verdict without a case, is an error.
func brokenCases(t *testing.T) map[string]brokenCase {
	t.Helper()
	cases := map[string]brokenCase{}
	root := filepath.Join("testdata", "broken")
	for name, verdict := range directoryVerdicts {
		cases[name] = brokenCase{brokenImage(t, name), verdict}
	}
	for name, verdict := range archiveVerdicts {
		layer := archiveLayer(t, filepath.Join(root, "archives", name))
		cases[name] = brokenCase{imageOf(t, layer, directoryLayer(t, soundDir)), verdict}
	}
	for _, dir := range []string{root, filepath.Join(root, "archives")} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			if _, ok := cases[entry.Name()]; !ok && entry.Name() != "README.md" && entry.Name() != "archives" {
				t.Errorf("%s has no verdict", entry.Name())
			}
		}
	}
	return cases
}

// brokenImage builds the image of a directory of the corpus, with the valid package in a layer above it.
func brokenImage(t *testing.T, name string) v1.Image {
	t.Helper()
	return imageOf(t, directoryLayer(t, filepath.Join("testdata", "broken", name)), directoryLayer(t, soundDir))
}

// archiveLayer makes a layer of the unchanged bytes of a .tar.gz file, even if it is not valid gzip.
func archiveLayer(t *testing.T, file string) v1.Layer {
	t.Helper()
	if layer, err := tarball.LayerFromFile(file); err == nil {
		return layer
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return static.NewLayer(content, types.DockerLayer)
}
