package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/e2e/internal/system"
	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// The tests of this file have what seldom happens, and what some rights of catalogd are for.

// TestWithoutStreamedLists has catalogd read as it does where the API server does not stream lists, which is so before Kubernetes
// 1.32 and in 1.33: by list, and a watch from there on.
func TestWithoutStreamedLists(t *testing.T) {
	t.Setenv("KUBE_FEATURE_WatchListClient", "false") // of client-go
	w := newWorld(t, shared)
	ref, digest := w.registry.push(t, "sample", catalogImage(t, sampleCatalog))
	w.createCatalog(t, "sample", ref, nil)
	w.waitReady(t, "sample", digest)
}

// TestForeignPackage has an object in the place of an OperatorPackage, which catalogd did not make and so does not know of: it is
// taken over. An update of the image then takes the package out, and the object with it.
func TestForeignPackage(t *testing.T) {
	const name = "skupper-operator.sample"
	w := newWorld(t, shared)
	foreign := system.NewObject(system.PackageKind, name)
	foreign.Object["spec"] = map[string]any{"packageName": "skupper-operator", "catalog": "another"}
	must.Succeed(t, w.Create(t.Context(), foreign))
	t.Cleanup(func() { _ = w.Delete(context.Background(), foreign) })
	ref, first := w.registry.push(t, "sample", catalogImage(t, sampleCatalog))
	w.createCatalog(t, "sample", ref, nil)
	w.waitReady(t, "sample", first)
	taken := system.NewObject(system.PackageKind, name)
	must.Succeed(t, w.Get(t.Context(), client.ObjectKeyFromObject(taken), taken))
	if catalog, _, _ := unstructured.NestedString(taken.Object, "spec", "catalog"); catalog != "sample" || taken.GetUID() != foreign.GetUID() {
		t.Errorf("the OperatorPackage is of catalog %q, UID %s; want sample, %s", catalog, taken.GetUID(), foreign.GetUID())
	}

	_, second := w.registry.push(t, "sample", catalogImage(t, soundDir))
	w.requestPoll(t, "sample", "without")
	w.waitReady(t, "sample", second)
	eventually.Succeeds(t, "the package has gone", func() error {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(taken), taken); client.IgnoreNotFound(err) != nil || err == nil {
			return fmt.Errorf("getting it: %w", err)
		}
		return nil
	})
}

// TestDamagedAuthority damages the Secret and the ConfigMap of catalogd's own authority: it makes another and publishes it.
func TestDamagedAuthority(t *testing.T) {
	w := newProtectedWorld(t)
	w.authority(t)
	damage := base64.StdEncoding.EncodeToString([]byte("damaged"))
	for _, patch := range [][]string{
		{"secret", "catalogd-serving-ca", fmt.Sprintf(`{"data":{"tls.crt":%q,"tls.key":%[1]q}}`, damage)},
		{"configmap", "catalogd-ca", `{"data":{"ca.crt":"damaged"}}`},
	} {
		_, err := w.Kubectl(t.Context(), "-n", namespace, "patch", patch[0], patch[1], "--type=merge", "-p", patch[2])
		must.Succeed(t, err)
	}
	w.signal(t, syscall.SIGTERM)
	w.wait(t, patience)
	w.start(t)
	w.authority(t)
}
