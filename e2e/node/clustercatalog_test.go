package node

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// TestClusterCatalogs installs the component cluster-catalogs. Every replica serves a ClusterCatalog to clients without
// credentials, also while the leader is replaced and another image is rolled out.
func TestClusterCatalogs(t *testing.T) {
	const name = "olm.sample"
	ctx := t.Context()
	_, err := installed.kubectl(ctx, "create", "-k", filepath.Join(root, "config", "crd", "olmv1"))
	must.Succeed(t, err)
	settings := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "catalogd-cluster-catalogs"},
		Data:       map[string]string{"registry.yaml": "insecure: true\n"},
	}
	must.Succeed(t, installed.Create(ctx, settings))
	t.Cleanup(func() {
		if err := installed.roll(context.Background(), currentTag); err != nil {
			t.Error(err)
		}
	})
	must.Succeed(t, installed.roll(ctx, currentTag, "cluster-catalogs"))
	waitUntil(t, "every replica has the component", installed.allReady)

	catalog := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "olm.operatorframework.io/v1",
		"kind":       "ClusterCatalog",
		"metadata":   map[string]any{"name": name},
		"spec": map[string]any{"source": map[string]any{"type": "Image", "image": map[string]any{
			"ref": registry + "/catalogs/" + installed.catalogs[0] + ":latest", "pollIntervalMinutes": int64(60),
		}}},
	}}
	must.Succeed(t, installed.Create(ctx, catalog))
	waitUntil(t, "the ClusterCatalog is Serving", func(ctx context.Context) error {
		if err := installed.Get(ctx, client.ObjectKeyFromObject(catalog), catalog); err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(catalog.Object, "status", "conditions")
		if !holds(conditions, "Serving") {
			return fmt.Errorf("the conditions are %v", conditions)
		}
		return nil
	})
	url, _, _ := unstructured.NestedString(catalog.Object, "status", "urls", "base")
	if want := "https://" + service + "." + namespace + ".svc/catalogs/" + name; url != want {
		t.Errorf("the URL is %s, want %s", url, want)
	}
	waitUntil(t, "every replica serves it to clients without credentials", func(ctx context.Context) error {
		pods, err := installed.pods(ctx)
		if err != nil {
			return err
		}
		for _, pod := range pods {
			web, err := installed.clientOf(ctx, pod.Status.PodIP+":8443")
			if err != nil {
				return err
			}
			defer web.CloseIdleConnections()
			if _, err := (&reader{client: web}).get(ctx, "/catalogs/"+name+"/api/v1/all"); err != nil {
				return fmt.Errorf("%s: %w", pod.Name, err)
			}
		}
		return nil
	})

	installed.catalogs = append(installed.catalogs, name)
	defer func() { installed.catalogs = installed.catalogs[:len(installed.catalogs)-1] }()
	former, err := installed.leader(ctx)
	must.Succeed(t, err)
	whileReadingAs(t, "", func() {
		must.Succeed(t, installed.Delete(ctx, former))
		waitUntil(t, "the deleted Pod is replaced", replaced(former.Name, former.UID))
		must.Succeed(t, installed.roll(ctx, otherTag, "cluster-catalogs"))
		_, err := installed.kubectl(ctx, "-n", namespace, "rollout", "status", "statefulset/"+service, "--timeout=170s")
		must.Succeed(t, err)
	})

	must.Succeed(t, installed.Delete(ctx, catalog))
	waitUntil(t, "the deleted ClusterCatalog is gone", func(ctx context.Context) error {
		err := installed.Get(ctx, client.ObjectKeyFromObject(catalog), catalog)
		if err == nil {
			return fmt.Errorf("it has the finalizers %v", catalog.GetFinalizers())
		}
		return client.IgnoreNotFound(err)
	})
}
