package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/operator-catalogs/catalogd/e2e/internal/system"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// sampleCatalog is the small real catalog that `make run` serves.
var sampleCatalog = filepath.Join("..", "config", "samples", "catalog", "configs")

const (
	displayName = "A Catalog for Tests"
	publisher   = "The e2e Authors"
	priority    = 7
)

func TestSampleCatalog(t *testing.T) {
	testCatalog(t, "sample", sampleCatalog)
}

// TestCornerCases repeats TestSampleCatalog with a catalog of rules that real catalogs rarely need.
func TestCornerCases(t *testing.T) {
	testCatalog(t, "corners", filepath.Join("testdata", "corners"))
}

// TestCommunityCatalog repeats TestSampleCatalog with a catalog of real size.
func TestCommunityCatalog(t *testing.T) {
	dir := os.Getenv("COMMUNITY_CATALOG")
	if dir == "" {
		t.Skip("COMMUNITY_CATALOG does not name the directory of a catalog")
	}
	testCatalog(t, "community", dir)
}

// testCatalog compares a catalog's directory with everything that clients see of it.
func testCatalog(t *testing.T, name, dir string) {
	blobs, err := readCatalog(dir)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, shared)
	ref, digest := w.registry.push(t, name, catalogImage(t, dir))
	w.createCatalog(t, name, ref, func(c *unstructured.Unstructured) {
		c.SetLabels(catalogLabels())
		for field, value := range map[string]any{"displayName": displayName, "publisher": publisher, "priority": int64(priority)} {
			must.Succeed(t, unstructured.SetNestedField(c.Object, value, "spec", field))
		}
	})
	if out, err := w.Kubectl(t.Context(), "wait", "--for=condition=Ready", "--timeout=5m", "catalogsource/"+name); err != nil {
		t.Fatalf("waiting as a user does: %v%s", err, describeConditions(w.catalog(t, name)))
	} else if !strings.Contains(out, "condition met") {
		t.Fatalf("kubectl wait printed %q", out)
	}
	t.Run("status", func(t *testing.T) { checkCatalogStatus(t, w, name, digest, blobs) })
	t.Run("packages listed", func(t *testing.T) { checkPackagesListed(t, w, name, blobs) })
	t.Run("content equals source", func(t *testing.T) { checkContent(t, w, name, blobs) })
	t.Run("package status", func(t *testing.T) { checkPackages(t, w, name, blobs) })
}

func catalogLabels() map[string]string {
	return map[string]string{
		"team":              "e2e",
		"catalog":           "not-mine-to-say", // catalogd's own label wins
		"provider":          "overridden",
		"example.com/stage": "test",
	}
}

func checkCatalogStatus(t *testing.T, w *world, name, digest string, blobs []blob) {
	c := w.catalog(t, name)
	for path, want := range map[string]string{"digest": digest, "urls.base": "http://" + w.content + "/catalogs/" + name} {
		if err := wantString(c, want, append([]string{"status"}, strings.Split(path, ".")...)...); err != nil {
			t.Error(err)
		}
	}
	for field, want := range map[string]int{
		"packages": countSchema(blobs, "olm.package"),
		"channels": countSchema(blobs, "olm.channel"),
		"bundles":  countSchema(blobs, "olm.bundle"),
		"blobs":    len(blobs),
	} {
		if got, _, _ := unstructured.NestedInt64(c.Object, "status", "content", field); got != int64(want) {
			t.Errorf("status.content.%s is %d, want %d", field, got, want)
		}
	}
	if invalid, _, _ := unstructured.NestedSlice(c.Object, "status", "content", "invalidPackages"); len(invalid) > 0 {
		t.Errorf("invalid packages in a sound catalog: %v", invalid)
	}
	for kind, reason := range map[string]string{"Serving": "Available", "Progressing": "Succeeded"} {
		if got, _ := conditionOf(c, kind); got.status != "True" || got.reason != reason {
			t.Errorf("condition %s is %+v, want True with reason %s", kind, got, reason)
		}
	}
}

