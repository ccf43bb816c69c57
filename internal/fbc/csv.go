package fbc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/api/pkg/lib/version"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// ErrNoCSV is the error for a bundle without a ClusterServiceVersion and without its metadata.
var ErrNoCSV = errors.New("neither an olm.csv.metadata property nor an olm.bundle.object with a ClusterServiceVersion")

// CSV returns the ClusterServiceVersion of a bundle (JSON): that among its olm.bundle.object properties, else
// one converted from its olm.csv.metadata property, as in ConvertModelBundleToAPIBundle of operator-registry. A
// converted one has the name, version and related images of the bundle, and pkgDescription if the metadata has
// no description. CSV omits icons and the descriptors of APIs.
func CSV(bundle []byte, pkgDescription string) (*v1alpha1.ClusterServiceVersion, error) {
	csv, err := DetailedCSV(bundle, pkgDescription)
	if err != nil {
		return nil, err
	}
	dropDetails(&csv.Spec)
	return csv, nil
}

// DetailedCSV is like CSV and also returns the descriptors of APIs.
func DetailedCSV(bundle []byte, pkgDescription string) (*v1alpha1.ClusterServiceVersion, error) {
	if err := CheckValues(bundle); err != nil {
		return nil, err
	}
	b, manifests, err := decodeBundle(bundle)
	if err != nil {
		return nil, err
	}
	props, err := property.Parse(b.Properties)
	if err != nil {
		return nil, err
	}
	if n := len(props.CSVMetadatas); n > 1 {
		return nil, fmt.Errorf("%d properties of type %s, expected at most one", n, property.TypeCSVMetadata)
	}
	csv, err := csvOfManifests(manifests)
	if errors.Is(err, ErrNoCSV) && len(props.CSVMetadatas) == 1 {
		return csvOfMetadata(b, props, pkgDescription)
	}
	return csv, err
}

// mayBeCSV reports whether a manifest in JSON, or in YAML that begins as JSON does, may be a
// ClusterServiceVersion: it contains that word, an escape that may encode a letter, or a YAML tag.
// operator-registry reads manifests as YAML, which would take a hundred times as long for the CRDs of a bundle.
func mayBeCSV(manifest []byte) bool {
	if bytes.Contains(manifest, []byte(v1alpha1.ClusterServiceVersionKind)) {
		return true
	}
	for rest := manifest; ; rest = rest[2:] {
		i := bytes.IndexByte(rest, '\\')
		if i < 0 {
			break
		}
		rest = rest[i:]
		isASCII := bytes.HasPrefix(rest, []byte(`\u00`))
		if len(rest) < len(`\u00xx`) || isASCII && rest[4] >= '4' || !isASCII && bytes.IndexByte([]byte(`"\/bfnrtu`), rest[1]) < 0 {
			return true
		}
	}
	return bytes.IndexByte(manifest, '!') >= 0 && !json.Valid(manifest)
}

// csvOfManifests returns the ClusterServiceVersion that operator-registry finds among olm.bundle.object
// properties.
func csvOfManifests(manifests []property.Property) (*v1alpha1.ClusterServiceVersion, error) {
	if len(manifests) == 0 {
		return nil, ErrNoCSV
	}
	blob, err := json.Marshal(declcfg.Bundle{Schema: SchemaBundle, Properties: manifests})
	if err != nil {
		return nil, err
	}
	cfg, err := declcfg.LoadSlice([]*declcfg.Meta{{Schema: SchemaBundle, Blob: blob}})
	if err != nil {
		return nil, err
	}
	if cfg.Bundles[0].CsvJSON == "" {
		return nil, ErrNoCSV
	}
	return csvOfObject(cfg.Bundles[0].CsvJSON)
}

