package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/operator-catalogs/catalogd/e2e/internal/system"
	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// TestPluginClusterCatalogs runs the commands on a cluster that has the CRD of OLM v1 and the component cluster-catalogs.
func TestPluginClusterCatalogs(t *testing.T) {
	plane, err := system.StartControlPlane("..")
	must.Succeed(t, err)
	t.Cleanup(func() { must.Succeed(t, plane.Stop()) })
	before := &world{ControlPlane: plane}
	for _, args := range []string{"create -k ../config/crd/olmv1", "apply -k ../config/components/cluster-catalogs/rbac"} {
		if out, err := before.kubectl(t, strings.Fields(args)...).CombinedOutput(); err != nil {
			t.Fatalf("kubectl %s: %v: %s", args, err, out)
		}
	}
	t.Run("both kinds", func(t *testing.T) { testPluginOnBothKinds(t, newWorld(t, plane, "--cluster-catalogs")) })
	t.Run("one name", func(t *testing.T) { testPluginOnOneName(t, newWorld(t, plane, "--cluster-catalogs")) })
}

// testPluginOnBothKinds runs the commands on a ClusterCatalog beside a CatalogSource.
func testPluginOnBothKinds(t *testing.T, w *world) {
	image, digest := w.registry.push(t, "sample", catalogImage(t, sampleCatalog))
	w.createCatalog(t, "sample", image, func(c *unstructured.Unstructured) {
		must.Succeed(t, unstructured.SetNestedField(c.Object, true, "spec", "olmv1"))
	})
	w.waitReady(t, "sample", digest)
	added := w.plugin(t, "add", "olm.v1", image, "--kind", "clustercatalog", "--interval", "1h", "--priority", "5", "--wait").must(t)
	if want := "clustercatalog.olm.operatorframework.io/olm.v1 created\n"; !strings.HasPrefix(added, want) ||
		!strings.HasSuffix(added, `catalog "olm.v1" is ready: Serving desired content from resolved source`+"\n") {
		t.Errorf("add printed\n%s", added)
	}
	w.waitCompressed(t, "sample")
	for name, args := range map[string]string{
		"list":          "list",
		"list-names":    "list -o name",
		"describe":      "describe olm.v1",
		"describe-both": "describe sample",
		"get-packages":  "get packages -c olm.v1 -o name",
		"get-selected":  "get packages -l catalog=olm.v1 -o name",
		"show":          "show skupper-operator.olm.v1 -o jsonpath={.catalog.name}/{.version}",
		"search":        "search network -c clustercatalog/olm.v1",
		"graph":         "graph skupper-operator.olm.v1 --channel stable-1.6",
		"path":          "path skupper-operator.olm.v1 --from 1.5.3 --channel stable-1.6",
		"query":         "query -c olm.v1 {catalogs{name}}",
		"diff":          "diff clustercatalog/olm.v1 sample",
		"add-dry": "add second 127.0.0.1:5000/a/b --kind clustercatalog --suspend --dry-run=client " +
			"-o jsonpath={.metadata.annotations}{.spec}",
	} {
		t.Run(name, func(t *testing.T) {
			checkGolden(t, "clustercatalogs/"+name+".txt", withoutAges(w.plugin(t, strings.Fields(args)...).must(t)))
		})
	}
	testClusterCatalogRights(t, w)
	w.plugin(t, "export", "olm.v1", "skupper-operator", "-o", filepath.Join(t.TempDir(), "out")).must(t)
	w.plugin(t, "describe", "clustercatalog/sample").fails(t, 2, "specify catalogsource/sample")
	w.plugin(t, "add", "x", image, "--kind", "clustercatalog", "--schedule", "@daily").fails(t, 2, "--schedule")
	w.plugin(t, "add", "x", image, "--kind", "clustercatalog", "--display-name", "X").fails(t, 2, "--display-name")

	watched := startWatch(t, w, "clustercatalog/olm.v1")
	_, digest = w.registry.push(t, "sample", catalogImage(t, changedSample(t)))
	refreshed := w.plugin(t, "refresh", "clustercatalogs.olm.operatorframework.io/olm.v1", "--wait").must(t)
	if want := "1 package added, 1 changed, 1 removed"; !strings.Contains(refreshed, want) || !strings.Contains(refreshed, digest[7:19]) {
		t.Errorf("refresh printed\n%s", refreshed)
	}
	if line := watched(); !strings.Contains(line, "olm.v1            "+digest[7:19]+"  +new-operator ~dbaas-operator -mercury-operator") {
		t.Errorf("watch printed %q", line)
	}
	const object = "clustercatalog.olm.operatorframework.io/olm.v1 "
	for _, step := range [][2]string{
		{"suspend", "suspended"}, {"suspend", "already suspended"}, {"resume", "resumed"}, {"resume", "already resumed"},
	} {
		if got := w.plugin(t, step[0], "olm.v1").must(t); got != object+step[1]+"\n" {
			t.Errorf("%s: got %q", step[0], got)
		}
	}
	if got := w.plugin(t, "remove", "olm.v1", "--yes").must(t); got != object+"removed\ncatalog \"olm.v1\" deleted\n" {
		t.Errorf("remove printed %q", got)
	}
}

