package cli

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubectl/pkg/cmd/get"
)

// sortRows sorts rows by a field of their objects: a JSONPath, as --sort-by of kubectl get takes it. With an empty path they stay as they are.
func sortRows(rows []row, by string) error {
	if by == "" || len(rows) == 0 {
		return nil
	}
	objects := make([]runtime.Object, len(rows))
	for i, r := range rows {
		objects[i] = r.object
	}
	sorter, err := get.SortObjects(unstructured.UnstructuredJSONScheme, objects, by)
	if err != nil {
		return usagef("--sort-by: %w", err)
	}
	was := slices.Clone(rows)
	for i := range rows {
		rows[i] = was[sorter.OriginalPosition(i)]
	}
	return nil
}
