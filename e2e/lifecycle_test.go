package e2e

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/e2e/internal/system"
	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// TestDeletedCatalogIsRemoved deletes one of two catalogs. Its packages, content and files are deleted, and those of the other stay.
func TestDeletedCatalogIsRemoved(t *testing.T) {
	w := newWorld(t, shared)
	kept, keptDigest := w.registry.push(t, "kept", catalogImage(t, sampleCatalog))
	w.createCatalog(t, "kept", kept, nil)
	w.waitReady(t, "kept", keptDigest)
	w.waitCompressed(t, "kept") // the last step of new content
	files := fileTimes(t, w.dataDir)

	ref, digest := w.registry.push(t, "gone", catalogImage(t, soundDir))
	w.createCatalog(t, "gone", ref, nil)
	w.waitReady(t, "gone", digest)
	if n := len(w.packages(t, "gone")); n != 1 {
		t.Fatalf("%d packages before the deletion, want 1", n)
	}
	if _, err := w.Kubectl(t.Context(), "delete", "catalogsource", "gone", "--timeout=60s"); err != nil {
		t.Fatal(err)
	}
	if err := w.gone(t, "gone"); err != nil {
		t.Error(err)
	}
	if n := len(w.packages(t, "gone")); n > 0 {
		t.Errorf("%d packages outlive their catalog", n)
	}
	eventually.Succeeds(t, "the content of the deleted catalog is not served", func() error {
		return w.answers(w.contentURL("gone", "/api/v1/all"), http.StatusNotFound)
	})
	eventually.Succeeds(t, "the files of the deleted catalog are gone", func() error { return sameFiles(t, w.dataDir, files) })
	if err := w.answers(w.contentURL("kept", "/api/v1/all"), http.StatusOK); err != nil {
		t.Errorf("the other catalog: %v", err)
	}
	if n := len(w.packages(t, "kept")); n == 0 {
		t.Error("the other catalog's packages are gone")
	}
}

