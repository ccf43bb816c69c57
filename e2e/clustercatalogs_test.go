package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/e2e/internal/system"
	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

const nameLabel = "olm.operatorframework.io/metadata.name"

// clusterCatalog returns a ClusterCatalog for an image; without minutes it is not polled.
func clusterCatalog(name, ref string, minutes int64) *unstructured.Unstructured {
	image := map[string]any{"ref": ref}
	if minutes > 0 {
		image["pollIntervalMinutes"] = minutes
	}
	c := system.NewObject(system.ClusterCatalogKind, name)
	c.Object["spec"] = map[string]any{"source": map[string]any{"type": "Image", "image": image}}
	return c
}

func (w *world) createClusterCatalog(t *testing.T, name, ref string) {
	t.Helper()
	must.Succeed(t, w.Create(t.Context(), clusterCatalog(name, ref, 60)))
}

func (w *world) clusterCatalog(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	c := system.NewObject(system.ClusterCatalogKind, name)
	must.Succeed(t, w.Get(t.Context(), client.ObjectKeyFromObject(c), c))
	return c
}

// waitServing waits until a ClusterCatalog is Serving with a digest.
func (w *world) waitServing(t *testing.T, name, digest string) *unstructured.Unstructured {
	t.Helper()
	var c *unstructured.Unstructured
	eventually.Succeeds(t, "ClusterCatalog "+name+" is Serving "+digest, func() error {
		c = w.clusterCatalog(t, name)
		if err := wantCondition(c, "Serving", "True"); err != nil {
			return fmt.Errorf("%w; conditions: %s", err, describeConditions(c))
		}
		if ref := resolvedRef(c); !strings.HasSuffix(ref, "@"+digest) {
			return fmt.Errorf("the resolved source is %q", ref)
		}
		return nil
	})
	return c
}

func resolvedRef(c *unstructured.Unstructured) string {
	ref, _, _ := unstructured.NestedString(c.Object, "status", "resolvedSource", "image", "ref")
	return ref
}

// newOLMWorld serves ClusterCatalogs over TLS, and CatalogSources; clients without credentials may read.
func newOLMWorld(t *testing.T) *world {
	t.Helper()
	return newProtectedWorld(t, "--cluster-catalogs", "--anonymous-read")
}

// casDir returns a directory with the CA of catalogd, found as kubectl operator finds it: under ca.crt in a Secret
// whose name begins with catalogd.
func (w *world) casDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	eventually.Succeeds(t, "the authority is published", func() error {
		text, err := w.Kubectl(t.Context(), "-n", namespace, "get", "secret", "catalogd-serving-ca", "-o",
			`go-template={{index .data "ca.crt" | base64decode}}`)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "ca.crt"), []byte(text), 0o600)
		}
		return err
	})
	return dir
}

// membersOf returns the packages, channels and bundles of a catalog.
func membersOf(cfg *declcfg.DeclarativeConfig) (members []string) {
	for _, p := range cfg.Packages {
		members = append(members, "package "+p.Name)
	}
	for _, c := range cfg.Channels {
		for _, e := range c.Entries {
			members = append(members, fmt.Sprintf("channel %s/%s: %s replaces %q", c.Package, c.Name, e.Name, e.Replaces))
		}
	}
	for _, b := range cfg.Bundles {
		members = append(members, "bundle "+b.Package+"/"+b.Name)
	}
	slices.Sort(members)
	return members
}

// TestClusterCatalogEvents watches a ClusterCatalog as a client does: the label comes first, and the digest, the URL and
// both conditions come together.
func TestClusterCatalogEvents(t *testing.T) {
	w := newOLMWorld(t)
	ref, first := w.registry.push(t, "watched", catalogImage(t, soundDir))
	changes := w.watchClusterCatalogs(t)
	w.createClusterCatalog(t, "watched", ref)
	w.waitServing(t, "watched", first)
	_, second := w.registry.push(t, "watched", catalogImage(t, sampleCatalog))
	annotate := fmt.Sprintf(`{"metadata":{"annotations":{%q:"now"}}}`, system.PollNow)
	must.Succeed(t, w.Patch(t.Context(), w.clusterCatalog(t, "watched"), client.RawPatch("application/merge-patch+json", []byte(annotate))))
	w.waitServing(t, "watched", second)
	available := `{"spec":{"availabilityMode":"Unavailable"}}`
	must.Succeed(t, w.Patch(t.Context(), w.clusterCatalog(t, "watched"), client.RawPatch("application/merge-patch+json", []byte(available))))
	refs, servingFirst := []string{}, ""
	for withdrawn := false; !withdrawn; {
		event := <-changes.ResultChan()
		c := event.Object.(*unstructured.Unstructured)
		serving, _ := conditionOf(c, "Serving")
		withdrawn = serving.reason == "UserSpecifiedUnavailable"
		if servingFirst == "" {
			servingFirst = serving.status
		}
		now := resolvedRef(c)
		if now == "" || c.GetGeneration() > 1 { // later statuses are about the former spec
			continue
		}
		if len(refs) == 0 || refs[len(refs)-1] != now {
			refs = append(refs, now)
		}
		progressing, _ := conditionOf(c, "Progressing")
		base, _, _ := unstructured.NestedString(c.Object, "status", "urls", "base")
		unpacked, _, _ := unstructured.NestedString(c.Object, "status", "lastUnpacked")
		if c.GetLabels()[nameLabel] != "watched" || serving.status != "True" || progressing.reason != "Succeeded" ||
			base == "" || unpacked == "" {
			t.Errorf("a version of the object has a digest, and not all that belongs to it: %v", c.Object)
		}
	}
	repository := strings.TrimSuffix(ref, ":latest")
	if diff := cmp.Diff([]string{repository + "@" + first, repository + "@" + second}, refs); diff != "" {
		t.Errorf("digests (-want +got):\n%s", diff)
	}
	if servingFirst != "False" {
		t.Errorf("the first status of Serving is %q; `kubectl operator catalog create` without --available waits for False", servingFirst)
	}
}

