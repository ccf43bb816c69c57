package term

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestNarrowTable: columns are cut before any is left out, and those that are needed least go first. The name stays whole.
func TestNarrowTable(t *testing.T) {
	table := Table{
		Columns: []Column{{Name: "name"}, {Name: "package", Least: 8, Drop: 2}, {Name: "channels", Least: 9, Drop: 1}, {Name: "version"}},
		Rows:    [][]string{{"a-name-of-20-columns", "a-package", "stable, alpha", "1.0.0"}},
	}
	for width, want := range map[int]string{
		0:  "NAME                   PACKAGE     CHANNELS        VERSION\na-name-of-20-columns   a-package   stable, alpha   1.0.0\n",
		54: "NAME                   PACKAGE     CHANNELS    VERSION\na-name-of-20-columns   a-package   stable, …   1.0.0\n",
		44: "NAME                   PACKAGE     VERSION\na-name-of-20-columns   a-package   1.0.0\n",
		30: "NAME                   VERSION\na-name-of-20-columns   1.0.0\n",
		10: "NAME                   VERSION\na-name-of-20-columns   1.0.0\n",
	} {
		var b bytes.Buffer
		if err := (&Terminal{Writer: &b, Width: width}).Print(table, Options{}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, b.String()); diff != "" {
			t.Errorf("%d columns (-want +got):\n%s", width, diff)
		}
	}
}
