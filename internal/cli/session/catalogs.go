package session

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/content"
)

// Find returns the CatalogSources of these names, and the names that do not exist.
func (s *Session) Find(ctx context.Context, names []string) (found []v1beta1.CatalogSource, missing []string, err error) {
	c, err := s.Client()
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		var catalog v1beta1.CatalogSource
		switch err := c.Get(ctx, client.ObjectKey{Name: name}, &catalog); {
		case err == nil:
			found = append(found, catalog)
		case apierrors.IsNotFound(err) && !isUnknownGroup(err):
			missing = append(missing, name)
		default:
			return nil, nil, err
		}
	}
	return found, missing, nil
}

// Catalogs returns all CatalogSources.
func (s *Session) Catalogs(ctx context.Context) ([]v1beta1.CatalogSource, error) {
	return s.Select(ctx, "", "")
}

// CatalogFields are the valid fields of a field selector for catalogs.
const CatalogFields = "metadata.name"

// Select returns the CatalogSources that both selectors match.
func (s *Session) Select(ctx context.Context, selector, fields string) ([]v1beta1.CatalogSource, error) {
	c, err := s.Client()
	if err != nil {
		return nil, err
	}
	var list v1beta1.CatalogSourceList
	err = c.List(ctx, &list, &client.ListOptions{Raw: &metav1.ListOptions{LabelSelector: selector, FieldSelector: fields}})
	return list.Items, SelectorError(err, CatalogFields)
}

// DaemonNamespace returns the namespace of catalogd, as far as the catalogs name it.
func (s *Session) DaemonNamespace(ctx context.Context) string {
	catalogs, _ := s.Catalogs(ctx)
	for _, c := range catalogs {
		if c.Status.URLs == nil {
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
