package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// TestPluginCommunity runs the plugin with a catalog of real size, from push to export.
func TestPluginCommunity(t *testing.T) {
	dir := os.Getenv("COMMUNITY_CATALOG")
	if dir == "" {
		t.Skip("COMMUNITY_CATALOG does not name the directory of a catalog")
	}
	blobs, err := readCatalog(dir)
	must.Succeed(t, err)
	w := newWorld(t, shared)
	ref := w.registry.address + "/community:latest"
	w.plugin(t, "push", dir, ref).must(t)
	w.plugin(t, "add", "community", ref, "--interval", "24h", "--wait").must(t)
	for command, lines := range map[string]int{
		"list --no-headers":                 1,
		"get packages --no-headers":         countSchema(blobs, "olm.package"),
		"get channels --all --no-headers":   countSchema(blobs, "olm.channel"),
		"get bundles --all --no-headers":    countSchema(blobs, "olm.bundle"),
		"get packages -c community -o name": countSchema(blobs, "olm.package"),
	} {
		if got := strings.Count(w.plugin(t, strings.Fields(command)...).must(t), "\n"); got != lines {
			t.Errorf("%s: %d lines, want %d", command, got, lines)
		}
	}
	first, _, _ := strings.Cut(strings.TrimSpace(w.plugin(t, "get", "packages", "-o", "custom-columns=:.name", "--no-headers").must(t)), "\n")
	first = strings.TrimSpace(first)
	for _, command := range []string{
		"describe community", "show " + first, "graph " + first, "graph " + first + " -o svg", "graph " + first + " -o dot",
		"graph " + first + " -o mermaid",
		"search " + first, "get deprecations", "query {catalogs{counts{bundles}}}", "get --raw /catalogs", "version", "refresh community --wait",
		"suspend community", "resume community", "lint " + dir, "lint " + ref,
	} {
		if out := w.plugin(t, strings.Fields(command)...).must(t); out == "" && command != "get deprecations" {
			t.Errorf("%s prints nothing", command)
		}
	}
	exported := filepath.Join(t.TempDir(), "exported")
	w.plugin(t, "export", "community", "-o", exported).must(t)
	w.plugin(t, "diff", "community", exported, "--exit-code").must(t) // compares the hashes of all blobs
	if out, err := exec.CommandContext(t.Context(), os.Getenv("OPM"), "validate", exported).CombinedOutput(); err != nil {
		t.Errorf("opm validate: %v: %s", err, out)
	}
	w.plugin(t, "remove", "community", "--yes").must(t)
}
