package authoring

import (
	"context"
	"fmt"

	"github.com/operator-catalogs/catalogd/internal/subset"
)

// Content is what a source has: its blobs in the order of the catalog. It is a subset.Catalog.
type Content struct{ catalog *catalog }

// Content reads the source. It returns an error for a catalog that catalogd would reject.
func (s *Source) Content(ctx context.Context) (*Content, error) {
	if s.refused != nil {
		return nil, s.refused
	}
	c, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	if len(c.faults) > 0 {
		return nil, fmt.Errorf("reading the catalog: %w", c.faults[0])
	}
	return &Content{c}, nil
}

// Len returns the number of blobs.
func (c *Content) Len() int { return len(c.catalog.blobs) }

// Blob returns the keys of a blob.
func (c *Content) Blob(i int) subset.Blob {
	b := c.catalog.blobs[i]
	return subset.Blob{Schema: b.schema, Package: b.pkg, Name: b.name, Version: b.version}
}

// JSON returns a blob as compact JSON.
func (c *Content) JSON(i int) ([]byte, error) { return c.catalog.text(c.catalog.blobs[i]) }
