package graph

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/99designs/gqlgen/graphql"

	"github.com/operator-catalogs/catalogd/internal/serve/listing"
	"github.com/operator-catalogs/catalogd/internal/serve/search"
)

// Limits of the values of a facet in a reply.
const (
	facetValues    = 200 // by default
	maxFacetValues = 10_000
)

// facetsOf maps the facets of the schema to those of an index. An index has no facet CATALOG.
var facetsOf = map[FacetName]listing.Facet{
	FacetNameCategory:        listing.Category,
	FacetNameProvider:        listing.Provider,
	FacetNameCapability:      listing.Capability,
	FacetNameFeature:         listing.Feature,
	FacetNameArchitecture:    listing.Architecture,
	FacetNameOperatingSystem: listing.OperatingSystem,
	FacetNameInstallMode:     listing.InstallMode,
	FacetNameKind:            listing.Kind,
	FacetNameDeprecated:      listing.Deprecated,
}

// PackageConnection is a page of packages.
type PackageConnection struct {
	*Connection[*Package]
	found *foundPackages
}

// PackageEdge is an element of a page of packages.
type PackageEdge = Edge[*Package]

func (resolver) Packages(
	ctx context.Context, filter *PackageFilter, text *string, first *int, after *string, sort *PackageSort, offset *int,
) (*PackageConnection, error) {
	q, err := newPackageQuery(deref(filter), deref(text), sort)
	if err != nil {
		return nil, err
	}
	scope, done, err := begin(ctx, q.Catalog)
	if err != nil {
		return nil, err
	}
	defer done()
	found := &foundPackages{q: q, scope: scope, known: map[*source]*listed{}}
	if err := found.find(ctx); err != nil {
		return nil, err
	}
	l := listOf(scope, append(q.identity(), deref(text), string(deref(sort)))...)
	p, err := l.page(first, after, offset, found.total())
	if err != nil {
		return nil, err
	}
	facts := make([]*packageFacts, 0, p.to-p.from)
	for i := p.from; i < p.to; i++ {
		facts = append(facts, found.at(i))
	}
	return &PackageConnection{&Connection[*Package]{newPackages(facts), found.total(), p}, found}, nil
}

// packageQuery selects and sorts packages.
type packageQuery struct {
	PackageFilter
	search   *search.Query // nil: no search
	ranked   bool          // sort the best match of the search first
	order    listing.Order
	must     listing.Filter // the arguments category and provider
	facets   listing.Filter
	catalogs []string // values of the facet CATALOG; nil: all
}

func newPackageQuery(filter PackageFilter, text string, sort *PackageSort) (packageQuery, error) {
	q := packageQuery{PackageFilter: filter, must: listing.Filter{}, facets: listing.Filter{}}
	if strings.TrimSpace(text) != "" {
		compiled, err := search.Compile(text)
		if err != nil {
			return q, badInput("search: %v", err)
		}
		q.search = &compiled
	}
	q.ranked = q.search != nil && sort == nil
	switch deref(sort) {
	case PackageSortDisplayName:
		q.order = listing.ByTitle
	case PackageSortProvider:
		q.order = listing.ByProvider
	}
	if category := deref(filter.Category); category != "" {
		q.must[listing.Category] = []string{category}
	}
	if provider := deref(filter.Provider); provider != "" {
		q.must[listing.Provider] = []string{provider}
	}
	for _, f := range filter.Facets {
		if facet, ok := facetsOf[f.Name]; ok {
			q.facets[facet] = append(q.facets[facet], f.Values...)
		} else {
			q.catalogs = append(append([]string{}, q.catalogs...), f.Values...)
		}
	}
	return q, nil
}

// identity returns the field and its filter, for cursors.
func (q *packageQuery) identity() []any {
	what := []any{"packages", deref(q.Name), q.Names, q.Names == nil, deref(q.Category), deref(q.Provider)}
	for _, f := range q.Facets {
		what = append(what, string(f.Name), f.Values)
	}
	return what
}

// byName reports whether the query depends on names only and needs no index.
func (q *packageQuery) byName() bool {
	return q.search == nil && len(q.must) == 0 && len(q.facets) == 0 && q.order == listing.ByName
}

// matches reports whether the name of a package matches.
func (q *packageQuery) matches(name string) bool {
	return (deref(q.Name) == "" || name == *q.Name) && (q.Names == nil || slices.Contains(q.Names, name))
}

