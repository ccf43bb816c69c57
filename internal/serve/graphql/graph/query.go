package graph

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/99designs/gqlgen/graphql"
	"github.com/blang/semver/v4"
	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/serve/search"
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

func (resolver) Packages(ctx context.Context, filter *PackageFilter, text *string, first *int, after *string) (*PackageConnection, error) {
	q := packageQuery{PackageFilter: deref(filter)}
	scope, done, err := begin(ctx, q.Catalog)
	if err != nil {
		return nil, err
	}
	defer done()
	if strings.TrimSpace(deref(text)) != "" {
		compiled, err := search.Compile(*text)
		if err != nil {
			return nil, badInput("search: %v", err)
		}
		q.search = &compiled
	}
	total, at, err := findPackages(ctx, scope, q)
	if err != nil {
		return nil, err
	}
	l := listOf(scope, "packages", deref(q.Name), q.Names, q.Names == nil, deref(q.Category), deref(q.Provider), deref(text))
	p, err := l.page(first, after, total)
	if err != nil {
		return nil, err
	}
	facts := make([]*packageFacts, 0, p.to-p.from)
	for i := p.from; i < p.to; i++ {
		facts = append(facts, at(i))
	}
	return &PackageConnection{newPackages(facts), total, p}, nil
}

// packageQuery selects packages.
type packageQuery struct {
	PackageFilter
	search *search.Query // nil: none
}

// packageMatch is a selected package.
type packageMatch struct {
	src   *source
	name  string
	score int // of a search
}

// matches reports whether the name of a package matches.
func (q packageQuery) matches(name string) bool {
	return (deref(q.Name) == "" || name == *q.Name) && (q.Names == nil || slices.Contains(q.Names, name))
}

// byName reports whether the query depends only on names.
func (q packageQuery) byName() bool {
	return q.search == nil && deref(q.Category) == "" && deref(q.Provider) == ""
}

// score returns the score of a package with a matching name; 0 if it does not match.
func (q packageQuery) score(s fbc.Summary) int {
	category, provider := deref(q.Category), deref(q.Provider)
	is := func(c string) bool { return strings.EqualFold(c, category) }
	switch {
	case category != "" && !slices.ContainsFunc(s.Categories, is):
		return 0
	case provider != "" && !strings.EqualFold(s.Provider, provider):
		return 0
	case q.search == nil:
		return 1
	}
	return q.search.Score(s)
}

// compare sorts the best match of a search first; without a search it sorts by name.
func (q packageQuery) compare(a, b packageMatch) int {
	name := cmp.Compare(a.name, b.name)
	catalog := cmp.Or(cmp.Compare(b.src.catalog.Priority, a.src.catalog.Priority), cmp.Compare(a.src.catalog.Name, b.src.catalog.Name))
	if q.search != nil {
		return cmp.Or(b.score-a.score, catalog, name)
	}
	return cmp.Or(name, catalog)
}

// findPackages returns the number of matches in several catalogs, and a function that returns the nth. A catalog
// that fails adds an error to the reply; the other catalogs are not affected.
func findPackages(ctx context.Context, scope []*source, q packageQuery) (total int, at func(int) *packageFacts, err error) {
	if len(scope) == 1 && q.byName() && deref(q.Name) == "" && q.Names == nil { // most queries: no list of matches is needed
		names := scope[0].validNames()
		return len(names), func(i int) *packageFacts { return scope[0].pkg(names[i]) }, nil
	}
	all, err := allPackages(ctx, scope, q)
	return len(all), func(i int) *packageFacts { return all[i].src.pkg(all[i].name) }, err
}

func allPackages(ctx context.Context, scope []*source, q packageQuery) ([]packageMatch, error) {
	var all []packageMatch
	for _, s := range scope {
		more, err := s.findPackages(ctx, q)
		if stopped := s.r.check(ctx); stopped != nil {
			return nil, stopped
		}
		if err != nil && len(scope) == 1 {
			return nil, err
		}
		if err != nil {
			graphql.AddError(ctx, fmt.Errorf("%w: %w", &Error{CodeInternal, fmt.Sprintf(
				"reading catalog %s failed; its packages are missing from the list; catalogd's log has the cause", s.catalog.Name)}, err))
		}
		all = append(all, more...)
	}
	if len(scope) > 1 || q.search != nil {
		slices.SortFunc(all, q.compare)
	}
	return all, nil
}

// findPackages returns the matches, sorted by name. It reads summaries only if the query needs them.
func (s *source) findPackages(ctx context.Context, q packageQuery) ([]packageMatch, error) {
	var all []packageMatch
	if q.byName() {
		for _, name := range s.validNames() {
			if q.matches(name) {
				all = append(all, packageMatch{src: s, name: name})
			}
		}
		return all, nil
	}
	for summary, err := range s.snapshot.Summaries() {
		if err != nil {
			return nil, fmt.Errorf("reading the summaries of catalog %s: %w", s.catalog.Name, err)
		}
		if err := s.r.check(ctx); err != nil {
			return nil, err
		}
		if !q.matches(summary.Name) {
			continue
		}
		if score := q.score(summary); score > 0 {
			all = append(all, packageMatch{s, summary.Name, score})
		}
	}
	return all, nil
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