// watchClusterCatalogs watches until the test ends. The channel has room for all events of a test.
func (w *world) watchClusterCatalogs(t *testing.T) watch.Interface {
	t.Helper()
	watching, err := client.NewWithWatch(w.Admin, client.Options{})
	must.Succeed(t, err)
	changes, err := watching.Watch(t.Context(), system.NewList(system.ClusterCatalogKind))
	must.Succeed(t, err)
	t.Cleanup(changes.Stop)
	return changes
}

// TestAnonymousRead reads as the clients of OLM v1 do, without credentials; nothing else opens.
func TestAnonymousRead(t *testing.T) {
	w := newOLMWorld(t)
	_, port, err := net.SplitHostPort(w.content)
	must.Succeed(t, err)
	roots := w.authority(t)
	anonymous := newReader(&tls.Config{RootCAs: roots}, "")
	for path, want := range map[string]int{
		"/catalogs/sample/api/v1/all":                        http.StatusOK,
		"/catalogs/sample/api/v1/metas?schema=olm.package":   http.StatusOK,
		"/catalogs/other/api/v1/all":                         http.StatusNotFound,
		"/catalogs/sample/api/v1/packages":                   http.StatusUnauthorized,
		"/catalogs/sample/api/v1/graphql?query={__typename}": http.StatusUnauthorized,
		"/catalogs":          http.StatusUnauthorized,
		"/api/v1/search?q=x": http.StatusUnauthorized,
		"/catalogs/sample/api/v1/all/../packages":                http.StatusUnauthorized,
		"/catalogs/*/api/v1/all":                                 http.StatusUnauthorized,
		"/catalogs/sample/digests/sha256:0/api/v1/all":           http.StatusUnauthorized,
		"/catalogs/sample/api/v1/packages/skupper-operator/icon": http.StatusUnauthorized,
	} {
		// kubectl operator forwards the port to localhost, whose name the certificate must have.
		if got, _ := anonymous.get(t, "https://localhost:"+port+path); got.status != want {
			t.Errorf("GET %s: status %d, want %d: %s", path, got.status, want, got.body)
		}
	}
	wrong := newReader(&tls.Config{RootCAs: roots}, "garbage")
	if got, _ := wrong.get(t, "https://"+w.content+"/catalogs/sample/api/v1/all"); got.status != http.StatusUnauthorized {
		t.Errorf("with a wrong token: status %d, want 401", got.status)
	}
}

