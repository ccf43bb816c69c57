package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/content"
	term "github.com/operator-catalogs/catalogd/internal/cli/output"
)

// daemonNamespace is where catalogd runs, as far as the catalogs tell.
func (e *env) daemonNamespace(ctx context.Context) string {
	catalogs, err := e.catalogs(ctx)
	if err != nil {
		return e.namespace
	}
	for _, c := range catalogs {
		if c.Status.URLs == nil {
			continue
		}
		if at, err := content.ParseAddress(c.Status.URLs.Base, c.Name); err == nil && at.Namespace != "" {
			return at.Namespace
		}
	}
	return e.namespace
}

// presence of an object that a catalog names.
type presence string

const (
	present presence = "there"
	absent  presence = "does not exist"
	unknown presence = "not known, as you may not look"
)

// look finds out whether something is there that a catalog needs. Its content is not read.
func (e *env) look(ctx context.Context, namespace string, n need) (presence, error) {
	api, err := e.client()
	if err != nil {
		return "", err
	}
	var object metav1.PartialObjectMetadata
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(n.kind))
	err = api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: n.name}, &object)
	switch {
	case err == nil:
		return present, nil
	case apierrors.IsNotFound(err):
		return absent, nil
	case apierrors.IsForbidden(err):
		return unknown, nil
	}
	return "", err
}

// warnOfMissing tells of what a new catalog names and is not there. It is no error: catalogd goes on as soon as it is.
func (e *env) warnOfMissing(ctx context.Context, c *v1beta1.CatalogSource, ownBundle bool) {
	all := needs(c)
	if len(all) == 0 {
		return
	}
	namespace := e.daemonNamespace(ctx)
	for _, n := range all {
		if n.use == "authorities" && ownBundle {
			continue
		}
		if is, err := e.look(ctx, namespace, n); err == nil && is == absent {
			e.warn("%s (%s) does not exist in namespace %s yet: catalogd cannot pull the image before it does", n, n.use, namespace)
		}
	}
}

func (e *env) warn(format string, args ...any) {
	fmt.Fprintf(e.stderr, "%s %s\n", e.stderr.Paint(term.Yellow, "warning:"), term.Line(fmt.Sprintf(format, args...)))
}

// A bundleMap is the ConfigMap that is made of --ca-file.
type bundleMap struct {
	api     client.Client
	object  *corev1.ConfigMap
	existed bool // with the same authorities: of an attempt that was interrupted, say
}

func (e *env) createBundle(ctx context.Context, api client.Client, c *v1beta1.CatalogSource, authorities []byte, opts []client.CreateOption) (*bundleMap, error) {
	ref := c.Spec.Registry.CABundle
	made := &corev1.ConfigMap{Data: map[string]string{ref.Key: string(authorities)}}
	made.Name, made.Namespace = ref.Name, e.daemonNamespace(ctx)
	b := &bundleMap{api: api, object: made}
	err := api.Create(ctx, made, opts...)
	if err == nil {
		return b, nil
	}
	what := fmt.Sprintf("ConfigMap %q of --ca-file in namespace %s", made.Name, made.Namespace)
	if !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("creating %s: %w", what, err)
	}
	var has corev1.ConfigMap
	if err := api.Get(ctx, client.ObjectKeyFromObject(made), &has); err != nil {
		return nil, fmt.Errorf("reading %s: %w", what, err)
	}
	if !maps.Equal(has.Data, made.Data) {
		return nil, fmt.Errorf("there is a %s already, and it holds something else: name it by --ca-bundle %s if it is the right one, or remove it", what, made.Name)
	}
	b.object, b.existed = &has, true
	return b, nil
}

// isOurs tells whether the plugin made it.
func (b *bundleMap) isOurs() bool {
	return !b.existed || slices.ContainsFunc(b.object.ManagedFields, func(m metav1.ManagedFieldsEntry) bool { return m.Manager == fieldManager })
}

// own makes the catalog the owner, with which it is removed. What somebody else made under that name stays theirs.
func (b *bundleMap) own(ctx context.Context, c *v1beta1.CatalogSource) error {
	if !b.isOurs() {
		return nil
	}
	was := b.object.DeepCopy()
	b.object.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1beta1.GroupVersion.String(), Kind: "CatalogSource", Name: c.Name, UID: c.UID,
	}}
	if err := b.api.Patch(ctx, b.object, client.MergeFrom(was), client.FieldOwner(fieldManager)); err != nil {
		return fmt.Errorf("having ConfigMap %q removed with the catalog: %w", b.object.Name, err)
	}
	return nil
}

// remove takes it away again where there is no catalog that needs it.
func (b *bundleMap) remove(ctx context.Context, ch *change) {
	if !b.existed && !ch.isDry() {
		_ = b.api.Delete(ctx, b.object)
	}
}
