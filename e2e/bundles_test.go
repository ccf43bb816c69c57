package e2e

import (
	"archive/tar"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// bundleLabels are those of a bundle of package demo.
var bundleLabels = map[string]string{
	"operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
	"operators.operatorframework.io.bundle.manifests.v1": "manifests/",
	"operators.operatorframework.io.bundle.metadata.v1":  "metadata/",
	"operators.operatorframework.io.bundle.package.v1":   "demo",
}

// tarLayer returns a layer compressed with gzip.
func tarLayer(t *testing.T, write func(*tar.Writer)) v1.Layer {
	t.Helper()
	file := filepath.Join(t.TempDir(), "layer.tar")
	out, err := os.Create(file)
	must.Succeed(t, err)
	archive := tar.NewWriter(out)
	write(archive)
	must.Succeed(t, archive.Close())
	must.Succeed(t, out.Close())
	layer, err := tarball.LayerFromFile(file)
	must.Succeed(t, err)
	return layer
}

func filesLayer(t *testing.T, files map[string]string) v1.Layer {
	t.Helper()
	return tarLayer(t, func(archive *tar.Writer) {
		for name, text := range files {
			must.Succeed(t, archive.WriteHeader(&tar.Header{Name: name, Size: int64(len(text)), Mode: 0o644}))
			_, err := io.WriteString(archive, text)
			must.Succeed(t, err)
		}
	})
}

// sampleManifests returns the manifests of the sample's bundles of shipwright-operator, by version and file.
func sampleManifests(t *testing.T) map[string]map[string]string {
	t.Helper()
	out := manifestsOf(t, sampleCatalog)
	if len(out) < 2 {
		t.Fatalf("the sample has the objects of %d bundles of shipwright-operator", len(out))
	}
	for _, files := range out {
		files["metadata/annotations.yaml"] = "annotations:\n  operators.operatorframework.io.bundle.package.v1: demo\n"
	}
	return out
}

// manifestsOf returns the manifests of the bundles whose objects a catalog has, by bundle and file.
func manifestsOf(t *testing.T, catalog string) map[string]map[string]string {
	t.Helper()
	blobs, err := readCatalog(catalog)
	must.Succeed(t, err)
	out := map[string]map[string]string{}
	for _, b := range blobs {
		var bundle struct {
			Schema, Package, Name string
			Properties            []struct {
				Type  string
				Value json.RawMessage
			}
		}
		must.Succeed(t, json.Unmarshal(b.raw, &bundle))
		if bundle.Schema != "olm.bundle" {
			continue
		}
		files := map[string]string{}
		for i, p := range bundle.Properties {
			if p.Type == "olm.bundle.object" {
				var object struct{ Data []byte }
				must.Succeed(t, json.Unmarshal(p.Value, &object))
				text, err := yaml.JSONToYAML(object.Data)
				must.Succeed(t, err)
				files[fmt.Sprintf("manifests/%02d.yaml", i)] = string(text)
			}
		}
		if len(files) > 0 {
			out[bundle.Name] = files
		}
	}
	return out
}

// bundleCatalog returns a catalog of package demo, whose bundles have these images by version.
func bundleCatalog(t *testing.T, images map[string]string) v1.Image {
	t.Helper()
	dir := t.TempDir()
	blobs := []string{`{"schema":"olm.package","name":"demo","defaultChannel":"c"}`}
	var entries []string
	for i, version := range slices.Sorted(maps.Keys(images)) {
		blobs = append(blobs, fmt.Sprintf(`{"schema":"olm.bundle","package":"demo","name":"demo.%s","image":%q,"properties":[`+
			`{"type":"olm.package","value":{"packageName":"demo","version":"0.%d.0"}},{"type":"olm.csv.metadata","value":{"displayName":"Demo"}}]}`, version, images[version], i))
		entry := fmt.Sprintf(`{"name":"demo.%s"}`, version)
		if i > 0 {
			entry = fmt.Sprintf(`{"name":"demo.%s","replaces":"demo.%s"}`, version, slices.Sorted(maps.Keys(images))[i-1])
		}
		entries = append(entries, entry)
	}
	blobs = append(blobs, fmt.Sprintf(`{"schema":"olm.channel","package":"demo","name":"c","entries":[%s]}`, strings.Join(entries, ",")))
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "catalog.json"), []byte(strings.Join(blobs, "\n")), 0o600))
	return catalogImage(t, dir)
}

