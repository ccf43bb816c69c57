package graph

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// bundleBlob is what is read of an olm.bundle blob: the values of the properties stay as they are.
type bundleBlob struct {
	Image         string                 `json:"image"`
	Properties    []property.Property    `json:"properties"`
	RelatedImages []declcfg.RelatedImage `json:"relatedImages"`
}

// Bundle is a bundle of a sound package.
type Bundle struct{ node }

// Name is its name.
func (b *Bundle) Name() string { return b.entry.Name }

// Package is the one it is a version of.
func (b *Bundle) Package() *Package { return b.pkg().alone() }

// Catalog is the one it is in.
func (b *Bundle) Catalog() *Catalog { return &Catalog{b.src} }

// Version is the one that it is of its package.
func (b *Bundle) Version() string { return b.entry.Version }

// Size is the number of bytes of its blob.
func (b *Bundle) Size() int { return b.entry.Size }

// Image holds its manifests.
func (b *Bundle) Image() (string, error) {
	blob, err := decode[bundleBlob](b.node)
	if err != nil {
		return "", err
	}
	return blob.Image, nil
}

// Channels are those with an entry for it.
func (b *Bundle) Channels() ([]*Channel, error) {
	out := []*Channel{}
	for _, c := range b.pkg().channels().list {
		blob, err := decode[declcfg.Channel](c.node)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(blob.Entries, func(e declcfg.ChannelEntry) bool { return e.Name == b.entry.Name }) {
			out = append(out, c)
		}
	}
	return out, nil
}

// Deprecation is nil unless the bundle is deprecated.
func (b *Bundle) Deprecation() (*Deprecation, error) {
	return b.pkg().deprecationOf(fbc.SchemaBundle, b.entry.Name)
}

// Properties are all, or those of some types.
func (b *Bundle) Properties(types []string) ([]*Property, error) {
	blob, err := decode[bundleBlob](b.node)
	if err != nil {
		return nil, err
	}
	return propertiesOf(blob.Properties, types), nil
}

// Provides are the APIs of its olm.gvk properties.
func (b *Bundle) Provides() ([]*fbc.GVK, error) { return valuesOf[fbc.GVK](b, property.TypeGVK) }

// Requires are the APIs of its olm.gvk.required properties.
func (b *Bundle) Requires() ([]*fbc.GVK, error) {
	return valuesOf[fbc.GVK](b, property.TypeGVKRequired)
}

// RequiredPackages are those of its olm.package.required properties.
func (b *Bundle) RequiredPackages() ([]*property.PackageRequired, error) {
	return valuesOf[property.PackageRequired](b, property.TypePackageRequired)
}

// valuesOf decodes the properties of one type.
func valuesOf[T any](b *Bundle, typ string) ([]*T, error) {
	blob, err := decode[bundleBlob](b.node)
	if err != nil {
		return nil, err
	}
	out := []*T{}
	for _, p := range blob.Properties {
		if p.Type != typ {
			continue
		}
		value := new(T)
		if err := json.Unmarshal(p.Value, value); err != nil {
			return nil, &Error{
				CodeContent,
				fmt.Sprintf("a property of type %s of bundle %q in package %q cannot be read: %v", typ, b.entry.Name, b.entry.Package, err),
			}
		}
		out = append(out, value)
	}
	return out, nil
}

// CsvMetadata is what its ClusterServiceVersion says, nil if it has none.
func (b *Bundle) CsvMetadata() (*CSVMetadata, error) {
	content, err := b.content()
	if err != nil {
		return nil, err
	}
	return b.csv.get(func() (*CSVMetadata, error) { return b.readCSV(content) })
}

func (b *Bundle) readCSV(content []byte) (*CSVMetadata, error) {
	if err := b.src.r.spendDecoded(scan.CountValues(content)); err != nil {
		return nil, err
	}
	objects, err := valuesOf[property.BundleObject](b, property.TypeBundleObject)
	if err != nil {
		return nil, err
	}
	for _, object := range objects { // CSV looks into each
		if err := b.src.r.spendDecoded(scan.EstimateValues(object.Data)); err != nil {
			return nil, err
		}
	}
	csv, err := fbc.CSV(content, "")
	if errors.Is(err, fbc.ErrNoCSV) {
		return nil, nil
	}
	if err != nil {
		return nil, &Error{
			CodeContent,
			fmt.Sprintf("what the ClusterServiceVersion of bundle %q in package %q says cannot be read: %v", b.entry.Name, b.entry.Package, err),
		}
	}
	return &CSVMetadata{csv}, nil
}

// RelatedImages are the images that it runs.
func (b *Bundle) RelatedImages() ([]*declcfg.RelatedImage, error) {
	blob, err := decode[bundleBlob](b.node)
	if err != nil {
		return nil, err
	}
	return pointers(blob.RelatedImages), nil
}
