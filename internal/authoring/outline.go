package authoring

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// Outline has the names and hashes in a catalog, for comparison with another one. The hashes are catalogd's:
// fbc.Hash of each blob, and of the blobs of each package.
type Outline struct {
	Packages map[string]OutlinePackage

	catalog *catalog
	groups  map[string]*group
	found   map[key]*blob
}

// OutlinePackage is a package. The last of several blobs with the same name counts.
type OutlinePackage struct {
	Hash           string
	DefaultChannel string
	Channels       map[string]string // their hashes
	Bundles        map[string]OutlineBundle
}

// OutlineBundle is a bundle.
type OutlineBundle struct{ Version, Hash string }

type key struct{ schema, pkg, name string }

// NewOutline reads a catalog. It returns an error for one that catalogd would reject.
func NewOutline(ctx context.Context, s *Source) (*Outline, error) {
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
			k.name = "" // a name has no meaning
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
			var content struct {
				DefaultChannel string `json:"defaultChannel"`
			}
			_ = json.Unmarshal(text, &content) // a wrong type is not a channel name
			p.DefaultChannel = content.DefaultChannel
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

// InvalidReason returns why catalogd would reject a package, "" if it is valid.
func (o *Outline) InvalidReason(pkg string) (reason string, err error) {
	_, invalid, err := o.catalog.load(pkg, o.groups[pkg].blobs)
	if invalid != nil {
		reason = invalid.Reason
	}
	return reason, err
}

// Blob returns the compact JSON of a blob, nil if there is none. For an olm.package blob pkg equals name;
// olm.deprecations have no name.
func (o *Outline) Blob(schema, pkg, name string) ([]byte, error) {
	b := o.found[key{schema, pkg, name}]
	if b == nil {
		return nil, nil
	}
	return o.catalog.text(b)
}
