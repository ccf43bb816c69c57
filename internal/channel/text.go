package upgrade

import (
	"bufio"
	"io"
	"strings"
)

// Role is what a piece of text says, for who colours it.
type Role string

// The roles.
const (
	RoleLanes      Role = "lanes"
	RoleVersion    Role = "version"
	RoleHead       Role = "head"
	RoleDeprecated Role = "deprecated"
	RoleRemark     Role = "remark"
)

// TextOptions say how text is drawn.
type TextOptions struct {
	Width int  // the columns there are; 0 if there is no end to them
	ASCII bool // draw with ASCII only. What the catalog says stays as it is.

	// Paint, if not nil, adds to a piece of text what colours it.
	Paint func(Role, string) string
}

// Text draws the graph as `git log --graph` does: a line an entry, the head on top.
func (l *Layout) Text(w io.Writer, o TextOptions) error {
	g := unicodeGlyphs
	if o.ASCII {
		g = asciiGlyphs
	}
	out := bufio.NewWriter(w)
	t := &textWriter{TextOptions: o, glyphs: g, layout: l, out: out}
	for i := range l.Rows {
		t.lanes = max(t.lanes, displayWidth(t.prefix(&l.Rows[i])))
		t.version = max(t.version, displayWidth(l.Rows[i].Label))
	}
	for i := range l.Rows {
		if i > 0 && l.isGap(i) {
			t.gap(&l.Rows[i])
		}
		t.row(&l.Rows[i])
	}
	return out.Flush()
}

type textWriter struct {
	TextOptions
	glyphs         glyphs
	layout         *Layout
	out            *bufio.Writer
	lanes, version int // the widths of the columns
	column         int // where the line is
}

// prefix is what is drawn of the lanes: no more than half of the width, so that something is left to say.
func (t *textWriter) prefix(r *Row) string {
	p := r.prefix(t.glyphs)
	if t.Width > 0 {
		p = truncate(p, t.Width/2, t.glyphs.more)
	}
	return p
}

// isGap tells whether the nodes of a row and of the one above stand in one lane and are not joined by it.
func (l *Layout) isGap(i int) bool {
	above, row := &l.Rows[i-1], &l.Rows[i]
	return above.Lane == row.Lane && !row.Above
}

// gap sets a row apart from the one above, so that two nodes that touch are always replaced one by the other.
func (t *textWriter) gap(r *Row) {
	t.column = 0
	passing := Row{Lane: -1, Through: r.Through}
	t.put(RoleLanes, t.prefix(&passing))
	t.write("\n")
}

func (t *textWriter) row(r *Row) {
	t.column = 0
	t.put(RoleLanes, t.prefix(r))
	t.pad(t.lanes + 1)
	start := t.column
	t.put(RoleVersion, r.Label)
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

// put writes as much of a text as fits.
func (t *textWriter) put(role Role, text string) {
	if t.Width > 0 {
		text = truncate(text, t.Width-t.column, t.glyphs.more)
	}
	t.column += displayWidth(text)
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
	_, _ = t.out.WriteString(text) // an error stays until Flush
}
