package graph

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"

	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// packageFacts is what a request knows of one sound package. There is one for each it meets.
type packageFacts struct {
	src  *source
	name string

	known struct { // what was asked for
		summary      lazy[fbc.Summary]
		deprecations lazy[map[declcfg.PackageScopedReference]string]
		versions     lazy[map[string]string]
		channels     lazy[*channels]
	}
}

// lazy is a value that is found when it is first asked for, as sync.OnceValues has it, in the place where it is. If
// finding it panics, whoever
// asks later gets an error.
type lazy[T any] struct {
	once  sync.Once
	value T
	err   error
}

func (l *lazy[T]) get(find func() (T, error)) (T, error) {
	l.once.Do(func() {
		l.err = errPanicked
		l.value, l.err = find()
	})
	return l.value, l.err
}

// must is get of what is always found. If finding it panics, so does each later call.
func (l *lazy[T]) must(find func() T) T {
	value, err := l.get(func() (T, error) { return find(), nil })
	if err != nil {
		panic(err)
	}
	return value
}

var errPanicked = errors.New("this was not found out: the first attempt ended in a panic")

func (p *packageFacts) summary() (fbc.Summary, error) { return p.known.summary.get(p.readSummary) }

// deprecations are the messages.
func (p *packageFacts) deprecations() (map[declcfg.PackageScopedReference]string, error) {
	return p.known.deprecations.get(p.readDeprecations)
}

// versions are those of its bundles, by name.
func (p *packageFacts) versions() map[string]string {
	return p.known.versions.must(p.readVersions)
}

// channels are all, in the order of the catalog.
func (p *packageFacts) channels() *channels {
	return p.known.channels.must(func() *channels {
		return newChannels(&batch{parts: []part{{p.src, p.all(fbc.SchemaChannel)}}})
	})
}

func (s *source) pkg(name string) *packageFacts {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.packages[name]
	if p == nil {
		p = &packageFacts{src: s, name: name}
		s.packages[name] = p
	}
	return p
}

// all are the blobs of the package with a schema.
func (p *packageFacts) all(schema string) *store.Blobs {
	return p.src.at.Snapshot.Select(store.Query{Schema: schema, Package: p.name})
}

func (p *packageFacts) readSummary() (fbc.Summary, error) {
	if reason := p.src.r.Stopped(); reason != nil {
		return fbc.Summary{}, reason
	}
	s, ok, err := p.src.summary(p.name)
	if err == nil && !ok {
		err = fmt.Errorf("there is none")
	}
	if err != nil {
		return s, fmt.Errorf("reading the summary of package %q in catalog %s: %w", p.name, p.src.at.Name, err)
	}
	return s, p.src.r.spendRead(summarySize(s))
}

func (p *packageFacts) readDeprecations() (map[declcfg.PackageScopedReference]string, error) {
	b := &batch{parts: []part{{p.src, p.all(fbc.SchemaDeprecations)}}}
	messages := map[declcfg.PackageScopedReference]string{}
	for _, n := range b.nodes() {
		blob, err := decode[declcfg.Deprecation](n)
		if err != nil {
			return nil, err
		}
		for _, e := range blob.Entries {
			messages[e.Reference] = e.Message
		}
	}
	return messages, nil
}

func (p *packageFacts) deprecationOf(schema, name string) (*Deprecation, error) {
	messages, err := p.deprecations()
	if err != nil {
		return nil, err
	}
	return deprecation(messages[declcfg.PackageScopedReference{Schema: schema, Name: name}]), nil
}

func (p *packageFacts) readVersions() map[string]string {
	bundles := p.all(fbc.SchemaBundle)
	versions := make(map[string]string, bundles.Len())
	for i := range bundles.Len() {
		e := bundles.Entry(i)
		versions[e.Name] = e.Version
	}
	return versions
}

// packages are siblings in the answer. What leads from them to channels and bundles is found for all at once.
type packages struct {
	list []*packageFacts

	every func() map[*packageFacts][]*Channel // sorted by name
	heads func() (bundleSet, error)

	mu    sync.Mutex
	named map[string]map[*packageFacts]*Channel // one of each package, by what is asked for
}

func newPackages(list []*packageFacts) []*Package {
	siblings := &packages{list: list, named: map[string]map[*packageFacts]*Channel{}}
	siblings.every = sync.OnceValue(siblings.findChannels)
	siblings.heads = sync.OnceValues(func() (bundleSet, error) {
		return findBundles(list, func(p *packageFacts) ([]string, error) {
			s, err := p.summary()
			return []string{s.Head}, err
		})
	})
	nodes := make([]*Package, len(list))
	for i, p := range list {
		nodes[i] = &Package{p, siblings}
	}
	return nodes
}

func (ps *packages) findChannels() map[*packageFacts][]*Channel {
	b := &batch{}
	for _, p := range ps.list {
		b.parts = append(b.parts, part{p.src, p.all(fbc.SchemaChannel)})
	}
	found := map[*packageFacts][]*Channel{}
	for _, c := range newChannels(b).list {
		found[c.pkg()] = append(found[c.pkg()], c)
	}
	for _, list := range found {
		slices.SortFunc(list, func(a, b *Channel) int { return cmp.Compare(a.Name(), b.Name()) })
	}
	return found
}

// channel finds one channel of each package, by the name that pick tells; key names pick.
func (ps *packages) channel(p *packageFacts, key string, pick func(*packageFacts) (string, error)) (*Channel, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if found, ok := ps.named[key]; ok {
		return found[p], nil
	}
	b := &batch{}
	for _, p := range ps.list {
		name, err := pick(p)
		if err != nil {
			return nil, err
		}
		if name != "" {
			b.parts = append(b.parts, part{p.src, p.src.at.Snapshot.Select(store.Query{Schema: fbc.SchemaChannel, Package: p.name, Name: name})})
		}
	}
	found := map[*packageFacts]*Channel{}
	for _, c := range newChannels(b).list {
		found[c.pkg()] = c
	}
	ps.named[key] = found
	return found[p], nil
}

