// Package publish makes the OperatorPackages of a catalog match its served content, with as few writes as possible.
package publish

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/source"
	"github.com/operator-catalogs/catalogd/internal/store"
	"github.com/operator-catalogs/catalogd/internal/sync/status"
)

// +kubebuilder:rbac:groups=catalogd.operatorframework.io,resources=operatorpackages,verbs=get;list;watch;create;update;delete;deletecollection

const (
	// parallelWrites limits the concurrent API requests of one catalog.
	parallelWrites = 8

	// maxFailures ends the writes of a pass after so many failed: the API server is at fault then, not a package, and a
	// catalog can have thousands.
	maxFailures = 20
)

// Publisher writes OperatorPackages.
type Publisher struct {
	Client    client.Client // lists the metadata of OperatorPackages from the cache
	Live      client.Reader
	Store     *store.Store
	Namespace string           // catalogd's own; the packages name it as that of their catalog
	BaseURL   string           // of the content service
	IsRefused func(error) bool // whether a write failed since this replica does not lead; nil: never
}

// Progress receives the progress of publishing.
type Progress interface {
	Total(packages int)
	Publishing(ctx context.Context) // a package must be written
	Published()                     // another package is up to date
}

// Publish creates, updates and deletes the OperatorPackages that differ from the content of snap. While it is unknown
// which packages are valid, it leaves all as they are. The error is that of ctx, of the cache, or of a write that this
// replica may not make; the result has the writes that the API server refuses.
func (p Publisher) Publish(ctx context.Context, src source.Source, snap *store.Snapshot, progress Progress) (status.Packages, error) {
	known := newValidated(ctx, p.Store, snap)
	invalid, err := known.invalidPackages()
	if err != nil {
		if ctx.Err() != nil {
			return status.Packages{}, ctx.Err()
		}
		result := status.Packages{NotValidated: true}
		if !errors.Is(err, store.ErrNotValidated) {
			result.Err = fmt.Errorf("validating the packages of %s: %w", src.Name, err)
		}
		return result, nil
	}
	published, err := p.list(ctx, src.Name)
	if err != nil {
		return status.Packages{}, err
	}
	defer p.Store.Prioritize()()
	r := &run{Publisher: p, builder: p.builder(src), known: known, progress: progress, invalid: invalid}
	readErr := r.write(ctx, published)
	if ctx.Err() != nil {
		return status.Packages{}, ctx.Err() // it says nothing about the packages
	}
	if err := r.refused(); err != nil {
		return status.Packages{}, err // the replica that leads makes its own pass
	}
	return status.Packages{Published: r.count, Invalid: r.invalid, Err: errors.Join(append(r.failures(), readErr)...)}, nil
}

// catalogField selects the OperatorPackages of a catalog, at the API server and in the cache.
const catalogField = "spec.catalog"

// Index makes a cache find the OperatorPackages of a catalog by an index.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, Metadata(), catalogField, func(object client.Object) []string {
		return []string{object.GetLabels()[v1beta1.CatalogLabel]} // the cache has metadata only
	})
}

// Metadata returns an empty OperatorPackage of which a cache holds metadata only.
func Metadata() *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: "OperatorPackage"}}
}

// IsFrom reports whether an OperatorPackage says that the catalogd of this namespace wrote it.
func IsFrom(object client.Object, namespace string) bool {
	return object.GetLabels()[namespaceLabel] == namespace
}

// list returns the metadata of a catalog's OperatorPackages by name, as the cache has them. They must not be changed.
func (p Publisher) list(ctx context.Context, catalog string) (map[string]*metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("OperatorPackageList"))
	if err := p.Client.List(ctx, list, client.MatchingFields{catalogField: catalog}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing OperatorPackages: %w", err)
	}
	out := make(map[string]*metav1.PartialObjectMetadata, len(list.Items))
	for i := range list.Items {
		out[list.Items[i].Name] = &list.Items[i]
	}
	return out, nil
}

// HasAny reports whether the cache has OperatorPackages of a catalog.
func (p Publisher) HasAny(ctx context.Context, catalog string) (bool, error) {
	published, err := p.list(ctx, catalog)
	return len(published) > 0, err
}

// DeleteAll deletes all OperatorPackages of a catalog with one request, whatever the cache has. If their CRD is gone, so
// are they: a finalizer must not wait for it.
func (p Publisher) DeleteAll(ctx context.Context, catalog string) error {
	err := p.Client.DeleteAllOf(ctx, &v1beta1.OperatorPackage{}, client.MatchingFields{catalogField: catalog})
	if client.IgnoreNotFound(err) != nil && !meta.IsNoMatchError(err) {
		return fmt.Errorf("deleting the OperatorPackages of %s: %w", catalog, err)
	}
	return nil
}

