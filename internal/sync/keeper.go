package sync

import (
	"context"
	"errors"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/operator-catalogs/catalogd/internal/store"
)

// How often the store is swept and verified: how much later space is freed, and damaged content found.
const (
	sweepEvery = 5 * time.Minute
	scrubEvery = 24 * time.Hour
)

// keeper maintains the store for the catalogs of all kinds.
type keeper struct{ *Engine }

// run verifies the content of the store against its checksums, at start and daily, and deletes unneeded content, until ctx ends.
func (k *keeper) run(ctx context.Context) error {
	log := logf.FromContext(ctx).WithName("store")
	sweep, scrub := time.NewTicker(sweepEvery), time.NewTicker(scrubEvery)
	defer sweep.Stop()
	defer scrub.Stop()
	k.scrub(ctx)
	for {
		if err := errors.Join(k.removeOrphans(ctx), k.Store.Sweep(), k.dropOlder(ctx)); err != nil && ctx.Err() == nil {
			log.Error(err, "cannot free space in the store; retrying later")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-sweep.C:
		case <-scrub.C:
			k.scrub(ctx)
		}
	}
}

// dropOlder deletes the content of an older layout, once all catalogs are served from the current one.
func (k *keeper) dropOlder(ctx context.Context) error {
	sources, err := List(ctx, k.Client, k.kinds...)
	if err != nil || !LagOf(sources, k.Store, k.Polls).None() {
		return err
	}
	return k.Store.DropOlder()
}

// scrub verifies the content of the store. It reconciles catalogs with damaged content, and those whose packages it validated
// for the first time: they are not published yet.
func (k *keeper) scrub(ctx context.Context) {
	notValidated := slices.DeleteFunc(k.Store.Catalogs(), func(c store.Catalog) bool { return c.Snapshot.Validated() })
	names, _ := k.Store.Scrub(ctx) // its only error is that of ctx
	for _, c := range notValidated {
		if c.Snapshot.Validated() {
			names = append(names, c.Name)
		}
	}
	for _, name := range names {
		k.Reconcile(ctx, name)
	}
}

// reconcileAgain queues a pass over a catalog.
func (c *controller) reconcileAgain(ctx context.Context, name string) {
	object := c.kind.New()
	object.SetName(name)
	select {
	case c.again <- event.GenericEvent{Object: object}:
	case <-ctx.Done():
	}
}

// removeOrphans removes the content of catalogs that were deleted without the finalizer while no catalogd ran. It asks the API
// server, as a stale cache must not delete content. It reconciles unselected objects that have our finalizer: the cache does
// not have them, and their deletion may be pending.
func (k *keeper) removeOrphans(ctx context.Context) error {
	stored := k.Store.Catalogs() // before the list, so that catalogs that are stored meanwhile stay
	known := map[string]bool{}
	for _, c := range k.controllers {
		gvk, err := apiutil.GVKForObject(c.kind.NewList(), k.Client.Scheme())
		if err != nil {
			return err
		}
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(gvk)
		if err := k.Live.List(ctx, list); err != nil {
			return err
		}
		for _, item := range list.Items {
			if c.kind.IsMirror(&item) {
				continue
			}
			known[item.Name] = true
			if !k.Config.selects(item.Labels) && slices.Contains(item.Finalizers, c.kind.Finalizer()) {
				c.reconcileAgain(ctx, item.Name)
			}
		}
	}
	if k.Config.Incomplete {
		return nil
	}
	var errs []error
	for _, c := range stored {
		if !known[c.Name] {
			errs = append(errs, k.Store.Remove(c.Name))
		}
	}
	return errors.Join(errs...)
}
