package authoring

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRulesAreDocumented compares the table of docs/lint.md with Rules.
func TestRulesAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "lint.md"))
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, name := range slices.Sorted(maps.Keys(Rules)) {
		want = append(want, fmt.Sprintf("| `%s` | %s | %s |", name, Rules[name].Severity, Rules[name].Asks))
	}
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "| `") {
			got = append(got, strings.TrimSuffix(line, "\n"))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/lint.md (-want +got):\n%s", diff)
	}
}
