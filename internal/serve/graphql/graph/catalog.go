package graph

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/operator-catalogs/catalogd/internal/store"
)

// Catalog is a pinned catalog.
type Catalog struct {
	src                      *source
	Name, Image, Digest, URL string
	Priority                 int
	LastModified             time.Time
	Counts                   store.Info
}

// InvalidPackages returns the packages that failed validation.
func (c *Catalog) InvalidPackages() ([]store.InvalidPackage, error) {
	invalid, err := c.src.snapshot.InvalidPackages()
	if err != nil {
		return nil, fmt.Errorf("reading the invalid packages of catalog %s: %w", c.Name, err)
	}
	return invalid, nil
}

// Schemas returns the number of blobs by schema, sorted by name.
func (c *Catalog) Schemas() []*SchemaCount { return c.src.schemas() }

func (s *source) countSchemas() []*SchemaCount {
	counts := map[string]*SchemaCount{}
	all := s.snapshot.Select(store.Query{})
	for i := range all.Len() {
		if s.r.Stopped() != nil {
			break // the request fails
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

func newBlob(n node) *Blob { return &Blob{n} }

// Package returns the value of the field package.
func (b *Blob) Package() *string { return orNull(b.Entry.Package) }

// Name returns the name.
func (b *Blob) Name() *string { return orNull(b.Entry.Name) }

// Content returns the JSON.
func (b *Blob) Content() (JSON, error) {
	content, err := b.content()
	return content, err
}

// JSON is a value of the scalar JSON, as text.
type JSON json.RawMessage

// MarshalGQL writes the text unchanged.
func (j JSON) MarshalGQL(w io.Writer) {
	_, _ = w.Write(j) // into the buffer of the reply
}

// UnmarshalGQL returns an error, because no argument has this type.
func (*JSON) UnmarshalGQL(any) error { return errors.New("the scalar JSON occurs only in replies") }
