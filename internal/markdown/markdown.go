// Package markdown parses untrusted texts in Markdown, such as the descriptions of operators.
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

// MaxDepth limits nested quotes and lists.
const MaxDepth = 16

// Limits of a text. Deeper nesting and longer texts do not occur in descriptions.
const (
	maxColumns  = 16
	maxBytes    = 64 << 10
	maxBrackets = 2000 // opening ones: the parser needs quadratic time for links
)

// nested matches the beginning of a line that opens many nested quotes and lists. The parser needs quadratic time for them.
var nested = regexp.MustCompile(fmt.Sprintf(`(?m)^[ \t]*(?:(?:>|[-+*][ \t]|\d{1,9}[.)][ \t])[ \t]*){%d,}`, MaxDepth+2))

// flatten reduces the depth of a match of nested. A line of hyphens or asterisks alone is a ruler.
func flatten(begin string) string {
	if strings.Trim(begin, "- ") == "" || strings.Trim(begin, "* ") == "" {
		return begin
	}
	return strings.Repeat("> ", MaxDepth+2)
}

// broad matches the delimiter row of a table with many columns. The parser fills each row up to their number, so a text of a few kilobytes
// would need gigabytes.
var broad = regexp.MustCompile(fmt.Sprintf(`(?:[ \t]*:?-+:?[ \t]*\|){%d,}`, maxColumns))

var parse = goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.Linkify)).Parser()

// Parse returns the tree of a text, and the text that its positions refer to: an excessively long text is cut, as is one with
// thousands of links, and its deepest nesting and its broadest tables are reduced.
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
