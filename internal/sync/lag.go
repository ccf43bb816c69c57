package sync

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/internal/poll"
	"github.com/operator-catalogs/catalogd/internal/source"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// List returns the sources of all catalogs of some kinds; of namesakes the one that has the name. They may share memory with a
// cache and must not be changed.
func List(ctx context.Context, reader client.Reader, kinds ...Kind) (sources []source.Source, err error) {
	owners := map[string]client.Object{}
	at := map[string]int{}
	for _, kind := range kinds {
		list := kind.NewList()
		if err := reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, err
		}
		if err := meta.EachListItem(list, func(item runtime.Object) error {
			object := item.(client.Object)
			name := object.GetName()
			switch owner, ok := owners[name]; {
			case kind.IsMirror(object), ok && !isOlder(object, owner):
				return nil
			case ok:
				sources[at[name]] = kind.Source(object)
			default:
				at[name] = len(sources)
				sources = append(sources, kind.Source(object))
			}
			owners[name] = object
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return sources, nil
}

// Get returns the source of a catalog. If there is none, the error says so.
func Get(ctx context.Context, reader client.Reader, name string, kinds ...Kind) (src source.Source, err error) {
	var owner client.Object
	err = apierrors.NewNotFound(schema.GroupResource{Resource: "catalogs"}, name)
	for _, kind := range kinds {
		object := kind.New()
		if getErr := reader.Get(ctx, client.ObjectKey{Name: name}, object); getErr != nil {
			if !apierrors.IsNotFound(getErr) {
				err = getErr
			}
			continue
		}
		if !kind.IsMirror(object) && (owner == nil || isOlder(object, owner)) {
			owner, src = object, kind.Source(object)
		}
	}
	if owner != nil {
		return src, nil
	}
	return src, err
}

// isOlder reports whether a was created before b. Times have whole seconds: of two objects of the same second neither is.
func isOlder(a, b client.Object) bool {
	created, other := a.GetCreationTimestamp(), b.GetCreationTimestamp()
	return created.Before(&other)
}

// isAhead reports whether the served digest is newer than the status: a leader found it when the status was as it is now, and
// ended before it could report it, or the API server refused the write.
func isAhead(s source.Status, served store.Catalog) bool {
	return served.Snapshot.Info().Digest != s.Digest && served.Basis == s.Basis()
}

// isBehind reports whether the served digest is older than the one in the status.
func isBehind(s source.Status, served store.Catalog) bool {
	return s.Digest != "" && served.Snapshot.Info().Digest != s.Digest && !isAhead(s, served)
}

// Awaited returns the digest in the status if this replica should serve it but does not yet; else "".
func Awaited(src source.Source, st *store.Store) string {
	if src.State != source.Available {
		return ""
	}
	if served, ok := st.Catalog(src.Name); ok && !isBehind(src.Observed, served) {
		return ""
	}
	return src.Observed.Digest
}

// Lag names the catalogs of which this replica does not serve the digest in the status.
type Lag struct {
	Missing []string // not served, and being fetched
	Failing []string // not served, as fetching fails
	Behind  []string // served in an older version; the newer one is being fetched
}

// None reports whether there is no lag.
func (l Lag) None() bool { return len(l.Missing)+len(l.Failing)+len(l.Behind) == 0 }

// LagOf compares the served content with the statuses.
func LagOf(sources []source.Source, st *store.Store, polls *poll.Log) (lag Lag) {
	for _, src := range sources {
		if src.Observed.Digest == "" || src.State != source.Available {
			continue
		}
		failed := polls.Get(src.Name).Err != nil
		switch served, ok := st.Catalog(src.Name); {
		case !ok && failed:
			lag.Failing = append(lag.Failing, src.Name)
		case !ok:
			lag.Missing = append(lag.Missing, src.Name)
		case !failed && isBehind(src.Observed, served):
			lag.Behind = append(lag.Behind, src.Name)
		}
	}
	return lag
}
