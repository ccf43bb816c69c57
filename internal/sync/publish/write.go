package publish

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// unfitError is the reason why a valid package has no OperatorPackage.
type unfitError struct{ reason string }

func (e *unfitError) Error() string { return e.reason }

// isUnchanged reports whether an OperatorPackage is as it was written from a content. Its generation counts every change of
// spec and status, so changes by others show.
func isUnchanged(have *metav1.PartialObjectMetadata, hash string, owner types.UID) bool {
	controller := metav1.GetControllerOfNoCopy(have)
	return controller != nil && controller.UID == owner && have.Labels[v1beta1.CatalogLabel] == controller.Name &&
		have.Annotations[v1beta1.ContentHashAnnotation] == hash &&
		have.Annotations[v1beta1.ContentGenerationAnnotation] == strconv.FormatInt(have.Generation, 10)
}

// put makes an OperatorPackage equal to pkg; have is its metadata, nil if there is none. If the cache was stale, it asks the
// API server and writes once more. If the API server never accepts the object, the error is an *unfitError.
func (p Publisher) put(ctx context.Context, pkg *v1beta1.OperatorPackage, have *metav1.PartialObjectMetadata) error {
	err := p.write(ctx, pkg, have)
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		have, err = p.liveMetadata(ctx, pkg.Name)
		if have != nil && isUnchanged(have, pkg.Annotations[v1beta1.ContentHashAnnotation], pkg.OwnerReferences[0].UID) {
			return nil
		}
		if err == nil {
			err = p.write(ctx, pkg, have)
		}
	}
	if apierrors.IsRequestEntityTooLargeError(err) || apierrors.IsInvalid(err) || isTooLargeForEtcd(err) {
		return &unfitError{"the API server rejects its OperatorPackage: " + scan.Shorten(err.Error(), 500)}
	}
	return err
}

// isTooLargeForEtcd recognizes the refusals of etcd and of its client by their text: the API server returns them as
// internal errors.
func isTooLargeForEtcd(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "etcdserver: request is too large") ||
		strings.Contains(err.Error(), "trying to send message larger than max"))
}

// liveMetadata returns the metadata that the API server has of an OperatorPackage, nil if there is none.
func (p Publisher) liveMetadata(ctx context.Context, name string) (*metav1.PartialObjectMetadata, error) {
	now := Metadata()
	if err := p.Live.Get(ctx, client.ObjectKey{Name: name}, now); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return now, nil
}

// write creates or replaces an OperatorPackage. The annotation has the generation that the object will have: 1 for a new
// one, one more for one that differs. If only labels differ, the generation stays, and a second write corrects it.
func (p Publisher) write(ctx context.Context, pkg *v1beta1.OperatorPackage, have *metav1.PartialObjectMetadata) error {
	pkg = pkg.DeepCopy()
	if have == nil {
		pkg.Annotations[v1beta1.ContentGenerationAnnotation] = "1"
		return p.Client.Create(ctx, pkg)
	}
	expected := have.Generation + 1
	pkg.ResourceVersion = have.ResourceVersion
	pkg.Annotations[v1beta1.ContentGenerationAnnotation] = strconv.FormatInt(expected, 10)
	if err := p.Client.Update(ctx, pkg); err != nil || pkg.Generation == expected {
		return err
	}
	pkg.Annotations[v1beta1.ContentGenerationAnnotation] = strconv.FormatInt(pkg.Generation, 10)
	return p.Client.Update(ctx, pkg)
}

func (p Publisher) delete(ctx context.Context, have *metav1.PartialObjectMetadata) error {
	pkg := &v1beta1.OperatorPackage{ObjectMeta: metav1.ObjectMeta{Name: have.Name}}
	err := p.Client.Delete(ctx, pkg, client.Preconditions{UID: &have.UID, ResourceVersion: &have.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting OperatorPackage %s: %w", have.Name, err)
	}
	return nil
}