// TestUpstreamAtWork runs a small program that maintains the status of ClusterCatalogs as OLM v1's own catalogd does: it
// overwrites whatever is unlike its own.
func TestUpstreamAtWork(t *testing.T) {
	w := newOLMWorld(t)
	ref, digest := w.registry.push(t, "contested", catalogImage(t, soundDir))
	w.createClusterCatalog(t, "contested", ref)
	w.waitServing(t, "contested", digest)

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() { ended <- w.playUpstream(ctx, w.watchClusterCatalogs(t)) }()
	eventually.Succeeds(t, "catalogd says so", func() error {
		metrics, err := tryGet("http://" + w.metrics + "/metrics")
		if err == nil && !strings.Contains(string(metrics.body), `catalogd_contested{catalog="contested"} 1`) {
			err = errors.New("the metric is 0")
		}
		return err
	})
	before := w.clusterCatalog(t, "contested").GetResourceVersion()
	events, err := w.Kubectl(t.Context(), "get", "events.events.k8s.io", "-A", "-o", "jsonpath={.items[?(@.reason==\"Contested\")].note}")
	must.Succeed(t, err)
	if !strings.Contains(events, "Another program changed the status of this object after catalogd.") {
		t.Errorf("the events are %q", events)
	}
	// A pass that is requested by a change of the object writes nothing either.
	label := `{"metadata":{"labels":{"touched":"yes"}}}`
	must.Succeed(t, w.Patch(t.Context(), w.clusterCatalog(t, "contested"), client.RawPatch("application/merge-patch+json", []byte(label))))
	changed := w.clusterCatalog(t, "contested").GetResourceVersion()
	w.createClusterCatalog(t, "beside", ref) // a whole reconciliation later
	eventually.Succeeds(t, "another object is contested, too", func() error {
		return wantString(w.clusterCatalog(t, "beside"), "https://upstream.example/catalogs/beside", "status", "urls", "base")
	})
	if now := w.clusterCatalog(t, "contested").GetResourceVersion(); now != changed || changed == before {
		t.Errorf("resource version %s became %s", changed, now)
	}
	stop()
	if writes := <-ended; writes > 4 {
		t.Errorf("the program wrote %d times for two objects: the two undo each other's writes", writes)
	}
	annotate := fmt.Sprintf(`{"metadata":{"annotations":{%q:"now"}}}`, system.PollNow)
	must.Succeed(t, w.Patch(t.Context(), w.clusterCatalog(t, "contested"), client.RawPatch("application/merge-patch+json", []byte(annotate))))
	eventually.Succeeds(t, "catalogd serves it again", func() error {
		return wantString(w.clusterCatalog(t, "contested"), "https://"+w.content+"/catalogs/contested", "status", "urls", "base")
	})
}

// playUpstream overwrites statuses until ctx ends, and returns how often it did.
func (w *world) playUpstream(ctx context.Context, changes watch.Interface) (writes int) {
	for {
		select {
		case <-ctx.Done():
			return writes
		case event := <-changes.ResultChan():
			c, ok := event.Object.(*unstructured.Unstructured)
			if !ok || event.Type == watch.Deleted {
				continue
			}
			base, ref := "https://upstream.example/catalogs/"+c.GetName(), "upstream.example/x@sha256:"+strings.Repeat("0", 64)
			if wantString(c, base, "status", "urls", "base") == nil {
				continue
			}
			now := time.Now().UTC().Format(time.RFC3339)
			condition := func(kind, reason string) map[string]any {
				return map[string]any{"type": kind, "status": "True", "reason": reason, "message": "as upstream", "lastTransitionTime": now}
			}
			c.Object["status"] = map[string]any{
				"conditions":     []any{condition("Progressing", "Succeeded"), condition("Serving", "Available")},
				"urls":           map[string]any{"base": base},
				"resolvedSource": map[string]any{"type": "Image", "image": map[string]any{"ref": ref}},
				"lastUnpacked":   now,
			}
			if err := w.Status().Update(ctx, c, client.FieldOwner("catalogd")); err == nil {
				writes++
			}
		}
	}
}

// TestManyOfBothKinds has 100 catalogs of each kind: unchanged polls write nothing, and nothing of them is left.
func TestManyOfBothKinds(t *testing.T) {
	const each = 100
	w := newWorld(t, shared, "--cluster-catalogs")
	w.waitTogether()
	ref, digest := w.registry.push(t, "many", catalogImage(t, soundDir))
	var sources, clusters []string
	for i := range each {
		sources, clusters = append(sources, fmt.Sprintf("source-%d", i)), append(clusters, fmt.Sprintf("cluster.%d", i))
		w.createCatalog(t, sources[i], ref, func(c *unstructured.Unstructured) {
			must.Succeed(t, unstructured.SetNestedField(c.Object, "1m", "spec", "pollingInterval"))
		})
		must.Succeed(t, w.Create(t.Context(), clusterCatalog(clusters[i], ref, 1)))
	}
	for i := range each {
		w.waitReady(t, sources[i], digest)
		w.waitServing(t, clusters[i], digest)
	}
	versions := w.versionsOfAll(t)
	if len(versions) < 2*each+each {
		t.Errorf("%d objects, want those of %d catalogs and their packages", len(versions), 2*each)
	}
	w.signal(t, syscall.SIGTERM)
	w.wait(t, patience)
	w.start(t) // each image is polled once
	eventually.Succeeds(t, "all images were polled again", w.polledTimes(2*each))
	if diff := cmp.Diff(versions, w.versionsOfAll(t)); diff != "" {
		t.Errorf("unchanged polls wrote (-before +after):\n%s", diff)
	}
	must.Succeed(t, w.DeleteCatalogs(t.Context(), patience))
	eventually.Succeeds(t, "nothing is left", func() error {
		if left := w.versionsOfAll(t); len(left) > 0 {
			return fmt.Errorf("%d objects are left", len(left))
		}
		return w.noContent()
	})
}

