package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	dockerref "go.podman.io/image/v5/docker/reference"
	"go.podman.io/image/v5/pkg/sysregistriesv2"
	imagetypes "go.podman.io/image/v5/types"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/operator-catalogs/catalogd/e2e/internal/system"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// mirrored is an image that a mirror must have.
type mirrored struct {
	ref    string // in the catalog
	digest string
}

// pushIndex pushes an index of images, one for each text, and returns its digest.
func pushIndex(t *testing.T, tag string, texts ...string) string {
	t.Helper()
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for i, text := range texts {
		image := mutate.MediaType(imageOf(t, filesLayer(t, map[string]string{"shared": "base"}), filesLayer(t, map[string]string{"text": text})), types.OCIManifestSchema1)
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: "linux", Architecture: []string{"amd64", "arm64"}[i%2]},
		}})
	}
	ref, err := name.NewTag(tag)
	must.Succeed(t, err)
	must.Succeed(t, remote.WriteIndex(ref, index))
	digest, err := index.Digest()
	must.Succeed(t, err)
	return digest.String()
}

// mirrorSources pushes a catalog with the packages app, which requires an API of db, and other; and the images of app and db to
// two registries that have a repository of the same name.
func mirrorSources(t *testing.T, catalog, one, two *imageRegistry) (ref string, images []mirrored) {
	t.Helper()
	bundle := func(r *imageRegistry, repository, text string) string {
		labels := maps.Clone(bundleLabels)
		labels["operators.operatorframework.io.bundle.package.v1"] = text
		_, digest := r.push(t, repository, labelled(t, labels, filesLayer(t, map[string]string{
			"manifests/cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + text + "\n",
		})))
		image := r.address + "/" + repository + "@" + digest
		images = append(images, mirrored{image, digest})
		return image
	}
	operand := func(r *imageRegistry, tag string, texts ...string) string {
		image := r.address + "/" + tag
		images = append(images, mirrored{image, pushIndex(t, image, texts...)})
		return image
	}
	const blob = `{"schema":"olm.package","name":%[1]q,"defaultChannel":"stable"}
{"schema":"olm.channel","package":%[1]q,"name":"stable","entries":[{"name":"%[1]s.v1.0.0"}]}
{"schema":"olm.bundle","package":%[1]q,"name":"%[1]s.v1.0.0","image":%[2]q,"relatedImages":[{"name":"operand","image":%[3]q}],"properties":[
{"type":"olm.package","value":{"packageName":%[1]q,"version":"1.0.0"}},{"type":"olm.csv.metadata","value":{"displayName":"Demo"}},%[4]s]}
`
	const api = `"value":{"group":"db.example","version":"v1","kind":"DB"}}`
	text := fmt.Sprintf(blob, "app", bundle(one, "ns/bundle", "app"), operand(one, "ns/operand:v1", "app amd64", "app arm64"), `{"type":"olm.gvk.required",`+api)
	text += fmt.Sprintf(blob, "db", bundle(two, "ns/bundle", "db"), operand(two, "ns/operand:v1", "db amd64", "db arm64"), `{"type":"olm.gvk",`+api)
	text += fmt.Sprintf(blob, "other", one.address+"/ns/gone:v1", one.address+"/ns/gone:v2", `{"type":"x","value":1}`)
	dir := t.TempDir()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "catalog.json"), []byte(text), 0o600))
	ref, _ = catalog.push(t, "catalogs/demo", catalogImage(t, dir))
	return ref, images
}

