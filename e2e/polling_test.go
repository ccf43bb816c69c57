package e2e

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/operator-catalogs/catalogd/e2e/internal/system"
	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// TestUnchangedDigestCostsOneRequest polls one digest twenty times: each poll costs one HEAD request and no write.
func TestUnchangedDigestCostsOneRequest(t *testing.T) {
	const polls = 20
	w := newWorld(t, shared)
	ref, digest := w.registry.push(t, "sample", catalogImage(t, sampleCatalog))
	w.createCatalog(t, "sample", ref, func(c *unstructured.Unstructured) {
		must.Succeed(t, unstructured.SetNestedField(c.Object, "1s", "spec", "pollingInterval"))
	})
	w.waitReady(t, "sample", digest)
	w.waitCompressed(t, "sample") // the last step of new content

	start := len(w.registry.log(0))
	files, versions, writes := fileTimes(t, w.dataDir), w.resourceVersions(t), w.writes(t)
	heads := func() int { return count(w.registry.log(start), http.MethodHead) }
	eventually.Succeeds(t, fmt.Sprintf("the digest was polled %d times", polls), func() error {
		if n := heads(); n < polls {
			return fmt.Errorf("%d HEAD requests so far", n)
		}
		return nil
	})

	log := w.registry.log(start)
	for _, r := range log {
		if r.method != http.MethodHead || !strings.Contains(r.path, "/manifests/") {
			t.Errorf("a poll of an unchanged digest sent %s %s", r.method, r.path)
		}
	}
	if diff := cmp.Diff(files, fileTimes(t, w.dataDir)); diff != "" {
		t.Errorf("files and their modification times (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(versions, w.resourceVersions(t)); diff != "" {
		t.Errorf("objects and their resource versions (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(writes, w.writes(t)); diff != "" {
		t.Errorf("write requests that the API server counted (-before +after):\n%s", diff)
	}
}

// TestDigestReferenceIsNotPolled requests a poll of an image reference by digest, which cannot change.
func TestDigestReferenceIsNotPolled(t *testing.T) {
	w := newWorld(t, shared)
	ref, digest := w.registry.push(t, "sample", catalogImage(t, sampleCatalog))
	w.createCatalog(t, "sample", strings.TrimSuffix(ref, ":latest")+"@"+digest, func(c *unstructured.Unstructured) {
		unstructured.RemoveNestedField(c.Object, "spec", "pollingInterval")
	})
	w.waitReady(t, "sample", digest)
	start := len(w.registry.log(0))
	w.requestPoll(t, "sample", "now")
	if log := w.registry.log(start); len(log) > 0 {
		t.Errorf("a digest reference was asked for again: %v", log)
	}
}

// TestPollRequest changes the image of a tag whose next poll is a day away, and requests a poll.
func TestPollRequest(t *testing.T) {
	w := newWorld(t, shared)
	ref, first := w.registry.push(t, "tiny", catalogImage(t, tinyCatalog(t, "one")))
	w.createCatalog(t, "tiny", ref, nil)
	w.waitReady(t, "tiny", first)

	_, second := w.registry.push(t, "tiny", catalogImage(t, tinyCatalog(t, "two")))
	w.requestPoll(t, "tiny", "a")
	w.waitReady(t, "tiny", second)
	if body := string(get(t, w.contentURL("tiny", "/api/v1/all")).body); !strings.Contains(body, "two") {
		t.Errorf("content after the poll: %s", body)
	}
	change, _, _ := unstructured.NestedString(w.catalog(t, "tiny").Object, "status", "poll", "lastChangeTime")
	if _, err := time.Parse(time.RFC3339, change); err != nil {
		t.Errorf("status.poll.lastChangeTime: %v", err)
	}

	start := len(w.registry.log(0))
	w.requestPoll(t, "tiny", "b")
	if n := count(w.registry.log(start), http.MethodHead); n != 1 {
		t.Errorf("a request to poll sent %d HEADs, want 1", n)
	}
}

// TestSuspend stops polling and keeps the content.
func TestSuspend(t *testing.T) {
	w := newWorld(t, shared)
	ref, digest := w.registry.push(t, "tiny", catalogImage(t, tinyCatalog(t, "one")))
	w.createCatalog(t, "tiny", ref, func(c *unstructured.Unstructured) {
		must.Succeed(t, unstructured.SetNestedField(c.Object, "1s", "spec", "pollingInterval"))
	})
	w.createCatalog(t, "other", ref, func(c *unstructured.Unstructured) {
		must.Succeed(t, unstructured.SetNestedField(c.Object, "1s", "spec", "pollingInterval"))
	})
	w.waitReady(t, "tiny", digest)
	w.waitReady(t, "other", digest)

	w.patchCatalog(t, "tiny", `{"spec":{"suspend":true}}`)
	w.eventuallyCatalog(t, "tiny", "observed as suspended", func(c *unstructured.Unstructured) error {
		if n, _, _ := unstructured.NestedInt64(c.Object, "status", "observedGeneration"); n != c.GetGeneration() {
			return fmt.Errorf("observed generation is %d, want %d", n, c.GetGeneration())
		}
		return nil
	})
	_, second := w.registry.push(t, "tiny", catalogImage(t, tinyCatalog(t, "two")))
	w.waitReady(t, "other", second) // a poll of tiny would have been due, too
	eventually.Succeeds(t, "the other catalog was polled thrice more", w.registry.polledSince(len(w.registry.log(0)), 3))
	if err := wantString(w.catalog(t, "tiny"), digest, "status", "digest"); err != nil {
		t.Errorf("suspended catalog: %v", err)
	}
	if err := w.answers(w.contentURL("tiny", "/api/v1/all"), http.StatusOK); err != nil {
		t.Errorf("suspended catalog: %v", err)
	}
	w.patchCatalog(t, "tiny", `{"spec":{"suspend":false}}`)
	w.waitReady(t, "tiny", second)
}

func (r *imageRegistry) polledSince(start, polls int) func() error {
	return func() error {
		if n := count(r.log(start), http.MethodHead); n < polls {
			return fmt.Errorf("%d polls so far", n)
		}
		return nil
	}
}

func count(log []request, method string) (n int) {
	for _, r := range log {
		if r.method == method {
			n++
		}
	}
	return n
}

// fileTimes returns the modification time of every file and directory below dir.
func fileTimes(t *testing.T, dir string) map[string]time.Time {
	t.Helper()
	times := map[string]time.Time{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		times[path] = info.ModTime()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return times
}

var (
	requestCount = regexp.MustCompile(`(?m)^apiserver_request_total\{(.*)\} ([0-9.e+]+)$`)
	writeVerb    = regexp.MustCompile(`verb="(POST|PUT|PATCH|APPLY|DELETE|DELETECOLLECTION)"`)
	ourResource  = regexp.MustCompile(`resource="(catalogsources|operatorpackages|events)"`)
)

// writes returns the number of write requests that the API server has counted for each resource that catalogd
// writes. Resource versions do not show all of them: a write without a change makes no new version.
func (w *world) writes(t *testing.T) map[string]int {
	t.Helper()
	text, err := w.Kubectl(t.Context(), "get", "--raw", "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, m := range requestCount.FindAllStringSubmatch(text, -1) {
		resource := ourResource.FindStringSubmatch(m[1])
		if resource == nil || !writeVerb.MatchString(m[1]) {
			continue
		}
		n, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			t.Fatalf("%s: %v", m[0], err)
		}
		counts[resource[1]] += int(n)
	}
	return counts
}

// resourceVersions returns those of all objects that catalogd may write.
func (w *world) resourceVersions(t *testing.T) map[string]string {
	t.Helper()
	versions := map[string]string{}
	for _, kind := range []schema.GroupVersionKind{system.CatalogKind, system.PackageKind, {Version: "v1", Kind: "Event"},
		{Group: "events.k8s.io", Version: "v1", Kind: "Event"}, {Version: "v1", Kind: "ConfigMap"}, {Version: "v1", Kind: "Secret"}} {
		list := system.NewList(kind)
		if err := w.List(context.Background(), list); err != nil {
			t.Fatal(err)
		}
		for _, item := range list.Items {
			versions[kind.Group+"/"+kind.Kind+" "+item.GetNamespace()+"/"+item.GetName()] = item.GetResourceVersion()
		}
	}
	return versions
}