// run is the publishing of one snapshot.
type run struct {
	Publisher
	builder  builder
	known    validated
	progress Progress

	mu      sync.Mutex
	count   int
	invalid []source.InvalidPackage
	failed  []failure
	skipped int // packages that were not tried
}

// failure is an OperatorPackage that could not be written or deleted.
type failure struct {
	name string
	err  error
}

// write writes and deletes what differs from published. Its error is one of the store.
func (r *run) write(ctx context.Context, published map[string]*metav1.PartialObjectMetadata) error {
	var group errgroup.Group // without a context: a failed package does not stop the others
	group.SetLimit(parallelWrites)
	hashOf := r.builder.hasher()
	versions := r.known.Packages()
	r.progress.Total(len(versions))
	for _, version := range versions {
		name, hash := objectName(version.Name, r.builder.Name), hashOf(version)
		have := published[name]
		delete(published, name)
		if have != nil && isUnchanged(have, hash, r.builder.owner.UID) {
			r.done()
			continue
		}
		r.progress.Publishing(ctx)
		group.Go(func() error { return r.ensure(ctx, version.Name, hash, have) })
	}
	for name, gone := range published {
		group.Go(func() error {
			if !r.givesUp() {
				r.failedAt(name, r.delete(ctx, gone))
			}
			return nil
		})
	}
	return group.Wait()
}

// ensure writes the OperatorPackage of a package over have, which is nil if there is none. Its error is one of the store.
func (r *run) ensure(ctx context.Context, name, hash string, have *metav1.PartialObjectMetadata) error {
	if r.givesUp() {
		return nil
	}
	pkg, err := r.build(ctx, name)
	if err == nil {
		pkg.Annotations = map[string]string{v1beta1.ContentHashAnnotation: hash}
		err = r.put(ctx, pkg, have)
	}
	var unfit *unfitError
	switch {
	case errors.As(err, &unfit):
		r.locked(func() { r.invalid = append(r.invalid, source.InvalidPackage{Name: name, Reason: unfit.reason}) })
		if have != nil {
			r.failedAt(have.Name, r.delete(ctx, have))
		}
	case pkg == nil:
		return fmt.Errorf("making OperatorPackage %s: %w", objectName(name, r.builder.Name), err)
	case err != nil:
		r.failedAt(pkg.Name, fmt.Errorf("writing OperatorPackage %s: %w", pkg.Name, err))
	default:
		r.done()
	}
	return nil
}

// build makes the OperatorPackage of a package. A panic becomes an error: one package must not end the process at each
// start, and since the fault is ours, the published object stays.
func (r *run) build(ctx context.Context, name string) (pkg *v1beta1.OperatorPackage, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			pkg, err = nil, fmt.Errorf("panic: %v", cause)
			logf.FromContext(ctx).Error(err, "making an OperatorPackage failed", "package", name, "stack", string(debug.Stack()))
		}
	}()
	valid, err := r.known.load(name)
	if err != nil {
		return nil, err
	}
	heads, err := readHeads(ctx, r.known.Snapshot, valid)
	if err != nil {
		return nil, err
	}
	return r.builder.build(valid, heads)
}

// done counts a package that is published.
func (r *run) done() {
	r.locked(func() { r.count++ })
	r.progress.Published()
}

// failedAt notes that the API server failed at an OperatorPackage, if err is not nil.
func (r *run) failedAt(name string, err error) {
	if err != nil {
		r.locked(func() { r.failed = append(r.failed, failure{name, err}) })
	}
}

// givesUp reports whether too many packages failed to try another, and counts the one that is skipped.
func (r *run) givesUp() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.failed) < maxFailures {
		return false
	}
	r.skipped++
	return true
}

func (r *run) locked(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

// refused returns the error of a write that this replica may not make. Only the log mentions it.
func (r *run) refused() error {
	for _, f := range r.failed {
		if r.IsRefused != nil && r.IsRefused(f.err) {
			return f.err
		}
	}
	return nil
}

// failures returns the first few errors, by name, and counts the others.
func (r *run) failures() []error {
	const most = 3
	slices.SortFunc(r.failed, func(a, b failure) int { return strings.Compare(a.name, b.name) })
	var errs []error
	for i, f := range r.failed {
		if i == most {
			errs = append(errs, fmt.Errorf("and %d more OperatorPackages", len(r.failed)-most+r.skipped))
			break
		}
		errs = append(errs, f.err)
	}
	return errs
}