// TestPluginMirror mirrors a package with its dependency to an empty registry and to an archive, and stops all sources. catalogd
// serves the mirrored catalog, and every image is found by its digest through the printed mirrors.
func TestPluginMirror(t *testing.T) {
	w, one, two := newWorld(t, shared, "--bundle-content"), newRegistry(t), newRegistry(t)
	first, second := newDistribution(t, distributionConfig{auth: noAuth, tls: plainHTTP}), newRegistry(t)
	ref, images := mirrorSources(t, w.registry, one, two)
	signed := strings.Replace(images[0].digest, ":", "-", 1) + ".sig"
	_, signature := one.push(t, "ns/signature", labelled(t, nil, filesLayer(t, map[string]string{"signature": "x"})))
	tagAs(t, one.address+"/ns/signature@"+signature, one.address+"/ns/bundle:"+signed)
	w.createCatalog(t, "demo", ref, nil)
	w.waitReady(t, "demo", "")

	if list := w.plugin(t, "export", "demo", "app", "--images").must(t); list != images[0].ref+"\n"+images[1].ref+"\n" {
		t.Errorf("export lists\n%s", list)
	}
	plan := w.plugin(t, "mirror", "demo", "app", "--with-dependencies", "--to", first.address+"/m", "--dry-run")
	if lines := strings.Count(plan.must(t), "\n"); lines != 1+len(images) || strings.Contains(plan.stdout, "gone") {
		t.Errorf("the plan is\n%s", plan.stdout)
	}
	out := t.TempDir()
	manifests, archive := filepath.Join(out, "manifests"), filepath.Join(out, "demo.tar")
	run := w.plugin(t, "mirror", "demo", "app", "--with-dependencies", "--to", first.address+"/m", "-o", manifests)
	run.must(t)
	for _, want := range []string{
		`added for API db.example/v1/DB, required by app: db 1.0.0 of channel "stable"`,
		"4 images: 4 copied, 0 already there, 0 failed; 1 signature or other artifact",
		"catalog: " + first.address + "/m/demo:latest; it is a new image, so a signature of the original does not apply",
	} {
		if !strings.Contains(run.stderr, want) {
			t.Errorf("it does not say %q, but\n%s", want, run.stderr)
		}
	}
	again := w.plugin(t, "mirror", "demo", "app", "--with-dependencies", "--to", first.address+"/m", "-o", manifests)
	again.must(t)
	if !strings.Contains(again.stderr, "0 copied, 4 already there, 0 failed; 0 signatures and other artifacts; 0 B") {
		t.Errorf("the second run says\n%s", again.stderr)
	}
	w.plugin(t, "mirror", ref, "app", "--with-dependencies", "--to", archive).must(t)
	w.plugin(t, "mirror", "demo", "other", "--to", first.address+"/m").fails(t, 1, "/ns/gone:v1", "/ns/gone:v2", "the catalog was not pushed")

	w.registry.stop()
	one.stop()
	two.stop()
	w.plugin(t, "delete", "demo", "--yes").must(t)
	w.applyMirrored(t, filepath.Join(manifests, "catalogsource.yaml"))
	w.waitReady(t, "demo", "")
	for path, want := range map[string]int{
		"/api/v1/packages/app": http.StatusOK, "/api/v1/packages/db": http.StatusOK, "/api/v1/packages/other": http.StatusNotFound,
		"/api/v1/packages/app/bundles/app.v1.0.0/content": http.StatusOK, "/api/v1/packages/db/bundles/db.v1.0.0/content": http.StatusOK,
	} {
		if got := get(t, w.contentURL("demo", path)); got.status != want {
			t.Errorf("%s: %d, want %d: %s", path, got.status, want, got.body)
		}
	}
	resolveMirrored(t, filepath.Join(manifests, "registries.conf"), append(images,
		mirrored{one.address + "/ns/bundle:" + signed, signature}))
	checkMirrorSets(t, manifests, images)

	back := filepath.Join(out, "back")
	w.clusterless(t, "mirror", "--from", archive, "--to", second.address+"/other/prefix", "-o", back).must(t)
	resolveMirrored(t, filepath.Join(back, "registries.conf"), images)
	if digest := remoteDigest(t, second.address+"/other/prefix/demo:latest"); digest != remoteDigest(t, first.address+"/m/demo:latest") {
		t.Errorf("the catalog of the archive is another one: %s", digest)
	}
}

