package sync

import (
	"context"
	"errors"
	"slices"
	stdsync "sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// knownVersions has the resourceVersion of each CatalogSource that the API server gave this process last, in answer to a read or a write.
// A cache is believed only where it has the very same: in one that is behind by the last write of status, the catalog would still want
// what it served before, and be given it again; and one that is ahead of it may be that of an etcd from before a restore. The zero value is
// ready for use; what an earlier process wrote it does not know, so the API server is asked first.
type knownVersions struct {
	mu     stdsync.Mutex
	byName map[string]string
}

// read gets a CatalogSource from the cache, or live. One that is being deleted is always read live: its content goes, and there may be
// another of the name by now.
func (k *knownVersions) read(ctx context.Context, cache, live client.Reader, name string) (*v1beta1.CatalogSource, error) {
	key := client.ObjectKey{Name: name}
	if known := k.get(name); known != "" {
		catalog := &v1beta1.CatalogSource{}
		err := cache.Get(ctx, key, catalog)
		if err == nil && catalog.ResourceVersion == known && catalog.DeletionTimestamp.IsZero() {
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

func (k *knownVersions) clear() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.byName)
}

func (k *knownVersions) forget(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.byName, name)
}
