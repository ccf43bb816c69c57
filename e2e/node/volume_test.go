package node

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// TestVolumeTooSmall installs a catalog that does not fit on the volume: its condition says so, and it is served
// once the volume has been expanded.
func TestVolumeTooSmall(t *testing.T) {
	t.Cleanup(func() { giveVolume(t, "standard", 3) })
	giveVolume(t, "tiny", 1)
	waitUntil(t, "the catalog that does not fit says so", func(ctx context.Context) error {
		source := catalogSource("community")
		if err := installed.Get(ctx, client.ObjectKeyFromObject(source), source); err != nil {
			return err
		}
		if said := fmt.Sprint(source.Object["status"]); !strings.Contains(said, "StorageFull") {
			return fmt.Errorf("it says %s", said)
		}
		return nil
	})
	pods, err := installed.pods(t.Context())
	must.Succeed(t, err)
	node := pods[0].Spec.NodeName
	mounts, err := installed.namespace(node, "mnt")
	must.Succeed(t, err)
	volume := filepath.Join(installed.dir, "volumes", "tiny-"+node)
	must.Succeed(t, exec.CommandContext(t.Context(), "nsenter", "--mount="+mounts, "mount", "-o", "remount,size=1g", volume).Run())
	must.Succeed(t, requestPoll(t.Context(), "community")) // otherwise the next attempt is within five minutes
	waitUntil(t, "the catalog is served when there is more room", installed.allReady)
}

// giveVolume restarts the first replica with an empty volume of this class, and sets the number of replicas.
func giveVolume(t *testing.T, class string, replicas int) {
	t.Helper()
	ctx := context.Background() // later tests use it, too
	scale(ctx, t, 0)
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "data-" + service + "-0"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: &class,
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}},
		},
	}
	must.Succeed(t, client.IgnoreNotFound(installed.Delete(ctx, claim.DeepCopy())))
	must.Succeed(t, await(ctx, "the claim is gone", func(ctx context.Context) error {
		return installed.Create(ctx, claim.DeepCopy())
	}))
	scale(ctx, t, replicas)
	if class == "standard" {
		must.Succeed(t, await(ctx, "all is as it was", installed.allReady))
	}
}

// scale waits until surplus Pods are deleted.
func scale(ctx context.Context, t *testing.T, replicas int) {
	t.Helper()
	_, err := installed.kubectl(ctx, "-n", namespace, "scale", "statefulset/"+service, fmt.Sprint("--replicas=", replicas))
	must.Succeed(t, err)
	must.Succeed(t, await(ctx, "surplus Pods are gone", func(ctx context.Context) error {
		pods, err := installed.pods(ctx)
		if err == nil && len(pods) > replicas {
			err = fmt.Errorf("there are %d", len(pods))
		}
		return err
	}))
}
