package graph

import (
	"encoding/json"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// CRDs has the custom resources of an operator.
type CRDs struct{ Owned, Required []*CRD }

// CustomResourceDefinitions returns the custom resources that the operator owns and requires.
func (m *CSVMetadata) CustomResourceDefinitions() *CRDs {
	all := m.ClusterServiceVersionSpec.CustomResourceDefinitions
	of := func(list []v1alpha1.CRDDescription) []*CRD {
		crds := make([]*CRD, len(list))
		for i, d := range list {
			crds[i] = &CRD{d, m}
		}
		return crds
	}
	return &CRDs{of(all.Owned), of(all.Required)}
}

// CRD is a custom resource in a ClusterServiceVersion.
type CRD struct {
	v1alpha1.CRDDescription
	of *CSVMetadata
}

// SpecDescriptors returns the descriptors of fields of the spec.
func (c *CRD) SpecDescriptors() []*Descriptor {
	out := make([]*Descriptor, len(c.CRDDescription.SpecDescriptors))
	for i, d := range c.CRDDescription.SpecDescriptors {
		out[i] = &Descriptor{d.Path, d.DisplayName, d.Description, d.XDescriptors}
	}
	return out
}

// StatusDescriptors returns the descriptors of fields of the status.
func (c *CRD) StatusDescriptors() []*Descriptor {
	out := make([]*Descriptor, len(c.CRDDescription.StatusDescriptors))
	for i, d := range c.CRDDescription.StatusDescriptors {
		out[i] = &Descriptor{d.Path, d.DisplayName, d.Description, d.XDescriptors}
	}
	return out
}

// Examples returns the objects of this kind and API version in the annotation alm-examples.
func (c *CRD) Examples() ([]JSON, error) {
	samples, err := c.of.samples.get(c.of.readSamples)
	if err != nil {
		return nil, err
	}
	_, group, _ := strings.Cut(c.Name, ".")
	out := []JSON{}
	for _, s := range samples {
		if s.Kind == c.Kind && s.APIVersion == group+"/"+c.Version {
			out = append(out, s.text)
		}
	}
	return out, nil
}

// sample is an object of the annotation alm-examples.
type sample struct {
	APIVersion, Kind string
	text             JSON
}

// readSamples returns the objects of the annotation alm-examples; none if the annotation is invalid JSON.
func (m *CSVMetadata) readSamples() ([]sample, error) {
	text := []byte(m.annotations["alm-examples"])
	if err := m.r.spendDecoded(scan.EstimateValues(text)); err != nil {
		return nil, err
	}
	if err := m.r.spendRead(2 * int64(len(text))); err != nil { // the text and its parsed objects
		return nil, err
	}
	var list []json.RawMessage
	if json.Unmarshal(text, &list) != nil {
		return nil, nil // hand-written annotations can be invalid; other fields remain useful
	}
	var out []sample
	for _, object := range list {
		s := sample{text: JSON(object)}
		if json.Unmarshal(object, &s) == nil {
			out = append(out, s)
		}
	}
	return out, nil
}
