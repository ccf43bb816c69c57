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

// validated reads the stored validation of a snapshot's packages. If its file is damaged, the packages are validated
// again, once for all reads. Other errors, such as damaged content, are returned.
type validated struct {
	*store.Snapshot
	revalidate func(cause error) error
}

func newValidated(ctx context.Context, st *store.Store, snap *store.Snapshot) validated {
	var once sync.Once
	var failed error
	return validated{snap, func(cause error) error {
		once.Do(func() {
			logf.FromContext(ctx).Error(cause, "the stored validation of the packages is damaged; validating them again")
			failed = st.Revalidate(ctx, snap)
		})
		return failed
	}}
}

// invalidPackages returns the invalid packages, and store.ErrNotValidated while they are unknown.
func (v validated) invalidPackages() (invalid []source.InvalidPackage, err error) {
	if !v.Validated() {
		return nil, store.ErrNotValidated
	}
	all, err := readOrRevalidate(v, v.InvalidPackages)
	for _, p := range all {
		invalid = append(invalid, source.InvalidPackage{Name: p.Name, Reason: p.Reason})
	}
	return invalid, err
}

// load loads a valid package.
func (v validated) load(name string) (*fbc.Package, error) {
	return readOrRevalidate(v, func() (*fbc.Package, error) { return v.LoadPackage(name) })
}

func readOrRevalidate[T any](v validated, read func() (T, error)) (T, error) {
	out, err := read()
	if !errors.Is(err, store.ErrValidationDamaged) {
		return out, err
	}
	if err := v.revalidate(err); err != nil {
		return out, err
	}
	return read()
}
