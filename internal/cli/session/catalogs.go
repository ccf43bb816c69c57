package session

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/operator-catalogs/catalogd/apis/olmv1"
	"github.com/operator-catalogs/catalogd/internal/cli/content"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/kube"
	"github.com/operator-catalogs/catalogd/internal/cli/status"
)

// Catalogs are CatalogSources and ClusterCatalogs. A cluster without ClusterCatalogs, or a user who may not read them, sees
// CatalogSources only; that costs one request.

// Name returns the name in NAME or TYPE/NAME. From then on, the name means the catalog of that type.
func (s *Session) Name(arg string) (string, error) {
	kind, name, err := status.ParseName(arg)
	if err == nil && kind != "" {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.kinds[name] = kind
	}
	return name, err
}

// KindsOf returns the kinds of which a catalog may be that is named NAME or TYPE/NAME, and its name.
func (s *Session) KindsOf(arg string) ([]status.Kind, string, error) {
	name, err := s.Name(arg)
	s.mu.Lock()
	defer s.mu.Unlock()
	if kind := s.kinds[name]; kind != "" || err != nil {
		return []status.Kind{kind}, name, err
	}
	return status.Kinds, name, nil
}

// IsAbsent reports whether an error means that the cluster has no ClusterCatalogs for this user.
func IsAbsent(kind status.Kind, err error) bool {
	return kind == status.ClusterCatalog && (apierrors.IsForbidden(err) || isUnknownKind(err, olmv1.GroupName))
}

// An absence remembers that the cluster has no ClusterCatalogs for this user, so that one request finds out.
type absence struct{ atomic.Bool }

// shows reports whether an error means that a kind is absent, and remembers it.
func (a *absence) shows(kind status.Kind, err error) bool {
	if IsAbsent(kind, err) {
		a.Store(true)
		return true
	}
	return false
}

// has reports whether a kind is known to be absent.
func (a *absence) has(kind status.Kind) bool { return kind == status.ClusterCatalog && a.Load() }

// Find returns the catalogs that are named NAME or TYPE/NAME, and the names that do not exist.
func (s *Session) Find(ctx context.Context, args []string) (found []status.Catalog, missing []string, err error) {
	for _, arg := range args {
		all, err := s.Named(ctx, arg)
		switch {
		case err != nil:
			return nil, nil, err
		case len(all) == 0:
			missing = append(missing, arg)
		case len(all) > 1:
			return nil, nil, exit.Usagef("catalog %q is ambiguous: specify %s or %s", arg, all[0].Arg(), all[1].Arg())
		default:
			found = append(found, all[0])
		}
	}
	return found, missing, nil
}

// Named returns the catalogs of a name: none, one, or one of each kind.
func (s *Session) Named(ctx context.Context, arg string) ([]status.Catalog, error) {
	api, err := s.Client()
	if err != nil {
		return nil, err
	}
	kinds, name, err := s.KindsOf(arg)
	if err != nil {
		return nil, err
	}
	typed := len(kinds) == 1
	var all []status.Catalog
	for _, kind := range kinds {
		if s.absence.has(kind) && !typed {
			continue
		}
		c, err := read(ctx, api, kind, name)
		switch {
		case err == nil && c == nil, s.absence.shows(kind, err) && !typed:
		case err != nil:
			return nil, err
		case !status.IsMirror(c.Object):
			c.Shared = typed
			all = append(all, *c)
		case typed:
			return nil, exit.Usagef("ClusterCatalog %q represents a CatalogSource (spec.olmv1): specify %s/%[1]s",
				name, status.CatalogSource.Type())
		}
	}
	share(all)
	return all, nil
}

// read returns a catalog, nil if there is none.
func read(ctx context.Context, api *kube.Client, kind status.Kind, name string) (*status.Catalog, error) {
	object := kind.New()
	err := api.Get(ctx, types.NamespacedName{Name: name}, object)
	switch {
	case err == nil:
		return status.Of(object), nil
	case apierrors.IsNotFound(err) && !isUnknownKind(err, kind.GVK().Group):
		return nil, nil
	}
	return nil, err
}

// share marks the catalogs whose name another has. Those of one name must be adjacent.
func share(all []status.Catalog) {
	for i := 1; i < len(all); i++ {
		if all[i].Name == all[i-1].Name {
			all[i].Shared, all[i-1].Shared = true, true
		}
	}
}

// Catalogs returns all catalogs, by name.
func (s *Session) Catalogs(ctx context.Context) ([]status.Catalog, error) {
	return s.Select(ctx, "", "")
}

// CatalogFields are the valid fields of a field selector for catalogs.
const CatalogFields = "metadata.name"

// Select returns the catalogs that both selectors match, by name.
func (s *Session) Select(ctx context.Context, selector, fields string) ([]status.Catalog, error) {
	var all []status.Catalog
	for _, kind := range status.Kinds {
		if s.absence.has(kind) {
			continue
		}
		list := kind.NewList()
		err := s.List(ctx, "", list, metav1.ListOptions{LabelSelector: selector, FieldSelector: fields})
		if s.absence.shows(kind, err) {
			continue
		}
		if err != nil {
			return nil, SelectorError(err, CatalogFields)
		}
		all = append(all, status.Items(list)...)
	}
	slices.SortStableFunc(all, func(a, b status.Catalog) int { return cmp.Compare(a.Name, b.Name) })
	share(all)
	return all, nil
}

// DaemonNamespace returns the namespace of catalogd, as far as the catalogs name it.
func (s *Session) DaemonNamespace(ctx context.Context) string {
	catalogs, _ := s.Catalogs(ctx)
	for _, c := range catalogs {
		if c.Status.URLs == nil || !c.IsOurs() {
			continue
		}
		if at, err := content.ParseAddress(c.Status.URLs.Base, c.Name); err == nil && at.Namespace != "" {
			return at.Namespace
		}
	}
	return s.namespace
}

// DefaultDaemonNamespace returns the value of --catalogd-namespace.
func (s *Session) DefaultDaemonNamespace() string { return s.namespace }
