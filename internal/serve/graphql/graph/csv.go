package graph

import (
	"maps"
	"slices"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// CSVMetadata is the metadata of a ClusterServiceVersion.
type CSVMetadata struct {
	v1alpha1.ClusterServiceVersionSpec
	annotations, labels map[string]string
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