// TestEditedPackagesAreRestored deletes and edits OperatorPackages. catalogd restores them, and writes no others.
func TestEditedPackagesAreRestored(t *testing.T) {
	const victim = "syndesis.sample"
	for name, command := range map[string][]string{
		"deleted": {"delete", "operatorpackage", victim},
		"edited":  {"patch", "operatorpackage", victim, "--type=merge", "-p", `{"spec":{"priority":99},"status":{"provider":{"name":"Evil"}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, shared)
			ref, digest := w.registry.push(t, "sample", catalogImage(t, sampleCatalog))
			w.createCatalog(t, "sample", ref, nil)
			w.waitReady(t, "sample", digest)
			before := w.packages(t, "sample")
			if _, err := w.Kubectl(t.Context(), command...); err != nil {
				t.Fatal(err)
			}
			eventually.Succeeds(t, "the package is as it was", func() error {
				now, ok := w.packages(t, "sample")[victim]
				if !ok {
					return errors.New("it is not there")
				}
				for _, part := range []string{"spec", "status"} {
					if faults := differences(part, before[victim].Object[part], now.Object[part]); len(faults) > 0 {
						return fmt.Errorf("it is different: %v", faults)
					}
				}
				return nil
			})
			checkOnlyChanged(t, before, w.packages(t, "sample"), victim)
		})
	}
}

// sameFiles compares the names below dir with earlier ones.
func sameFiles[V any](t *testing.T, dir string, before map[string]V) error {
	now := map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		now[path] = true
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed during the walk
		}
		return err
	})
	for path := range now {
		if _, ok := before[path]; !ok {
			err = errors.Join(err, fmt.Errorf("%s is still there", path))
		}
	}
	for path := range before {
		if !now[path] {
			t.Fatalf("%s of another catalog is gone", path)
		}
	}
	return err
}

// TestAvailability makes a catalog unavailable and available again.
func TestAvailability(t *testing.T) {
	w := newWorld(t, shared)
	ref, digest := w.registry.push(t, "sample", catalogImage(t, sampleCatalog))
	w.createCatalog(t, "sample", ref, nil)
	w.waitReady(t, "sample", digest)
	url := w.contentURL("sample", "/api/v1/all")
	before, packages := get(t, url), len(w.packages(t, "sample"))

	w.patchCatalog(t, "sample", `{"spec":{"availability":"Unavailable"}}`)
	eventually.Succeeds(t, "the content is withdrawn", func() error { return w.answers(url, http.StatusNotFound) })
	w.eventuallyCatalog(t, "sample", "withdrawn", func(c *unstructured.Unstructured) error {
		if got, _ := conditionOf(c, "Serving"); got.status != "False" || got.reason != "UserSpecifiedUnavailable" {
			return fmt.Errorf("Serving is %+v", got)
		}
		if n := len(w.packages(t, "sample")); n > 0 {
			return fmt.Errorf("%d packages are still there", n)
		}
		return nil
	})

	w.patchCatalog(t, "sample", `{"spec":{"availability":"Available"}}`)
	w.waitReady(t, "sample", digest)
	if after := get(t, url); after.status != http.StatusOK || after.header.Get("ETag") != before.header.Get("ETag") {
		t.Errorf("offered again: status %d, ETag %s; want 200, %s", after.status, after.header.Get("ETag"), before.header.Get("ETag"))
	}
	if n := len(w.packages(t, "sample")); n != packages {
		t.Errorf("offered again: %d packages, want %d", n, packages)
	}
}

// TestFailureAndRecovery pushes a broken image over a valid one, and then a valid one. The content stays,
// conditions name the fault, and events record each step.
func TestFailureAndRecovery(t *testing.T) {
	w := newWorld(t, shared)
	ref, first := w.registry.push(t, "story", catalogImage(t, soundDir))
	w.createCatalog(t, "story", ref, nil)
	w.waitReady(t, "story", first)
	url := w.contentURL("story", "/api/v1/all")
	etag := get(t, url).header.Get("ETag")

	_, second := w.registry.push(t, "story", brokenImage(t, "truncated-json"))
	w.requestPoll(t, "story", "broken")
	w.eventuallyCatalog(t, "story", "Blocked", func(c *unstructured.Unstructured) error {
		got, _ := conditionOf(c, "Progressing")
		if got.status != "False" || got.reason != "Blocked" || !strings.Contains(got.message, "foo/catalog.json") {
			return fmt.Errorf("Progressing is %+v", got)
		}
		return errors.Join(wantCondition(c, "Serving", "True"), wantCondition(c, "Ready", "False"), wantString(c, first, "status", "digest"))
	})
	if after := get(t, url); after.status != http.StatusOK || after.header.Get("ETag") != etag {
		t.Errorf("while %s is refused: status %d, ETag %s; want 200, %s", second, after.status, after.header.Get("ETag"), etag)
	}
	if n := len(w.packages(t, "story")); n != 1 {
		t.Errorf("while the image is refused: %d packages, want 1", n)
	}

	_, third := w.registry.push(t, "story", brokenImage(t, "multiple-heads"))
	w.requestPoll(t, "story", "one package invalid")
	w.waitReady(t, "story", third)
	w.registry.stop()
	w.askForPoll(t, "story", "unreachable")
	w.eventuallyCatalog(t, "story", "Retrying", func(c *unstructured.Unstructured) error {
		got, _ := conditionOf(c, "Progressing")
		if got.status != "True" || got.reason != "Retrying" || !strings.Contains(got.message, w.registry.address) {
			return fmt.Errorf("Progressing is %+v", got)
		}
		return wantCondition(c, "Serving", "True")
	})
	w.registry.start(t)
	w.waitReady(t, "story", third)
	eventually.Succeeds(t, "the events tell the story", func() error { return w.toldStory(t, "story", first, third) })
}

// toldStory looks for the events of TestFailureAndRecovery among those of the CatalogSource.
func (w *world) toldStory(t *testing.T, catalog, first, third string) error {
	t.Helper()
	out, err := w.Kubectl(t.Context(), "get", "events", "-A", "--field-selector",
		"involvedObject.kind=CatalogSource,involvedObject.name="+catalog,
		"-o", `jsonpath={range .items[*]}{.type} {.reason}: {.message}{"\n"}{end}`)
	if err != nil {
		return err
	}
	for what, parts := range map[string][]string{
		"new digest unpacked": {"Normal", first},
		"and the next":        {"Normal", third},
		"unpack failed":       {"Warning", "foo/catalog.json"},
		"invalid packages":    {"Warning", "foo", "multiple channel heads"},
		"recovered":           {"Normal", "ecovered"},
	} {
		if !hasLine(out, parts) {
			err = errors.Join(err, fmt.Errorf("no event %q (a line with %q)", what, parts))
		}
	}
	if err != nil {
		return fmt.Errorf("%w in:\n%s", err, out)
	}
	return nil
}

// hasLine reports whether a line of text contains all parts.
func hasLine(text string, parts []string) bool {
	for line := range strings.Lines(text) {
		found := true
		for _, p := range parts {
			found = found && strings.Contains(line, p)
		}
		if found {
			return true
		}
	}
	return false
}

// TestForeignPackageIsTakenOver creates an object with the name of an OperatorPackage, which catalogd takes over. An update of
// the image then removes the package, and the object with it.
func TestForeignPackageIsTakenOver(t *testing.T) {
	const name = "skupper-operator.sample"
	w := newWorld(t, shared)
	foreign := system.NewObject(system.PackageKind, name)
	foreign.Object["spec"] = map[string]any{"packageName": "skupper-operator", "catalog": "another"}
	must.Succeed(t, w.Create(t.Context(), foreign))
	t.Cleanup(func() { _ = w.Delete(context.Background(), foreign) })
	ref, first := w.registry.push(t, "sample", catalogImage(t, sampleCatalog))
	w.createCatalog(t, "sample", ref, nil)
	w.waitReady(t, "sample", first)
	taken := system.NewObject(system.PackageKind, name)
	must.Succeed(t, w.Get(t.Context(), client.ObjectKeyFromObject(taken), taken))
	if catalog, _, _ := unstructured.NestedString(taken.Object, "spec", "catalog"); catalog != "sample" || taken.GetUID() != foreign.GetUID() {
		t.Errorf("the OperatorPackage is of catalog %q, UID %s; want sample, %s", catalog, taken.GetUID(), foreign.GetUID())
	}

	_, second := w.registry.push(t, "sample", catalogImage(t, soundDir))
	w.requestPoll(t, "sample", "without")
	w.waitReady(t, "sample", second)
	eventually.Succeeds(t, "the package has gone", func() error {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(taken), taken); client.IgnoreNotFound(err) != nil || err == nil {
			return fmt.Errorf("getting it: %w", err)
		}
		return nil
	})
}
