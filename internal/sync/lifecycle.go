package sync

import (
	"cmp"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
)

// finalize removes all that belongs to a deleted catalog: packages, content, files. It does not wait for the cluster's
// garbage collector, so that the content is gone when the object is. A crash in between means that it is done again.
func (r *CatalogReconciler) finalize(ctx context.Context, rec *reconciliation) error {
	c := rec.catalog
	if c.DeletionTimestamp.IsZero() {
		from := lockedMerge(c)
		if controllerutil.AddFinalizer(c, v1beta1.CleanupFinalizer) {
			return r.known.write(c, func() error { return r.Client.Patch(ctx, c, from) })
		}
		return nil
	}
	if !controllerutil.ContainsFinalizer(c, v1beta1.CleanupFinalizer) {
		return errDone
	}
	if err := r.deletePackages(ctx, c.Name); err != nil {
		return err
	}
	if err := r.Store.Remove(c.Name); err != nil {
		return err
	}
	r.forget(c.Name)
	if err := r.dropFinalizer(ctx, c); err != nil {
		return err
	}
	return errDone
}

// dropFinalizer takes our finalizer off, if it is there.
func (r *CatalogReconciler) dropFinalizer(ctx context.Context, c *v1beta1.CatalogSource) error {
	from := lockedMerge(c)
	if !controllerutil.RemoveFinalizer(c, v1beta1.CleanupFinalizer) {
		return nil
	}
	r.known.forget(c.Name)
	return client.IgnoreNotFound(r.Client.Patch(ctx, c, from))
}

// lockedMerge is a patch of changes made to c from now on, of the version that it has: finalizers are a shared list.
func lockedMerge(c *v1beta1.CatalogSource) client.Patch {
	return client.MergeFromWithOptions(c.DeepCopy(), client.MergeFromWithOptimisticLock{})
}

// withdraw takes a catalog out of service that its owner marked Unavailable.
func (r *CatalogReconciler) withdraw(ctx context.Context, rec *reconciliation) error {
	c := rec.catalog
	if c.Spec.Availability != v1beta1.AvailabilityUnavailable {
		return nil
	}
	published, err := r.publishedPackages(ctx, c.Name)
	if err != nil {
		return err
	}
	// The cache of packages may lag behind; the condition tells whether all of them were deleted since.
	synced := meta.FindStatusCondition(c.Status.Conditions, v1beta1.PackagesSyncedCondition)
	if len(published) > 0 || synced == nil || synced.Reason != v1beta1.UserSpecifiedUnavailableReason {
		if err := r.deletePackages(ctx, c.Name); err != nil {
			return err
		}
	}
	if err := r.Store.Remove(c.Name); err != nil {
		return err
	}
	r.forget(c.Name)
	c.Status.Digest, c.Status.URLs, c.Status.Content = "", nil, nil
	c.Status.ObservedGeneration = c.Generation
	const message = "Not served, as spec.availability is Unavailable."
	for _, t := range []string{v1beta1.ServingCondition, v1beta1.ProgressingCondition, v1beta1.PackagesSyncedCondition, v1beta1.ReadyCondition} {
		setCondition(c, t, metav1.ConditionFalse, v1beta1.UserSpecifiedUnavailableReason, message)
	}
	return errDone
}

// announce says that work on a new catalog begins, before it does: an image can take minutes. The first status that
// anybody sees is thus Serving=False, which clients of OLM v1 wait for.
func (r *CatalogReconciler) announce(_ context.Context, rec *reconciliation) error {
	c := rec.catalog
	if meta.FindStatusCondition(c.Status.Conditions, v1beta1.ProgressingCondition) != nil {
		return nil
	}
	if c.Status.Digest == "" {
		c.Status.Image = rec.image
	}
	c.Status.ObservedGeneration = 0 // should somebody have emptied the status: the image is polled next
	message := fmt.Sprintf("Unpacking and publishing %s.", cmp.Or(rec.image, templateOf(c)))
	setCondition(c, v1beta1.ProgressingCondition, metav1.ConditionTrue, v1beta1.UnpackingReason, message)
	setCondition(c, v1beta1.ServingCondition, metav1.ConditionFalse, v1beta1.UnavailableReason, "Nothing is unpacked yet.")
	setCondition(c, v1beta1.PackagesSyncedCondition, metav1.ConditionFalse, v1beta1.UnavailableReason, "Nothing is unpacked yet.")
	setCondition(c, v1beta1.ReadyCondition, metav1.ConditionFalse, v1beta1.UnpackingReason, message)
	rec.next = r.Clock.Now()
	return errDone
}