func bundlePath(version, view string) string {
	return "/api/v1/packages/demo/bundles/demo." + version + "/" + view
}

// TestBundles pulls bundle images from a registry with a password.
func TestBundles(t *testing.T) {
	registry := newDistribution(t, distributionConfig{auth: basicAuth, tls: plainHTTP})
	manifests := sampleManifests(t)
	files := manifests["shipwright-operator.v0.13.0"]
	tag, _ := registry.push(t, "demo/tagged", labelled(t, bundleLabels, filesLayer(t, files)))
	pinned, digest := registry.push(t, "demo/pinned", labelled(t, bundleLabels, filesLayer(t, manifests["shipwright-operator.v0.9.0"])))
	late, _ := registry.push(t, "demo/late", labelled(t, bundleLabels, filesLayer(t, files)))
	ref, _ := registry.push(t, "ns/catalog", bundleCatalog(t, map[string]string{
		"v1": strings.TrimSuffix(pinned, ":latest") + "@" + digest, "v2": tag, "v3": late,
	}))
	w := newWorld(t, shared, "--bundle-content")
	w.writePullSecret(t, "bundles", map[string]string{registry.address: registryPassword})
	w.createCatalog(t, "private", ref, withRegistry(t, map[string]any{"pullSecrets": []any{map[string]any{"name": "bundles"}}}))
	w.waitReady(t, "private", "")

	var readers sync.WaitGroup
	for range 50 {
		readers.Go(func() {
			if err := w.answers(w.contentURL("private", bundlePath("v1", "content")), http.StatusOK); err != nil {
				t.Error(err)
			}
		})
	}
	readers.Wait()
	for name, text := range files {
		if got := get(t, w.contentURL("private", bundlePath("v2", "content/"+name))); string(got.body) != text {
			t.Errorf("%s has %d bytes, want %d", name, len(got.body), len(text))
		}
	}
	first := string(get(t, w.contentURL("private", bundlePath("v2", "content.tar"))).body)
	if again := string(get(t, w.contentURL("private", bundlePath("v2", "content.tar"))).body); again != first || !isTarOf(t, first, files) {
		t.Error("the tar differs from the files, or from request to request")
	}
	comparePermissions(t, w.contentURL("private", bundlePath("v2", "permissions")), files)

	w.kill(t)
	registry.stop()
	w.start(t)
	eventually.Succeeds(t, "stored content is served", func() error { return w.answers(w.contentURL("private", "/api/v1/all"), http.StatusOK) })
	for _, version := range []string{"v1", "v2"} {
		if err := w.answers(w.contentURL("private", bundlePath(version, "content.tar")), http.StatusOK); err != nil {
			t.Errorf("without the registry: %v", err)
		}
	}
	if again := string(get(t, w.contentURL("private", bundlePath("v2", "content.tar"))).body); again != first {
		t.Error("after a restart, the tar differs")
	}
	for _, gone := range []string{"content", "permissions"} {
		reply, err := tryGet(w.contentURL("private", bundlePath("v3", gone)))
		must.Succeed(t, err)
		if reply.status != http.StatusBadGateway && reply.status != http.StatusServiceUnavailable {
			t.Errorf("without the registry: a bundle that is not cached has status %d", reply.status)
		}
		if reply.status == http.StatusBadGateway && !strings.Contains(string(reply.body), registry.address) {
			t.Errorf("the error does not name the registry: %s", reply.body)
		}
	}
}

func isTarOf(t *testing.T, content string, files map[string]string) bool {
	t.Helper()
	got := map[string]string{}
	archive := tar.NewReader(strings.NewReader(content))
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return cmp.Equal(got, files)
		}
		must.Succeed(t, err)
		text, err := io.ReadAll(archive)
		must.Succeed(t, err)
		got[header.Name] = string(text)
	}
}

