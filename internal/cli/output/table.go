package output

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/operator-catalogs/catalogd/internal/textwidth"
)

// A Column of a table. If the table is too wide, columns are cut or dropped. Columns without Drop identify the rows, so they come last.
type Column struct {
	Name  string
	Wide  bool                    // shown only with Options.Wide
	Right bool                    // right-aligned, for numbers
	Least int                     // the minimum width when the column is cut; 0: cut only if dropping columns does not suffice
	Drop  int                     // the order in which columns are dropped, 1 first; 0: last
	Apart bool                    // whether Drop applies only if all cells are equal
	Known bool                    // whether the command line gives the value; dropped first, as empty columns are
	Style func(cell string) Style // nil: plain
	Mark  []string                // words to print bold, in any case
}

// minWidth is the width at which most cells are still distinct.
const minWidth = 10

// gap is the space between columns, as in kubectl's tables.
const gap = 3

// A Table is a list for a person.
type Table struct {
	Columns []Column
	Rows    [][]string // a cell of any text for each column
}

// Options configure the output of a table.
type Options struct {
	Wide      bool // show all columns uncut
	NoHeaders bool
}

// Print writes an aligned table, no wider than the terminal. To fit, it drops known and empty columns, then cuts texts down to their Least,
// then drops columns by Drop, and finally cuts names.
func (t *Terminal) Print(table Table, opts Options) error {
	s := t.Stream(table.Columns, opts)
	s.whole = true
	return s.Print(table.Rows...)
}

// A Stream is a table whose rows arrive over time.
type Stream struct {
	to      *Terminal
	columns []Column
	opts    Options
	whole   bool  // whether the first rows are all rows
	shown   []int // the indexes of the shown columns
	widths  []int // of the shown columns; nil before the first rows
}

// Stream begins a table.
func (t *Terminal) Stream(columns []Column, opts Options) *Stream {
	s := &Stream{to: t, columns: columns, opts: opts}
	for i, c := range columns {
		if opts.Wide || !c.Wide {
			s.shown = append(s.shown, i)
		}
	}
	return s
}

// Print adds rows, and before the first ones the header. A column becomes wider if its cells need it.
func (s *Stream) Print(rows ...[]string) error {
	lines := make([][]string, 0, len(rows)+1)
	header := s.widths == nil && !s.opts.NoHeaders
	if header {
		lines = append(lines, headers(s.columns))
	}
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = Line(cell)
		}
		lines = append(lines, cells)
	}
	isBounded := s.to.Width > 0 && !s.opts.Wide
	if isBounded && s.widths == nil {
		s.dropColumns(lines, lines[len(lines)-len(rows):])
	}
	widths := measure(lines, s.shown)
	for n := range s.widths {
		widths[n] = max(widths[n], s.widths[n])
	}
	if isBounded {
		shrink(widths, s.leasts(widths), s.to.Width)
	}
	s.widths = widths
	for n, line := range lines {
		if _, err := fmt.Fprintln(s.to, s.to.line(s.columns, s.shown, widths, line, n == 0 && header)); err != nil {
			return err
		}
	}
	return nil
}

// dropColumns drops columns until the others fit, cut if necessary. Of columns with the same Drop, the last is dropped first.
func (s *Stream) dropColumns(lines, rows [][]string) {
	for len(s.shown) > 1 {
		widths := measure(lines, s.shown)
		if total(widths) <= s.to.Width {
			return
		}
		n := slices.IndexFunc(s.shown, func(i int) bool { return s.columns[i].Known || (i > 0 && s.whole && isEmpty(rows, i)) })
		if n < 0 {
			if total(s.leasts(widths)) <= s.to.Width {
				return
			}
			n = s.nextToDrop(rows)
		}
		if n < 0 {
			for n = range widths {
				widths[n] = min(widths[n], minWidth)
			}
			if total(widths) <= s.to.Width {
				return
			}
		}
		s.shown = slices.Delete(s.shown, n, n+1)
	}
}

