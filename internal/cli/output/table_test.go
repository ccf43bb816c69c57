package output

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/textwidth"
)

// TestNarrowTable checks that empty columns are dropped first, then texts are cut, then columns are dropped by Drop.
// Columns that identify the rows are cut last.
func TestNarrowTable(t *testing.T) {
	table := Table{
		Columns: []Column{
			{Name: "name"},
			{Name: "package", Least: 8, Drop: 2},
			{Name: "note", Drop: 3},
			{Name: "channels", Least: 9, Drop: 1},
			{Name: "version"},
		},
		Rows: [][]string{{"a-name-of-20-columns", "a-package", "", "stable, alpha", "1.0.0"}},
	}
	for width, want := range map[int]string{
		0: "NAME                   PACKAGE     NOTE   CHANNELS        VERSION\na-name-of-20-columns   a-package          stable, alpha " +
			"  1.0.0\n",
		64: "NAME                   PACKAGE     CHANNELS        VERSION\na-name-of-20-columns   a-package   stable, alpha   1.0.0\n",
		54: "NAME                   PACKAGE     CHANNELS    VERSION\na-name-of-20-columns   a-package   stable, …   1.0.0\n",
		44: "NAME                   PACKAGE     VERSION\na-name-of-20-columns   a-package   1.0.0\n",
		30: "NAME                   VERSION\na-name-of-20-columns   1.0.0\n",
		28: "NAME                 VERSION\na-name-o…0-columns   1.0.0\n",
		19: "NAME\na-name-of…0-columns\n",
		10: "NAME\na-na…lumns\n",
	} {
		checkTable(t, table, width, want)
	}
}

func checkTable(t *testing.T, table Table, width int, want string) {
	t.Helper()
	var b bytes.Buffer
	if err := (&Terminal{Writer: &b, Width: width}).Print(table, Options{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("%d columns (-want +got):\n%s", width, diff)
	}
}

// TestDistinctColumnsStay checks that a column with Apart is kept if its cells differ, and that known columns are
// dropped first.
func TestDistinctColumnsStay(t *testing.T) {
	columns := []Column{
		{Name: "package", Known: true}, {Name: "name"}, {Name: "catalog", Drop: 1, Apart: true}, {Name: "channels", Least: 8, Drop: 2},
	}
	same := [][]string{{"a-package", "a.v1.0.0", "sample", "stable-v1"}, {"a-package", "a.v1.0.1", "sample", "stable-v1"}}
	checkTable(t, Table{columns, same}, 40, "NAME       CATALOG   CHANNELS\na.v1.0.0   sample    stable-v1\na.v1.0.1   sample    stable-v1\n")
	checkTable(t, Table{columns, same}, 26, "NAME       CHANNELS\na.v1.0.0   stable-v1\na.v1.0.1   stable-v1\n")
	several := [][]string{{"a-package", "a.v1.0.0", "sample", "stable-v1"}, {"a-package", "a.v1.0.0", "other", "stable-v1"}}
	checkTable(t, Table{columns, several}, 26, "NAME       CATALOG\na.v1.0.0   sample\na.v1.0.0   other\n")
}

// TestNarrowStream checks later rows with wider cells, or with cells in a column that was empty before.
func TestNarrowStream(t *testing.T) {
	for width, want := range map[int]string{
		30: "NAME   VERSION   NOTE\na      1\na-name-…   1.0.0-of…   removed\n",
		20: "NAME   NOTE\na\na-na…lumns   removed\n",
	} {
		var b bytes.Buffer
		s := (&Terminal{Writer: &b, Width: width}).Stream([]Column{{Name: "name"}, {Name: "version", Drop: 1}, {Name: "note"}}, Options{})
		for _, row := range [][]string{{"a", "1", ""}, {"a-name-of-20-columns", "1.0.0-of-18-columns", "removed"}} {
			if err := s.Print(row); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(want, b.String()); diff != "" {
			t.Errorf("%d columns (-want +got):\n%s", width, diff)
		}
	}
}

var styles = regexp.MustCompile("\x1b\\[[0-9;]+m")

// FuzzTable checks that no line of any table or stream is wider than the terminal, and that the first column is always
// shown.
func FuzzTable(f *testing.F) {
	f.Add("name|a package|漢字漢字漢字漢字漢字漢字漢字漢字|👩‍👩‍👧|e\u0301e\u0301e\u0301|\x1b[2J|a-very-long-name-of-something-that-is-there", uint8(7), uint32(0x1234567), uint8(30))
	f.Add("a|b|c|d|e|f|g|h|i|j|k|l|m|n|o|p", uint8(16), uint32(0), uint8(30))
	f.Add("||||", uint8(2), uint32(0xFFFFFF), uint8(100))
	f.Fuzz(func(t *testing.T, text string, columns uint8, shape uint32, wide uint8) {
		var table Table
		for i := range max(1, int(columns)%20) {
			table.Columns = append(table.Columns, Column{
				Name: fmt.Sprint("column", i), Right: shape>>i&1 == 1, Least: int(shape >> (i % 7) & 31), Drop: int(shape >> (i % 5) & 7),
				Style: ByValue(map[string]Style{"a": Red}),
			})
		}
		cells := strings.Split(text, "|")
		for len(cells) > 0 {
			row := make([]string, len(table.Columns))
			cells = cells[copy(row, cells):]
			table.Rows = append(table.Rows, row)
		}
		most := max(30, int(wide))
		var b bytes.Buffer
		to := &Terminal{Writer: &b, Width: most, Colors: true}
		if err := to.Print(table, Options{}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), "COLUMN0") {
			t.Errorf("the first column is not shown:\n%s", b.String())
		}
		s := to.Stream(table.Columns, Options{NoHeaders: shape&1 == 0})
		for _, row := range table.Rows {
			if err := s.Print(row); err != nil {
				t.Fatal(err)
			}
		}
		for line := range strings.Lines(styles.ReplaceAllString(b.String(), "")) {
			if is := textwidth.Of(strings.TrimSuffix(line, "\n")); is > most {
				t.Errorf("a line of %d columns in a terminal of %d: %q", is, most, line)
			}
		}
	})
}