// comparePermissions compares the rules of a bundle with those that jq extracts of its files.
func comparePermissions(t *testing.T, url string, files map[string]string) {
	t.Helper()
	var objects bytes.Buffer
	for _, text := range files {
		object, err := yaml.YAMLToJSON([]byte(text))
		must.Succeed(t, err)
		objects.Write(append(object, '\n'))
	}
	jq := func(filter string, input string) string {
		t.Helper()
		cmd := exec.Command("jq", "-cSn", filter)
		cmd.Stdin = strings.NewReader(input)
		out, err := cmd.Output()
		must.Succeed(t, err)
		return string(out)
	}
	want := jq(`[inputs | select(.kind == "ClusterServiceVersion") | .spec.install.spec
		| ((.permissions // [])[] | {account: .serviceAccountName, scope: "Namespace", rule: .rules[]}),
		  ((.clusterPermissions // [])[] | {account: .serviceAccountName, scope: "Cluster", rule: .rules[]})] | sort`, objects.String())
	got := jq(`[inputs | .serviceAccounts[] | select(.name != "") | .name as $account
		| .grants[] | select(.from | test("^(clusterP|p)ermissions of ")) | .scope as $scope
		| {account: $account, scope: $scope, rule: .rules[] | del(.risks)}] | sort`,
		string(get(t, url).body))
	if got != want {
		t.Errorf("%s:\ngot  %s\nwant %s", url, got, want)
	}
}

// TestPrefetch makes images of the bundles of real catalogs, each of which is the head of a channel.
func TestPrefetch(t *testing.T) {
	catalogs := map[string]string{"sample": sampleCatalog}
	if dir := os.Getenv("COMMUNITY_CATALOG"); dir != "" {
		catalogs["community"] = dir
	}
	w := newWorld(t, shared, "--bundle-content")
	for name, dir := range catalogs {
		t.Run(name, func(t *testing.T) { prefetch(t, w, name, manifestsOf(t, dir)) })
	}
}

func prefetch(t *testing.T, w *world, catalog string, bundles map[string]map[string]string) {
	registry := newDistribution(t, distributionConfig{tls: plainHTTP})
	labels := maps.Clone(bundleLabels)
	delete(labels, "operators.operatorframework.io.bundle.package.v1")
	var blobs []string
	packages := map[string]string{} // by bundle
	for name, files := range bundles {
		packages[name] = fmt.Sprintf("p%d", len(packages))
		ref, digest := registry.push(t, "bundles/"+name, labelled(t, labels, filesLayer(t, files)))
		blobs = append(blobs, fmt.Sprintf(`{"schema":"olm.package","name":%q,"defaultChannel":"c"}
			{"schema":"olm.channel","package":%[1]q,"name":"c","entries":[{"name":%[2]q}]}
			{"schema":"olm.bundle","package":%[1]q,"name":%[2]q,"image":%[3]q,"properties":[{"type":"olm.package","value":
			{"packageName":%[1]q,"version":"1.0.0"}}]}`, packages[name], name, strings.TrimSuffix(ref, ":latest")+"@"+digest))
	}
	absent := registry.address + "/bundles/absent:v1"
	blobs = append(blobs, fmt.Sprintf(`{"schema":"olm.package","name":"absent","defaultChannel":"c"}
		{"schema":"olm.channel","package":"absent","name":"c","entries":[{"name":"absent"}]}
		{"schema":"olm.bundle","package":"absent","name":"absent","image":%q,"properties":[{"type":"olm.package","value":
		{"packageName":"absent","version":"1.0.0"}}]}`, absent))
	dir := t.TempDir()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "catalog.json"), []byte(strings.Join(blobs, "\n")), 0o600))
	ref, _ := registry.push(t, "ns/catalog", catalogImage(t, dir))
	w.createCatalog(t, catalog, ref, func(object *unstructured.Unstructured) {
		must.Succeed(t, unstructured.SetNestedField(object.Object, "heads", "spec", "prefetchBundles"))
	})
	eventually.Succeeds(t, "the heads are cached", func() error {
		got, _, _ := unstructured.NestedMap(w.catalog(t, catalog).Object, "status", "prefetch")
		message, _ := got["message"].(string)
		delete(got, "message")
		want := map[string]any{"bundles": int64(len(bundles) + 1), "cached": int64(len(bundles)), "failed": int64(1)}
		if !cmp.Equal(got, want) || !strings.Contains(message, absent) {
			return fmt.Errorf("status.prefetch is %v with message %q, want %v with one about %s", got, message, want, absent)
		}
		return nil
	})
	registry.stop()
	for name, files := range bundles {
		url := w.contentURL(catalog, "/api/v1/packages/"+packages[name]+"/bundles/"+name)
		if !isTarOf(t, string(get(t, url+"/content.tar").body), files) {
			t.Errorf("%s: the tar differs from the files", name)
		}
		comparePermissions(t, url+"/permissions", files)
	}
	t.Logf("%d bundles", len(bundles))
}

