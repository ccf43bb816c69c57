package sync

import (
	"context"
	"errors"
	stdsync "sync"

	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// description is what the store knows of the packages of a snapshot, all of it in a file that can be damaged. As it follows from the
// content, the packages are examined again then, once for all that is read. Another error, of content that is damaged say, is passed on.
type description struct {
	*store.Snapshot
	examineAgain func(why error) error
}

func (r *CatalogReconciler) description(ctx context.Context, snap *store.Snapshot) description {
	var once stdsync.Once
	var failed error
	return description{snap, func(why error) error {
		once.Do(func() {
			logf.FromContext(ctx).Error(why, "what is known of the packages is damaged; examining them again")
			failed = r.Store.Revalidate(ctx, snap)
		})
		return failed
	}}
}

// invalidPackages are the packages that are not sound. The error is store.ErrNotValidated while that is not known yet.
func (d description) invalidPackages() ([]store.InvalidPackage, error) {
	if !d.Validated() {
		return nil, store.ErrNotValidated
	}
	return readOrExamine(d, d.InvalidPackages)
}

// load loads a sound package.
func (d description) load(name string) (*fbc.Package, error) {
	return readOrExamine(d, func() (*fbc.Package, error) { return d.LoadPackage(name) })
}

func readOrExamine[T any](d description, read func() (T, error)) (T, error) {
	out, err := read()
	if !errors.Is(err, store.ErrValidationDamaged) {
		return out, err
	}
	if err := d.examineAgain(err); err != nil {
		return out, err
	}
	return read()
}
