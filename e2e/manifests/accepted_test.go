package manifests

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// foreign are the groups of kinds that the control plane of the tests does not have: those of cert-manager and the Prometheus Operator.
var foreign = []string{"cert-manager.io", "monitoring.coreos.com"}

// The API server takes every object as it stands, knows every field, and has nothing to warn of; not of what Pod Security restricts either.
func TestAccepted(t *testing.T) {
	for _, kustomization := range kustomizations(t) {
		t.Run(filepath.Base(kustomization), func(t *testing.T) {
			objects := slices.DeleteFunc(render(t, kustomization), func(object *unstructured.Unstructured) bool {
				return slices.Contains(foreign, object.GroupVersionKind().Group)
			})
			namespace := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Namespace" })
			_, err := shared.Kubectl(t.Context(), "apply", "-f", file(t, objects[namespace])) // which a dry run of the others needs
			must.Succeed(t, err)
			_, err = shared.Kubectl(t.Context(), "apply", "--dry-run=server", "--validate=strict", "--warnings-as-errors", "-f",
				file(t, objects...))
			must.Succeed(t, err)
			_, err = shared.Kubectl(t.Context(), "create", "--dry-run=server", "--validate=strict", "--warnings-as-errors", "-f",
				file(t, pod(t, objects)))
			must.Succeed(t, err)
		})
	}
}

// Pods are let into catalogd's namespace only as Pod Security has it: restricted.
func TestRestricted(t *testing.T) {
	for name, change := range map[string][]string{
		"may be root":       {"spec", "securityContext", "runAsNonRoot"},
		"all system calls":  {"spec", "securityContext", "seccompProfile"},
		"host's processes":  {"spec", "hostPID"},
		"host's filesystem": {"spec", "volumes"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := pod(t, render(t, filepath.Join(root, "config", "default")))
			switch change[len(change)-1] {
			case "hostPID":
				must.Succeed(t, unstructured.SetNestedField(pod.Object, true, change...))
			case "volumes":
				must.Succeed(t, unstructured.SetNestedSlice(pod.Object, []any{
					map[string]any{"name": "data", "hostPath": map[string]any{"path": "/"}},
				}, change...))
			default:
				unstructured.RemoveNestedField(pod.Object, change...)
			}
			if _, err := shared.Kubectl(t.Context(), "create", "--dry-run=server", "-f", file(t, pod)); err == nil {
				t.Error("the pod was let in")
			}
		})
	}
}

// The built catalogd knows each flag that a manifest gives it, and can read its value.
func TestFlags(t *testing.T) {
	for _, kustomization := range kustomizations(t) {
		t.Run(filepath.Base(kustomization), func(t *testing.T) {
			args := containerArgs(t, render(t, kustomization))
			if len(args) == 0 {
				t.Fatal("there are no arguments")
			}
			knowsFlags(t, args)
		})
	}
}

// knowsFlags fails if catalogd does not know a flag, or cannot read its value.
func knowsFlags(t *testing.T, args []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Getenv("CATALOGD_BIN"), append(args, "--version")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("catalogd %q: %v: %s", args, err, out)
	}
}

// pod is what the StatefulSet among objects makes, with an empty volume in place of the claimed one.
func pod(t *testing.T, objects []*unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	set := statefulSet(t, objects)
	template, _, err := unstructured.NestedMap(set.Object, "spec", "template")
	must.Succeed(t, err)
	pod := &unstructured.Unstructured{Object: template}
	pod.SetAPIVersion("v1")
	pod.SetKind("Pod")
	pod.SetName(set.GetName() + "-0")
	pod.SetNamespace(set.GetNamespace())
	volumes, _, err := unstructured.NestedSlice(template, "spec", "volumes")
	must.Succeed(t, err)
	volumes = append(volumes, map[string]any{"name": "data", "emptyDir": map[string]any{}})
	must.Succeed(t, unstructured.SetNestedSlice(template, volumes, "spec", "volumes"))
	return pod
}

func containerArgs(t *testing.T, objects []*unstructured.Unstructured) []string {
	t.Helper()
	containers, _, err := unstructured.NestedSlice(statefulSet(t, objects).Object, "spec", "template", "spec", "containers")
	must.Succeed(t, err)
	if len(containers) != 1 {
		t.Fatalf("%d containers, want 1", len(containers))
	}
	args, _, err := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
	must.Succeed(t, err)
	return args
}

func statefulSet(t *testing.T, objects []*unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	i := slices.IndexFunc(objects, func(object *unstructured.Unstructured) bool { return object.GetKind() == "StatefulSet" })
	if i < 0 {
		t.Fatal("there is no StatefulSet")
	}
	return objects[i]
}