func countSchema(blobs []blob, schema string) (n int) {
	for _, b := range blobs {
		if b.Schema == schema {
			n++
		}
	}
	return n
}

// checkPackagesListed lists the packages as a user does.
func checkPackagesListed(t *testing.T, w *world, name string, blobs []blob) {
	out, err := w.Kubectl(t.Context(), "get", "operatorpackages", "-l", "catalog="+name, "-o", "name")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, b := range blobs {
		if b.Schema == "olm.package" {
			want = append(want, "operatorpackage."+system.APIGroup+"/"+b.Name+"."+name)
		}
	}
	got := strings.Fields(out)
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("packages (-source +kubectl):\n%s", diff)
	}
}

// checkContent compares each line of /all with the corresponding blob: JSON sources byte by byte once compacted,
// YAML sources as values with the text of their numbers.
func checkContent(t *testing.T, w *world, name string, blobs []blob) {
	response, err := http.Get(w.contentURL(name, "/api/v1/all"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if got := response.Header.Get("Content-Type"); response.StatusCode != http.StatusOK || got != "application/jsonl" {
		t.Fatalf("status %d, Content-Type %q; want 200, application/jsonl", response.StatusCode, got)
	}
	lines := bufio.NewReaderSize(response.Body, 1<<20)
	for i, b := range blobs {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			t.Fatalf("reading line %d of %d: %v", i+1, len(blobs), err)
		}
		if err := sameBlob(b, line[:len(line)-1]); err != nil {
			t.Fatalf("line %d (%s, %s %s/%s): %v", i+1, b.file, b.Schema, b.Package, b.Name, err)
		}
	}
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
		t.Errorf("more than the %d blobs of the source: %.200q (error %v)", len(blobs), rest, err)
	}
}

func sameBlob(b blob, line []byte) error {
	if !b.yaml {
		var compact bytes.Buffer
		if err := json.Compact(&compact, b.raw); err != nil {
			return err
		}
		if !bytes.Equal(compact.Bytes(), line) {
			return fmt.Errorf("not the bytes of the source, compacted: %s", firstDifference(compact.Bytes(), line))
		}
		return nil
	}
	want, err := decodeExact(b.raw)
	if err != nil {
		return err
	}
	got, err := decodeExact(line)
	if err != nil {
		return fmt.Errorf("served line: %w", err)
	}
	if !reflect.DeepEqual(want, got) {
		return fmt.Errorf("not the value of the source (or null for absent): %q", differences("", want, got))
	}
	return nil
}

func firstDifference(want, got []byte) string {
	i := 0
	for i < min(len(want), len(got)) && want[i] == got[i] {
		i++
	}
	around := func(b []byte) []byte { return b[max(0, min(i, len(b))-30):min(len(b), i+30)] }
	return fmt.Sprintf("at byte %d: want %q, got %q", i, around(want), around(got))
}

// checkPackages compares every field of every OperatorPackage with the blobs.
func checkPackages(t *testing.T, w *world, name string, blobs []blob) {
	packages, err := sourcePackages(blobs)
	if err != nil {
		t.Fatal(err)
	}
	objects := w.packages(t, name)
	from := wantStatus{CatalogSource: name, CatalogSourceNamespace: namespace,
		CatalogSourceDisplayName: displayName, CatalogSourcePublisher: publisher}
	owner := w.catalog(t, name)
	for _, pkg := range slices.Sorted(maps.Keys(packages)) {
		want, err := packages[pkg].expect(from, catalogLabels())
		if err != nil {
			t.Fatalf("package %s: the checker itself: %v", pkg, err)
		}
		object, ok := objects[pkg+"."+name]
		if !ok {
			t.Errorf("package %s has no OperatorPackage", pkg)
			continue
		}
		faults := slices.Concat(
			checkIdentity(object, pkg, owner),
			differences("metadata.labels", toAny(want.labels), withoutEmpty(toAny(object.GetLabels()))),
			checkStatus(object, want.status),
			checkURLs(w, object, want.icon),
		)
		for _, fault := range faults[:min(len(faults), 10)] {
			t.Errorf("package %s: %s", pkg, fault)
		}
	}
}

