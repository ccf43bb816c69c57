package local

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// Outline is what is in a catalog, by names and hashes: enough to tell what differs from another one. The hashes are those that
// catalogd tells: fbc.Hash of each blob, and of the blobs of each package.
type Outline struct {
	Packages map[string]OutlinePackage

	catalog *catalog
	groups  map[string]*group
	found   map[key]*blob
}

// OutlinePackage is what is in a package. Where two blobs have the same name, the last one counts.
type OutlinePackage struct {
	Hash           string
	DefaultChannel string
	Channels       map[string]string // their hashes
	Bundles        map[string]OutlineBundle
}

// OutlineBundle is a bundle.
type OutlineBundle struct{ Version, Hash string }

type key struct{ schema, pkg, name string }

// NewOutline reads a catalog. One that catalogd would refuse is an error: nobody knows what is in it.
func NewOutline(ctx context.Context, s *Source) (*Outline, error) {
	if s.refused != nil {
		return nil, s.refused
	}
	c, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	if len(c.faults) > 0 {
		return nil, fmt.Errorf("the catalog cannot be read: %w", c.faults[0])
	}
	o := &Outline{Packages: map[string]OutlinePackage{}, catalog: c, groups: c.groups(), found: map[key]*blob{}}
	for name, g := range o.groups {
		if !g.required {
			continue
		}
		if o.Packages[name], err = o.outline(name, g.blobs); err != nil {
			return nil, err
		}
	}
	return o, nil
}

func (o *Outline) outline(name string, blobs []*blob) (OutlinePackage, error) {
	p := OutlinePackage{Channels: map[string]string{}, Bundles: map[string]OutlineBundle{}}
	for _, b := range blobs {
		k := key{b.schema, name, b.name}
		if b.schema == fbc.SchemaDeprecations {
			k.name = "" // what it may say means nothing
		}
		o.found[k] = b
		switch b.schema {
		case fbc.SchemaChannel:
			p.Channels[b.name] = b.hash.String()
		case fbc.SchemaBundle:
			p.Bundles[b.name] = OutlineBundle{Version: b.version, Hash: b.hash.String()}
		case fbc.SchemaPackage:
			text, err := o.catalog.text(b)
			if err != nil {
				return p, err
			}
			var says struct {
				DefaultChannel string `json:"defaultChannel"`
			}
			_ = json.Unmarshal(text, &says) // of another type it is no name of a channel
			p.DefaultChannel = says.DefaultChannel
		}
	}
	p.Hash = fbc.HashOfBlobs(func(yield func(fbc.Hash) bool) {
		for _, b := range blobs {
			if !yield(b.hash) {
				return
			}
		}
	}).String()
	return p, nil
}

// Unsound is why catalogd would find a package not sound; empty if it is.
func (o *Outline) Unsound(pkg string) (reason string, err error) {
	_, invalid, err := o.catalog.load(pkg, o.groups[pkg].blobs)
	if invalid != nil {
		reason = invalid.Reason
	}
	return reason, err
}

// Blob is the compact JSON of a blob; nil if there is none. Of an olm.package blob, pkg and name are the same, and olm.deprecations have no
// name.
func (o *Outline) Blob(schema, pkg, name string) ([]byte, error) {
	b := o.found[key{schema, pkg, name}]
	if b == nil {
		return nil, nil
	}
	return o.catalog.text(b)
}
