package cli

import (
	"cmp"
	"context"
	"slices"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/content"
)

// services returns the content services of all catalogs: mostly one, more where several installations of catalogd share the catalogs. What is
// wrong with one catalog is no matter of the others, as long as there are any.
func (e *env) services(ctx context.Context) ([]*content.Service, error) {
	if e.serverURL != "" {
		service, err := e.direct()
		return []*content.Service{service}, err
	}
	c, err := e.client()
	if err != nil {
		return nil, err
	}
	var catalogs v1beta1.CatalogSourceList
	if err := c.List(ctx, &catalogs); err != nil {
		return nil, err
	}
	found := map[string]*content.Service{}
	var failed []error
	for _, c := range catalogs.Items {
		if c.Status.URLs == nil {
			continue
		}
		service, err := e.open(c.Status.URLs.Base, c.Name)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		found[service.String()] = service
	}
	if err := e.tolerate(failed, len(found)); err != nil {
		return nil, err
	}
	services := make([]*content.Service, 0, len(found))
	for _, service := range found {
		services = append(services, service)
	}
	slices.SortFunc(services, func(a, b *content.Service) int { return cmp.Compare(a.String(), b.String()) })
	return services, nil
}

// servicesFor returns the content service of one catalog, or those of all.
func (e *env) servicesFor(ctx context.Context, catalog string) ([]*content.Service, error) {
	if catalog == "" {
		return e.services(ctx)
	}
	service, err := e.service(ctx, catalog)
	return []*content.Service{service}, err
}

// fromEach puts together what the content service of one catalog answers, or those of all. Of all, those that fail are passed over.
func fromEach[T any](ctx context.Context, e *env, catalog string, read func(*content.Service) ([]T, error)) ([]T, error) {
	services, err := e.servicesFor(ctx, catalog)
	if err != nil {
		return nil, err
	}
	var all []T
	var failed []error
	for _, service := range services {
		some, err := read(service)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			failed = append(failed, missing(err, catalog))
			continue
		}
		all = append(all, some...)
	}
	return all, e.tolerate(failed, len(services)-len(failed))
}

// tolerate warns of what failed if something is left. Else the first of it is the error.
func (e *env) tolerate(failed []error, left int) error {
	if left == 0 && len(failed) > 0 {
		return failed[0]
	}
	for _, err := range failed {
		e.warn("not all catalogs are looked at: %v", err)
	}
	return nil
}
