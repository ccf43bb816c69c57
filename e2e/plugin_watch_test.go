package e2e

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// TestPluginWatches watches the digest of a catalog, a change, and the addition and deletion of another catalog; an
// interrupt ends the command without error.
func TestPluginWatches(t *testing.T) {
	w := pluginWorld(t)
	cmd := exec.CommandContext(t.Context(), pluginBinary(t), "watch", "-o", "json", "--request-timeout", "2s")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+w.Kubeconfig)
	out, err := cmd.StdoutPipe()
	must.Succeed(t, err)
	must.Succeed(t, cmd.Start())
	lines := bufio.NewScanner(out)
	type change struct {
		Type, Catalog, Digest   string
		Added, Changed, Removed []string
	}
	next := func() (c change) {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("it ended: %v", lines.Err())
		}
		must.Succeed(t, json.Unmarshal(lines.Bytes(), &c))
		return c
	}
	first := next()
	if first.Type != "digest" || first.Catalog != "sample" || first.Changed != nil {
		t.Errorf("at first %+v", first)
	}
	ref, digest := w.registry.push(t, "sample", catalogImage(t, changedSample(t)))
	w.plugin(t, "refresh", "sample").must(t)
	want := change{"digest", "sample", digest, []string{"new-operator"}, []string{"dbaas-operator"}, []string{"mercury-operator"}}
	if diff := cmp.Diff(want, next()); diff != "" {
		t.Error(diff)
	}
	w.createCatalog(t, "second", ref, nil)
	if diff := cmp.Diff(change{Type: "digest", Catalog: "second", Digest: digest}, next()); diff != "" {
		t.Error(diff)
	}
	w.plugin(t, "remove", "second", "--yes").must(t)
	if diff := cmp.Diff(change{Type: "removed", Catalog: "second"}, next()); diff != "" {
		t.Error(diff)
	}
	must.Succeed(t, cmd.Process.Signal(os.Interrupt))
	for lines.Scan() {
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after an interrupt: %v", err)
	}
	w.plugin(t, "watch", "smaple").fails(t, 3, `did you mean "sample"?`)
	w.plugin(t, "watch", "-o", "yaml").fails(t, 2, "json")
}

// TestPluginGetWatches continues a list with changed rows.
func TestPluginGetWatches(t *testing.T) {
	w := pluginWorld(t)
	cmd := exec.CommandContext(t.Context(), pluginBinary(t), "get", "channels", "-l", "catalog=sample", "--watch", "-o",
		"custom-columns=:.package.name,:.name,:.head.version", "--no-headers")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+w.Kubeconfig)
	out, err := cmd.StdoutPipe()
	must.Succeed(t, err)
	must.Succeed(t, cmd.Start())
	lines := bufio.NewScanner(out)
	next := func() string {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("it ended: %v", lines.Err())
		}
		return strings.Join(strings.Fields(lines.Text()), " ")
	}
	blobs, err := readCatalog(sampleCatalog)
	must.Succeed(t, err)
	for range countSchema(blobs, "olm.channel") {
		next()
	}
	w.registry.push(t, "sample", catalogImage(t, changedSample(t)))
	w.plugin(t, "refresh", "sample").must(t)
	var got []string
	for range 4 {
		got = append(got, next())
	}
	want := []string{"new-operator alpha 2.0.0", "mercury-operator 1.0.x 1.0.1", "mercury-operator dev 1.0.2", "mercury-operator stable 1.0.2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the channels of a package that is new, and of one that is gone (-want +got):\n%s", diff)
	}
	must.Succeed(t, cmd.Process.Signal(os.Interrupt))
	if err := cmd.Wait(); err != nil {
		t.Errorf("after an interrupt: %v", err)
	}
}