// Hostile images are refused within little memory, and leave nothing on the volume. No reference leads to a service of this
// machine.
func TestHostileBundles(t *testing.T) {
	w := newWorld(t, shared, "--bundle-content")
	inner := &connections{}
	inner.listen(t)
	images := map[string]string{
		"private1": "169.254.169.254/demo/x:v1", "private2": inner.address + "/demo/x:v1",
		"private3": "localhost" + inner.address[strings.LastIndexByte(inner.address, ':'):] + "/demo/x:v1", "private4": "10.0.0.1/demo/x:v1",
	}
	for name, layer := range hostileLayers(t) {
		ref, digest := w.registry.push(t, "demo/"+name, labelled(t, bundleLabels, layer))
		images[name] = strings.TrimSuffix(ref, ":latest") + "@" + digest
	}
	ref, digest := w.registry.push(t, "ns/catalog", bundleCatalog(t, images))
	w.createCatalog(t, "hostile", ref, nil)
	w.waitReady(t, "hostile", digest)
	url := func(version string) string { return w.contentURL("hostile", bundlePath(version, "content")) }
	_, _ = tryGet(url("links"))                                                                              // so that memory has what the first pull takes
	must.Succeed(t, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", w.cmd.Process.Pid), []byte("5"), 0o200)) // resets VmHWM
	before := w.memory(t, "VmRSS")
	texts := map[string]bool{}
	for _, version := range slices.Sorted(maps.Keys(images)) {
		reply, err := tryGet(url(version))
		must.Succeed(t, err)
		want := http.StatusUnprocessableEntity
		if strings.HasPrefix(version, "private") {
			want = http.StatusForbidden
			texts[string(reply.body)] = true
		}
		if reply.status != want {
			t.Errorf("%s: got status %d, want %d: %s", version, reply.status, want, reply.body)
		}
	}
	if len(texts) != 1 {
		t.Errorf("the refusals have different texts: %q", slices.Collect(maps.Keys(texts)))
	}
	peak := w.memory(t, "VmHWM")
	t.Logf("memory: %d MiB before, at most %d MiB", before>>20, peak>>20)
	if peak > before+64<<20 {
		t.Errorf("the memory grew from %d MiB to %d MiB, by more than 64 MiB", before>>20, peak>>20)
	}
	for _, dir := range []string{"bundles", "stage"} { // the stage also has what is being compressed
		eventually.Succeeds(t, dir+" is empty", func() error {
			entries, err := os.ReadDir(filepath.Join(w.dataDir, dir))
			if err == nil && len(entries) > 0 {
				err = fmt.Errorf("%s is left", entries[0].Name())
			}
			return err
		})
	}
	if n := inner.count(); n > 0 {
		t.Errorf("a service of this machine got %d connections", n)
	}
}

// hostileLayers returns layers that catalogd must refuse.
func hostileLayers(t *testing.T) map[string]v1.Layer {
	t.Helper()
	header := func(archive *tar.Writer, h tar.Header) { must.Succeed(t, archive.WriteHeader(&h)) }
	zeros := func(archive *tar.Writer, name string, size int64) {
		header(archive, tar.Header{Name: name, Size: size, Mode: 0o644})
		_, err := io.CopyN(archive, zeroReader{}, size)
		must.Succeed(t, err)
	}
	noise := make([]byte, 17<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise) // never fails
	return map[string]v1.Layer{
		"gibibyte": tarLayer(t, func(a *tar.Writer) { zeros(a, "manifests/large.yaml", 1<<30) }),
		"ratio":    tarLayer(t, func(a *tar.Writer) { zeros(a, "other", 1<<30); zeros(a, "manifests/x.yaml", 1) }),
		"large":    static.NewLayer(noise, types.DockerLayer),
		"files": tarLayer(t, func(a *tar.Writer) {
			for i := range 100_000 {
				header(a, tar.Header{Name: fmt.Sprintf("manifests/%d.yaml", i)})
			}
		}),
		"links": tarLayer(t, func(a *tar.Writer) {
			header(a, tar.Header{Typeflag: tar.TypeSymlink, Name: "manifests/x.yaml", Linkname: "/etc/passwd"})
		}),
		"outside": tarLayer(t, func(a *tar.Writer) { header(a, tar.Header{Name: "manifests/../../../x.yaml"}) }),
	}
}

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// connections counts the connections to an address of this machine.
type connections struct {
	address string

	mu sync.Mutex
	n  int
}

func (c *connections) listen(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	c.address = listener.Addr().String()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			c.mu.Lock()
			c.n++
			c.mu.Unlock()
			_ = conn.Close()
		}
	}()
}

