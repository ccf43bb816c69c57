package cli

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
)

// catalog returns a CatalogSource.
func (e *env) catalog(ctx context.Context, name string) (*v1beta1.CatalogSource, error) {
	found, err := e.catalogsNamed(ctx, []string{name})
	if err != nil {
		return nil, err
	}
	return &found[0], nil
}

// catalogsNamed returns the CatalogSources of these names, all of which have to exist.
func (e *env) catalogsNamed(ctx context.Context, names []string) ([]v1beta1.CatalogSource, error) {
	found, missing, err := e.existing(ctx, names)
	if err == nil {
		err = e.noCatalogs(ctx, missing)
	}
	return found, err
}

// existing returns the CatalogSources of these names, and those of the names that there are none of.
func (e *env) existing(ctx context.Context, names []string) (found []v1beta1.CatalogSource, missing []string, err error) {
	c, err := e.client()
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		var catalog v1beta1.CatalogSource
		switch err := c.Get(ctx, client.ObjectKey{Name: name}, &catalog); {
		case err == nil:
			found = append(found, catalog)
		case apierrors.IsNotFound(err) && !isNoGroup(err):
			missing = append(missing, name)
		default:
			return nil, nil, err
		}
	}
	return found, missing, nil
}

// catalogs returns all CatalogSources.
func (e *env) catalogs(ctx context.Context) ([]v1beta1.CatalogSource, error) {
	return e.selectCatalogs(ctx, "", "")
}

// catalogFields are the fields by which catalogs are selected.
const catalogFields = "metadata.name"

// selectCatalogs returns the CatalogSources that both selectors match.
func (e *env) selectCatalogs(ctx context.Context, selector, fields string) ([]v1beta1.CatalogSource, error) {
	c, err := e.client()
	if err != nil {
		return nil, err
	}
	var list v1beta1.CatalogSourceList
	err = c.List(ctx, &list, &client.ListOptions{Raw: &metav1.ListOptions{LabelSelector: selector, FieldSelector: fields}})
	return list.Items, selectorError(err, catalogFields)
}
