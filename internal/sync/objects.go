package sync

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	stdsync "sync"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/source"
	"github.com/operator-catalogs/catalogd/internal/sync/fault"
)

// writeStatus is the only place that writes the status at the end of a pass, and whether it did. A nil status is the one that
// the object has, without progress. If the object changed, it writes over the newer version, unless its status changed:
// then another replica leads.
func (c *controller) writeStatus(ctx context.Context, object client.Object, s *source.Status) (written bool, err error) {
	if s == nil {
		if c.kind.Source(object).Observed.Progress == nil {
			return false, nil
		}
		s = new(c.withoutProgress(object))
	}
	after := c.withStatus(object, *s)
	if equality.Semantic.DeepEqual(object, after) {
		return false, nil
	}
	err = c.patchStatus(ctx, object, after)
	if apierrors.IsConflict(err) && !fault.IsContest(err) {
		now := c.kind.New()
		if err := c.Live.Get(ctx, client.ObjectKeyFromObject(object), now); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		if now.GetUID() != object.GetUID() || !c.sameStatus(now, object) {
			return false, fmt.Errorf("another replica changed the status of %s: %w", object.GetName(), err)
		}
		err = c.patchStatus(ctx, now, c.withStatus(now, *s))
	}
	return err == nil, client.IgnoreNotFound(err)
}

// patchStatus writes the status of an object, and then the annotations that belong to it.
func (c *controller) patchStatus(ctx context.Context, from, after client.Object) error {
	annotations := after.GetAnnotations()
	after.SetAnnotations(from.GetAnnotations())
	if !equality.Semantic.DeepEqual(from, after) {
		patch := c.kind.StatusPatch(from)
		write := func() error {
			return c.Client.Status().Patch(ctx, after, patch, client.FieldOwner(v1beta1.FieldManager))
		}
		if err := c.known.write(after, write); err != nil {
			return err
		}
	}
	patch := lockedMerge(after)
	if maps.Equal(after.GetAnnotations(), annotations) {
		return nil
	}
	after.SetAnnotations(annotations)
	return c.known.write(after, func() error { return c.Client.Patch(ctx, after, patch, client.FieldOwner(v1beta1.FieldManager)) })
}

func (c *controller) withStatus(object client.Object, s source.Status) client.Object {
	out := copyOf(object)
	c.kind.SetStatus(out, s)
	return out
}

func (c *controller) withoutProgress(object client.Object) source.Status {
	s := c.kind.Source(object).Observed
	s.Progress = nil
	return s
}

// sameStatus compares two statuses but for the progress, which may be that of a write whose answer was lost.
func (c *controller) sameStatus(a, b client.Object) bool {
	return equality.Semantic.DeepEqual(c.withStatus(a, c.withoutProgress(a)), c.withStatus(a, c.withoutProgress(b)))
}

// dropFinalizer removes the finalizer from the object, if it is there.
func (c *controller) dropFinalizer(ctx context.Context, object client.Object) error {
	from := lockedMerge(object)
	if !controllerutil.RemoveFinalizer(object, c.kind.Finalizer()) {
		return nil
	}
	c.known.byName.Delete(object.GetName())
	return client.IgnoreNotFound(c.Client.Patch(ctx, object, from))
}

// lockedMerge returns a patch of later changes to object, for its version only: finalizers are a shared list.
func lockedMerge(object client.Object) client.Patch {
	return client.MergeFromWithOptions(copyOf(object), client.MergeFromWithOptimisticLock{})
}

func copyOf(object client.Object) client.Object { return object.DeepCopyObject().(client.Object) }

// isGone reports whether the API server says that the named object does not exist. Others say "not found" and mean
// something else: a proxy without its backend, or an API server that does not serve the version for a while.
func isGone(err error, name string) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	details := status.Status().Details
	return details.Name == name && !slices.ContainsFunc(details.Causes, func(c metav1.StatusCause) bool {
		return c.Type == metav1.CauseTypeUnexpectedServerResponse
	})
}

// knownVersions has the last resourceVersion of each object that the API server gave this process. Only a cache with the same
// version is read: an older one lacks the last status, and the catalog would go back to the digest before; a newer one may
// be that of an etcd before a restore. The zero value is ready for use.
type knownVersions struct{ byName stdsync.Map }

// read returns an object from the cache, or live. It reads an object that is being deleted live, as another of its name may
// exist by now.
func (k *knownVersions) read(
	ctx context.Context, cache, live client.Reader, empty func() client.Object, name string,
) (client.Object, error) {
	key := client.ObjectKey{Name: name}
	if known, ok := k.byName.Load(name); ok {
		object := empty()
		err := cache.Get(ctx, key, object)
		if err == nil && object.GetResourceVersion() == known && object.GetDeletionTimestamp().IsZero() {
			return object, nil
		}
	}
	object := empty()
	if err := live.Get(ctx, key, object); err != nil {
		return nil, err
	}
	k.byName.Store(name, object.GetResourceVersion())
	return object, nil
}

// write makes a write that stores the API server's answer in object. After an error it is unknown whether the write was
// made, so the next read is live.
func (k *knownVersions) write(object client.Object, write func() error) error {
	k.byName.Delete(object.GetName())
	if err := write(); err != nil {
		return err
	}
	k.byName.Store(object.GetName(), object.GetResourceVersion())
	return nil
}
