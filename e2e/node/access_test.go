package node

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// readerToken is the token of a service account that may read all catalogs.
func readerToken(t *testing.T) string {
	t.Helper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "e2e-reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "catalogd-content-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: clientNamespace, Name: "reader"}},
	}
	must.Succeed(t, client.IgnoreAlreadyExists(installed.Create(t.Context(), binding)))
	token, err := installed.token(t.Context(), "reader")
	must.Succeed(t, err)
	return token
}

// TestInstalled requires that every replica serves the same content of every catalog.
func TestInstalled(t *testing.T) {
	waitUntil(t, "all replicas and catalogs are ready", installed.allReady)
	pods, err := installed.pods(t.Context())
	must.Succeed(t, err)
	token := readerToken(t)
	var first content
	for _, pod := range pods {
		var known content
		waitUntil(t, pod.Name+" serves all catalogs", func(ctx context.Context) (err error) {
			known, err = installed.learn(ctx, pod.Status.PodIP+":8443", token)
			return err
		})
		if first == nil {
			first = known
		}
		if diff := cmp.Diff(first, known, cmp.AllowUnexported(answer{})); diff != "" {
			t.Errorf("%s serves other content than %s (-, +):\n%s", pod.Name, pods[0].Name, diff)
		}
	}
}

// TestAccess reads from a Pod through the Service, by its name, with and without the right to read.
func TestAccess(t *testing.T) {
	readerToken(t) // creates its account with the right to read
	_, err := installed.token(t.Context(), "stranger")
	must.Succeed(t, err)
	image := pushClient(t)
	installed.publishAuthority(t)
	for _, c := range []struct {
		who, account string
		withToken    bool
		want         string
	}{
		{"a reader", "reader", true, "200, "},
		{"an account without the role", "stranger", true, "403, "},
		{"an anonymous client", "reader", false, "401, "},
	} {
		t.Run(c.who, func(t *testing.T) {
			got := installed.runClient(t, image, c.account, c.withToken)
			if !strings.HasPrefix(got, c.want) {
				t.Errorf("the client got %q, want %q", got, c.want)
			}
		})
	}
}

// pushClient returns the name of an image of e2e/node/client.
func pushClient(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "client")
	build := exec.Command("go", "build", "-o", binary, "./client")
	build.Stderr = os.Stderr
	must.Succeed(t, build.Run())
	img, err := oneBinary(binary)
	must.Succeed(t, err)
	must.Succeed(t, installed.push(t.Context(), img, "e2e/client:1"))
	return registry + "/e2e/client:1"
}

// publishAuthority copies catalogd's authority to the namespace of the clients, as Pods can only mount ConfigMaps
// of their own.
func (i *installation) publishAuthority(t *testing.T) {
	t.Helper()
	published := &corev1.ConfigMap{}
	must.Succeed(t, i.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "catalogd-ca"}, published))
	must.Succeed(t, i.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: clientNamespace, Name: "catalogd-ca"},
		Data:       published.Data,
	}))
}

// runClient runs a Pod to completion and returns its output.
func (i *installation) runClient(t *testing.T, image, account string, withToken bool) string {
	t.Helper()
	url := fmt.Sprintf("https://%s.%s.svc/catalogs/%s/api/v1/all", service, namespace, i.catalogs[0])
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: clientNamespace, GenerateName: "client-"},
		Spec: corev1.PodSpec{
			ServiceAccountName: account, AutomountServiceAccountToken: &withToken, RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{
				Name: "client", Image: image, Args: []string{url},
				VolumeMounts: []corev1.VolumeMount{{Name: "ca", MountPath: "/ca"}},
			}},
			Volumes: []corev1.Volume{{Name: "ca", VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "catalogd-ca"}},
			}}},
		},
	}
	must.Succeed(t, i.Create(t.Context(), pod))
	t.Cleanup(func() { _ = i.Delete(context.Background(), pod) })
	waitUntil(t, "the client has ended", func(ctx context.Context) error {
		if err := i.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if phase := pod.Status.Phase; phase != corev1.PodSucceeded && phase != corev1.PodFailed {
			return fmt.Errorf("its phase is %s", phase)
		}
		return nil
	})
	said, err := i.kubectl(t.Context(), "-n", clientNamespace, "logs", pod.Name)
	must.Succeed(t, err)
	return said
}