// polledTimes returns a check that this process polled so many times without a failure.
func (w *world) polledTimes(want int) func() error {
	return func() error {
		metrics, err := tryGetBriefly("http://" + w.metrics + "/metrics")
		if err != nil {
			return err
		}
		polled := 0
		for line := range strings.Lines(string(metrics.body)) {
			if strings.HasPrefix(line, "catalogd_polls_total{") && strings.HasSuffix(strings.TrimSpace(line), `result="success"} 1`) {
				polled++
			}
		}
		if polled < want {
			return fmt.Errorf("%d catalogs are polled, want %d", polled, want)
		}
		return nil
	}
}

// versionsOfAll returns the resource versions of all catalogs and packages.
func (w *world) versionsOfAll(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, kind := range []schema.GroupVersionKind{system.CatalogKind, system.ClusterCatalogKind, system.PackageKind} {
		list := system.NewList(kind)
		must.Succeed(t, w.List(t.Context(), list))
		for _, item := range list.Items {
			out[kind.Kind+" "+item.GetName()] = item.GetResourceVersion()
		}
	}
	return out
}

// noContent returns an error while the data directory has content of a catalog. Content without a catalog is kept for a
// grace period, so that readers can finish.
func (w *world) noContent() error {
	return filepath.WalkDir(w.dataDir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.Contains(path, "/catalogs/") {
			err = fmt.Errorf("%s is left", path)
		}
		return err
	})
}

// TestWithoutClusterCatalogs runs on an API server without the CRD. Without the flag catalogd asks for nothing of OLM v1;
// with it, it says what is missing, serves CatalogSources, and goes on when the CRD is there.
func TestWithoutClusterCatalogs(t *testing.T) {
	plane, err := system.StartControlPlane("..")
	must.Succeed(t, err)
	t.Cleanup(func() { must.Succeed(t, plane.Stop()) })
	w := newWorld(t, plane)
	ref, digest := w.registry.push(t, "sample", catalogImage(t, soundDir))
	w.createCatalog(t, "sample", ref, nil)
	w.waitReady(t, "sample", digest)
	requests, err := requestsTo(plane)
	must.Succeed(t, err)
	for _, request := range requests {
		if right := wanted(request); right.Group == "olm.operatorframework.io" || right.Resource == "mutatingwebhookconfigurations" ||
			strings.Contains(right.Path, "olm.operatorframework.io") || right.Name == "catalogd-operator-lock" {
			t.Errorf("without --cluster-catalogs, catalogd asks to %s", right)
		}
	}

	w.kill(t)
	w.args = append(w.args, "--cluster-catalogs")
	w.start(t)
	eventually.Succeeds(t, "the log names the remedy", func() error {
		if !strings.Contains(w.log.String(), "apply config/crd/olmv1, or remove the flag") {
			return errors.New("it does not")
		}
		return nil
	})
	w.requestPoll(t, "sample", "now")
	must.Succeed(t, plane.InstallOLMv1(t.Context(), ".."))
	w.createClusterCatalog(t, "late", ref)
	w.waitServing(t, "late", digest)
	must.Succeed(t, w.Delete(t.Context(), w.clusterCatalog(t, "late")))
	eventually.Succeeds(t, "the deleted object is gone", func() error { return w.deleted(t, "late") })
}

// TestMirrored offers a CatalogSource to OLM v1.
func TestMirrored(t *testing.T) {
	w := newWorld(t, shared, "--cluster-catalogs")
	ref, digest := w.registry.push(t, "offered", catalogImage(t, soundDir))
	w.createCatalog(t, "offered", ref, func(c *unstructured.Unstructured) {
		must.Succeed(t, unstructured.SetNestedField(c.Object, true, "spec", "olmv1"))
	})
	w.waitReady(t, "offered", digest)
	mirror := w.waitServing(t, "offered", digest)
	must.Succeed(t, wantString(mirror, w.contentURL("offered", ""), "status", "urls", "base"))
	must.Succeed(t, wantCondition(w.catalog(t, "offered"), "ClusterCatalogSynced", "True"))
	must.Succeed(t, w.Delete(t.Context(), mirror)) // it comes back
	eventually.Succeeds(t, "it is there again", func() error {
		c := system.NewObject(system.ClusterCatalogKind, "offered")
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
			return err
		}
		if c.GetUID() == mirror.GetUID() {
			return errors.New("it is not deleted yet")
		}
		return wantCondition(c, "Serving", "True")
	})
	w.patchCatalog(t, "offered", `{"spec":{"olmv1":false}}`)
	eventually.Succeeds(t, "it is gone", func() error {
		c := system.NewObject(system.ClusterCatalogKind, "offered")
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(c), c); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is still there (%w)", err)
		}
		return nil
	})
}
