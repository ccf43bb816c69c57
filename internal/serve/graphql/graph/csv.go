package graph

import (
	"maps"
	"slices"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// CSVMetadata is what a ClusterServiceVersion says for people.
type CSVMetadata struct {
	csv *v1alpha1.ClusterServiceVersion
}

// DisplayName is its name for people.
func (m *CSVMetadata) DisplayName() string { return m.csv.Spec.DisplayName }

// Description is Markdown.
func (m *CSVMetadata) Description() string { return m.csv.Spec.Description }

// Keywords are those to find it by.
func (m *CSVMetadata) Keywords() []string { return m.csv.Spec.Keywords }

// Maintainers are who maintains it.
func (m *CSVMetadata) Maintainers() []*v1alpha1.Maintainer { return pointers(m.csv.Spec.Maintainers) }

// Links are its links.
func (m *CSVMetadata) Links() []*v1alpha1.AppLink { return pointers(m.csv.Spec.Links) }

// Provider is who provides it.
func (m *CSVMetadata) Provider() *v1alpha1.AppLink { return &m.csv.Spec.Provider }

// Maturity is how mature it says it is.
func (m *CSVMetadata) Maturity() string { return m.csv.Spec.Maturity }

// MinKubeVersion is the lowest version of Kubernetes it runs on.
func (m *CSVMetadata) MinKubeVersion() string { return m.csv.Spec.MinKubeVersion }

// InstallMode is whether an operator may be installed in one way.
type InstallMode struct {
	Type      string
	Supported bool
}

// InstallModes are how it may be installed.
func (m *CSVMetadata) InstallModes() []*InstallMode {
	out := make([]*InstallMode, len(m.csv.Spec.InstallModes))
	for i, mode := range m.csv.Spec.InstallModes {
		out[i] = &InstallMode{string(mode.Type), mode.Supported}
	}
	return out
}

// KeyValue is an element of a map.
type KeyValue struct{ Key, Value string }

// Annotations are all, or those of some keys, sorted by key.
func (m *CSVMetadata) Annotations(keys []string) []*KeyValue { return sorted(m.csv.Annotations, keys) }

// Labels are sorted by key.
func (m *CSVMetadata) Labels() []*KeyValue { return sorted(m.csv.Labels, nil) }

func sorted(values map[string]string, keys []string) []*KeyValue {
	out := []*KeyValue{}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if keys == nil || slices.Contains(keys, key) {
			out = append(out, &KeyValue{key, values[key]})
		}
	}
	return out
}

// CRDs are custom resources that an operator brings and needs.
type CRDs struct {
	Owned, Required []*v1alpha1.CRDDescription
}

// CustomResourceDefinitions are those it brings and needs.
func (m *CSVMetadata) CustomResourceDefinitions() *CRDs {
	crds := m.csv.Spec.CustomResourceDefinitions
	return &CRDs{pointers(crds.Owned), pointers(crds.Required)}
}

// APIServices are aggregated APIs that an operator brings and needs.
type APIServices struct {
	Owned, Required []*v1alpha1.APIServiceDescription
}

// APIServiceDefinitions are those it brings and needs.
func (m *CSVMetadata) APIServiceDefinitions() *APIServices {
	apis := m.csv.Spec.APIServiceDefinitions
	return &APIServices{pointers(apis.Owned), pointers(apis.Required)}
}

// NativeApis are the APIs of the cluster itself that it needs.
func (m *CSVMetadata) NativeApis() []*fbc.GVK {
	out := make([]*fbc.GVK, len(m.csv.Spec.NativeAPIs))
	for i, api := range m.csv.Spec.NativeAPIs {
		out[i] = &fbc.GVK{Group: api.Group, Version: api.Version, Kind: api.Kind}
	}
	return out
}
