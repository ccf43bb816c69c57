package sync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	stdsync "sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// parallelWrites bounds the requests that one catalog has under way at the API server.
const parallelWrites = 8

// mostFailures is after how many OperatorPackages that it failed at a pass asks the API server for no more: it is the API server that
// fails then, not this or that package, and a catalog can have thousands.
const mostFailures = 20

// publish makes the OperatorPackages of a catalog those of its served content: it writes the ones that differ and
// deletes the ones that are no more. If nothing is served, or it is older than what the leader before this one published, or it is not known
// which packages of it are sound, what was published stays.
func (r *CatalogReconciler) publish(ctx context.Context, rec *reconciliation) error {
	c := rec.catalog
	served, ok := r.Store.Catalog(c.Name)
	if !ok {
		return nil
	}
	if rec.lags = r.lags(rec, served); rec.lags {
		return nil
	}
	known := r.description(ctx, served.Snapshot)
	invalid, err := known.invalidPackages()
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err() // we are told to stop
		}
		rec.unexamined = true
		if !errors.Is(err, store.ErrNotValidated) {
			rec.syncErr = fmt.Errorf("finding out which packages of %s are not valid: %w", c.Name, err)
		}
		return nil
	}
	published, err := r.publishedPackages(ctx, c.Name)
	if err != nil {
		return err
	}
	p := &publication{r: r, catalog: c, known: known, invalid: invalid, progress: rec.progress}
	defer r.Store.Prioritize()()

	var group errgroup.Group // of its own: one package that fails does not stop the others
	group.SetLimit(parallelWrites)
	hashOf := r.contentHashes(c)
	versions := served.Snapshot.Packages()
	rec.progress.publish(len(versions))
	for _, version := range versions {
		name, hash := objectName(version.Name, c.Name), hashOf(version)
		have := published[name]
		delete(published, name)
		if have != nil && isAsWritten(have, hash, c.UID) {
			p.done()
			continue
		}
		rec.progress.enter(ctx, v1beta1.ProgressPublishing)
		group.Go(func() error { return p.ensure(ctx, version.Name, hash, have) })
	}
	for name, gone := range published {
		group.Go(func() error {
			if !p.hopeless() {
				p.failedAt(name, r.deletePackage(ctx, gone))
			}
			return nil
		})
	}
	readErr := group.Wait()
	if ctx.Err() != nil {
		return ctx.Err() // we are told to stop; that says nothing about the packages
	}
	if err := p.fenced(); err != nil {
		return err // another one leads, or this one again: it makes a pass of its own
	}
	rec.published, rec.invalid = p.count, p.invalid
	rec.syncErr = errors.Join(append(p.failures(), readErr)...)
	return nil
}

// catalogField is by which OperatorPackages of a catalog are found: a field that the API server selects by, and an index of the cache.
const catalogField = "spec.catalog"

// indexPackages has the cache find the OperatorPackages of a catalog without looking at those of all.
func indexPackages(ctx context.Context, indexer client.FieldIndexer) error {
	packages := metadataOf(v1beta1.GroupVersion.WithKind("OperatorPackage"))
	return indexer.IndexField(ctx, packages, catalogField, func(object client.Object) []string {
		return []string{object.GetLabels()[v1beta1.CatalogLabel]} // metadata is all that there is
	})
}

// publishedPackages are the OperatorPackages of a catalog by name, as far as the cache knows; metadata only. They are the cache's own
// and not to be changed.
func (r *CatalogReconciler) publishedPackages(ctx context.Context, catalog string) (map[string]*metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("OperatorPackageList"))
	if err := r.Client.List(ctx, list, client.MatchingFields{catalogField: catalog}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing OperatorPackages: %w", err)
	}
	out := make(map[string]*metav1.PartialObjectMetadata, len(list.Items))
	for i := range list.Items {
		out[list.Items[i].Name] = &list.Items[i]
	}
	return out, nil
}

