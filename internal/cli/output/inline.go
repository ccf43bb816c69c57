package output

import (
	"regexp"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/util"
)

// inline renders the content of a paragraph. Newlines in the result are the author's line breaks.
func (m *markdown) inline(parent ast.Node, style Style) string {
	var b strings.Builder
	for node := parent.FirstChild(); node != nil; node = node.NextSibling() {
		b.WriteString(m.span(node, style))
	}
	return b.String()
}

func (m *markdown) span(node ast.Node, style Style) string {
	switch node := node.(type) {
	case *ast.Text:
		return m.paint(style, m.text(node))
	case *ast.String:
		return m.paint(style, Text(string(node.Value)))
	case *ast.CodeSpan:
		return m.inline(node, Cyan)
	case *ast.Emphasis:
		return m.inline(node, style.with([]Style{Italic, Bold}[min(node.Level, 2)-1]))
	case *ast.AutoLink:
		return m.paint(style.with(Underline), Text(string(node.URL(m.source))))
	case *ast.Link:
		return m.link(m.inline(node, style), string(node.Destination))
	case *ast.RawHTML:
		if html := strings.ToLower(string(node.Segments.Value(m.source))); strings.HasPrefix(html, "<br") {
			return "\n"
		}
		return ""
	}
	return m.inline(node, style) // the text of an image
}

var word = regexp.MustCompile(`[^ \n]+`)

// paint paints each word separately, so that the text can be wrapped.
func (m *markdown) paint(style Style, text string) string {
	return word.ReplaceAllStringFunc(text, func(word string) string { return m.to.Paint(style, word) })
}

// text returns the text of a node and resolves its escapes and entities.
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

// link adds the destination to the text of a link, unless they are equal.
func (m *markdown) link(text, destination string) string {
	destination = Line(destination)
	plain := strings.TrimSpace(unpainted(text))
	if destination == "" || strings.HasPrefix(destination, "#") || strings.TrimPrefix(destination, "mailto:") == plain {
		return text
	}
	address := m.paint(Underline, destination)
	if plain == "" {
		return address
	}
	return text + " (" + address + ")"
}

// with returns the combination of two styles.
func (s Style) with(other Style) Style {
	if s == Plain {
		return other
	}
	return s + ";" + other
}

// wrap breaks a text into lines, at spaces. Repeated spaces and line breaks count once.
func wrap(text string, columns int) []string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		if words := word.FindAllString(line, -1); words != nil {
			lines = append(lines, fill(words, columns)...)
		}
	}
	return lines
}
