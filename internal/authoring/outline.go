package authoring

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/diff"
	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// Outline reads a catalog for a comparison. The hashes are catalogd's: fbc.Hash of each blob, and of the blobs of each
// package. It returns an error for a catalog that catalogd would reject. Details can be loaded until the source is closed.
func Outline(ctx context.Context, s *Source) (diff.Catalog, error) {
	if s.refused != nil {
		return diff.Catalog{}, s.refused
	}
	c, err := s.read(ctx)
	if err != nil {
		return diff.Catalog{}, err
	}
	if len(c.faults) > 0 {
		return diff.Catalog{}, fmt.Errorf("reading the catalog: %w", c.faults[0])
	}
	_, digest, _ := strings.Cut(s.Image, "@")
	o := diff.Catalog{Digest: digest, Packages: map[string]diff.Package{}}
	for name, g := range c.groups() {
		if g.required {
			load := func(context.Context) (*diff.Details, error) { return c.details(name, g.blobs) }
			o.Packages[name] = diff.Package{Hash: hashOf(g.blobs), Load: load}
		}
	}
	return o, nil
}

func hashOf(blobs []*blob) string {
	return fbc.HashOfBlobs(func(yield func(fbc.Hash) bool) {
		for _, b := range blobs {
			if !yield(b.hash) {
				return
			}
		}
	}).String()
}

// details returns the content of a valid package, or why catalogd would reject it.
func (c *catalog) details(name string, blobs []*blob) (*diff.Details, error) {
	_, invalid, err := c.load(name, blobs)
	if err != nil {
		return nil, err
	}
	if invalid != nil {
		return &diff.Details{Invalid: invalid.Reason}, nil
	}
	d := diff.NewDetails()
	for _, b := range blobs {
		if b.schema == fbc.SchemaBundle {
			d.Bundles[b.name] = diff.Bundle{Hash: b.hash.String(), Version: b.version}
			continue
		}
		text, err := c.text(b)
		if err != nil {
			return nil, err
		}
		if err := addDetails(d, b, text); err != nil {
			return nil, fmt.Errorf("package %q: reading its %s: %w", name, b.describe(), err)
		}
	}
	return d, nil
}

func addDetails(d *diff.Details, b *blob, text []byte) error {
	switch b.schema {
	case fbc.SchemaPackage:
		var content struct{ DefaultChannel string }
		err := json.Unmarshal(text, &content)
		d.DefaultChannel = content.DefaultChannel
		return err
	case fbc.SchemaChannel:
		var content struct{ Entries []channel.Entry }
		err := json.Unmarshal(text, &content)
		d.Channels[b.name] = diff.NewChannel(b.hash.String(), content.Entries)
		return err
	case fbc.SchemaDeprecations:
		var content struct {
			Entries []struct {
				Reference struct{ Schema, Name string }
				Message   string
			}
		}
		err := json.Unmarshal(text, &content)
		for _, e := range content.Entries {
			d.Deprecations[diff.Reference{Kind: strings.TrimPrefix(e.Reference.Schema, "olm."), Name: e.Reference.Name}] = e.Message
		}
		return err
	}
	return nil
}
