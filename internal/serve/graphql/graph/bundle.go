package graph

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// bundleBlob is an olm.bundle blob. The values of its properties are not decoded.
type bundleBlob struct {
	Image         string                 `json:"image"`
	Properties    []property.Property    `json:"properties"`
	RelatedImages []declcfg.RelatedImage `json:"relatedImages"`
}

// Bundle is a bundle of a valid package.
type Bundle struct{ node }

func (b *Bundle) read() (bundleBlob, error) { return decode[bundleBlob](b.node) }

// Image returns the bundle image.
func (b *Bundle) Image() (string, error) {
	blob, err := b.read()
	return blob.Image, err
}

// RelatedImages returns the images that the operator runs.
func (b *Bundle) RelatedImages() ([]declcfg.RelatedImage, error) {
	blob, err := b.read()
	return blob.RelatedImages, err
}

// Properties returns the properties, or those of the given types.
func (b *Bundle) Properties(types []string) ([]*Property, error) {
	blob, err := b.read()
	return propertiesOf(blob.Properties, types), err
}

// Channels returns the channels that have an entry for the bundle.
func (b *Bundle) Channels() ([]*Channel, error) {
	out := []*Channel{}
	for _, c := range b.pkg().channels().list {
		blob, err := c.read()
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(blob.Entries, func(e declcfg.ChannelEntry) bool { return e.Name == b.Name }) {
			out = append(out, c)
		}
	}
	return out, nil
}

// Deprecation returns nil unless the bundle is deprecated.
func (b *Bundle) Deprecation() (*Deprecation, error) {
	return b.pkg().deprecationOf(fbc.SchemaBundle, b.Name)
}

// Provides returns the APIs of the olm.gvk properties.
func (b *Bundle) Provides() ([]fbc.GVK, error) { return valuesOf[fbc.GVK](b, property.TypeGVK) }

// Requires returns the APIs of the olm.gvk.required properties.
func (b *Bundle) Requires() ([]fbc.GVK, error) { return valuesOf[fbc.GVK](b, property.TypeGVKRequired) }

// RequiredPackages returns the packages of the olm.package.required properties.
func (b *Bundle) RequiredPackages() ([]property.PackageRequired, error) {
	return valuesOf[property.PackageRequired](b, property.TypePackageRequired)
}

// valuesOf decodes the properties of a type.
func valuesOf[T any](b *Bundle, typ string) ([]T, error) {
	blob, err := b.read()
	if err != nil {
		return nil, err
	}
	out := []T{}
	for _, p := range blob.Properties {
		if p.Type != typ {
			continue
		}
		var value T
		if err := json.Unmarshal(p.Value, &value); err != nil {
			return nil, b.invalid("a property of type "+typ, err)
		}
		out = append(out, value)
	}
	return out, nil
}

func (b *Bundle) invalid(what string, err error) error {
	return &Error{CodeContent, fmt.Sprintf("reading %s of bundle %q in package %q: %v", what, b.Name, b.Entry.Package, err)}
}

// CsvMetadata returns the metadata of the ClusterServiceVersion, nil if there is none.
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
	for _, object := range objects { // fbc.CSV reads each
		if err := b.src.r.spendDecoded(scan.EstimateValues(object.Data)); err != nil {
			return nil, err
		}
	}
	csv, err := fbc.DetailedCSV(content, "")
	if errors.Is(err, fbc.ErrNoCSV) {
		return nil, nil
	}
	if err != nil {
		return nil, b.invalid("the ClusterServiceVersion", err)
	}
	return &CSVMetadata{ClusterServiceVersionSpec: csv.Spec, annotations: csv.Annotations, labels: csv.Labels, r: b.src.r}, nil
}

// bundleKey names a bundle within a request.
type bundleKey struct {
	pkg  *packageFacts
	name string
}

// bundleSet is a set of bundles that are read together.
type bundleSet map[bundleKey]*Bundle

// findBundles returns the named bundles of packages, without reading them.
func findBundles(of []*packageFacts, names func(*packageFacts) ([]string, error)) (bundleSet, error) {
	b := &batch{}
	for _, p := range of {
		list, err := names(p)
		if err != nil {
			return nil, err
		}
		wanted := make(map[string]bool, len(list))
		for _, name := range list {
			wanted[name] = true
		}
		b.add(p.src, p.src.keep(p.all(fbc.SchemaBundle), func(e store.Entry) bool { return wanted[e.Name] }))
	}
	set := bundleSet{}
	for _, n := range b.nodes() {
		set[bundleKey{n.pkg(), n.Name}] = &Bundle{n}
	}
	return set, nil
}

// CSVMetadata is the metadata of a ClusterServiceVersion.
type CSVMetadata struct {
	v1alpha1.ClusterServiceVersionSpec
	annotations, labels map[string]string

	r       *Request
	samples lazy[[]sample]
}

// Annotations returns the annotations, or those of the given keys, sorted by key.
func (m *CSVMetadata) Annotations(keys []string) []*KeyValue { return sorted(m.annotations, keys) }

// Labels returns the labels, sorted by key.
func (m *CSVMetadata) Labels() []*KeyValue { return sorted(m.labels, nil) }

func sorted(values map[string]string, keys []string) []*KeyValue {
	out := []*KeyValue{}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if keys == nil || slices.Contains(keys, key) {
			out = append(out, &KeyValue{key, values[key]})
		}
	}
	return out
}

// NativeApis returns the APIs of the cluster that the operator requires.
func (m *CSVMetadata) NativeApis() []fbc.GVK {
	out := make([]fbc.GVK, len(m.NativeAPIs))
	for i, api := range m.NativeAPIs {
		out[i] = fbc.GVK(api)
	}
	return out
}
