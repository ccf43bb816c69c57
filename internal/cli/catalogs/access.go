package catalogs

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
	"github.com/operator-catalogs/catalogd/internal/cli/session"
)

// lookUp returns an error if a referenced object does not exist or is forbidden. It reads only the metadata.
func lookUp(ctx context.Context, s *session.Session, namespace string, r reference) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	var object metav1.PartialObjectMetadata
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(r.kind))
	return api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: r.name}, &object)
}

// warnOfMissing warns of objects that a new catalog names and that do not exist. catalogd waits for them.
func warnOfMissing(ctx context.Context, s *session.Session, c *v1beta1.CatalogSource, createsBundle bool) {
	all := references(c)
	if len(all) == 0 {
		return
	}
	namespace := s.DaemonNamespace(ctx)
	for _, r := range all {
		if r.use == bundleUse && createsBundle {
			continue
		}
		if apierrors.IsNotFound(lookUp(ctx, s, namespace, r)) {
			s.Stderr.Warnf("%s %q (%s) not found in namespace %s: catalogd needs it to pull the image", r.kind, r.name, r.use, namespace)
		}
	}
}

// A caBundle is the ConfigMap of --ca-file.
type caBundle struct {
	api     client.Client
	object  *corev1.ConfigMap
	existed bool // with the same content, for example after an interrupted attempt
}

func createBundle(ctx context.Context, api client.Client, c *v1beta1.CatalogSource, namespace string, authorities []byte,
	opts []client.CreateOption,
) (*caBundle, error) {
	ref := c.Spec.Registry.CABundle
	wanted := &corev1.ConfigMap{Data: map[string]string{ref.Key: string(authorities)}}
	wanted.Name, wanted.Namespace = ref.Name, namespace
	b := &caBundle{api: api, object: wanted}
	err := api.Create(ctx, wanted, opts...)
	if err == nil {
		return b, nil
	}
	what := fmt.Sprintf("ConfigMap %q of --ca-file in namespace %s", wanted.Name, namespace)
	if !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("creating %s: %w", what, err)
	}
	var has corev1.ConfigMap
	if err := api.Get(ctx, client.ObjectKeyFromObject(wanted), &has); err != nil {
		return nil, fmt.Errorf("reading %s: %w", what, err)
	}
	if !maps.Equal(has.Data, wanted.Data) {
		return nil, fmt.Errorf("%s already exists with different content: use it with --ca-bundle %s, or delete it", what, wanted.Name)
	}
	b.object, b.existed = &has, true
	return b, nil
}

// setOwner makes the catalog the owner, so that both are deleted together. A ConfigMap that the plugin did not create stays as it is.
func (b *caBundle) setOwner(ctx context.Context, c *v1beta1.CatalogSource) error {
	isOurs := func(m metav1.ManagedFieldsEntry) bool { return m.Manager == session.FieldManager }
	if b.existed && !slices.ContainsFunc(b.object.ManagedFields, isOurs) {
		return nil
	}
	was := b.object.DeepCopy()
	b.object.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1beta1.GroupVersion.String(), Kind: "CatalogSource", Name: c.Name, UID: c.UID,
	}}
	if err := b.api.Patch(ctx, b.object, client.MergeFrom(was), client.FieldOwner(session.FieldManager)); err != nil {
		return fmt.Errorf("setting the owner of ConfigMap %q: %w", b.object.Name, err)
	}
	return nil
}

// remove deletes the ConfigMap if this command created it.
func (b *caBundle) remove(ctx context.Context) {
	if !b.existed {
		_ = b.api.Delete(ctx, b.object)
	}
}
