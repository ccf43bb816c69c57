package sync

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/source"
	"github.com/operator-catalogs/catalogd/internal/sync/fault"
	"github.com/operator-catalogs/catalogd/internal/sync/status"
)

// Catalogs of all kinds share one name space: the store, URLs, metrics and OperatorPackages have the name only. A name that
// objects of two kinds have belongs to the older one. The other gets a condition, and the name once the older one is gone.

// claimOf returns the selected object of another kind that has a name, nil if there is none.
func (c *controller) claimOf(ctx context.Context, reader client.Reader, name string) (client.Object, Kind, error) {
	for _, kind := range c.kinds {
		if kind == c.kind {
			continue
		}
		object := kind.New()
		err := reader.Get(ctx, client.ObjectKey{Name: name}, object)
		if client.IgnoreNotFound(err) != nil {
			return nil, nil, fmt.Errorf("looking for another catalog named %s: %w", name, err)
		}
		if err == nil && !kind.IsMirror(object) && c.Config.selects(object.GetLabels()) {
			return object, kind, nil
		}
	}
	return nil, nil, nil
}

// claimBeside returns the other object that has the name of a source. Before the first digest it asks the API server: the
// cache may not have an older object yet.
func (c *controller) claimBeside(ctx context.Context, src source.Source) (client.Object, Kind, error) {
	if src.Observed.Digest == "" {
		return c.claimOf(ctx, c.Live, src.Name)
	}
	return c.claimOf(ctx, c.Client, src.Name)
}

// isBefore reports whether the name of two objects belongs to a, which has another kind than c. Of two objects of the same
// second, it belongs to the one whose kind comes first.
func (c *controller) isBefore(a client.Object, kind Kind, b client.Object) bool {
	return isOlder(a, b) || (!isOlder(b, a) && slices.Index(c.kinds, kind) < slices.Index(c.kinds, c.kind))
}

// yield is a pass over an object whose name belongs to an older one. It leaves content and packages to that one.
func (c *controller) yield(ctx context.Context, src source.Source, object client.Object, owner string) (outcome, error) {
	if src.State == source.Deleting {
		return outcome{}, c.dropFinalizer(ctx, object)
	}
	return c.refuse(src, fault.Block(fault.WithReason(v1beta1.NameTakenReason, fmt.Errorf(
		"the name %s belongs to %s, which is older: delete that one, or create this catalog under another name", src.Name, owner)))), nil
}

// refuse returns the outcome of a pass over an object that cannot be served as it is.
func (c *controller) refuse(src source.Source, err error) outcome {
	r := status.Results{Image: status.Image{Ref: src.Image.Ref}, Fault: err, Attempted: true}
	s := status.Concluded(src, r)
	s.Digest = "" // replicas have nothing to follow
	return outcome{status: &s, events: status.Events(src.Observed, s, r), image: src.Image.Ref, fault: err}
}

// maxName is how long the name of a catalog may be: it is a label of its packages, and of a ClusterCatalog.
const maxName = validation.LabelValueMaxLength

// checkName returns the fault of a name that is too long.
func checkName(src source.Source) error {
	if len(src.Name) <= maxName {
		return nil
	}
	return fault.Block(fmt.Errorf("the name has %d characters: create the catalog under a name of at most %d, as the name becomes a label",
		len(src.Name), maxName))
}

// claim makes the metadata of an object as its kind needs it.
func (c *controller) claim(ctx context.Context, object client.Object) error {
	before := copyOf(object)
	c.kind.Claim(object)
	if equality.Semantic.DeepEqual(before, object) {
		return nil
	}
	if before.GetManagedFields() == nil { // the cache has none
		if err := c.Live.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		before = copyOf(object)
		c.kind.Claim(object)
	}
	return c.known.write(object, func() error {
		return c.Client.Patch(ctx, object, lockedMerge(before), client.FieldOwner(v1beta1.FieldManager))
	})
}

// mirrored returns an outcome of a pass with the condition of the catalog's mirror, which it brings up to date.
func (c *controller) mirrored(ctx context.Context, object client.Object, out outcome) outcome {
	if c.Mirror == nil || out.status == nil {
		return out
	}
	condition, err := c.Mirror.Sync(ctx, object, *out.status)
	out.err = errors.Join(out.err, err)
	if condition == nil {
		meta.RemoveStatusCondition(&out.status.Conditions, v1beta1.ClusterCatalogSyncedCondition)
		return out
	}
	condition.ObservedGeneration = object.GetGeneration()
	meta.SetStatusCondition(&out.status.Conditions, *condition)
	return out
}
