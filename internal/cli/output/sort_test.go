package output

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestSortByVersion(t *testing.T) {
	for _, by := range []string{".version", "{.version}", ".head.version"} {
		var rows []Row
		for _, version := range []string{"1.10.0", "1.9.0", "", "1.9.0-rc.1", "v2"} {
			object := map[string]any{"version": version, "head": map[string]any{"version": version}}
			rows = append(rows, Row{Cells: []string{version}, Object: &unstructured.Unstructured{Object: object}})
		}
		if err := Sort(rows, by); err != nil {
			t.Fatal(err)
		}
		var sorted []string
		for r := range slices.Values(rows) {
			sorted = append(sorted, r.Cells[0])
		}
		if diff := cmp.Diff([]string{"", "v2", "1.9.0-rc.1", "1.9.0", "1.10.0"}, sorted); diff != "" {
			t.Errorf("by %s (-want +got):\n%s", by, diff)
		}
	}
}