func checkIdentity(object unstructured.Unstructured, pkg string, owner *unstructured.Unstructured) []string {
	want := map[string]any{"packageName": pkg, "catalog": owner.GetName(), "priority": int64(priority)}
	faults := differences("spec", any(want), object.Object["spec"])
	for _, ref := range object.GetOwnerReferences() {
		if ref.UID == owner.GetUID() && ref.Kind == "CatalogSource" && ref.Controller != nil && *ref.Controller {
			return faults
		}
	}
	return append(faults, "not controlled by its CatalogSource")
}

// checkStatus compares all fields of status except those that catalogd adds to PackageManifest.
func checkStatus(object unstructured.Unstructured, want wantStatus) []string {
	status, _, _ := unstructured.NestedMap(object.Object, "status")
	main := want.Channels[slices.IndexFunc(want.Channels, func(c wantChannel) bool { return c.Name == want.DefaultChannel })]
	summary := map[string]any{
		"displayName": orElse(main.CurrentCSVDesc.DisplayName, want.PackageName),
		"catalog":     orElse(want.CatalogSourceDisplayName, want.CatalogSource),
		"channel":     want.DefaultChannel,
		"version":     main.CurrentCSVDesc.Version,
	}
	faults := differences("status.summary", any(summary), status["summary"])
	delete(status, "summary")
	delete(status, "urls")
	faults = append(faults, sortEqualVersions(status)...)
	return append(faults, differences("status", withoutEmpty(toAny(want)), withoutEmpty(status))...)
}

func orElse(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

// sortEqualVersions checks that entries descend by version, and then sorts entries of equal versions like the
// checker, since any order of these is valid.
func sortEqualVersions(status map[string]any) (faults []string) {
	channels, _ := status["channels"].([]any)
	for _, c := range channels {
		channel, _ := c.(map[string]any)
		entries, _ := channel["entries"].([]any)
		key := func(e any) wantEntry {
			m, _ := e.(map[string]any)
			name, _ := m["name"].(string)
			version, _ := m["version"].(string)
			return wantEntry{Name: name, Version: version}
		}
		for i := 1; i < len(entries); i++ {
			if compareVersions(key(entries[i-1]).Version, key(entries[i]).Version) < 0 {
				faults = append(faults, fmt.Sprintf("channel %v: entry %d has a higher version than the one before", channel["name"], i))
			}
		}
		slices.SortStableFunc(entries, func(a, b any) int { return byVersionThenName(key(a), key(b)) })
	}
	return faults
}

// checkURLs follows status.urls to the package's blobs and to the icon, which must have the bytes of the catalog.
func checkURLs(w *world, object unstructured.Unstructured, want icon) (faults []string) {
	packageURL, _, _ := unstructured.NestedString(object.Object, "status", "urls", "package")
	if err := w.answers(packageURL, http.StatusOK); err != nil {
		faults = append(faults, fmt.Sprintf("status.urls.package: %v", err))
	}
	iconURL, _, _ := unstructured.NestedString(object.Object, "status", "urls", "icon")
	if len(want.Data) == 0 {
		if iconURL != "" {
			faults = append(faults, "status.urls.icon is set for a package without an icon")
		}
		return faults
	}
	r, err := tryGet(iconURL)
	if err != nil || r.status != http.StatusOK || !bytes.Equal(r.body, want.Data) || r.header.Get("Content-Type") != want.MediaType {
		faults = append(faults, fmt.Sprintf("status.urls.icon %q: error %v, status %d, %d bytes of %q; want 200, the %d bytes of the source, %q",
			iconURL, err, r.status, len(r.body), r.header.Get("Content-Type"), len(want.Data), want.MediaType))
	}
	return faults
}
