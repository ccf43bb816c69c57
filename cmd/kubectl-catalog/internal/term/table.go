package term

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A Column of a table.
type Column struct {
	Name  string
	Wide  bool                    // shown only if all is wanted
	Right bool                    // numbers
	Least int                     // how narrow it may become where the terminal is too narrow; 0: it is never cut
	Drop  int                     // when it is left out where not even cut columns fit: those with 1 first; 0: never
	Style func(cell string) Style // nil: plain
	Mark  []string                // what is bold wherever it stands in a cell, in any case
}

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

// Print writes a table: aligned by what the characters take on the screen, and not wider than the terminal where columns may be cut.
func (t *Terminal) Print(table Table, opts Options) error {
	return t.Stream(table.Columns, opts).Print(table.Rows...)
}

// A Stream is a table whose rows come one after another.
type Stream struct {
	to      *Terminal
	columns []Column
	opts    Options
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
		s.shown = drop(lines, s.columns, s.shown, s.to.Width)
	}
	widths := measure(lines, s.shown)
	for n := range s.widths {
		widths[n] = max(widths[n], s.widths[n])
	}
	if cut {
		shrink(widths, s.columns, s.shown, s.to.Width)
	}
	s.widths = widths
	for n, line := range lines {
		if _, err := fmt.Fprintln(s.to, s.to.line(s.columns, s.shown, widths, line, n == 0 && header)); err != nil {
			return err
		}
	}
	return nil
}

// drop leaves out columns until the others fit, if they are cut.
func drop(lines [][]string, columns []Column, shown []int, most int) []int {
	for {
		widths := measure(lines, shown)
		first := -1
		total := gap * (len(shown) - 1)
		for n, i := range shown {
			c := columns[i]
			if c.Least > 0 {
				widths[n] = min(widths[n], max(c.Least, len(c.Name)))
			}
			total += widths[n]
			if c.Drop > 0 && (first < 0 || c.Drop < columns[shown[first]].Drop) {
				first = n
			}
		}
		if total <= most || first < 0 {
			return shown
		}
		shown = slices.Delete(slices.Clone(shown), first, first+1)
	}
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

// shrink takes from the widest column that may be cut, until all fit or none gives way any more.
func shrink(widths []int, columns []Column, shown []int, most int) {
	total := gap * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	for ; total > most; total-- {
		widest := -1
		for n, i := range shown {
			if least := columns[i].Least; least > 0 && widths[n] > max(least, len(columns[i].Name)) && (widest < 0 || widths[n] > widths[widest]) {
				widest = n
			}
		}
		if widest < 0 {
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

// Fields writes labels and values below each other, as `kubectl describe` does. Empty values are left out.
func (t *Terminal) Fields(indent int, pairs ...[2]string) error {
	pairs = slices.DeleteFunc(slices.Clone(pairs), func(p [2]string) bool { return p[1] == "" })
	widest := 0
	for _, p := range pairs {
		widest = max(widest, width(p[0]))
	}
	for _, p := range pairs {
		label := p[0] + ":" + strings.Repeat(" ", widest-width(p[0]))
		value := strings.ReplaceAll(strings.TrimRight(p[1], "\n"), "\n", "\n"+strings.Repeat(" ", indent+widest+3))
		if _, err := fmt.Fprintf(t, "%s%s  %s\n", strings.Repeat(" ", indent), t.Paint(Bold, label), value); err != nil {
			return err
		}
	}
	return nil
}