// deletePackages deletes all OperatorPackages of a catalog with one request, whatever the cache knows of them. Where their CRD is gone,
// they are: whoever deletes both CRDs must not wait for a finalizer that cannot be removed.
func (r *CatalogReconciler) deletePackages(ctx context.Context, catalog string) error {
	err := r.Client.DeleteAllOf(ctx, &v1beta1.OperatorPackage{}, client.MatchingFields{catalogField: catalog})
	if client.IgnoreNotFound(err) != nil && !meta.IsNoMatchError(err) {
		return fmt.Errorf("deleting the OperatorPackages of %s: %w", catalog, err)
	}
	return nil
}

func (r *CatalogReconciler) deletePackage(ctx context.Context, have *metav1.PartialObjectMetadata) error {
	pkg := &v1beta1.OperatorPackage{ObjectMeta: metav1.ObjectMeta{Name: have.Name}}
	err := r.Client.Delete(ctx, pkg, client.Preconditions{UID: &have.UID, ResourceVersion: &have.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting OperatorPackage %s: %w", have.Name, err)
	}
	return nil
}

// publication is the publishing of one snapshot's packages.
type publication struct {
	r        *CatalogReconciler
	catalog  *v1beta1.CatalogSource
	known    description // of its snapshot
	progress *teller

	mu      stdsync.Mutex
	count   int
	invalid []store.InvalidPackage
	failed  []packageFailure
	skipped int // packages that were not tried any more
}

// packageFailure is an OperatorPackage that could not be written or deleted.
type packageFailure struct {
	name string
	err  error
}

// ensure writes the OperatorPackage of a package over what there is, nil for nothing. Its error is one of the store; what is wrong with
// the package, and what the API server says, is gathered in p.
func (p *publication) ensure(ctx context.Context, name, hash string, have *metav1.PartialObjectMetadata) error {
	if p.hopeless() {
		return nil
	}
	pkg, err := p.build(ctx, name)
	if err == nil {
		pkg.Annotations = map[string]string{v1beta1.ContentHashAnnotation: hash}
		err = p.r.write(ctx, pkg, have)
	}
	var unfit *unfitError
	switch {
	case errors.As(err, &unfit):
		p.add(func() { p.invalid = append(p.invalid, store.InvalidPackage{Name: name, Reason: unfit.reason}) })
		if have != nil {
			p.failedAt(have.Name, p.r.deletePackage(ctx, have))
		}
	case pkg == nil:
		return fmt.Errorf("making OperatorPackage %s: %w", objectName(name, p.catalog.Name), err)
	case err != nil:
		p.failedAt(pkg.Name, fmt.Errorf("writing OperatorPackage %s: %w", pkg.Name, err))
	default:
		p.done()
	}
	return nil
}

// done counts a package that is published.
func (p *publication) done() {
	p.add(func() { p.count++ })
	p.progress.published()
}

// build makes the OperatorPackage of a package. A panic is an error like one of the store: one package is not to end the process, again at
// each start, and as the fault is ours, what is published of it stays.
func (p *publication) build(ctx context.Context, name string) (pkg *v1beta1.OperatorPackage, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			pkg, err = nil, fmt.Errorf("panic: %v", cause)
			logf.FromContext(ctx).Error(err, "making an OperatorPackage failed", "package", name, "stack", string(debug.Stack()))
		}
	}()
	sound, err := p.known.load(name)
	if err != nil {
		return nil, err
	}
	return p.r.buildPackage(ctx, p.catalog, p.known.Snapshot, sound)
}

// isAsWritten tells whether an OperatorPackage is still what was written of a content. Its generation counts every change
// of spec and status, so that it shows when somebody else made one.
func isAsWritten(have *metav1.PartialObjectMetadata, hash string, owner types.UID) bool {
	controller := metav1.GetControllerOfNoCopy(have)
	return controller != nil && controller.UID == owner && have.Labels[v1beta1.CatalogLabel] == controller.Name &&
		have.Annotations[v1beta1.ContentHashAnnotation] == hash &&
		have.Annotations[v1beta1.ContentGenerationAnnotation] == strconv.FormatInt(have.Generation, 10)
}

