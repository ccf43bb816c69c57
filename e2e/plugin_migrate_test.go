package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/operator-framework/api/crds"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/e2e/internal/system"
	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// TestPluginMigrates applies the conversion of an OLM v0 CatalogSource.
func TestPluginMigrates(t *testing.T) {
	w := pluginWorld(t)
	made := w.plugin(t, "migrate", "-f", "../config/samples/olm-v0/catalogsource.yaml").must(t)
	checkGolden(t, "migrate/sample.yaml", made)
	apply := w.kubectl(t, "apply", "--dry-run=server", "-f", "-")
	apply.Stdin = strings.NewReader(made)
	if out, err := apply.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	w.plugin(t, "migrate", "--from-cluster", "-A").fails(t, 3, "does not have the CatalogSources of OLM v0")
	w.plugin(t, "migrate").fails(t, 2, "--from-cluster")
}

// TestPluginMigratesCluster reads the CatalogSources of a cluster with OLM v0, another kind with the same name,
// applies their conversion, and finds the existing ones unchanged.
func TestPluginMigratesCluster(t *testing.T) {
	w := pluginWorld(t)
	crd, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crds.CatalogSource())
	must.Succeed(t, err)
	olm := &unstructured.Unstructured{Object: crd}
	must.Succeed(t, w.Create(t.Context(), olm))
	t.Cleanup(func() {
		must.Succeed(t, w.Delete(context.Background(), olm)) // and its objects
		eventually.Succeeds(t, "the CRD is gone", func() error {
			if err := w.Get(context.Background(), client.ObjectKeyFromObject(olm), olm); !apierrors.IsNotFound(err) {
				return errors.Join(errors.New("it is not"), err)
			}
			return nil
		})
	})
	create := func(namespace, name string, spec map[string]any) {
		object := system.NewObject(schema.GroupVersionKind{Group: "operators.coreos.com", Version: "v1alpha1", Kind: "CatalogSource"}, name)
		object.SetNamespace(namespace)
		object.Object["spec"] = spec
		eventually.Succeeds(t, "the API server takes it", func() error { return w.Create(t.Context(), object) })
	}
	create("default", "certified", map[string]any{
		"sourceType":     "grpc",
		"image":          "registry.example.com/certified:v1",
		"secrets":        []any{"pull"},
		"priority":       int64(-200),
		"updateStrategy": map[string]any{"registryPoll": map[string]any{"interval": "10m"}},
	})
	create("kube-public", "certified", map[string]any{"sourceType": "grpc", "image": "registry.example.com/other:v1", "displayName": "Other"})
	create("default", "old", map[string]any{"sourceType": "configmap", "configMap": "packages"})

	one := w.plugin(t, "migrate", "--from-cluster", "-n", "kube-public").must(t)
	checkGolden(t, "migrate/namespace.yaml", one)
	w.plugin(t, "migrate", "--from-cluster", "-n", "kube-system").fails(t, 3, `namespace "kube-system"`, "--all-namespaces")
	all := w.plugin(t, "migrate", "--from-cluster", "-A")
	if all.code != 1 || !strings.Contains(all.stderr, "default/old cannot be converted") {
		t.Errorf("exit code %d, and it says %s", all.code, all.stderr)
	}
	checkGolden(t, "migrate/cluster.yaml", all.stdout)
	apply := w.kubectl(t, "apply", "-f", "-")
	apply.Stdin = strings.NewReader(all.stdout)
	if out, err := apply.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if got := strings.Fields(w.plugin(t, "list", "-o", "name").must(t)); len(got) != 3 {
		t.Errorf("there are %q, want two more than the sample", got)
	}
}
