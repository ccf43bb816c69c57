package sync

import (
	"context"
	"errors"
	"slices"
	stdsync "sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
)

// read gets the catalog. If there is none, its content goes: whoever deleted it did not wait for the finalizer. That is taken from
// nobody but the API server.
func (r *CatalogReconciler) read(ctx context.Context, req ctrl.Request) (*reconciliation, error) {
	catalog, err := r.known.read(ctx, r.Client, r.Live, req.Name)
	if err != nil {
		if !isGone(err, req.Name) {
			return nil, err
		}
		logf.FromContext(ctx).Info("the catalog was deleted; removing its content")
		r.forget(req.Name)
		return nil, r.Store.Remove(req.Name)
	}
	return &reconciliation{catalog: catalog, before: catalog.DeepCopy()}, nil
}

// isGone tells whether the API server said that there is no CatalogSource of a name. Others say "not found" too and mean
// something else: a proxy that lost its backend, an API server that does not serve the version for a while.
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

// knownVersions has the resourceVersion of each CatalogSource that this process read from the API server or wrote last. A cache is asked
// only for what is as new: in one that is behind by the last write of status, the catalog would still want what it served before,
// and be given it again. The zero value is ready for use; what an earlier process wrote it does not know, so the API server is
// asked first.
type knownVersions struct {
	mu     stdsync.Mutex
	byName map[string]string
}

// read gets a CatalogSource from the cache, or live.
func (k *knownVersions) read(ctx context.Context, cache, live client.Reader, name string) (*v1beta1.CatalogSource, error) {
	key := client.ObjectKey{Name: name}
	if known := k.get(name); known != "" {
		catalog := &v1beta1.CatalogSource{}
		if err := cache.Get(ctx, key, catalog); err == nil && isAsNew(catalog.ResourceVersion, known) {
			return catalog, nil
		}
	}
	catalog := &v1beta1.CatalogSource{}
	if err := live.Get(ctx, key, catalog); err != nil {
		return nil, err
	}
	k.set(name, catalog.ResourceVersion)
	return catalog, nil
}

// isAsNew compares two versions of one object, which are numbers that grow (KEP-5504). Of what is no number it says no.
func isAsNew(version, known string) bool {
	order, err := resourceversion.CompareResourceVersion(version, known)
	return err == nil && order >= 0
}

// write makes a write that puts what the API server answers into catalog. Of one that failed it is not known whether it was made: the
// API server is asked next.
func (k *knownVersions) write(catalog *v1beta1.CatalogSource, write func() error) error {
	k.forget(catalog.Name)
	if err := write(); err != nil {
		return err
	}
	k.set(catalog.Name, catalog.ResourceVersion)
	return nil
}

func (k *knownVersions) get(name string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.byName[name]
}

func (k *knownVersions) set(name, version string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byName == nil {
		k.byName = map[string]string{}
	}
	k.byName[name] = version
}

func (k *knownVersions) forget(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.byName, name)
}