// failedAt notes that the API server failed us at an OperatorPackage, if it did.
func (p *publication) failedAt(name string, err error) {
	if err != nil {
		p.add(func() { p.failed = append(p.failed, packageFailure{name, err}) })
	}
}

// hopeless tells whether so many packages failed that the next is not tried; it is counted then.
func (p *publication) hopeless() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.failed) < mostFailures {
		return false
	}
	p.skipped++
	return true
}

func (p *publication) add(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// fenced is the error of a write that was not this replica's to make: nothing that anybody but the log should hear of.
func (p *publication) fenced() error {
	for _, f := range p.failed {
		if p.r.Leadership != nil && p.r.Leadership.Refused(f.err) {
			return f.err
		}
	}
	return nil
}

// failures names what could not be written, few enough to read.
func (p *publication) failures() []error {
	const most = 3
	slices.SortFunc(p.failed, func(a, b packageFailure) int { return cmp.Compare(a.name, b.name) })
	var errs []error
	for i, f := range p.failed {
		if i == most {
			errs = append(errs, fmt.Errorf("and %d more OperatorPackages", len(p.failed)-most+p.skipped))
			break
		}
		errs = append(errs, f.err)
	}
	return errs
}

// write makes an OperatorPackage what pkg says; have is what there is, nil if nothing. Where the cache that have is from
// was behind, the API server is asked what there is, and the write made once more. An object that the API server will
// never take is an *unfitError.
func (r *CatalogReconciler) write(ctx context.Context, pkg *v1beta1.OperatorPackage, have *metav1.PartialObjectMetadata) error {
	err := r.put(ctx, pkg, have)
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		have, err = r.liveMetadata(ctx, pkg.Name)
		if have != nil && isAsWritten(have, pkg.Annotations[v1beta1.ContentHashAnnotation], pkg.OwnerReferences[0].UID) {
			return nil
		}
		if err == nil {
			err = r.put(ctx, pkg, have)
		}
	}
	if apierrors.IsRequestEntityTooLargeError(err) || apierrors.IsInvalid(err) || isTooLargeForEtcd(err) {
		return &unfitError{"the API server does not take its OperatorPackage: " + truncate(err.Error(), 500)}
	}
	return err
}

// isTooLargeForEtcd knows the refusals of etcd, and of its client, by their text: the API server passes them on as internal
// errors.
func isTooLargeForEtcd(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "etcdserver: request is too large") ||
		strings.Contains(err.Error(), "trying to send message larger than max"))
}

// liveMetadata is what the API server has of an OperatorPackage, nil if nothing.
func (r *CatalogReconciler) liveMetadata(ctx context.Context, name string) (*metav1.PartialObjectMetadata, error) {
	now := metadataOf(v1beta1.GroupVersion.WithKind("OperatorPackage"))
	err := r.Live.Get(ctx, client.ObjectKey{Name: name}, now)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return now, nil
}

// put creates an OperatorPackage, or replaces the one there is. With the content it writes the generation that the object
// will have: 1 when it is new, one more when it differs. Where it turns out not to differ (but for labels), the generation
// is put right by a second write.
func (r *CatalogReconciler) put(ctx context.Context, pkg *v1beta1.OperatorPackage, have *metav1.PartialObjectMetadata) error {
	pkg = pkg.DeepCopy()
	if have == nil {
		pkg.Annotations[v1beta1.ContentGenerationAnnotation] = "1"
		return r.Client.Create(ctx, pkg)
	}
	expected := have.Generation + 1
	pkg.ResourceVersion = have.ResourceVersion
	pkg.Annotations[v1beta1.ContentGenerationAnnotation] = strconv.FormatInt(expected, 10)
	if err := r.Client.Update(ctx, pkg); err != nil || pkg.Generation == expected {
		return err
	}
	pkg.Annotations[v1beta1.ContentGenerationAnnotation] = strconv.FormatInt(pkg.Generation, 10)
	return r.Client.Update(ctx, pkg)
}