// tagAs gives an image another name in its registry.
func tagAs(t *testing.T, ref, as string) {
	t.Helper()
	from, err := name.ParseReference(ref)
	must.Succeed(t, err)
	to, err := name.NewTag(as)
	must.Succeed(t, err)
	image, err := remote.Image(from)
	must.Succeed(t, err)
	must.Succeed(t, remote.Write(to, image))
}

func remoteDigest(t *testing.T, ref string) string {
	t.Helper()
	parsed, err := name.ParseReference(ref)
	must.Succeed(t, err)
	head, err := remote.Head(parsed)
	must.Succeed(t, err)
	return head.Digest.String()
}

// applyMirrored creates the CatalogSource of a file.
func (w *world) applyMirrored(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	must.Succeed(t, err)
	object := &unstructured.Unstructured{}
	must.Succeed(t, yaml.Unmarshal(text, &object.Object))
	if object.GroupVersionKind() != system.CatalogKind {
		t.Fatalf("%s has\n%s", file, text)
	}
	must.Succeed(t, w.Create(t.Context(), object))
}

// resolveMirrored finds images as container runtimes do, with their library, and reads all of them.
func resolveMirrored(t *testing.T, conf string, images []mirrored) {
	t.Helper()
	access := &imagetypes.SystemContext{SystemRegistriesConfPath: conf, SystemRegistriesConfDirPath: filepath.Join(t.TempDir(), "none")}
	for _, image := range images {
		found, err := sysregistriesv2.FindRegistry(access, image.ref)
		must.Succeed(t, err)
		if found == nil {
			t.Errorf("%s: there is no mirror of %s", conf, image.ref)
			continue
		}
		named, err := dockerref.ParseNamed(image.ref)
		must.Succeed(t, err)
		places, err := found.PullSourcesFromReference(named)
		must.Succeed(t, err)
		at, err := name.ParseReference(places[0].Reference.String())
		must.Succeed(t, err)
		got, err := remote.Get(at)
		if err != nil {
			t.Errorf("%s at its mirror %s: %v", image.ref, at, err)
			continue
		}
		if got.Digest.String() != image.digest {
			t.Errorf("%s has the digest %s, want %s", at, got.Digest, image.digest)
		}
		if got.MediaType.IsIndex() {
			index, err := got.ImageIndex()
			must.Succeed(t, err)
			list, err := index.IndexManifest()
			must.Succeed(t, err)
			for _, d := range list.Manifests {
				content, err := index.Image(d.Digest)
				must.Succeed(t, err)
				must.Succeed(t, validate.Image(content))
			}
		} else {
			content, err := got.Image()
			must.Succeed(t, err)
			must.Succeed(t, validate.Image(content))
		}
	}
}

// checkMirrorSets requires that the mirror sets of OpenShift lead to each image.
func checkMirrorSets(t *testing.T, dir string, images []mirrored) {
	t.Helper()
	for _, image := range images {
		file, field := "imagetagmirrorset.yaml", "imageTagMirrors"
		if strings.Contains(image.ref, "@") {
			file, field = "imagedigestmirrorset.yaml", "imageDigestMirrors"
		}
		text, err := os.ReadFile(filepath.Join(dir, file))
		must.Succeed(t, err)
		asJSON, err := yaml.YAMLToJSON(text)
		must.Succeed(t, err)
		var set struct {
			Spec map[string][]struct {
				Source  string
				Mirrors []string
			}
		}
		must.Succeed(t, json.Unmarshal(asJSON, &set))
		found := false
		for _, m := range set.Spec[field] {
			if rest, ok := strings.CutPrefix(image.ref, m.Source+"/"); ok {
				found = remoteDigest(t, m.Mirrors[0]+"/"+rest) == image.digest
			}
		}
		if !found {
			t.Errorf("%s leads to no mirror of %s:\n%s", file, image.ref, text)
		}
	}
}
