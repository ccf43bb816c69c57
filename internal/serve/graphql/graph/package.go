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

// packageFacts caches the reads of a valid package within a request. Each is read at its first use.
type packageFacts struct {
	src  *source
	name string
	fbc.Summary

	load         func() error // reads Summary
	deprecations func() (map[declcfg.PackageScopedReference]string, error)
	versions     func() map[string]string // of the bundles, by name
	channels     func() *channels         // in the order of the catalog
}

func (s *source) pkg(name string) *packageFacts {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.packages[name]
	if p == nil {
		p = &packageFacts{src: s, name: name}
		p.load = sync.OnceValue(p.readSummary)
		p.deprecations = sync.OnceValues(p.readDeprecations)
		p.versions = sync.OnceValue(p.readVersions)
		p.channels = sync.OnceValue(p.readChannels)
		s.packages[name] = p
	}
	return p
}

// all returns the blobs of a schema in the package.
func (p *packageFacts) all(schema string) *store.Blobs {
	return p.src.snapshot.Select(store.Query{Schema: schema, Package: p.name})
}

func (p *packageFacts) readSummary() error {
	if reason := p.src.r.Stopped(); reason != nil {
		return reason
	}
	summary, ok, err := p.src.summary(p.name)
	if err == nil && !ok {
		err = errors.New("not found")
	}
	if err != nil {
		return fmt.Errorf("reading the summary of package %q in catalog %s: %w", p.name, p.src.catalog.Name, err)
	}
	p.Summary = summary
	return p.src.r.spendRead(sizeOfSummary(summary))
}

