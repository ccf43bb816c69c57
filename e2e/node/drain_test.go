package node

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// replaced checks that a Pod of this name exists with another UID.
func replaced(name string, former types.UID) func(context.Context) error {
	return func(ctx context.Context) error {
		pod := &corev1.Pod{}
		if err := installed.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pod); err != nil {
			return err
		}
		if pod.UID == former {
			return fmt.Errorf("Pod %s is still the same", name)
		}
		return nil
	}
}

// TestNodeDrain moves the replicas of a node, with their volumes, to the other node, and all of them back.
func TestNodeDrain(t *testing.T) {
	volumes := volumesOfReplicas(t)
	whileReading(t, func() {
		for _, node := range []string{"node1", "node2"} {
			drain(t, node)
		}
	})
	if diff := cmp.Diff(volumes, volumesOfReplicas(t)); diff != "" {
		t.Errorf("the replicas have other volumes (-before, +after):\n%s", diff)
	}
}

// drain evicts the Pods of a node, waits until the other node runs all replicas, and uncordons the node.
func drain(t *testing.T, node string) {
	t.Helper()
	defer func() { // even if the test fails, for later tests
		if _, err := installed.kubectl(context.Background(), "uncordon", node); err != nil {
			t.Error(err)
		}
	}()
	_, err := installed.kubectl(t.Context(), "drain", node, "--timeout=170s")
	must.Succeed(t, err)
	waitUntil(t, "all replicas are ready on the other node", installed.allReady)
	pods, err := installed.pods(t.Context())
	must.Succeed(t, err)
	for _, pod := range pods {
		if pod.Spec.NodeName == node {
			t.Errorf("%s is still on the drained %s", pod.Name, node)
		}
	}
}

// volumesOfReplicas returns the volumes by claim.
func volumesOfReplicas(t *testing.T) map[string]string {
	t.Helper()
	claims := &corev1.PersistentVolumeClaimList{}
	must.Succeed(t, installed.List(t.Context(), claims, client.InNamespace(namespace)))
	volumes := map[string]string{}
	for _, claim := range claims.Items {
		volumes[claim.Name] = claim.Spec.VolumeName
	}
	return volumes
}

// TestRollout rolls out another image, and then the former one.
func TestRollout(t *testing.T) {
	t.Cleanup(func() {
		if err := installed.roll(context.Background(), currentTag); err != nil {
			t.Error(err)
		}
	})
	whileReading(t, func() {
		for _, tag := range []string{otherTag, currentTag} {
			must.Succeed(t, installed.roll(t.Context(), tag))
			_, err := installed.kubectl(t.Context(), "-n", namespace, "rollout", "status", "statefulset/"+service, "--timeout=170s")
			must.Succeed(t, err)
			pods, err := installed.pods(t.Context())
			must.Succeed(t, err)
			for _, pod := range pods {
				if want := "ghcr.io/" + image + ":" + tag; pod.Spec.Containers[0].Image != want {
					t.Errorf("%s runs %s, want %s", pod.Name, pod.Spec.Containers[0].Image, want)
				}
			}
		}
	})
}

// TestVolumeLost deletes the claim of a replica, which then fills a new volume as status demands while the others
// serve.
func TestVolumeLost(t *testing.T) {
	const name = service + "-1"
	claim, lost := &corev1.PersistentVolumeClaim{}, &corev1.Pod{}
	must.Succeed(t, installed.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "data-" + name}, claim))
	must.Succeed(t, installed.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, lost))
	token := readerToken(t)
	known, err := installed.learn(t.Context(), lost.Status.PodIP+":8443", token)
	must.Succeed(t, err)
	whileReading(t, func() {
		must.Succeed(t, installed.Delete(t.Context(), claim)) // deleted when the Pod that uses it is deleted
		must.Succeed(t, installed.Delete(t.Context(), lost))
		waitUntil(t, "the deleted Pod is replaced", replaced(name, lost.UID))
	})
	if now := volumesOfReplicas(t)[claim.Name]; now == "" || now == claim.Spec.VolumeName {
		t.Errorf("the volume is %q, want another than the lost %q", now, claim.Spec.VolumeName)
	}
	must.Succeed(t, installed.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, lost))
	refilled, err := installed.learn(t.Context(), lost.Status.PodIP+":8443", token)
	must.Succeed(t, err)
	if diff := cmp.Diff(known, refilled, cmp.AllowUnexported(answer{})); diff != "" {
		t.Errorf("%s serves other content than before (-, +):\n%s", name, diff)
	}
}
