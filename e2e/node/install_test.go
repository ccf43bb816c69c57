package node

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	namespace = "catalogd-system"
	service   = "catalogd" // and the StatefulSet, and the ServiceAccount
	apiGroup  = "catalogd.operatorframework.io"
	image     = "operator-catalogs/catalogd" // path in the registry, as in config/default
)

// Two tags of the tested image, which differ only in a label.
const (
	currentTag = "e2e-current"
	otherTag   = "e2e-other"
)

// installation is catalogd as an administrator installs it, and its catalogs.
type installation struct {
	*cluster
	catalogs []string
}

// install pushes images and catalogs, applies config/default, and applies a CatalogSource for each catalog.
func install(ctx context.Context, c *cluster) (*installation, error) {
	i := &installation{cluster: c}
	current, other, err := daemonImages(os.Getenv("CATALOGD_IMAGE"))
	if err != nil {
		return nil, err
	}
	for tag, img := range map[string]v1.Image{currentTag: current, otherTag: other} {
		if err := i.push(ctx, img, image+":"+tag); err != nil {
			return nil, err
		}
	}
	if err := i.pushCatalogs(ctx); err != nil {
		return nil, err
	}
	began := time.Now()
	if err := i.roll(ctx, currentTag); err != nil {
		return nil, err
	}
	if _, err := i.kubectl(ctx, "wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"); err != nil {
		return nil, err
	}
	for _, catalog := range i.catalogs {
		if err := i.Create(ctx, catalogSource(catalog)); err != nil {
			return nil, err
		}
	}
	if err := await(ctx, "there are packages", i.hasPackages); err != nil {
		i.explain(ctx, os.Stderr)
		return nil, err
	}
	fmt.Fprintf(os.Stderr, "e2e/node: %.1f s from kubectl apply to the first packages\n", time.Since(began).Seconds())
	return i, nil
}

// roll applies config/default, with components, with an overlay that only sets the image.
func (i *installation) roll(ctx context.Context, tag string, components ...string) error {
	overlay := filepath.Join(i.dir, "overlay")
	if err := os.MkdirAll(overlay, 0o755); err != nil {
		return err
	}
	config, err := filepath.Abs(filepath.Join(root, "config"))
	if err != nil {
		return err
	}
	if config, err = filepath.Rel(overlay, config); err != nil {
		return err
	}
	kustomization := fmt.Sprintf("resources: [%q]\nimages: [{name: ghcr.io/%s, newTag: %s}]\ncomponents:\n", config+"/default", image, tag)
	for _, component := range components {
		kustomization += fmt.Sprintf("- %q\n", config+"/components/"+component)
	}
	if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte(kustomization), 0o644); err != nil {
		return err
	}
	_, err = i.kubectl(ctx, "apply", "-k", overlay)
	return err
}

func (i *installation) push(ctx context.Context, image remote.Taggable, path string) error {
	tag, err := name.NewTag(registry+"/"+path, name.Insecure)
	if err != nil {
		return err
	}
	if err := remote.Push(tag, image, remote.WithContext(ctx), remote.WithTransport(i.transport())); err != nil {
		return fmt.Errorf("pushing %s: %w", tag, err)
	}
	return nil
}

func catalogSource(catalog string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiGroup + "/v1beta1",
		"kind":       "CatalogSource",
		"metadata":   map[string]any{"name": catalog},
		"spec": map[string]any{
			"image":           registry + "/catalogs/" + catalog + ":latest",
			"pollingInterval": "24h",
			"registry":        map[string]any{"insecure": true},
		},
	}}
}

func list(kind string) *unstructured.UnstructuredList {
	l := &unstructured.UnstructuredList{}
	l.SetGroupVersionKind(schema.GroupVersionKind{Group: apiGroup, Version: "v1beta1", Kind: kind + "List"})
	return l
}

func (i *installation) hasPackages(ctx context.Context) error {
	packages := list("OperatorPackage")
	if err := i.List(ctx, packages, client.Limit(1)); err != nil {
		return err
	}
	if len(packages.Items) == 0 {
		return fmt.Errorf("there is no OperatorPackage")
	}
	return nil
}

// allReady returns an error unless every replica is ready at the newest revision and every catalog is Ready.
func (i *installation) allReady(ctx context.Context) error {
	set := &appsv1.StatefulSet{}
	if err := i.Get(ctx, client.ObjectKey{Namespace: namespace, Name: service}, set); err != nil {
		return err
	}
	s := set.Status
	if s.ObservedGeneration != set.Generation ||
		s.UpdateRevision != s.CurrentRevision || s.ReadyReplicas != *set.Spec.Replicas || s.Replicas != *set.Spec.Replicas {
		return fmt.Errorf("%d of %d replicas are ready; revision %s is to follow %s", s.ReadyReplicas, *set.Spec.Replicas, s.UpdateRevision,
			s.CurrentRevision)
	}
	catalogs := list("CatalogSource")
	if err := i.List(ctx, catalogs); err != nil {
		return err
	}
	for _, catalog := range catalogs.Items {
		conditions, _, err := unstructured.NestedSlice(catalog.Object, "status", "conditions")
		if err != nil || !holds(conditions, "Ready") {
			return fmt.Errorf("catalog %s is not Ready: %v %w", catalog.GetName(), conditions, err)
		}
	}
	return nil
}

func holds(conditions []any, kind string) bool {
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == kind {
			return c["status"] == "True"
		}
	}
	return false
}

// pods are the replicas.
func (i *installation) pods(ctx context.Context) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	err := i.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels{"app.kubernetes.io/name": service})
	return pods.Items, err
}

// explain writes the first things to look at after a failure.
func (i *installation) explain(ctx context.Context, w io.Writer) {
	for _, args := range [][]string{
		{"get", "nodes,pods,pvc", "-A", "-o", "wide"},
		{"get", "catalogsources"},
		{"-n", namespace, "get", "events", "--sort-by=.lastTimestamp"},
		{"-n", namespace, "logs", "-l", "app.kubernetes.io/name=" + service, "--prefix", "--tail=40"},
	} {
		out, err := i.kubectl(ctx, args...)
		fmt.Fprintf(w, "kubectl %v: %v\n%s\n", args, err, out)
	}
}