// startWatch starts the command watch, waits for its first line, and returns a function for the next.
func startWatch(t *testing.T, w *world, catalog string) func() string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), pluginBinary(t), "watch", catalog)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+w.Kubeconfig)
	out, err := cmd.StdoutPipe()
	must.Succeed(t, err)
	must.Succeed(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() }) // the context of the test has ended
	lines := bufio.NewScanner(out)
	next := func() string {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("watch ended: %v", lines.Err())
		}
		return lines.Text()
	}
	if first := next(); !strings.HasSuffix(first, "served") {
		t.Errorf("watch printed %q first", first)
	}
	return next
}

// testClusterCatalogRights gives a user one role after the other.
func testClusterCatalogRights(t *testing.T, w *world) {
	bind := func(role string) {
		t.Helper()
		out, err := w.kubectl(t, "create", "clusterrolebinding", "jane-"+role, "--clusterrole="+role, "--user=jane").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	lists := func(want string) {
		t.Helper()
		eventually.Succeeds(t, "the role has an effect", func() error {
			run := w.plugin(t, "list", "-o", "name", "--as", "jane")
			if run.stdout != want || run.stderr != "" {
				return fmt.Errorf("list printed %q, %q", run.stdout, run.stderr)
			}
			return nil
		})
	}
	bind("catalogd-packages-viewer")
	lists("catalogsource.catalogd.operatorframework.io/sample\n")
	bind("catalogd-cluster-catalogs-viewer")
	lists("clustercatalog.olm.operatorframework.io/olm.v1\ncatalogsource.catalogd.operatorframework.io/sample\n")
	w.plugin(t, "suspend", "olm.v1", "--as", "jane").fails(t, 1, "a binding to the ClusterRole catalogd-cluster-catalogs-editor")
	bind("catalogd-cluster-catalogs-editor")
	eventually.Succeeds(t, "the role has an effect", func() error {
		if run := w.plugin(t, "refresh", "olm.v1", "--as", "jane"); run.code != 0 {
			return errors.New(run.stderr)
		}
		return nil
	})
}

// testPluginOnOneName names catalogs of one name by their type, and converts them.
func testPluginOnOneName(t *testing.T, w *world) {
	image, digest := w.registry.push(t, "sample", catalogImage(t, sampleCatalog))
	w.createCatalog(t, "sample", image, nil)
	w.waitReady(t, "sample", digest)
	w.plugin(t, "migrate", "sample", "--to", "clustercatalog").fails(t, 2, "--name", "--same-name")
	apply := func(name string, args ...string) {
		t.Helper()
		run := w.plugin(t, append([]string{"migrate"}, args...)...)
		kubectl := w.kubectl(t, "apply", "-f", "-")
		kubectl.Stdin = strings.NewReader(run.must(t))
		if out, err := kubectl.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		checkGolden(t, "clustercatalogs/migrate-"+name+".txt", run.stdout+run.stderr)
	}
	waitFor := func(condition string) {
		t.Helper()
		out, err := w.kubectl(t, "wait", "--for="+condition, "--timeout=60s", "clustercatalog/sample").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	apply("to-v1", "sample", "--to", "clustercatalog", "--same-name")
	waitFor("condition=Serving=False")
	w.plugin(t, "describe", "sample").fails(t, 2, `"sample" is ambiguous: specify catalogsource/sample or clustercatalog/sample`)
	w.plugin(t, "refresh", "clustercatalog/sample", "--wait").fails(t, 1, "name sample belongs to CatalogSource sample")
	checkGolden(t, "clustercatalogs/list-clash.txt", withoutAges(w.plugin(t, "list").must(t)))
	if got := w.plugin(t, "get", "packages", "-c", "sample", "-o", "name").must(t); !strings.Contains(got, "skupper-operator") {
		t.Errorf("get packages printed\n%s", got)
	}
	w.plugin(t, "get", "packages", "-c", "clustercatalog/sample").fails(t, 1, "not served yet")
	w.plugin(t, "remove", "catd/sample", "--yes").must(t)
	waitFor("condition=Serving")
	apply("from-v1", "sample", "--to", "catalogsource", "--name", "moved")
	w.waitReady(t, "moved", digest)
	w.plugin(t, "remove", "sample", "--yes").must(t)
}
