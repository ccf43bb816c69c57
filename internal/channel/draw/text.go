package draw

import (
	"bufio"
	"io"
	"slices"
	"strings"

	"github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/textwidth"
)

// Role is the meaning of a piece of text, for colors.
type Role string

// The roles.
const (
	RoleLanes      Role = "lanes"
	RoleVersion    Role = "version"
	RoleHead       Role = "head"
	RoleDeprecated Role = "deprecated"
	RoleRemark     Role = "remark"
)

// TextOptions configure Text.
type TextOptions struct {
	Width int  // columns; 0 means unlimited
	ASCII bool // draw lanes with ASCII only; text from the catalog is unchanged

	// Paint, if not nil, colors a piece of text.
	Paint func(Role, string) string
}

// Text draws the graph as `git log --graph` does: one line per entry, the head on top.
func Text(w io.Writer, graph *channel.Graph, o TextOptions) error {
	l := newLayout(graph)
	g := unicodeGlyphs
	if o.ASCII {
		g = asciiGlyphs
	}
	out := bufio.NewWriter(w)
	t := &textWriter{TextOptions: o, glyphs: g, layout: l, out: out}
	for i := range l.rows {
		t.lanes = max(t.lanes, textwidth.Of(t.prefix(&l.rows[i])))
		t.version = max(t.version, textwidth.Of(l.rows[i].label))
	}
	for i := range l.rows {
		if i > 0 && l.isGap(i) {
			t.gap(&l.rows[i])
		}
		t.row(&l.rows[i])
	}
	return out.Flush()
}

type textWriter struct {
	TextOptions
	glyphs         glyphs
	layout         *layout
	out            *bufio.Writer
	lanes, version int // the widths of the columns
	column         int // of the current line
}

// prefix returns the lanes of a row, cut to half of the width.
func (t *textWriter) prefix(r *row) string {
	p := r.prefix(t.glyphs)
	if t.Width > 0 {
		p = textwidth.Truncate(p, t.Width/2, t.glyphs.more)
	}
	return p
}

// isGap reports whether the nodes of row i and of the row above are in the same lane without a connection.
func (l *layout) isGap(i int) bool {
	above, r := &l.rows[i-1], &l.rows[i]
	return above.Lane == r.Lane && !r.Above
}

// gap draws an empty line, so that adjacent nodes are always connected.
func (t *textWriter) gap(r *row) {
	t.column = 0
	passing := row{Row: Row{Lane: -1, Through: r.Through}}
	t.put(RoleLanes, t.prefix(&passing))
	t.write("\n")
}

func (t *textWriter) row(r *row) {
	t.column = 0
	t.put(RoleLanes, t.prefix(r))
	t.pad(t.lanes + 1)
	start := t.column
	t.put(RoleVersion, r.label)
	tags, remarks := r.tags(), t.layout.remarks(r)
	if len(tags)+len(remarks) > 0 {
		t.pad(start + t.version)
	}
	for _, tag := range tags {
		role := RoleDeprecated
		if tag == "head" {
			role = RoleHead
		}
		t.pad(t.column + 2)
		t.put(role, tag)
	}
	if len(remarks) > 0 {
		t.pad(t.column + 2)
		t.put(RoleRemark, strings.Join(remarks, "; "))
	}
	t.write("\n")
}

// put writes a text, cut to the width.
func (t *textWriter) put(role Role, text string) {
	if t.Width > 0 {
		text = textwidth.Truncate(text, t.Width-t.column, t.glyphs.more)
	}
	t.column += textwidth.Of(text)
	if t.Paint != nil && text != "" {
		text = t.Paint(role, text)
	}
	t.write(text)
}

// pad writes spaces up to a column.
func (t *textWriter) pad(column int) {
	if t.Width > 0 {
		column = min(column, t.Width)
	}
	for ; t.column < column; t.column++ {
		t.write(" ")
	}
}

func (t *textWriter) write(text string) {
	_, _ = t.out.WriteString(text) // Flush returns the error
}

// glyphs are the characters of a drawing.
type glyphs struct {
	node, head, pass, cross, joinMiddle, joinLast, line rune
	more                                                string
}

var (
	unicodeGlyphs = glyphs{node: '○', head: '●', pass: '│', cross: '┼', joinMiddle: '┴', joinLast: '╯', line: '─', more: "…"}
	asciiGlyphs   = glyphs{node: 'o', head: '*', pass: '|', cross: '+', joinMiddle: '+', joinLast: '\'', line: '-', more: "..."}
)

// prefix returns the lanes of a row, up to its last used lane.
func (r *row) prefix(g glyphs) string {
	last := r.Lane // the end of the line from the node
	if len(r.Joins) > 0 {
		last = r.Joins[len(r.Joins)-1]
	}
	end := last
	if len(r.Through) > 0 {
		end = max(end, r.Through[len(r.Through)-1])
	}
	cells := slices.Repeat([]rune{' '}, max(0, 2*end+1)) // lane i is at 2*i
	for i := 2*r.Lane + 1; i < 2*last; i++ {
		cells[i] = g.line
	}
	for _, i := range r.Through {
		cells[2*i] = g.pass
		if i > r.Lane && i < last {
			cells[2*i] = g.cross
		}
	}
	for _, i := range r.Joins {
		cells[2*i] = g.joinMiddle
		if i == last {
			cells[2*i] = g.joinLast
		}
	}
	switch {
	case r.Lane < 0:
	case r.isHead:
		cells[2*r.Lane] = g.head
	default:
		cells[2*r.Lane] = g.node
	}
	return string(cells)
}
