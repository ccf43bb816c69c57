package sync

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
)

// Watched says what the cache is to hold of the objects that give access to registries: those of catalogd's namespace, and of
// ServiceAccounts its own. Of Secrets and ConfigMaps it has names and versions only. A global Secret elsewhere is not watched: if
// catalogd had no right to, nothing would work, and not only what needs that Secret.
func (c Config) Watched() map[client.Object]cache.ByObject {
	own := map[string]cache.Config{c.Namespace: {}}
	account := cache.Config{FieldSelector: fields.OneTermEqualSelector("metadata.name", c.ServiceAccount)}
	watched := map[client.Object]cache.ByObject{
		&corev1.Secret{}:         {Namespaces: own, Transform: withoutAnnotations},
		&corev1.ConfigMap{}:      {Namespaces: own, Transform: withoutAnnotations},
		&corev1.ServiceAccount{}: {Namespaces: map[string]cache.Config{c.Namespace: account}},
	}
	if c.Selector != nil {
		watched[&v1beta1.CatalogSource{}] = cache.ByObject{Label: c.Selector}
	}
	return watched
}

// withoutAnnotations also drops what kubectl keeps there: the content that was applied last.
func withoutAnnotations(object any) (any, error) {
	if o, ok := object.(metav1.Object); ok {
		o.SetAnnotations(nil)
		o.SetManagedFields(nil)
	}
	return object, nil
}

// catalogsOfSecret lists the catalogs that a Secret may concern.
func (r *CatalogReconciler) catalogsOfSecret(ctx context.Context, secret client.Object) []ctrl.Request {
	shared, err := r.sharedPullSecrets(ctx)
	if err != nil {
		logf.FromContext(ctx).Error(err, "cannot tell which catalogs a Secret concerns; looking at all of them", "secret", secret.GetName())
	}
	if err != nil || slices.Contains(shared, client.ObjectKeyFromObject(secret)) {
		return r.allCatalogs(ctx, secret)
	}
	return r.catalogsWhere(ctx, func(access *v1beta1.RegistryAccess) bool {
		named := slices.Clone(access.PullSecrets)
		for _, ref := range []*v1beta1.SecretReference{access.ClientCertificate, access.Proxy} {
			if ref != nil {
				named = append(named, *ref)
			}
		}
		if access.CABundle != nil && access.CABundle.Kind == "Secret" {
			named = append(named, v1beta1.SecretReference{Name: access.CABundle.Name})
		}
		return slices.Contains(named, v1beta1.SecretReference{Name: secret.GetName()})
	})
}

// catalogsOfConfigMap lists the catalogs that a ConfigMap concerns.
func (r *CatalogReconciler) catalogsOfConfigMap(ctx context.Context, configMap client.Object) []ctrl.Request {
	return r.catalogsWhere(ctx, func(access *v1beta1.RegistryAccess) bool {
		return access.CABundle != nil && access.CABundle.Kind != "Secret" && access.CABundle.Name == configMap.GetName()
	})
}

func (r *CatalogReconciler) allCatalogs(ctx context.Context, _ client.Object) []ctrl.Request {
	return r.catalogsWhere(ctx, func(*v1beta1.RegistryAccess) bool { return true })
}

func (r *CatalogReconciler) catalogsWhere(ctx context.Context, concerns func(*v1beta1.RegistryAccess) bool) []ctrl.Request {
	list := &v1beta1.CatalogSourceList{}
	if err := r.Client.List(ctx, list); err != nil {
		logf.FromContext(ctx).Error(err, "cannot list the catalogs that a change concerns; they find out at their next attempt")
		return nil
	}
	var requests []ctrl.Request
	for i := range list.Items {
		access := list.Items[i].Spec.Registry
		if access == nil {
			access = &v1beta1.RegistryAccess{}
		}
		if concerns(access) {
			requests = append(requests, ctrl.Request{NamespacedName: types.NamespacedName{Name: list.Items[i].Name}})
		}
	}
	return requests
}

// lostFinalizer lets through that our finalizer is gone: whoever kept the catalog before may have let go of it.
func lostFinalizer() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectNew.GetDeletionTimestamp().IsZero() &&
			controllerutil.ContainsFinalizer(e.ObjectOld, v1beta1.CleanupFinalizer) && !controllerutil.ContainsFinalizer(e.ObjectNew, v1beta1.CleanupFinalizer)
	}}
}

// ownPackages are the OperatorPackages that this installation made, or that were changed to look so.
func (r *CatalogReconciler) ownPackages() predicate.Predicate {
	ours := func(o client.Object) bool {
		return o.GetLabels()[catalogNamespaceLabel] == r.Config.Namespace
	}
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return ours(e.Object) },
		UpdateFunc:  func(e event.UpdateEvent) bool { return ours(e.ObjectOld) || ours(e.ObjectNew) },
		DeleteFunc:  func(e event.DeleteEvent) bool { return ours(e.Object) },
		GenericFunc: func(e event.GenericEvent) bool { return ours(e.Object) },
	}
}

// toFollow lets through what a replica that does not lead has to follow: that the status names other content.
func (r *CatalogReconciler) toFollow() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, isCatalog := e.ObjectOld.(*v1beta1.CatalogSource)
		now, _ := e.ObjectNew.(*v1beta1.CatalogSource)
		return isCatalog && !r.leads() && (basisOf(before) != basisOf(now) || before.Status.Image != now.Status.Image)
	}}
}
