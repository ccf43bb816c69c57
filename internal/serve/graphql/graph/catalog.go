package graph

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/operator-catalogs/catalogd/internal/store"
)

// Catalog is one catalog, as it is pinned.
type Catalog struct{ src *source }

// Name is the name of its CatalogSource.
func (c *Catalog) Name() string { return c.src.at.Name }

// Digest is that of the image.
func (c *Catalog) Digest() string { return c.src.at.Snapshot.Info().Digest }

// Image is the reference of the image.
func (c *Catalog) Image() string { return c.src.at.Image }

// Priority is that of the CatalogSource.
func (c *Catalog) Priority() int { return int(c.src.priority) }

// LastModified is when this version was first served.
func (c *Catalog) LastModified() time.Time { return c.src.at.Since }

// URL is where it is served.
func (c *Catalog) URL() string { return c.src.url() }

func (s *source) url() string { return s.r.BaseURL + "/catalogs/" + s.at.Name }

// Counts is how much a catalog holds.
type Counts struct {
	Packages, Channels, Bundles, Blobs int
	Bytes                              int64
}

// Counts is how much it holds.
func (c *Catalog) Counts() *Counts {
	info := c.src.at.Snapshot.Info()
	return &Counts{info.Packages, info.Channels, info.Bundles, info.Blobs, info.Bytes}
}

// InvalidPackages are those that are not sound.
func (c *Catalog) InvalidPackages() ([]*store.InvalidPackage, error) {
	invalid, err := c.src.at.Snapshot.InvalidPackages()
	if err != nil {
		return nil, fmt.Errorf("reading which packages of catalog %s are not sound: %w", c.src.at.Name, err)
	}
	out := make([]*store.InvalidPackage, len(invalid))
	for i := range invalid {
		out[i] = &invalid[i]
	}
	return out, nil
}

// SchemaCount is how many blobs have a schema.
type SchemaCount struct {
	Name  string
	Blobs int
}

// Schemas are those of its blobs.
func (c *Catalog) Schemas() []*SchemaCount { return c.src.schemas() }

func (s *source) countSchemas() []*SchemaCount {
	counts := map[string]*SchemaCount{}
	all := s.at.Snapshot.Select(store.Query{})
	for i := range all.Len() {
		if s.r.Stopped() != nil {
			break // the answer is not given
		}
		schema := all.Entry(i).Schema
		if counts[schema] == nil {
			counts[schema] = &SchemaCount{Name: schema}
		}
		counts[schema].Blobs++
	}
	return slices.SortedFunc(maps.Values(counts), func(a, b *SchemaCount) int { return cmp.Compare(a.Name, b.Name) })
}

// Blob is any blob.
type Blob struct{ node }

// Catalog is the one it is in.
func (b *Blob) Catalog() *Catalog { return &Catalog{b.src} }

// Schema is its schema.
func (b *Blob) Schema() string { return b.entry.Schema }

// Package is the value of its package.
func (b *Blob) Package() *string { return orNull(b.entry.Package) }

// Name is its name.
func (b *Blob) Name() *string { return orNull(b.entry.Name) }

// Size is the number of bytes of its JSON.
func (b *Blob) Size() int { return b.entry.Size }

// Content is its JSON.
func (b *Blob) Content() (JSON, error) {
	content, err := b.content()
	return content, err
}
