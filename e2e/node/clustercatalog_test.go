package node

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/apis/olmv1"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// TestClusterCatalogs installs the component cluster-catalogs. Every replica serves a ClusterCatalog to clients without
// credentials, also while the leader is replaced and another image is rolled out.
func TestClusterCatalogs(t *testing.T) {
	const name = "olm.sample"
	ctx := t.Context()
	must.Succeed(t, olmv1.AddToScheme(scheme.Scheme))
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

	minutes := 60
	catalog := &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: name}}
	catalog.Spec.Source = olmv1.CatalogSource{Type: olmv1.SourceTypeImage, Image: &olmv1.ImageSource{
		Ref: registry + "/catalogs/" + installed.catalogs[0] + ":latest", PollIntervalMinutes: &minutes,
	}}
	must.Succeed(t, installed.Create(ctx, catalog))
	waitUntil(t, "the ClusterCatalog is Serving", func(ctx context.Context) error {
		if err := installed.Get(ctx, client.ObjectKeyFromObject(catalog), catalog); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(catalog.Status.Conditions, olmv1.ServingCondition) {
			return fmt.Errorf("status is %+v", catalog.Status)
		}
		return nil
	})
	if want := "https://" + service + "." + namespace + ".svc/catalogs/" + name; catalog.Status.URLs.Base != want {
		t.Errorf("the URL is %s, want %s", catalog.Status.URLs.Base, want)
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
			return fmt.Errorf("it has the finalizers %v", catalog.Finalizers)
		}
		return client.IgnoreNotFound(err)
	})
}