// includes reports whether the facet CATALOG matches.
func (q *packageQuery) includes(s *source) bool {
	return q.catalogs == nil || slices.ContainsFunc(q.catalogs, func(name string) bool { return strings.EqualFold(name, s.catalog.Name) })
}

// listed has the selected packages of a catalog by number.
type listed struct {
	src       *source
	names     []string // all names of the catalog, if the query needs no index
	selection *listing.Selection
	scores    []int // scores of the search
}

func (l *listed) name(number uint32) string {
	if l.selection == nil {
		return l.names[number]
	}
	return l.selection.Name(number)
}

// packageMatch is a selected package.
type packageMatch struct {
	*listed
	number uint32
}

// compare compares packages by score, if the query is ranked, and by the order.
func (q *packageQuery) compare(a, b packageMatch) int {
	byName := func() int { return strings.Compare(a.name(a.number), b.name(b.number)) }
	catalog := cmp.Or(cmp.Compare(b.src.catalog.Priority, a.src.catalog.Priority), cmp.Compare(a.src.catalog.Name, b.src.catalog.Name))
	switch {
	case q.ranked:
		return cmp.Or(b.scores[b.number]-a.scores[a.number], catalog, byName())
	case q.order == listing.ByName:
		return cmp.Or(byName(), catalog)
	}
	return cmp.Or(listing.Compare(q.order, a.selection.Index, a.number, b.selection.Index, b.number), catalog)
}

// foundPackages is the result of a query.
type foundPackages struct {
	q       packageQuery
	scope   []*source
	known   map[*source]*listed // nil for a catalog that failed
	matches []packageMatch
	all     *listed // if not nil, its names are the matches

	counted  lazy[struct{}]
	counts   []*listing.Counts // for the catalogs that the facet CATALOG includes
	catalogs []listing.Value
	facets   map[facetKey]*Facet // nil until counted
}

// facetKey identifies a facet with a maximum number of values.
type facetKey struct {
	name  FacetName
	limit int
}

func (f *foundPackages) total() int {
	if f.all != nil {
		return len(f.all.names)
	}
	return len(f.matches)
}

func (f *foundPackages) at(i int) *packageFacts {
	if f.all != nil {
		return f.all.src.pkg(f.all.names[i])
	}
	return f.matches[i].src.pkg(f.matches[i].name(f.matches[i].number))
}

// find runs the query. If one of several catalogs fails, it adds an error to the reply and returns the matches of the others.
func (f *foundPackages) find(ctx context.Context) error {
	if len(f.scope) == 1 && f.q.byName() && deref(f.q.Name) == "" && f.q.Names == nil && f.q.catalogs == nil { // most queries
		f.all = &listed{src: f.scope[0], names: f.scope[0].validNames()}
		return nil
	}
	for _, s := range f.scope {
		if !f.q.includes(s) {
			continue
		}
		matches, err := f.matchesOf(ctx, s)
		if err := cmp.Or(s.r.check(ctx), err); err != nil {
			return err
		}
		f.matches = merge(f.matches, matches, f.q.compare)
	}
	if f.q.ranked {
		slices.SortFunc(f.matches, f.q.compare)
	}
	return nil
}

// matchesOf returns the matches in a catalog, sorted.
func (f *foundPackages) matchesOf(ctx context.Context, s *source) (matches []packageMatch, err error) {
	if f.q.byName() {
		l := &listed{src: s, names: s.validNames()}
		for i, name := range l.names {
			if f.q.matches(name) {
				matches = append(matches, packageMatch{l, uint32(i)})
			}
		}
		return matches, nil
	}
	l, err := f.list(ctx, s)
	if l == nil || err != nil {
		return nil, err
	}
	for _, number := range l.selection.Numbers(f.q.order) {
		matches = append(matches, packageMatch{l, number})
	}
	return matches, nil
}

