package graph

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/99designs/gqlgen/graphql"
	"github.com/blang/semver/v4"
	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/serve/search"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// resolver answers the fields of Query, of the request in the context.
type resolver struct{}

// Query implements ResolverRoot.
func (resolver) Query() QueryResolver { return resolver{} }

// PackageFilter is an input of the schema.
type PackageFilter struct {
	Catalog, Name      *string
	Names              []string
	Category, Provider *string
}

// ChannelFilter is an input of the schema.
type ChannelFilter struct{ Catalog, Package, Name *string }

// BundleFilter is an input of the schema.
type BundleFilter struct {
	Catalog, Package, Channel, Name, VersionRange, Property *string
	Provides                                                *GVKFilter
}

// GVKFilter is an input of the schema.
type GVKFilter struct{ Group, Version, Kind *string }

// DeprecationsFilter is an input of the schema.
type DeprecationsFilter struct{ Catalog, Package *string }

// BlobFilter is an input of the schema.
type BlobFilter struct {
	Catalog, Schema, Package, Name *string
	Custom                         *bool
}

func (resolver) Catalogs(ctx context.Context, names []string) ([]*Catalog, error) {
	out := []*Catalog{}
	for _, s := range requestOf(ctx).sources {
		if names == nil || slices.Contains(names, s.at.Name) {
			out = append(out, &Catalog{s})
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
		if s.at.Snapshot.IsValid(name) && (best == nil || s.priority > best.priority) {
			best = s
		}
	}
	if best == nil {
		return nil, nil
	}
	return best.pkg(name).alone(), nil
}

// found is a package that a list of packages has.
type found struct {
	src   *source
	name  string
	score int // of a search
}

func (resolver) Packages(ctx context.Context, filter *PackageFilter, text *string, first *int, after *string) (*PackageConnection, error) {
	r := requestOf(ctx)
	done, err := r.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	q := packageQuery{PackageFilter: deref(filter)}
	if strings.TrimSpace(deref(text)) != "" {
		compiled, err := search.Compile(*text)
		if err != nil {
			return nil, badInput("search: %v", err)
		}
		q.search = &compiled
	}
	scope, err := r.scope(q.Catalog)
	if err != nil {
		return nil, err
	}
	what := listOf(scope, "packages", deref(q.Name), q.Names, q.Names == nil, deref(q.Category), deref(q.Provider), deref(text))
	if len(scope) == 1 && q.isAll() {
		names := scope[0].soundNames()
		return packagePage(what, first, after, len(names), func(i int) *packageFacts { return scope[0].pkg(names[i]) })
	}
	var all []found
	for _, s := range scope {
		more, err := s.findPackages(ctx, q)
		if stopped := r.check(ctx); stopped != nil {
			return nil, stopped
		}
		if err != nil && len(scope) == 1 {
			return nil, err
		}
		if err != nil { // the others are listed, beside the error
			graphql.AddError(ctx, fmt.Errorf("%w: %w", &Error{CodeInternal,
				fmt.Sprintf("the packages of catalog %s cannot be read and are not listed; "+
					"catalogd's log has the cause", s.at.Name)}, err))
		}
		if all == nil {
			all = more
		} else {
			all = append(all, more...)
		}
	}
	if len(scope) > 1 || q.search != nil {
		slices.SortFunc(all, q.order)
	}
	return packagePage(what, first, after, len(all), func(i int) *packageFacts { return all[i].src.pkg(all[i].name) })
}

// packagePage is the page that first and after ask for, of a list of packages.
func packagePage(what list, first *int, after *string, total int, at func(int) *packageFacts) (*PackageConnection, error) {
	p, err := what.page(first, after, total)
	if err != nil {
		return nil, err
	}
	facts := make([]*packageFacts, 0, p.to-p.from)
	for i := p.from; i < p.to; i++ {
		facts = append(facts, at(i))
	}
	return &PackageConnection{Connection[*Package]{newPackages(facts), total, p}}, nil
}

// packageQuery is what packages have to fulfil to be listed.
type packageQuery struct {
	PackageFilter
	search *search.Query // nil: none
}

// named tells whether a name is one of those asked for.
func (q packageQuery) named(name string) bool {
	return (deref(q.Name) == "" || name == *q.Name) && (q.Names == nil || slices.Contains(q.Names, name))
}

// byName tells whether the names decide alone.
func (q packageQuery) byName() bool {
	return q.search == nil && deref(q.Category) == "" && deref(q.Provider) == ""
}

// isAll tells whether every package matches.
func (q packageQuery) isAll() bool {
	return q.byName() && deref(q.Name) == "" && q.Names == nil
}

// score is how well a package of the right name fits; 0 if it does not.
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

// order is best first for a search, else by name.
func (q packageQuery) order(a, b found) int {
	name, priority, catalog := cmp.Compare(a.name, b.name), cmp.Compare(b.src.priority, a.src.priority), cmp.Compare(a.src.at.Name, b.src.at.Name)
	if q.search != nil {
		return cmp.Or(b.score-a.score, priority, catalog, name)
	}
	return cmp.Or(name, priority, catalog)
}

// findPackages finds the packages of a source that match, sorted by name. It reads summaries only where the names do not tell.
func (s *source) findPackages(ctx context.Context, q packageQuery) ([]found, error) {
	var all []found
	if q.byName() {
		names := s.soundNames()
		all = make([]found, 0, len(names))
		for _, name := range names {
			if q.named(name) {
				all = append(all, found{src: s, name: name})
			}
		}
		return all, nil
	}
	for summary, err := range s.summaries(ctx) {
		if err != nil {
			return nil, err
		}
		if q.named(summary.Name) {
			if score := q.score(summary); score > 0 {
				all = append(all, found{s, summary.Name, score})
			}
		}
	}
	return all, nil
}

// summaries are those of all sound packages. One is held at a time, so it is the time of the request alone that bounds them.
func (s *source) summaries(ctx context.Context) iter.Seq2[fbc.Summary, error] {
	return func(yield func(fbc.Summary, error) bool) {
		for summary, err := range s.at.Snapshot.Summaries() {
			if err != nil {
				err = fmt.Errorf("reading the summaries of catalog %s: %w", s.at.Name, err)
			} else {
				err = s.r.check(ctx)
			}
			if !yield(summary, err) || err != nil {
				return
			}
		}
	}
}

// begin waits for the turn of a list, which ends with done, and finds the catalogs that its filter names.
func begin(ctx context.Context, catalog *string) (scope []*source, done func(), err error) {
	r := requestOf(ctx)
	if done, err = r.turn(ctx); err != nil {
		return nil, nil, err
	}
	if scope, err = r.scope(catalog); err != nil {
		done()
		return nil, nil, err
	}
	return scope, done, nil
}

func (resolver) Channels(ctx context.Context, filter *ChannelFilter, first *int, after *string) (*ChannelConnection, error) {
	f := deref(filter)
	scope, done, err := begin(ctx, f.Catalog)
	if err != nil {
		return nil, err
	}
	defer done()
	query := store.Query{Schema: fbc.SchemaChannel, Package: deref(f.Package), Name: deref(f.Name)}
	b := selectSound(scope, query)
	p, err := listOf(scope, "channels", query).page(first, after, b.len())
	if err != nil {
		return nil, err
	}
	return &ChannelConnection{Connection[*Channel]{newChannels(b.slice(p.from, p.to)).list, b.len(), p}}, nil
}

func (resolver) Bundles(ctx context.Context, filter *BundleFilter, first *int, after *string) (*BundleConnection, error) {
	f := deref(filter)
	scope, err := requestOf(ctx).scope(f.Catalog)
	if err != nil {
		return nil, err
	}
	return bundlesOf(ctx, scope, &f, first, after)
}

func (resolver) Deprecations(ctx context.Context, filter *DeprecationsFilter, first *int, after *string) (*DeprecationsConnection, error) {
	f := deref(filter)
	scope, done, err := begin(ctx, f.Catalog)
	if err != nil {
		return nil, err
	}
	defer done()
	query := store.Query{Schema: fbc.SchemaDeprecations, Package: deref(f.Package)}
	b := selectSound(scope, query)
	page, err := pageOf(b, listOf(scope, "deprecations", query), first, after, func(n node) *Deprecations { return &Deprecations{n} })
	return &DeprecationsConnection{page}, err
}

func (resolver) Blobs(ctx context.Context, filter *BlobFilter, first *int, after *string) (*BlobConnection, error) {
	f := deref(filter)
	scope, done, err := begin(ctx, f.Catalog)
	if err != nil {
		return nil, err
	}
	defer done()
	query := store.Query{Schema: deref(f.Schema), Package: deref(f.Package), Name: deref(f.Name), Custom: deref(f.Custom)}
	b := &batch{}
	for _, s := range scope {
		b.parts = append(b.parts, part{s, s.at.Snapshot.Select(query)})
	}
	return blobPage(b, listOf(scope, "blobs", query), first, after)
}

func blobPage(b *batch, what list, first *int, after *string) (*BlobConnection, error) {
	page, err := pageOf(b, what, first, after, func(n node) *Blob { return &Blob{n} })
	return &BlobConnection{page}, err
}

func selectSound(scope []*source, query store.Query) *batch {
	b := &batch{}
	for _, s := range scope {
		b.parts = append(b.parts, part{s, s.selectSound(query)})
	}
	return b
}

// bundlesOf finds bundles by the index; of the channels, if one is named, it reads the blobs.
func bundlesOf(ctx context.Context, scope []*source, f *BundleFilter, first *int, after *string) (*BundleConnection, error) {
	done, err := requestOf(ctx).turn(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	query := store.Query{Schema: fbc.SchemaBundle, Package: deref(f.Package), Name: deref(f.Name), Property: deref(f.Property)}
	if f.Provides != nil {
		query.Provides = fbc.GVK{Group: deref(f.Provides.Group), Version: deref(f.Provides.Version), Kind: deref(f.Provides.Kind)}
		if query.Provides == (fbc.GVK{}) {
			return nil, badInput("provides is empty: set one of group, version and kind at least")
		}
	}
	inRange, err := versionRange(deref(f.VersionRange))
	if err != nil {
		return nil, err
	}
	b := selectSound(scope, query)
	for i, part := range b.parts {
		if channel := deref(f.Channel); channel != "" {
			entries, err := part.src.entriesOf(store.Query{Schema: fbc.SchemaChannel, Package: query.Package, Name: channel})
			if err != nil {
				return nil, err
			}
			part.blobs = part.src.keep(part.blobs, func(e store.Entry) bool { return entries[[2]string{e.Package, e.Name}] })
		}
		if inRange != nil {
			part.blobs = part.src.keep(part.blobs, func(e store.Entry) bool {
				v, err := semver.Parse(e.Version)
				return err == nil && inRange(v)
			})
		}
		b.parts[i] = part
	}
	what := listOf(scope, "bundles", query, deref(f.Channel), deref(f.VersionRange))
	page, err := pageOf(b, what, first, after, func(n node) *Bundle { return &Bundle{n} })
	return &BundleConnection{page}, err
}

// entriesOf are the packages and names of the bundles in some channels.
func (s *source) entriesOf(query store.Query) (map[[2]string]bool, error) {
	b := &batch{parts: []part{{s, s.selectSound(query)}}}
	entries := map[[2]string]bool{}
	for _, n := range b.nodes() {
		blob, err := decode[declcfg.Channel](n)
		if err != nil {
			return nil, err
		}
		for _, e := range blob.Entries {
			entries[[2]string{n.entry.Package, e.Name}] = true
		}
	}
	return entries, nil
}