func isEmpty(rows [][]string, column int) bool {
	return !slices.ContainsFunc(rows, func(row []string) bool { return row[column] != "" })
}

// nextToDrop returns the shown column with the lowest Drop, or -1 if all columns identify the rows.
func (s *Stream) nextToDrop(rows [][]string) int {
	next, lowest := -1, math.MaxInt
	for n := 1; n < len(s.shown); n++ {
		c := s.columns[s.shown[n]]
		differs := func(row []string) bool { return row[s.shown[n]] != rows[0][s.shown[n]] }
		if c.Drop > 0 && c.Drop <= lowest && (!c.Apart || !slices.ContainsFunc(rows, differs)) {
			next, lowest = n, c.Drop
		}
	}
	return next
}

// leasts returns the widths to which columns are cut before any is dropped by Drop.
func (s *Stream) leasts(widths []int) []int {
	leasts := slices.Clone(widths)
	for n, i := range s.shown {
		if c := s.columns[i]; c.Least > 0 {
			leasts[n] = min(widths[n], max(c.Least, len(c.Name)))
		}
	}
	return leasts
}

// total returns the width of a line.
func total(widths []int) int {
	sum := gap * (len(widths) - 1)
	for _, w := range widths {
		sum += w
	}
	return sum
}

func headers(columns []Column) []string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = strings.ToUpper(c.Name)
	}
	return names
}

func measure(lines [][]string, shown []int) []int {
	widths := make([]int, len(shown))
	for _, line := range lines {
		for n, i := range shown {
			widths[n] = max(widths[n], textwidth.Of(line[i]))
		}
	}
	return widths
}

// shrink narrows the widest column until a line has at most limit columns. Columns that are wider than their least width go first.
func shrink(widths, leasts []int, limit int) {
	for n := range widths {
		widths[n] = min(widths[n], limit) // bounds the loop below
	}
	for over := total(widths) - limit; over > 0; over-- {
		widest, spare := 0, false
		for n, w := range widths {
			if s := w > leasts[n]; (s && !spare) || (s == spare && w > widths[widest]) {
				widest, spare = n, s
			}
		}
		if widths[widest] <= 1 {
			return
		}
		widths[widest]--
	}
}

func (t *Terminal) line(columns []Column, shown, widths []int, cells []string, header bool) string {
	var b strings.Builder
	for n, i := range shown {
		text := cutCell(cells[i], widths[n])
		space := strings.Repeat(" ", widths[n]-textwidth.Of(text))
		painted := text
		switch {
		case header:
			painted = t.Paint(Bold, text)
		case columns[i].Style != nil:
			painted = t.Paint(columns[i].Style(cells[i]), text)
		case columns[i].Mark != nil:
			painted = t.mark(text, columns[i].Mark)
		}
		if columns[i].Right {
			painted = space + painted
		} else {
			painted += space
		}
		b.WriteString(painted)
		if n < len(shown)-1 {
			b.WriteString(strings.Repeat(" ", gap))
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// mark prints words of a text bold.
func (t *Terminal) mark(text string, words []string) string {
	if !t.Colors {
		return text
	}
	var quoted []string
	for _, word := range words {
		quoted = append(quoted, regexp.QuoteMeta(word))
	}
	return regexp.MustCompile("(?i)"+strings.Join(quoted, "|")).ReplaceAllStringFunc(text,
		func(found string) string { return t.Paint(Bold, found) })
}

// ByValue returns a Column.Style for cells with few values.
func ByValue(styles map[string]Style) func(string) Style {
	return func(cell string) Style { return styles[cell] }
}

// cut shortens a text to a width, with an ellipsis.
func cut(text string, limit int) string { return textwidth.Truncate(text, limit, "…") }

// cutCell shortens a name in the middle, because its end is often a version, and other texts at their end.
func cutCell(text string, limit int) string {
	if limit < minWidth || strings.Contains(text, " ") {
		return cut(text, limit)
	}
	return textwidth.TruncateMiddle(text, limit, "…")
}
