package output

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/util"

	"github.com/operator-catalogs/catalogd/internal/markdown"
)

// Limits of the width of a text. Longer lines are hard to read.
const (
	maxMarkdownWidth = 100
	minMarkdownWidth = 20
)

// Markdown renders an untrusted text in Markdown, wrapped to the width of the terminal.
func (t *Terminal) Markdown(source string) string {
	tree, text := markdown.Parse(Text(source))
	m := &markdownWriter{to: t, source: text}
	columns := maxMarkdownWidth
	if t.Width > 0 {
		columns = min(columns, t.Width)
	}
	lines := m.blocks(tree, columns, 0)
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

// markdownWriter renders one text.
type markdownWriter struct {
	to     *Terminal
	source []byte
}

// blocks renders the blocks of a node, separated by empty lines.
func (m *markdownWriter) blocks(parent ast.Node, columns, depth int) []string {
	var lines []string
	list, _ := parent.(*ast.ListItem)
	tight := list != nil && list.Parent().(*ast.List).IsTight
	for node := parent.FirstChild(); node != nil; node = node.NextSibling() {
		block := m.block(node, max(columns, minMarkdownWidth), depth)
		if len(block) == 0 {
			continue
		}
		if len(lines) > 0 && !tight {
			lines = append(lines, "")
		}
		lines = append(lines, block...)
	}
	return lines
}

func (m *markdownWriter) block(node ast.Node, columns, depth int) []string {
	if depth > markdown.MaxDepth {
		return []string{"…"}
	}
	switch node := node.(type) {
	case *ast.Heading:
		return wrap(m.inline(node, Bold), columns)
	case *ast.Paragraph, *ast.TextBlock:
		return wrap(m.inline(node, Plain), columns)
	case *ast.CodeBlock, *ast.FencedCodeBlock:
		return m.code(node)
	case *ast.HTMLBlock:
		return wrap(withoutTags(string(node.Lines().Value(m.source))), columns)
	case *ast.ThematicBreak:
		return []string{strings.Repeat("─", min(columns, minMarkdownWidth))}
	case *ast.Blockquote:
		return prefixed(m.blocks(node, columns-2, depth+1), "│ ", "│ ")
	case *ast.List:
		return m.list(node, columns, depth)
	case *east.Table:
		return m.table(node, columns)
	}
	return m.blocks(node, columns, depth+1)
}

func (m *markdownWriter) code(node ast.Node) []string {
	var lines []string
	for line := range strings.Lines(string(node.Lines().Value(m.source))) {
		lines = append(lines, "    "+m.to.Paint(Cyan, strings.TrimRight(line, "\n")))
	}
	return lines
}

func (m *markdownWriter) list(list *ast.List, columns, depth int) []string {
	var lines []string
	number := list.Start
	for item := list.FirstChild(); item != nil; item = item.NextSibling() {
		mark := "• "
		if list.IsOrdered() {
			mark = fmt.Sprintf("%d. ", number)
			number++
		}
		if len(lines) > 0 && !list.IsTight {
			lines = append(lines, "")
		}
		indent := utf8.RuneCountInString(mark)
		lines = append(lines, prefixed(m.blocks(item, columns-indent, depth+1), mark, strings.Repeat(" ", indent))...)
	}
	return lines
}

// prefixed adds prefixes to the first line and to the others.
func prefixed(lines []string, first, rest string) []string {
	for i := range lines {
		prefix := rest
		if i == 0 {
			prefix = first
		}
		lines[i] = strings.TrimRight(prefix+lines[i], " ")
	}
	return lines
}

func (m *markdownWriter) table(table *east.Table, columns int) []string {
	var cells Table
	for row := table.FirstChild(); row != nil; row = row.NextSibling() {
		var texts []string
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			texts = append(texts, unpainted(m.inline(cell, Plain)))
		}
		if _, ok := row.(*east.TableHeader); ok {
			for _, name := range texts {
				cells.Columns = append(cells.Columns, Column{Name: Line(name), Least: 8})
			}
			continue
		}
		cells.Rows = append(cells.Rows, texts)
	}
	var b strings.Builder
	if err := (&Terminal{Writer: &b, Width: columns, Colors: m.to.Colors}).Print(cells, Options{}); err != nil {
		return nil
	}
	return strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
}

var (
	comment = regexp.MustCompile(`(?s)<!--.*?(-->|$)`)
	tag     = regexp.MustCompile(`<[^<>]*>`)
)

// withoutTags returns the text of HTML.
func withoutTags(html string) string {
	return tag.ReplaceAllString(comment.ReplaceAllString(html, ""), "")
}

// inline renders the content of a paragraph. Newlines in the result are the author's line breaks.
func (m *markdownWriter) inline(parent ast.Node, style Style) string {
	var b strings.Builder
	for node := parent.FirstChild(); node != nil; node = node.NextSibling() {
		b.WriteString(m.span(node, style))
	}
	return b.String()
}

func (m *markdownWriter) span(node ast.Node, style Style) string {
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
func (m *markdownWriter) paint(style Style, text string) string {
	return word.ReplaceAllStringFunc(text, func(word string) string { return m.to.Paint(style, word) })
}

// text returns the text of a node and resolves its escapes and entities.
func (m *markdownWriter) text(node *ast.Text) string {
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
func (m *markdownWriter) link(text, destination string) string {
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
