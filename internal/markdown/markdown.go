// Package markdown parses untrusted Markdown, such as the descriptions of operators.
package markdown

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// MaxDepth is the limit of nested quotes and lists.
const MaxDepth = 16

// Limits of the columns of a table and of a text. Real descriptions do not exceed them.
const (
	maxColumns  = 16
	maxBytes    = 64 << 10
	maxBrackets = 2000 // opening ones: the parser needs quadratic time for links
)

// nested matches the start of a line that opens many nested quotes and lists. Parsing them takes quadratic time.
var nested = regexp.MustCompile(fmt.Sprintf(`(?m)^[ \t]*(?:(?:>|[-+*][ \t]|\d{1,9}[.)][ \t])[ \t]*){%d,}`, MaxDepth+2))

// flatten reduces the depth of a match of nested. It keeps thematic breaks, lines of hyphens or asterisks.
func flatten(begin string) string {
	if strings.Trim(begin, "- ") == "" || strings.Trim(begin, "* ") == "" {
		return begin
	}
	return strings.Repeat("> ", MaxDepth+2)
}

// broad matches the delimiter row of a table with many columns. The parser adds the missing cells to each row, so a few kilobytes
// of text would take gigabytes.
var broad = regexp.MustCompile(fmt.Sprintf(`(?:[ \t]*:?-+:?[ \t]*\|){%d,}`, maxColumns))

var parse = goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.Linkify)).Parser()

// Parse returns the tree of a text and the text that the tree refers to. The latter differs from source if source exceeds a limit:
// Parse cuts long texts and texts with thousands of links, and reduces deep nesting and wide tables.
func Parse(source string, options ...parser.ParseOption) (ast.Node, []byte) {
	if end := endOf(source); end < len(source) {
		source = strings.ToValidUTF8(source[:end], "") + "\n\n…"
	}
	bounded := []byte(nested.ReplaceAllStringFunc(broad.ReplaceAllString(source, "…"), flatten))
	return parse.Parse(text.NewReader(bounded), options...), bounded
}

// endOf returns where a text is cut.
func endOf(source string) int {
	source = source[:min(len(source), maxBytes)]
	brackets := 0
	for i := range len(source) {
		if source[i] == '[' {
			if brackets++; brackets > maxBrackets {
				return i
			}
		}
	}
	return len(source)
}
