package sync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	stdsync "sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// parallelWrites bounds the requests that one catalog has under way at the API server.
const parallelWrites = 8

// publish makes the OperatorPackages of a catalog those of its served content: it writes the ones that differ and
// deletes the ones that are no more. If nothing is served, what was published stays.
func (r *CatalogReconciler) publish(ctx context.Context, rec *reconciliation) error {
	c := rec.catalog
	served, ok := r.Store.Catalog(c.Name)
	if !ok {
		return nil
	}
	published, err := r.publishedPackages(ctx, c.Name)
	if err != nil {
		return err
	}
	p := &publication{r: r, catalog: c, snapshot: served.Snapshot}
	p.invalid = append(p.invalid, served.Snapshot.Info().InvalidPackages...)

	var group errgroup.Group // of its own: one package that fails does not stop the others
	group.SetLimit(parallelWrites)
	for _, version := range served.Snapshot.Packages() {
		name := objectName(version.Name, c.Name)
		have, exists := published[name]
		delete(published, name)
		group.Go(func() error { return p.ensure(ctx, version, have, exists) })
	}
	errs := []error{group.Wait()}
	for _, gone := range published {
		errs = append(errs, r.deletePackage(ctx, &gone))
	}
	rec.published, rec.invalid = p.count, p.invalid
	rec.syncErr = errors.Join(append(errs, p.failures()...)...)
	return nil
}

// publishedPackages are the OperatorPackages of a catalog by name, as far as the cache knows; metadata only.
func (r *CatalogReconciler) publishedPackages(ctx context.Context, catalog string) (map[string]metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("OperatorPackageList"))
	if err := r.Client.List(ctx, list, client.MatchingLabels{v1beta1.CatalogLabel: catalog}); err != nil {
		return nil, fmt.Errorf("listing OperatorPackages: %w", err)
	}
	out := make(map[string]metav1.PartialObjectMetadata, len(list.Items))
	for _, item := range list.Items {
		out[item.Name] = item
	}
	return out, nil
}

// deletePackages deletes all OperatorPackages of a catalog with one request, whatever the cache knows of them.
func (r *CatalogReconciler) deletePackages(ctx context.Context, catalog string) error {
	err := r.Client.DeleteAllOf(ctx, &v1beta1.OperatorPackage{}, client.MatchingFields{"spec.catalog": catalog})
	if err != nil {
		return fmt.Errorf("deleting the OperatorPackages of %s: %w", catalog, err)
	}
	return nil
}

func (r *CatalogReconciler) deletePackage(ctx context.Context, have *metav1.PartialObjectMetadata) error {
	pkg := &v1beta1.OperatorPackage{ObjectMeta: metav1.ObjectMeta{Name: have.Name}}
	err := r.Client.Delete(ctx, pkg, client.Preconditions{UID: &have.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting OperatorPackage %s: %w", have.Name, err)
	}
	return nil
}

// publication is the publishing of one snapshot's packages.
type publication struct {
	r        *CatalogReconciler
	catalog  *v1beta1.CatalogSource
	snapshot *store.Snapshot

	mu      stdsync.Mutex
	count   int
	invalid []store.InvalidPackage
	failed  []packageFailure
}

// packageFailure is an OperatorPackage that the API server would not take.
type packageFailure struct {
	name string
	err  error
}

// ensure writes the OperatorPackage of a package if it differs from what there is. Its error is one of the store; what
// is wrong with the package, and what the API server says, is gathered in p.
func (p *publication) ensure(ctx context.Context, version store.PackageVersion, have metav1.PartialObjectMetadata, exists bool) error {
	hash := p.r.contentHash(p.catalog, version)
	if exists && have.Annotations[v1beta1.ContentHashAnnotation] == hash && metav1.IsControlledBy(&have, p.catalog) {
		p.add(func() { p.count++ })
		return nil
	}
	pkg, err := p.r.buildPackage(p.catalog, p.snapshot, version.Name)
	var unfit *unfitError
	if errors.As(err, &unfit) {
		p.add(func() { p.invalid = append(p.invalid, store.InvalidPackage{Name: version.Name, Reason: unfit.reason}) })
		if exists {
			return p.r.deletePackage(ctx, &have)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("making OperatorPackage %s: %w", objectName(version.Name, p.catalog.Name), err)
	}
	pkg.Annotations = map[string]string{v1beta1.ContentHashAnnotation: hash}
	if exists {
		pkg.ResourceVersion = have.ResourceVersion
	}
	if err := p.r.write(ctx, pkg); err != nil {
		p.add(func() { p.failed = append(p.failed, packageFailure{pkg.Name, err}) })
		return nil
	}
	p.add(func() { p.count++ })
	return nil
}

func (p *publication) add(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// failures names what could not be written, few enough to read.
func (p *publication) failures() []error {
	const most = 3
	slices.SortFunc(p.failed, func(a, b packageFailure) int { return cmp.Compare(a.name, b.name) })
	var errs []error
	for i, f := range p.failed {
		if i == most {
			errs = append(errs, fmt.Errorf("and %d more OperatorPackages", len(p.failed)-most))
			break
		}
		errs = append(errs, fmt.Errorf("writing OperatorPackage %s: %w", f.name, f.err))
	}
	return errs
}

// write creates an OperatorPackage or, if it has a resource version, replaces it. Where the cache was behind, the API
// server is asked what there is, and the write made once more.
func (r *CatalogReconciler) write(ctx context.Context, pkg *v1beta1.OperatorPackage) error {
	var err error
	if pkg.ResourceVersion == "" {
		err = r.Client.Create(ctx, pkg.DeepCopy())
	} else {
		err = r.Client.Update(ctx, pkg.DeepCopy())
	}
	if !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return err
	}
	now := &metav1.PartialObjectMetadata{}
	now.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("OperatorPackage"))
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(pkg), now); err != nil {
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		pkg.ResourceVersion = ""
		return r.Client.Create(ctx, pkg)
	}
	pkg.ResourceVersion = now.ResourceVersion
	return r.Client.Update(ctx, pkg)
}