func (p *packageFacts) readDeprecations() (map[declcfg.PackageScopedReference]string, error) {
	messages := map[declcfg.PackageScopedReference]string{}
	for _, n := range newBatch(p.src, p.all(fbc.SchemaDeprecations)).nodes() {
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
	return deprecation(messages[declcfg.PackageScopedReference{Schema: schema, Name: name}]), err
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

func (p *packageFacts) readChannels() *channels {
	return newChannels(newBatch(p.src, p.all(fbc.SchemaChannel)))
}

// packages are siblings in the reply. Their channels and heads are read together.
type packages struct {
	list  []*packageFacts
	heads func() (bundleSet, error)

	mu    sync.Mutex
	found map[string]map[*packageFacts][]*Channel // by the key of channels
}

func newPackages(list []*packageFacts) []*Package {
	siblings := &packages{list: list, found: map[string]map[*packageFacts][]*Channel{}}
	siblings.heads = sync.OnceValues(func() (bundleSet, error) {
		return findBundles(list, func(p *packageFacts) ([]string, error) {
			err := p.load()
			return []string{p.Head}, err
		})
	})
	nodes := make([]*Package, len(list))
	for i, p := range list {
		nodes[i] = &Package{p, siblings}
	}
	return nodes
}

// channels selects channels of each package and returns those of p, sorted by name. name returns the name of the channel of a
// package, or an empty one for all; key identifies the function name.
func (ps *packages) channels(p *packageFacts, key string, name func(*packageFacts) (string, error)) ([]*Channel, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if found, ok := ps.found[key]; ok {
		return found[p], nil
	}
	b := &batch{}
	for _, p := range ps.list {
		name, err := name(p)
		if err != nil {
			return nil, err
		}
		b.add(p.src, p.src.snapshot.Select(store.Query{Schema: fbc.SchemaChannel, Package: p.name, Name: name}))
	}
	found := map[*packageFacts][]*Channel{}
	for _, c := range newChannels(b).list {
		found[c.pkg()] = append(found[c.pkg()], c)
	}
	for _, list := range found {
		slices.SortFunc(list, func(a, b *Channel) int { return cmp.Compare(a.Name, b.Name) })
	}
	ps.found[key] = found
	return found[p], nil
}

// Package is a valid package. Meter loads the summary before gqlgen reads one of its fields.
type Package struct {
	*packageFacts
	siblings *packages
}

// Name returns the name.
func (p *Package) Name() string { return p.name }

// Hash returns the hash of the hashes of the blobs.
func (p *Package) Hash() string { return p.src.snapshot.PackageHash(p.name) }

// Catalog returns the catalog that contains the package.
func (p *Package) Catalog() *Catalog { return p.src.catalog }

// Deprecation returns nil unless the package is deprecated.
func (p *Package) Deprecation() (*Deprecation, error) {
	err := p.load()
	return deprecation(p.Summary.Deprecation), err
}

// IconURL returns the URL of the icon, nil if there is none.
func (p *Package) IconURL() (*string, error) {
	if err := p.load(); err != nil || !p.HasIcon {
		return nil, err
	}
	icon := p.src.catalog.URL + "/api/v1/packages/" + url.PathEscape(p.name) + "/icon"
	return &icon, nil
}

// IconHash returns the hash of the icon, nil if there is none.
func (p *Package) IconHash() (*string, error) {
	err := p.load()
	return orNull(p.Summary.IconHash), err
}

// DefaultChannel returns the default channel.
func (p *Package) DefaultChannel() (*Channel, error) {
	return first(p.siblings.channels(p.packageFacts, "default", func(p *packageFacts) (string, error) {
		err := p.load()
		return p.DefaultChannel, err
	}))
}

// Channels returns the channels, sorted by name.
func (p *Package) Channels() ([]*Channel, error) {
	return p.siblings.channels(p.packageFacts, "all", func(*packageFacts) (string, error) { return "", nil })
}

// Channel returns a channel by name, nil if there is none.
func (p *Package) Channel(name string) (*Channel, error) {
	if name == "" {
		return nil, nil
	}
	return first(p.siblings.channels(p.packageFacts, "named "+name, func(*packageFacts) (string, error) { return name, nil }))
}

func first(channels []*Channel, err error) (*Channel, error) {
	if len(channels) == 0 {
		return nil, err
	}
	return channels[0], err
}

// Head returns the head of the default channel.
func (p *Package) Head() (*Bundle, error) {
	heads, err := p.siblings.heads()
	if err != nil {
		return nil, err
	}
	return heads[bundleKey{p.packageFacts, p.packageFacts.Head}], nil
}

// Bundles returns the bundles, or those of a channel or a range of versions.
func (p *Package) Bundles(ctx context.Context, channel, versionRange *string, first *int, after *string) (*BundleConnection, error) {
	filter := &BundleFilter{Catalog: &p.src.catalog.Name, Package: &p.name, Channel: channel, VersionRange: versionRange}
	return resolver{}.Bundles(ctx, filter, first, after)
}

// Blobs returns the blobs of the package, or those of a schema.
func (p *Package) Blobs(schema *string, first *int, after *string) (*BlobConnection, error) {
	blobs := p.src.snapshot.Package(p.name)
	if want := deref(schema); want != "" {
		blobs = p.src.keep(blobs, func(e store.Entry) bool { return e.Schema == want })
	}
	return pageOf(newBatch(p.src, blobs), listOf([]*source{p.src}, "package.blobs", p.name, deref(schema)), first, after, newBlob)
}

// Deprecations is an olm.deprecations blob of a valid package.
type Deprecations struct{ node }

// Entries returns the deprecations.
func (d *Deprecations) Entries() ([]*DeprecationEntry, error) {
	blob, err := decode[declcfg.Deprecation](d.node)
	out := make([]*DeprecationEntry, len(blob.Entries))
	for i, e := range blob.Entries {
		out[i] = &DeprecationEntry{&DeprecationReference{e.Reference.Schema, orNull(e.Reference.Name)}, e.Message}
	}
	return out, err
}

// alone returns the package as a value without siblings.
func (p *packageFacts) alone() *Package { return newPackages([]*packageFacts{p})[0] }
