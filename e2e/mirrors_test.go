package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/operator-catalogs/catalogd/e2e/internal/system"
)

// waitSource waits until status names the repository of the served content.
func (w *world) waitSource(t *testing.T, catalog, registry, repository, digest string) {
	t.Helper()
	w.eventuallyCatalog(t, catalog, "served from "+registry, func(c *unstructured.Unstructured) error {
		return wantString(c, registry+"/"+repository+"@"+digest, "status", "content", "source")
	})
}

// TestMirrors uses an image whose first mirror is down, and whose second mirror has the image only later.
func TestMirrors(t *testing.T) {
	dead, second, primary := system.FreeAddress(t), newRegistry(t), newRegistry(t)
	conf := writeFile(t, t.TempDir(), "registries.conf", fmt.Appendf(nil, `
[[registry]]
prefix = "%[1]s/ns"
location = "%[1]s/ns"
[[registry.mirror]]
location = "%[2]s/dead"
[[registry.mirror]]
location = "%[3]s/mirrored"
`, primary.address, dead, second.address))
	w := newWorld(t, shared, "--registries-conf", conf)
	ref, first := primary.push(t, "ns/catalog", catalogImage(t, tinyCatalog(t, "one")))
	w.createCatalog(t, "mirrored", ref, nil)
	w.waitReady(t, "mirrored", first)
	w.waitSource(t, "mirrored", primary.address, "ns/catalog", first)

	_, update := second.push(t, "mirrored/catalog", catalogImage(t, tinyCatalog(t, "two")))
	w.requestPoll(t, "mirrored", "the mirror has an image of its own")
	w.waitReady(t, "mirrored", update)
	w.waitSource(t, "mirrored", second.address, "mirrored/catalog", update)
	if body := string(get(t, w.contentURL("mirrored", "/api/v1/all")).body); !strings.Contains(body, "two") {
		t.Errorf("content: %s", body)
	}
	w.eventuallyCatalog(t, "mirrored", "found where its image is named", func(c *unstructured.Unstructured) error {
		return wantString(c, ref, "status", "image")
	})

	second.stop()
	primary.stop()
	w.askForPoll(t, "mirrored", "all are down")
	w.waitMessage(t, "mirrored", dead, second.address, primary.address)
}

// TestMirrorByDigestOnly requests only digests from a mirror; the image's own registry resolves the tag.
func TestMirrorByDigestOnly(t *testing.T) {
	mirror, primary := newRegistry(t), newRegistry(t)
	conf := writeFile(t, t.TempDir(), "registries.conf", fmt.Appendf(nil, `
[[registry]]
location = "%s"
mirror-by-digest-only = true
[[registry.mirror]]
location = "%s"
`, primary.address, mirror.address))
	image := catalogImage(t, tinyCatalog(t, "one"))
	ref, digest := primary.push(t, "ns/catalog", image)
	mirror.push(t, "ns/catalog", image)
	asked, tagsAsked := len(mirror.log(0)), len(primary.log(0))

	for name, test := range map[string]struct {
		args   []string
		fields map[string]any
	}{
		"by-conf": {args: []string{"--registries-conf", conf}},
		"by-spec": {fields: map[string]any{"mirrors": []any{map[string]any{
			"source": primary.address, "location": mirror.address, "pullFrom": "digest-only"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, shared, test.args...)
			w.createCatalog(t, name, ref, func(c *unstructured.Unstructured) {
				if test.fields != nil {
					withRegistry(t, test.fields)(c)
				}
			})
			w.waitReady(t, name, digest)
			w.waitSource(t, name, mirror.address, "ns/catalog", digest)
		})
	}
	for _, r := range mirror.log(asked) {
		if strings.HasSuffix(r.path, "/manifests/latest") {
			t.Errorf("a mirror for digests was asked %s %s", r.method, r.path)
		}
	}
	for _, r := range primary.log(tagsAsked) {
		if strings.Contains(r.path, "/blobs/") {
			t.Errorf("the image's own registry was asked %s %s, which the mirror has", r.method, r.path)
		}
	}
}

// TestBlockedRegistry requires that the message names the file that blocks a registry. The catalog recovers when
// the file changes.
func TestBlockedRegistry(t *testing.T) {
	registry := newRegistry(t)
	dir := t.TempDir()
	text := fmt.Sprintf("[[registry]]\nlocation = %q\nblocked = true\n", registry.address+"/ns")
	conf := writeFile(t, dir, "registries.conf", []byte(text))
	w := newWorld(t, shared, "--registries-conf", conf)
	ref, digest := registry.push(t, "ns/catalog", catalogImage(t, soundDir))
	other, otherDigest := registry.push(t, "nsother/catalog", catalogImage(t, soundDir))
	start := len(registry.log(0))
	w.createCatalog(t, "blocked", ref, nil)
	w.waitMessage(t, "blocked", "blocked", conf, registry.address)
	if log := registry.log(start); len(log) > 0 {
		t.Errorf("a blocked registry was asked: %v", log)
	}
	w.createCatalog(t, "allowed", other, nil)
	w.waitReady(t, "allowed", otherDigest)

	writeFile(t, dir, "registries.conf", []byte(strings.Replace(text, "blocked = true", "blocked = false", 1)))
	w.requestPoll(t, "blocked", "allowed now")
	w.waitReady(t, "blocked", digest)
}

// TestBrokenRegistriesConf starts catalogd with an invalid registries.conf. Stored content is served; a pull fails
// with the cause, and succeeds once the file is mended.
func TestBrokenRegistriesConf(t *testing.T) {
	registry, dir := newRegistry(t), t.TempDir()
	conf := writeFile(t, dir, "registries.conf", nil)
	w := newWorld(t, shared, "--registries-conf", conf)
	ref, digest := registry.push(t, "ns/catalog", catalogImage(t, soundDir))
	other, otherDigest := registry.push(t, "ns/other", catalogImage(t, tinyCatalog(t, "one")))
	w.createCatalog(t, "stored", ref, nil)
	w.waitReady(t, "stored", digest)
	w.signal(t, syscall.SIGTERM)
	w.wait(t, patience)

	writeFile(t, dir, "registries.conf", []byte("[[registry]\n"))
	w.start(t)
	w.createCatalog(t, "new", other, nil)
	w.waitMessage(t, "new", "--registries-conf", conf)
	if err := w.answers(w.contentURL("stored", "/api/v1/all"), http.StatusOK); err != nil {
		t.Error(err)
	}
	writeFile(t, dir, "registries.conf", nil)
	w.requestPoll(t, "new", "the file is mended")
	w.waitReady(t, "new", otherDigest)
}
