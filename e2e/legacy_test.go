package e2e

import (
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

const (
	databaseLabel = "operators.operatorframework.io.index.database.v1"
	databasePath  = "/configs/index.db" // where directoryLayer writes it
)

// TestLegacyIndex compares the content of an index image with an SQLite database with what `opm migrate` makes of
// the database.
func TestLegacyIndex(t *testing.T) {
	migrated := migratedByOPM(t)
	want, err := readCatalog(migrated)
	must.Succeed(t, err)

	w := newWorld(t, shared)
	ref, digest := w.registry.push(t, "legacy", legacyImage(t))
	w.createCatalog(t, "legacy", ref, nil)
	w.waitReady(t, "legacy", digest)
	got, err := parseFile(get(t, w.contentURL("legacy", "/api/v1/all")).body)
	must.Succeed(t, err)

	if diff := cmp.Diff(graphOf(t, want), graphOf(t, got)); diff != "" {
		t.Errorf("packages, channels, heads and bundles (-opm +catalogd):\n%s", diff)
	}
	wantBlobs, gotBlobs := blobsByName(t, want), blobsByName(t, got)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(wantBlobs)), slices.Sorted(maps.Keys(gotBlobs))); diff != "" {
		t.Fatalf("blobs (-opm +catalogd):\n%s", diff)
	}
	for name, value := range wantBlobs {
		for _, fault := range differences("", value, gotBlobs[name]) {
			t.Errorf("%s: %s", name, fault)
		}
	}
	checkPackagesListed(t, w, "legacy", want)
}

// migratedByOPM returns a directory with the catalog that `opm migrate` makes of the database.
func migratedByOPM(t *testing.T) string {
	t.Helper()
	migrated := filepath.Join(t.TempDir(), "migrated")
	cmd := exec.CommandContext(t.Context(), needed(t, "OPM", "hack/opm/build.sh"), "migrate", legacyDatabase(t), migrated)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("opm migrate: %v: %s", err, out)
	}
	return migrated
}

// legacyImage is an index image whose content is an SQLite database.
func legacyImage(t *testing.T) v1.Image {
	t.Helper()
	return labelled(t, map[string]string{databaseLabel: databasePath}, directoryLayer(t, filepath.Dir(legacyDatabase(t))))
}

// legacyDatabase returns the path of the database of an old index, alone in its directory.
func legacyDatabase(t *testing.T) string {
	t.Helper()
	database := filepath.Join(t.TempDir(), filepath.Base(databasePath))
	unzip(t, filepath.Join("..", "internal", "unpack", "testdata", "legacy", "index.db.gz"), database)
	return database
}

func unzip(t *testing.T, from, to string) {
	t.Helper()
	file, err := os.Open(from)
	must.Succeed(t, err)
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	must.Succeed(t, err)
	content, err := io.ReadAll(unzipped)
	must.Succeed(t, err)
	must.Succeed(t, os.WriteFile(to, content, 0o600))
}

// graph is the part of a package that resolvers read.
type graph struct {
	Default  string
	Heads    map[string]string   // by channel
	Entries  map[string][]string // by channel, sorted
	Bundles  []string            // sorted
	Versions map[string]string   // by bundle
}

func graphOf(t *testing.T, blobs []blob) map[string]graph {
	t.Helper()
	packages, err := sourcePackages(blobs)
	must.Succeed(t, err)
	graphs := map[string]graph{}
	for name, p := range packages {
		g := graph{Default: p.pkg.DefaultChannel, Heads: map[string]string{}, Entries: map[string][]string{}, Versions: map[string]string{}}
		for _, c := range p.channels {
			head, err := c.head()
			if err != nil {
				t.Fatalf("package %s, channel %s: %v", name, c.Name, err)
			}
			g.Heads[c.Name] = head
			for _, e := range c.Entries {
				g.Entries[c.Name] = append(g.Entries[c.Name], e.Name)
			}
			slices.Sort(g.Entries[c.Name])
		}
		g.Bundles = slices.Sorted(maps.Keys(p.bundles))
		for bundle, b := range p.bundles {
			g.Versions[bundle] = b.version()
		}
		graphs[name] = g
	}
	return graphs
}

// blobsByName decodes blobs, with the text of their numbers.
func blobsByName(t *testing.T, blobs []blob) map[string]any {
	t.Helper()
	found := map[string]any{}
	for _, b := range blobs {
		value, err := decodeExact(b.raw)
		must.Succeed(t, err)
		key := fmt.Sprintf("%s %s/%s", b.Schema, b.Package, b.Name)
		if _, twice := found[key]; twice {
			t.Fatalf("%s is there twice", key)
		}
		found[key] = value
	}
	return found
}
