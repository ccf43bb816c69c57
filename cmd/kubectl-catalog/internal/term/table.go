package term

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
)

// A Column of a table.
type Column struct {
	Name  string
	Wide  bool                    // shown only if all is wanted
	Right bool                    // numbers
	Least int                     // how narrow it may become before any is left out; 0: usualLeast
	Drop  int                     // when it is left out where not even cut columns fit: those with 1 first; 0: last
	Style func(cell string) Style // nil: plain
	Mark  []string                // what is bold wherever it stands in a cell, in any case
}

// usualLeast is enough of most cells to know them by.
const usualLeast = 10

// gap is what stands between two columns, as in kubectl's tables.
const gap = 3

// A Table is what a command lists.
type Table struct {
	Columns []Column
	Rows    [][]string // as many cells as columns each, of any text
}

// Options say how to show a table.
type Options struct {
	Wide      bool // all columns, none of them cut
	NoHeaders bool
}

// Print writes a table: aligned by what the characters take on the screen, and not wider than the terminal. Where it would be, empty columns
// are left out, cells are cut, and if that is not enough columns are left out by what they are worth.
func (t *Terminal) Print(table Table, opts Options) error {
	s := t.Stream(table.Columns, opts)
	s.whole = true
	return s.Print(table.Rows...)
}

// A Stream is a table whose rows come one after another.
type Stream struct {
	to      *Terminal
	columns []Column
	opts    Options
	whole   bool  // whether the first rows are all
	shown   []int // which columns are
	widths  []int // of these; nil before the first rows
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

// Print adds rows, at first below the headers. They are aligned with those before them, as far as these were wide enough.
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
	cut := s.to.Width > 0 && !s.opts.Wide
	if cut && s.widths == nil {
		s.leaveOut(lines, lines[len(lines)-len(rows):])
	}
	widths := measure(lines, s.shown)
	for n := range s.widths {
		widths[n] = max(widths[n], s.widths[n])
	}
	if cut {
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

// leaveOut leaves out columns that are empty until the others fit, and then more until those fit, if they are cut. The first is never left
// out, and of those that are worth the same the last is.
func (s *Stream) leaveOut(lines, rows [][]string) {
	for len(s.shown) > 1 {
		widths := measure(lines, s.shown)
		if total(widths) <= s.to.Width {
			return
		}
		first, isEmpty := 1, false
		for n := 1; n < len(s.shown); n++ {
			if s.whole && !slices.ContainsFunc(rows, func(row []string) bool { return row[s.shown[n]] != "" }) {
				first, isEmpty = n, true
				break
			}
			if s.worth(n) <= s.worth(first) {
				first = n
			}
		}
		if !isEmpty && total(s.leasts(widths)) <= s.to.Width {
			return
		}
		s.shown = slices.Delete(s.shown, first, first+1)
	}
}

// worth is how late the nth column is left out.
func (s *Stream) worth(n int) int {
	if drop := s.columns[s.shown[n]].Drop; drop > 0 {
		return drop
	}
	return math.MaxInt
}

// leasts are how narrow columns of these widths may become before any is left out.
func (s *Stream) leasts(widths []int) []int {
	leasts := make([]int, len(widths))
	for n, i := range s.shown {
		c := s.columns[i]
		leasts[n] = max(1, min(widths[n], max(cmp.Or(c.Least, usualLeast), len(c.Name))))
	}
	return leasts
}

// total is the width of a line.
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
			widths[n] = max(widths[n], width(line[i]))
		}
	}
	return widths
}

// shrink takes from the widest column until all fit: from those that are wider than the least they need, and if there are none from any.
func shrink(widths, leasts []int, most int) {
	for n := range widths {
		widths[n] = min(widths[n], most) // lest it take forever
	}
	for over := total(widths) - most; over > 0; over-- {
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
		text := Cut(cells[i], widths[n])
		space := strings.Repeat(" ", widths[n]-width(text))
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

// mark has words bold in a text.
func (t *Terminal) mark(text string, words []string) string {
	if !t.Colours {
		return text
	}
	var quoted []string
	for _, word := range words {
		quoted = append(quoted, regexp.QuoteMeta(word))
	}
	return regexp.MustCompile("(?i)"+strings.Join(quoted, "|")).ReplaceAllStringFunc(text, func(found string) string { return t.Paint(Bold, found) })
}

// ByValue is a Column.Style of cells that have few values.
func ByValue(styles map[string]Style) func(string) Style {
	return func(cell string) Style { return styles[cell] }
}
