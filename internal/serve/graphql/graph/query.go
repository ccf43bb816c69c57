package graph

import (
	"context"
	"slices"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// maxVersionRange is the limit of a client's version range in bytes, because it is compared with many versions.
const maxVersionRange = 256

// resolver resolves the fields of Query for the request in the context.
type resolver struct{}

// Query implements ResolverRoot.
func (resolver) Query() QueryResolver { return resolver{} }

func (resolver) Catalogs(ctx context.Context, names []string) ([]*Catalog, error) {
	out := []*Catalog{}
	for _, s := range requestOf(ctx).sources {
		if names == nil || slices.Contains(names, s.catalog.Name) {
			out = append(out, s.catalog)
		}
	}
	return out, nil
}

func (resolver) Package(ctx context.Context, name string, catalog *string) (*Package, error) {
	var best *source
	scope, err := requestOf(ctx).scope(catalog)
	if err != nil {
		return nil, err
	}
	for _, s := range scope {
		if s.snapshot.IsValid(name) && (best == nil || s.catalog.Priority > best.catalog.Priority) {
			best = s
		}
	}
	if best == nil {
		return nil, nil
	}
	return best.pkg(name).alone(), nil
}

// begin waits until the request evaluates no other list, so that no list outlives the request. It returns the catalogs that
// a filter selects. The caller calls done when its list ends.
func begin(ctx context.Context, catalog *string) (scope []*source, done func(), err error) {
	r := requestOf(ctx)
	r.finding.Lock()
	if err = r.check(ctx); err == nil {
		scope, err = r.scope(catalog)
	}
	if err != nil {
		r.finding.Unlock()
		return nil, nil, err
	}
	return scope, r.finding.Unlock, nil
}

func (resolver) Channels(ctx context.Context, filter *ChannelFilter, first *int, after *string) (*ChannelConnection, error) {
	f := deref(filter)
	query := store.Query{Schema: fbc.SchemaChannel, Package: deref(f.Package), Name: deref(f.Name)}
	return listBlobs(ctx, f.Catalog, "channels", query, first, after, emptyChannels().add)
}

func (resolver) Deprecations(ctx context.Context, filter *DeprecationsFilter, first *int, after *string) (*DeprecationsConnection, error) {
	f := deref(filter)
	query := store.Query{Schema: fbc.SchemaDeprecations, Package: deref(f.Package)}
	return listBlobs(ctx, f.Catalog, "deprecations", query, first, after, func(n node) *Deprecations { return &Deprecations{n} })
}

func (resolver) Blobs(ctx context.Context, filter *BlobFilter, first *int, after *string) (*BlobConnection, error) {
	f := deref(filter)
	query := store.Query{Schema: deref(f.Schema), Package: deref(f.Package), Name: deref(f.Name), Custom: deref(f.Custom)}
	return listBlobs(ctx, f.Catalog, "blobs", query, first, after, newBlob)
}

// listBlobs returns a page of the blobs that match a query. The field blobs lists invalid packages too.
func listBlobs[T any](
	ctx context.Context, catalog *string, field string, query store.Query, first *int, after *string, element func(node) T,
) (*Connection[T], error) {
	scope, done, err := begin(ctx, catalog)
	if err != nil {
		return nil, err
	}
	defer done()
	b := &batch{}
	for _, s := range scope {
		if field == "blobs" {
			b.add(s, s.snapshot.Select(query))
		} else {
			b.add(s, s.selectValid(query))
		}
	}
	return pageOf(b, listOf(scope, field, query), first, after, element)
}

func (resolver) Bundles(ctx context.Context, filter *BundleFilter, first *int, after *string) (*BundleConnection, error) {
	f := deref(filter)
	scope, done, err := begin(ctx, f.Catalog)
	if err != nil {
		return nil, err
	}
	defer done()
	query := store.Query{Schema: fbc.SchemaBundle, Package: deref(f.Package), Name: deref(f.Name), Property: deref(f.Property)}
	if f.Provides != nil {
		query.Provides = fbc.GVK{Group: deref(f.Provides.Group), Version: deref(f.Provides.Version), Kind: deref(f.Provides.Kind)}
		if query.Provides == (fbc.GVK{}) {
			return nil, badInput("provides is empty: set at least one of group, version and kind")
		}
	}
	inRange, err := versionRange(deref(f.VersionRange))
	if err != nil {
		return nil, err
	}
	b := &batch{}
	for _, s := range scope {
		bundles := s.selectValid(query)
		if channel := deref(f.Channel); channel != "" {
			entries, err := s.entriesOf(store.Query{Schema: fbc.SchemaChannel, Package: query.Package, Name: channel})
			if err != nil {
				return nil, err
			}
			bundles = s.keep(bundles, func(e store.Entry) bool { return entries[[2]string{e.Package, e.Name}] })
		}
		if inRange != nil {
			bundles = s.keep(bundles, func(e store.Entry) bool {
				v, err := semver.Parse(e.Version)
				return err == nil && inRange(v)
			})
		}
		b.add(s, bundles)
	}
	l := listOf(scope, "bundles", query, deref(f.Channel), deref(f.VersionRange))
	return pageOf(b, l, first, after, func(n node) *Bundle { return &Bundle{n} })
}

// versionRange parses a client's version range; an empty one is nil.
func versionRange(text string) (semver.Range, error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > maxVersionRange {
		return nil, badInput("versionRange has %d bytes, more than %d", len(text), maxVersionRange)
	}
	contains, err := channel.ParseRange(text)
	if err != nil {
		return nil, badInput("versionRange %q: invalid version range (example: >=1.2.0 <2.0.0): %v", text, err)
	}
	return contains, nil
}

// entriesOf returns the packages and names of the bundles in the matching channels.
func (s *source) entriesOf(query store.Query) (map[[2]string]bool, error) {
	entries := map[[2]string]bool{}
	for _, n := range newBatch(s, s.selectValid(query)).nodes() {
		blob, err := decode[declcfg.Channel](n)
		if err != nil {
			return nil, err
		}
		for _, e := range blob.Entries {
			entries[[2]string{n.Entry.Package, e.Name}] = true
		}
	}
	return entries, nil
}
