package output

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
)

// A Column of a table. Rows are told apart by columns without Drop: these are the last to be cut.
type Column struct {
	Name  string
	Wide  bool                    // shown only if all is wanted
	Right bool                    // numbers
	Least int                     // how narrow it may become before any is left out; 0: it is not cut before
	Drop  int                     // when it is left out where not even cut columns fit: those with 1 first; 0: last
	Apart bool                    // whether it counts as one without Drop unless all its cells are the same
	Known bool                    // whether the command line gives the value; dropped like an empty column
	Style func(cell string) Style // nil: plain
	Mark  []string                // what is bold wherever it stands in a cell, in any case
}

// enough of most cells is there to tell rows apart by them.
const enough = 10

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

// Print writes a table: aligned by what the characters take on the screen, and not wider than the terminal. Where it would be, columns
// that tell nothing are left out, texts are cut, if that is not enough columns are left out by what they are worth,
// and at last names are cut.
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

// leaveOut leaves out columns that tell nothing until the others fit, and then more until those fit, if they are cut.
// Of those that are worth
// the same the last is left out.
func (s *Stream) leaveOut(lines, rows [][]string) {
	for len(s.shown) > 1 {
		widths := measure(lines, s.shown)
		if total(widths) <= s.to.Width {
			return
		}
		n := slices.IndexFunc(s.shown, func(i int) bool { return s.columns[i].Known || (i > 0 && s.whole && isEmpty(rows, i)) })
		if n < 0 && total(s.leasts(widths)) <= s.to.Width {
			return
		}
		if n < 0 {
			n = s.leastWorth(rows)
		}
		if n < 0 {
			for n = range widths {
				widths[n] = min(widths[n], enough)
			}
			if total(widths) <= s.to.Width {
				return
			}
			for n = len(widths) - 1; n > 1 && s.columns[s.shown[n]].Least > 0; { // a text tells something even if it is cut
				n--
			}
		}
		s.shown = slices.Delete(s.shown, n, n+1)
	}
}

func isEmpty(rows [][]string, column int) bool {
	return !slices.ContainsFunc(rows, func(row []string) bool { return row[column] != "" })
}

// leastWorth is which of the columns is the next to be left out; -1 if rows are told apart by all.
func (s *Stream) leastWorth(rows [][]string) int {
	least, worth := -1, math.MaxInt
	for n := 1; n < len(s.shown); n++ {
		c := s.columns[s.shown[n]]
		differs := func(row []string) bool { return row[s.shown[n]] != rows[0][s.shown[n]] }
		if c.Drop > 0 && c.Drop <= worth && (!c.Apart || !slices.ContainsFunc(rows, differs)) {
			least, worth = n, c.Drop
		}
	}
	return least
}

// leasts are how narrow columns of these widths may become before any is left out.
func (s *Stream) leasts(widths []int) []int {
	leasts := slices.Clone(widths)
	for n, i := range s.shown {
		if c := s.columns[i]; c.Least > 0 {
			leasts[n] = min(widths[n], max(c.Least, len(c.Name)))
		}
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
		widths[n] = min(widths[n], most) // limits the loop below
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
		text := cutCell(cells[i], widths[n])
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

// ByValue is a Column.Style of cells that have few values.
func ByValue(styles map[string]Style) func(string) Style {
	return func(cell string) Style { return styles[cell] }
}
