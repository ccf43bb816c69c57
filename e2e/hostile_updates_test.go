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

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// TestHostileUpdateKeepsServedContent pushes each archive of testdata/broken/archives, and other invalid images, over the image of a
// served catalog. Each refusal is reported, and the served content stays the same, byte by byte.
func TestHostileUpdateKeepsServedContent(t *testing.T) {
	w := newWorld(t, shared)
	updates := map[string]brokenCase{
		"no-label": {
			labelled(t, map[string]string{"example.com/label": "none"}, directoryLayer(t, soundDir)), refused(configsLabel, databaseLabel),
		},
		"no-database": {labelled(t, map[string]string{databaseLabel: "/configs/index.db"}, directoryLayer(t, soundDir)),
			refused("configs/index.db")},
		"database-that-is-none": {labelled(t, map[string]string{databaseLabel: "/configs/beside/catalog.json"}, directoryLayer(t, soundDir)),
			refused("configs/beside/catalog.json")},
		"label-out-of-the-image": {
			labelled(t, map[string]string{configsLabel: "/../../etc"}, directoryLayer(t, soundDir)), refused(configsLabel),
		},
	}
	for archive, verdict := range archiveVerdicts {
		updates[archive] = brokenCase{
			imageOf(t, archiveLayer(t, filepath.Join("testdata", "broken", "archives", archive)), directoryLayer(t, soundDir)), verdict,
		}
	}
	names := slices.Sorted(maps.Keys(updates))
	digests := map[string]string{}
	for _, name := range names {
		ref, digest := w.registry.push(t, "hostile/"+name, catalogImage(t, soundWith(t, name)))
		digests[name] = digest
		w.createCatalog(t, objectName(name), ref, nil)
	}
	w.waitTogether()
	etags := map[string]string{}
	for _, name := range names {
		w.waitReady(t, objectName(name), digests[name])
		etags[name] = get(t, w.contentURL(objectName(name), "/api/v1/all")).header.Get("ETag")
	}
	outside := outsideOf(t, w.dataDir)
	for _, name := range names {
		w.registry.push(t, "hostile/"+name, updates[name].image)
		w.askForPoll(t, objectName(name), "hostile")
	}
	w.waitTogether()
	for _, name := range names {
		t.Run(name, func(t *testing.T) { w.checkHostile(t, name, updates[name], digests[name], etags[name]) })
	}
	if !w.alive() {
		t.Error("catalogd has ended")
	}
	if now := outsideOf(t, w.dataDir); !slices.Equal(now, outside) {
		t.Errorf("something was written outside of catalogd's directory: %q, before %q", now, outside)
	}
}

func (w *world) checkHostile(t *testing.T, name string, update brokenCase, digest, etag string) {
	catalog := objectName(name)
	if update.verdict.blocked == nil {
		w.waitReady(t, catalog, mustDigest(t, update.image))
		return
	}
	w.eventuallyCatalog(t, catalog, "refused", func(c *unstructured.Unstructured) error {
		got, _ := conditionOf(c, "Progressing")
		if got.status != "False" || got.reason != "Blocked" {
			return fmt.Errorf("Progressing is %+v", got)
		}
		for _, part := range update.verdict.blocked {
			if !strings.Contains(got.message, part) {
				return fmt.Errorf("the message %q does not say %q", got.message, part)
			}
		}
		return errors.Join(wantCondition(c, "Serving", "True"), wantCondition(c, "Ready", "False"), wantString(c, digest, "status", "digest"))
	})
	if after := get(t, w.contentURL(catalog, "/api/v1/all")); after.status != http.StatusOK || after.header.Get("ETag") != etag {
		t.Errorf("what was served: status %d, ETag %s; want 200, %s", after.status, after.header.Get("ETag"), etag)
	}
	if n := len(w.packages(t, catalog)); n != 1 {
		t.Errorf("%d packages, want the 1 that was served", n)
	}
}

// outsideOf lists the files in dir and beside it, where an archive that escapes its stage would write.
func outsideOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	for _, d := range []string{filepath.Dir(dir), dir} {
		entries, err := os.ReadDir(d)
		must.Succeed(t, err)
		for _, entry := range entries {
			names = append(names, filepath.Join(d, entry.Name()))
		}
	}
	return names
}

func mustDigest(t *testing.T, image v1.Image) string {
	t.Helper()
	hash, err := image.Digest()
	must.Succeed(t, err)
	return hash.String()
}
