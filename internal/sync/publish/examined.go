package publish

import (
	"context"
	"errors"
	"sync"

	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/source"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// examined reads what the store found out about the packages of a snapshot. The file that holds it can be damaged; the
// packages are examined again then, once for all reads. Other errors, such as damaged content, are returned.
type examined struct {
	*store.Snapshot
	examineAgain func(cause error) error
}

func examine(ctx context.Context, st *store.Store, snap *store.Snapshot) examined {
	var once sync.Once
	var failed error
	return examined{snap, func(cause error) error {
		once.Do(func() {
			logf.FromContext(ctx).Error(cause, "the record of the packages is damaged; examining them again")
			failed = st.Revalidate(ctx, snap)
		})
		return failed
	}}
}

// invalidPackages returns the invalid packages, and store.ErrNotValidated while they are unknown.
func (e examined) invalidPackages() (invalid []source.InvalidPackage, err error) {
	if !e.Validated() {
		return nil, store.ErrNotValidated
	}
	all, err := readOrExamine(e, e.InvalidPackages)
	for _, p := range all {
		invalid = append(invalid, source.InvalidPackage{Name: p.Name, Reason: p.Reason})
	}
	return invalid, err
}

// load loads a valid package.
func (e examined) load(name string) (*fbc.Package, error) {
	return readOrExamine(e, func() (*fbc.Package, error) { return e.LoadPackage(name) })
}

func readOrExamine[T any](e examined, read func() (T, error)) (T, error) {
	out, err := read()
	if !errors.Is(err, store.ErrValidationDamaged) {
		return out, err
	}
	if err := e.examineAgain(err); err != nil {
		return out, err
	}
	return read()
}
