package sync

import (
	"context"
	"errors"
	"io/fs"

	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/operator-catalogs/catalogd/internal/source"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// refilters reports whether the wanted content is another part of the image that the catalog serves, and the store has all of it.
func (j job) refilters(served store.Catalog) bool {
	return served.Image == j.target.Image && served.Snapshot.Info().Digest == j.target.Digest &&
		!served.Snapshot.IsVariant(j.target) && j.Store.CanRestore(j.target)
}

// refilter applies another filter to the served image, without a request.
func (j job) refilter(ctx context.Context) (content, error) {
	served, ok := j.Store.Catalog(j.src.Name)
	if !ok {
		return content{}, fs.ErrNotExist
	}
	leave, ok := j.gate.enter(j.src.Name, j.wanted.Context().RegistryStr(), j.Config.Concurrency, j.wake)
	if !ok {
		return content{crowded: true}, nil
	}
	defer leave()
	err := j.commit(ctx, j.restored(served.Endpoint))
	return content{current: err == nil}, err
}

// restored returns a function that fills a stage from the store. An error can be of isNotStored.
func (j job) restored(endpoint string) func(context.Context, *store.Stage) (store.Source, int, error) {
	return func(ctx context.Context, stage *store.Stage) (store.Source, int, error) {
		j.progress.enter(ctx, source.Indexing)
		if err := stage.Restore(ctx, j.target); err != nil {
			logf.FromContext(ctx).Info("cannot use the stored whole catalog; pulling the image", "reason", err.Error())
			return store.Source{}, 0, err
		}
		target := j.target
		target.Endpoint = endpoint
		return target, 0, nil
	}
}

// isNotStored reports whether the store does not have the whole catalog, or has it damaged: the image must be pulled.
func isNotStored(err error) bool {
	_, damaged := errors.AsType[*store.DamagedError](err)
	return damaged || errors.Is(err, fs.ErrNotExist)
}