// Package is a sound package.
type Package struct {
	*packageFacts
	siblings *packages
}

// Name is its name.
func (p *Package) Name() string { return p.name }

// Hash is that of the hashes of its blobs. Nothing is read.
func (p *Package) Hash() string { return p.src.at.Snapshot.PackageHash(p.name) }

// Catalog is the one it is in.
func (p *Package) Catalog() *Catalog { return &Catalog{p.src} }

// DisplayName is its name for people.
func (p *Package) DisplayName() (string, error) {
	s, err := p.summary()
	return s.DisplayName, err
}

// ShortDescription is one sentence.
func (p *Package) ShortDescription() (string, error) {
	s, err := p.summary()
	return s.ShortDescription, err
}

// Description is the long one.
func (p *Package) Description() (string, error) {
	s, err := p.summary()
	return s.Description, err
}

// Provider is the name of who provides it.
func (p *Package) Provider() (string, error) {
	s, err := p.summary()
	return s.Provider, err
}

// Keywords are those of its head.
func (p *Package) Keywords() ([]string, error) {
	s, err := p.summary()
	return s.Keywords, err
}

// Categories are those of its head.
func (p *Package) Categories() ([]string, error) {
	s, err := p.summary()
	return s.Categories, err
}

// Capabilities is how much of an operator's life it covers.
func (p *Package) Capabilities() (string, error) {
	s, err := p.summary()
	return s.Capabilities, err
}

// Provides are the APIs of its head.
func (p *Package) Provides() ([]*fbc.GVK, error) {
	s, err := p.summary()
	return pointers(s.Provides), err
}

// Version is that of its head.
func (p *Package) Version() (string, error) {
	s, err := p.summary()
	return s.Version, err
}

// Deprecation is nil unless the package itself is deprecated.
func (p *Package) Deprecation() (*Deprecation, error) {
	s, err := p.summary()
	return deprecation(s.Deprecation), err
}

// IconURL is where its icon is served.
func (p *Package) IconURL() (*string, error) {
	s, err := p.summary()
	if err != nil || !s.HasIcon {
		return nil, err
	}
	icon := p.src.url() + "/api/v1/packages/" + url.PathEscape(p.name) + "/icon"
	return &icon, nil
}

// DefaultChannel is one of Channels.
func (p *Package) DefaultChannel() (*Channel, error) {
	return p.siblings.channel(p.packageFacts, "default", func(p *packageFacts) (string, error) {
		s, err := p.summary()
		return s.DefaultChannel, err
	})
}

// Channels are all, sorted by name.
func (p *Package) Channels() []*Channel { return p.siblings.every()[p.packageFacts] }

// Channel is the one of a name, nil if there is none.
func (p *Package) Channel(name string) (*Channel, error) {
	return p.siblings.channel(p.packageFacts, "named "+name, func(*packageFacts) (string, error) { return name, nil })
}

// Head is the one of the default channel.
func (p *Package) Head() (*Bundle, error) {
	heads, err := p.siblings.heads()
	if err != nil {
		return nil, err
	}
	s, err := p.summary()
	return heads[bundleKey{p.packageFacts, s.Head}], err
}

// Bundles are all, or those of a channel or range.
func (p *Package) Bundles(ctx context.Context, channel, versionRange *string, first *int, after *string) (*BundleConnection, error) {
	filter := &BundleFilter{Package: &p.name, Channel: channel, VersionRange: versionRange}
	return bundlesOf(ctx, []*source{p.src}, filter, first, after)
}

// Blobs are all that belong to it, or those of a schema.
func (p *Package) Blobs(schema *string, first *int, after *string) (*BlobConnection, error) {
	blobs := p.src.at.Snapshot.Package(p.name)
	if want := deref(schema); want != "" {
		blobs = p.src.keep(blobs, func(e store.Entry) bool { return e.Schema == want })
	}
	b := &batch{parts: []part{{p.src, blobs}}}
	return blobPage(b, listOf([]*source{p.src}, "package.blobs", p.name, deref(schema)), first, after)
}

// pointers is how gqlgen takes the elements of a list.
func pointers[T any](list []T) []*T {
	out := make([]*T, len(list))
	for i := range list {
		out[i] = &list[i]
	}
	return out
}

// Deprecation is why something should no longer be used.
type Deprecation struct{ Message string }

// Deprecations is an olm.deprecations blob of a sound package.
type Deprecations struct{ node }

// Package is the one it speaks of.
func (d *Deprecations) Package() *Package { return d.pkg().alone() }

// Entries are what it says.
func (d *Deprecations) Entries() ([]*DeprecationEntry, error) {
	blob, err := decode[declcfg.Deprecation](d.node)
	if err != nil {
		return nil, err
	}
	out := make([]*DeprecationEntry, len(blob.Entries))
	for i, e := range blob.Entries {
		out[i] = &DeprecationEntry{&DeprecationReference{e.Reference.Schema, orNull(e.Reference.Name)}, e.Message}
	}
	return out, nil
}

// DeprecationEntry is one deprecation.
type DeprecationEntry struct {
	Reference *DeprecationReference
	Message   string
}

// DeprecationReference is what is deprecated.
type DeprecationReference struct {
	Schema string
	Name   *string
}

// pkg is the package of a node that has one which is sound.
func (n node) pkg() *packageFacts { return n.src.pkg(n.entry.Package) }

// alone is the package as an answer that has no siblings.
func (p *packageFacts) alone() *Package { return newPackages([]*packageFacts{p})[0] }
