package output

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubectl/pkg/cmd/get"

	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// Sort sorts rows by a field of their objects, a JSONPath as in kubectl get --sort-by. An empty path keeps the order.
func Sort(rows []Row, by string) error {
	if by == "" || len(rows) == 0 {
		return nil
	}
	objects := make([]runtime.Object, len(rows))
	for i, r := range rows {
		objects[i] = r.Object
	}
	sorter, err := get.SortObjects(unstructured.UnstructuredJSONScheme, objects, by)
	if err != nil {
		return exit.Usagef("--sort-by: %w", err)
	}
	was := slices.Clone(rows)
	for i := range rows {
		rows[i] = was[sorter.OriginalPosition(i)]
	}
	if fields := strings.Split(strings.Trim(by, "{}."), "."); strings.EqualFold(fields[len(fields)-1], "version") {
		sortByVersion(rows, fields)
	}
	return nil
}

// sortByVersion sorts rows by semantic version, so that 1.9 comes before 1.10. Other texts come first.
func sortByVersion(rows []Row, fields []string) {
	version := func(r Row) string {
		text, _, _ := unstructured.NestedString(r.Object.Object, fields...) // empty if absent
		return text
	}
	slices.SortStableFunc(rows, func(a, b Row) int { return fbc.CompareVersions(version(a), version(b)) })
}