func csvOfMetadata(b declcfg.Bundle, props *property.Properties, pkgDescription string) (*v1alpha1.ClusterServiceVersion, error) {
	m := props.CSVMetadatas[0]
	csv := &v1alpha1.ClusterServiceVersion{}
	csv.Name, csv.Annotations, csv.Labels = b.Name, m.Annotations, m.Labels
	csv.Spec = v1alpha1.ClusterServiceVersionSpec{
		APIServiceDefinitions:     m.APIServiceDefinitions,
		CustomResourceDefinitions: m.CustomResourceDefinitions,
		Description:               m.Description,
		DisplayName:               m.DisplayName,
		InstallModes:              m.InstallModes,
		Keywords:                  m.Keywords,
		Links:                     m.Links,
		Maintainers:               m.Maintainers,
		Maturity:                  m.Maturity,
		MinKubeVersion:            m.MinKubeVersion,
		NativeAPIs:                m.NativeAPIs,
		Provider:                  m.Provider,
		RelatedImages:             relatedImages(b),
	}
	if csv.Spec.Description == "" {
		csv.Spec.Description = pkgDescription
	}
	if len(props.Packages) != 1 {
		return nil, fmt.Errorf("%d properties of type %s, expected one", len(props.Packages), property.TypePackage)
	}
	if err := checkVersion(b.Name, props.Packages[0]); err != nil {
		return nil, err
	}
	v, err := semver.Parse(props.Packages[0].Version)
	if err != nil {
		return nil, fmt.Errorf("reading the version: %w", err)
	}
	csv.Spec.Version = version.OperatorVersion{Version: v}
	return csv, nil
}

func csvOfObject(text string) (*v1alpha1.ClusterServiceVersion, error) {
	if n := scan.CountValues([]byte(text)); n > maxCSVValues {
		return nil, fmt.Errorf("%d JSON values in its ClusterServiceVersion exceed the limit of %d", n, maxCSVValues)
	}
	csv := &v1alpha1.ClusterServiceVersion{}
	if err := json.Unmarshal([]byte(text), csv); err != nil {
		return nil, fmt.Errorf("reading the ClusterServiceVersion: %w", err)
	}
	csv.Spec.Icon = nil
	return csv, nil
}

func relatedImages(b declcfg.Bundle) []v1alpha1.RelatedImage {
	out := make([]v1alpha1.RelatedImage, len(b.RelatedImages))
	for i, r := range b.RelatedImages {
		out[i] = v1alpha1.RelatedImage{Name: r.Name, Image: r.Image}
	}
	return out
}

// Images returns the images of a ClusterServiceVersion from CSV: the related ones and those of its deployments,
// sorted, without duplicates.
func Images(csv *v1alpha1.ClusterServiceVersion) []string {
	var images []string
	for _, r := range csv.Spec.RelatedImages {
		images = append(images, r.Image)
	}
	for _, d := range csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		for _, c := range d.Spec.Template.Spec.Containers {
			images = append(images, c.Image)
		}
		for _, c := range d.Spec.Template.Spec.InitContainers {
			images = append(images, c.Image)
		}
	}
	images = slices.DeleteFunc(images, func(s string) bool { return s == "" })
	slices.Sort(images)
	return slices.Compact(images)
}

// dropDetails removes the descriptors of APIs.
func dropDetails(spec *v1alpha1.ClusterServiceVersionSpec) {
	crds, apis := spec.CustomResourceDefinitions, spec.APIServiceDefinitions
	for _, list := range [][]v1alpha1.CRDDescription{crds.Owned, crds.Required} {
		for i := range list {
			d := &list[i]
			d.Resources, d.SpecDescriptors, d.StatusDescriptors, d.ActionDescriptor = nil, nil, nil, nil
		}
	}
	for _, list := range [][]v1alpha1.APIServiceDescription{apis.Owned, apis.Required} {
		for i := range list {
			d := &list[i]
			d.Resources, d.SpecDescriptors, d.StatusDescriptors, d.ActionDescriptor = nil, nil, nil, nil
		}
	}
}