func (c *connections) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// A reader of the content needs the ClusterRole catalogd-bundle-reader to read, or to pull, a bundle image.
func TestBundleRights(t *testing.T) {
	w := newProtectedWorld(t, "--bundle-content")
	ref, digest := w.registry.push(t, "demo/v1", labelled(t, bundleLabels, filesLayer(t, map[string]string{"manifests/x.yaml": "x"})))
	ref, digest = w.registry.push(t, "ns/catalog", bundleCatalog(t, map[string]string{"v1": strings.TrimSuffix(ref, ":latest") + "@" + digest}))
	w.createCatalog(t, "demo", ref, nil)
	w.waitReady(t, "demo", digest)
	_, err := w.Kubectl(t.Context(), "apply", "-k", filepath.Join("..", "config", "components", "bundle-content", "rbac"))
	must.Succeed(t, err)
	ca := &tls.Config{RootCAs: w.authority(t)}
	path := "https://" + w.content + "/catalogs/demo" + bundlePath("v1", "content/manifests/x.yaml")
	pushed := len(w.registry.log(0))

	without := newReader(ca, w.serviceAccountToken(t, "reader-of-content", "catalogd-content-reader"))
	got, _ := without.get(t, path)
	if want := `cannot get path "/bundle-content/demo"; an admin can bind ClusterRole catalogd-bundle-reader to the user`; got.status != http.StatusForbidden ||
		!strings.Contains(string(got.body), want) {
		t.Errorf("without the right: got status %d: %s", got.status, got.body)
	}
	if requests := w.registry.log(pushed); len(requests) > 0 {
		t.Errorf("without the right, catalogd sends %v", requests)
	}
	only := newReader(ca, w.serviceAccountToken(t, "reader-of-bundles", "catalogd-bundle-reader"))
	if got, _ := only.get(t, path); got.status != http.StatusForbidden {
		t.Errorf("without the right to the content: got status %d", got.status)
	}
	with := newReader(ca, w.serviceAccountToken(t, "reader-of-both", "catalogd-content-reader", "catalogd-bundle-reader"))
	if got, _ := with.get(t, path); got.status != http.StatusOK || string(got.body) != "x" {
		t.Errorf("with both rights: got status %d: %s", got.status, got.body)
	}
	if got, _ := without.get(t, path); got.status != http.StatusForbidden {
		t.Errorf("a cached bundle, without the right: got status %d", got.status)
	}
}
