package output

import (
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/util"
)

// A piece of a line of Markdown, in one style. A line break in its text is one that the author wants.
type piece struct {
	text  string
	style Style
}

// inline are the pieces of a paragraph.
func (m *markdown) inline(parent ast.Node, style Style) []piece {
	var pieces []piece
	for node := parent.FirstChild(); node != nil; node = node.NextSibling() {
		pieces = append(pieces, m.span(node, style)...)
	}
	return pieces
}

func (m *markdown) span(node ast.Node, style Style) []piece {
	switch node := node.(type) {
	case *ast.Text:
		return []piece{{m.text(node), style}}
	case *ast.String:
		return []piece{{Text(string(node.Value)), style}}
	case *ast.CodeSpan:
		return m.inline(node, Cyan)
	case *ast.Emphasis:
		return m.inline(node, style.with([]Style{Italic, Bold}[min(node.Level, 2)-1]))
	case *ast.AutoLink:
		return []piece{{Text(string(node.URL(m.source))), style.with(Underline)}}
	case *ast.Link:
		return m.link(m.inline(node, style), string(node.Destination))
	case *ast.RawHTML:
		if html := strings.ToLower(string(node.Segments.Value(m.source))); strings.HasPrefix(html, "<br") {
			return []piece{{"\n", style}}
		}
		return nil
	}
	return m.inline(node, style) // an image is its text
}

// text is that of a node, which has the escapes and entities of the source still.
func (m *markdown) text(node *ast.Text) string {
	value := node.Segment.Value(m.source)
	if _, code := node.Parent().(*ast.CodeSpan); !code && !node.IsRaw() {
		value = util.ResolveEntityNames(util.ResolveNumericReferences(util.UnescapePunctuations(value)))
	}
	text := strings.ReplaceAll(Text(string(value)), "\n", " ")
	switch {
	case node.HardLineBreak():
		text += "\n"
	case node.SoftLineBreak():
		text += " "
	}
	return text
}

// link shows where a link leads, unless that is what its text says.
func (m *markdown) link(shown []piece, destination string) []piece {
	var b strings.Builder
	for _, p := range shown {
		b.WriteString(p.text)
	}
	destination = Line(destination)
	text := strings.TrimSpace(b.String())
	if destination == "" || strings.HasPrefix(destination, "#") || strings.TrimPrefix(destination, "mailto:") == text {
		return shown
	}
	if text == "" {
		return []piece{{destination, Underline}}
	}
	return append(shown, piece{" (", Plain}, piece{destination, Underline}, piece{")", Plain})
}

// with is a style in which another is, too.
func (s Style) with(other Style) Style {
	if s == Plain {
		return other
	}
	return s + ";" + other
}

// wrap makes lines of pieces, broken at spaces. A word that is longer than a line stays whole: it is an address, mostly.
func (m *markdown) wrap(pieces []piece, columns int) []string {
	var lines []string
	var line strings.Builder
	used := 0
	end := func() {
		if used > 0 {
			lines = append(lines, line.String())
		}
		line.Reset()
		used = 0
	}
	for _, word := range words(pieces) {
		if word == nil {
			end()
			continue
		}
		size := 0
		for _, p := range word {
			size += width(p.text)
		}
		if used > 0 && used+1+size > columns {
			end()
		}
		if used > 0 {
			line.WriteByte(' ')
			used++
		}
		for _, p := range word {
			line.WriteString(m.to.Paint(p.style, p.text))
		}
		used += size
	}
	end()
	return lines
}

// words are the pieces between spaces, which may be of several styles; nil is where the author broke the line.
func words(pieces []piece) [][]piece {
	var all [][]piece
	var word []piece
	end := func() {
		if len(word) > 0 {
			all = append(all, word)
		}
		word = nil
	}
	for _, p := range pieces {
		for rest := p.text; rest != ""; {
			i := strings.IndexAny(rest, " \n")
			if i < 0 {
				word = append(word, piece{rest, p.style})
				break
			}
			if i > 0 {
				word = append(word, piece{rest[:i], p.style})
			}
			end()
			if rest[i] == '\n' {
				all = append(all, nil)
			}
			rest = rest[i+1:]
		}
	}
	end()
	return all
}