// merge merges sorted lists. Others it concatenates in any order.
func merge(a, b []packageMatch, compare func(a, b packageMatch) int) []packageMatch {
	if len(a) == 0 {
		return b
	}
	out := make([]packageMatch, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if compare(a[0], b[0]) <= 0 {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// list selects the packages of a catalog through its index. If one of several catalogs fails, it adds an error and returns nil.
func (f *foundPackages) list(ctx context.Context, s *source) (*listed, error) {
	if l, ok := f.known[s]; ok {
		return l, nil
	}
	l, err := s.list(ctx, &f.q)
	if stopped := s.r.check(ctx); stopped != nil {
		return nil, stopped
	}
	if err != nil {
		if len(f.scope) == 1 {
			return nil, err
		}
		graphql.AddError(ctx, fmt.Errorf("%w: %w", &Error{CodeInternal, fmt.Sprintf(
			"reading catalog %s failed; its packages are missing from the list; catalogd's log has the cause", s.catalog.Name)}, err))
		l = nil
	}
	f.known[s] = l
	return l, nil
}

// list selects packages through the index. It reads all summaries only for a search.
func (s *source) list(ctx context.Context, q *packageQuery) (*listed, error) {
	failed := func(err error) error {
		return fmt.Errorf("reading the summaries of catalog %s: %w", s.catalog.Name, err)
	}
	index, err := s.r.Listings.Of(ctx, s.snapshot)
	if err != nil {
		return nil, failed(err)
	}
	l := &listed{src: s}
	must := index.Matches(q.must)
	l.selection = index.Select(q.facets, func(number uint32) bool {
		return (l.scores == nil || l.scores[number] > 0) && q.matches(index.Name(number)) && must(number)
	})
	if q.search == nil {
		return l, nil
	}
	l.scores = make([]int, index.Len())
	for summary, err := range s.snapshot.SummariesIf(q.search.May) {
		if err != nil {
			return nil, failed(err)
		}
		if err := s.r.check(ctx); err != nil {
			return nil, err
		}
		if number, ok := index.Find(summary.Name); ok {
			l.scores[number] = q.search.Score(summary)
		}
	}
	return l, nil
}

// Facets returns the facets with the given names; nil means all.
func (c *PackageConnection) Facets(ctx context.Context, names []FacetName, first *int) ([]*Facet, error) {
	limit := facetValues
	if first != nil {
		limit = *first
	}
	if limit < 1 || limit > maxFacetValues {
		return nil, badInput("first is %d: use 1 to %d", limit, maxFacetValues)
	}
	if err := c.found.count(ctx); err != nil {
		return nil, err
	}
	out := []*Facet{}
	for _, name := range AllFacetName {
		if names != nil && !slices.Contains(names, name) {
			continue
		}
		facet, err := c.found.facet(ctx, facetKey{name, limit})
		if err != nil {
			return nil, err
		}
		out = append(out, facet)
	}
	return out, nil
}

// facet returns a facet after count. It keeps facets, because a query can select the same one hundreds of times. Only one facet of a
// request is computed at a time: the most frequent of tens of thousands of kinds take several MB until they are found.
func (f *foundPackages) facet(ctx context.Context, key facetKey) (*Facet, error) {
	r := requestOf(ctx)
	r.finding.Lock()
	defer r.finding.Unlock()
	if err := r.check(ctx); err != nil {
		return nil, err
	}
	if known := f.facets[key]; known != nil {
		return known, nil
	}
	values := f.catalogs
	if key.name != FacetNameCatalog {
		values = listing.Top(facetsOf[key.name], f.counts, key.limit)
	}
	values = values[:min(key.limit, len(values))]
	if err := r.spendValues(int64(len(values))); err != nil { // even if the query does not select them
		return nil, err
	}
	facet := &Facet{Name: key.name, Values: make([]*FacetValue, len(values))}
	for i, v := range values {
		facet.Values[i] = &FacetValue{Value: v.Text, Count: v.Count}
	}
	f.facets[key] = facet
	return facet, nil
}

// count counts the packages by facets. It counts once and keeps the result.
func (f *foundPackages) count(ctx context.Context) error {
	r := requestOf(ctx)
	r.finding.Lock()
	defer r.finding.Unlock()
	_, err := f.counted.get(func() (struct{}, error) {
		for _, s := range f.scope {
			l, err := f.list(ctx, s)
			if err != nil {
				return struct{}{}, err
			}
			if l == nil {
				continue
			}
			counts := l.selection.Count()
			if counts.Total > 0 {
				f.catalogs = append(f.catalogs, listing.Value{Text: s.catalog.Name, Count: counts.Total})
			}
			if f.q.includes(s) {
				f.counts = append(f.counts, counts)
			}
		}
		f.facets = map[facetKey]*Facet{}
		slices.SortStableFunc(f.catalogs, func(a, b listing.Value) int { return b.Count - a.Count })
		return struct{}{}, nil
	})
	return err
}
