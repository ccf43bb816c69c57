package sync

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/source"
	"github.com/operator-catalogs/catalogd/internal/sync/fault"
	"github.com/operator-catalogs/catalogd/internal/sync/status"
)

// names finds the owner of a name. Catalogs of all kinds share one name space: the store, URLs, metrics and OperatorPackages
// have the name only. A name that objects of two kinds have belongs to the older one. The other gets a condition, and the
// name once the older one is gone.
type names struct {
	*Engine
	kind Kind // that asks
}

// namesake is a selected object of another kind with the same name; the zero namesake is none.
type namesake struct {
	object client.Object
	kind   Kind
}

// String returns the kind and the name of a namesake.
func (n namesake) String() string {
	return n.kind.Source(n.object).Kind.Kind + " " + n.object.GetName()
}

// of returns the namesake of a name.
func (n names) of(ctx context.Context, reader client.Reader, name string) (namesake, error) {
	for _, kind := range n.kinds {
		if kind == n.kind {
			continue
		}
		object := kind.New()
		err := reader.Get(ctx, client.ObjectKey{Name: name}, object)
		if client.IgnoreNotFound(err) != nil {
			return namesake{}, fmt.Errorf("looking for another catalog named %s: %w", name, err)
		}
		if err == nil && !kind.IsMirror(object) && n.Config.selects(object.GetLabels()) {
			return namesake{object, kind}, nil
		}
	}
	return namesake{}, nil
}

// beside returns the namesake of a source. Before the first digest it asks the API server: the cache may not have an older
// object yet.
func (n names) beside(ctx context.Context, src source.Source) (namesake, error) {
	if src.Observed.Digest == "" {
		return n.of(ctx, n.Live, src.Name)
	}
	return n.of(ctx, n.Client, src.Name)
}

// belongTo reports whether the name of object belongs to its namesake. Of two objects of the same second, it belongs to the
// one whose kind comes first.
func (n names) belongTo(other namesake, object client.Object) bool {
	if other == (namesake{}) {
		return false
	}
	return isOlder(other.object, object) ||
		(!isOlder(object, other.object) && slices.Index(n.kinds, other.kind) < slices.Index(n.kinds, n.kind))
}

// refused returns the outcome of a pass over an object that cannot be served as it is.
func refused(src source.Source, err error) outcome {
	r := status.Results{Image: status.Image{Ref: src.Image.Ref}, Fault: fault.Block(err), Attempted: true}
	s := status.Concluded(src, r)
	s.Digest = "" // replicas have nothing to follow
	return outcome{status: &s, events: status.Events(src.Observed, s, r), image: src.Image.Ref, fault: r.Fault}
}

// maxName is how long the name of a catalog may be: it is a label of its packages, and of a ClusterCatalog.
const maxName = validation.LabelValueMaxLength

// checkName returns the error of a name that is too long.
func checkName(src source.Source) error {
	if len(src.Name) <= maxName {
		return nil
	}
	return fmt.Errorf("the name has %d characters: create the catalog under a name of at most %d, as the name becomes a label",
		len(src.Name), maxName)
}

// claim makes the metadata of an object as its kind needs it. again also overrules what other programs wrote. A name that is
// too long cannot become a label.
func (c *controller) claim(ctx context.Context, object client.Object, again bool) error {
	if len(object.GetName()) > maxName {
		return nil
	}
	before := copyOf(object)
	c.kind.Claim(object, again)
	if equality.Semantic.DeepEqual(before, object) && !again {
		return nil
	}
	if before.GetManagedFields() == nil { // the cache has none
		if err := c.Live.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		before = copyOf(object)
		c.kind.Claim(object, again)
	}
	return c.known.write(object, func() error {
		return c.Client.Patch(ctx, object, lockedMerge(before), client.FieldOwner(v1beta1.FieldManager))
	})
}

// mirrored returns an outcome of a pass with what the catalog's mirrors report, which it brings up to date.
func (e *Engine) mirrored(ctx context.Context, object client.Object, out outcome) outcome {
	if out.status == nil {
		return out
	}
	for _, mirror := range e.Mirrors {
		out.err = errors.Join(out.err, mirror.Sync(ctx, object, out.status))
	}
	return out
}
