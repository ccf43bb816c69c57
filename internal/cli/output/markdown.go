package output

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
)

// Limits of a text in Markdown. Longer lines are hard to read; deeper nesting and longer texts do not occur in descriptions.
const (
	maxMarkdownWidth   = 100
	minMarkdownWidth   = 20
	maxMarkdownDepth   = 16
	maxMarkdownColumns = 16
	maxMarkdown        = 64 << 10
)

var markdownParser = goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.Linkify)).Parser()

// nested matches the beginning of a line that opens many nested quotes and lists. The parser needs quadratic time for them.
var nested = regexp.MustCompile(fmt.Sprintf(`(?m)^[ \t]*(?:(?:>|[-+*][ \t]|\d{1,9}[.)][ \t])[ \t]*){%d,}`, maxMarkdownDepth+2))

// flatten reduces the depth of a match of nested. A line of hyphens or asterisks alone is a ruler.
func flatten(begin string) string {
	if strings.Trim(begin, "- ") == "" || strings.Trim(begin, "* ") == "" {
		return begin
	}
	return strings.Repeat("> ", maxMarkdownDepth+2)
}

// broad matches the delimiter row of a table with many columns. The parser fills each row up to their number, so a text of a few kilobytes
// would need gigabytes.
var broad = regexp.MustCompile(fmt.Sprintf(`(?:[ \t]*:?-+:?[ \t]*\|){%d,}`, maxMarkdownColumns))

// Markdown renders an untrusted text in Markdown, wrapped to the width of the terminal.
func (t *Terminal) Markdown(source string) string {
	if len(source) > maxMarkdown {
		source = source[:maxMarkdown] + "\n\n…"
	}
	source = nested.ReplaceAllStringFunc(broad.ReplaceAllString(Text(source), "…"), flatten)
	m := &markdown{to: t, source: []byte(source)}
	columns := maxMarkdownWidth
	if t.Width > 0 {
		columns = min(columns, t.Width)
	}
	lines := m.blocks(markdownParser.Parse(text.NewReader(m.source)), columns, 0)
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

// markdown renders one text.
type markdown struct {
	to     *Terminal
	source []byte
}

// blocks renders the blocks of a node, separated by empty lines.
func (m *markdown) blocks(parent ast.Node, columns, depth int) []string {
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

func (m *markdown) block(node ast.Node, columns, depth int) []string {
	if depth > maxMarkdownDepth {
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

func (m *markdown) code(node ast.Node) []string {
	var lines []string
	for line := range strings.Lines(string(node.Lines().Value(m.source))) {
		lines = append(lines, "    "+m.to.Paint(Cyan, strings.TrimRight(line, "\n")))
	}
	return lines
}

func (m *markdown) list(list *ast.List, columns, depth int) []string {
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

func (m *markdown) table(table *east.Table, columns int) []string {
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
