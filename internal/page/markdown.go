package page

import (
	"bytes"
	"html/template"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/util"

	shared "github.com/operator-catalogs/catalogd/internal/markdown"
)

// markdown renders the description of an operator. The result has no raw HTML of the text, no images, ids, styles or scripts. Links
// have the scheme http, https or mailto.
func markdown(source string) template.HTML {
	tree, content := shared.Parse(source)
	restrict(tree, content)
	var b bytes.Buffer
	if err := htmlRenderer.Render(&b, content, tree); err != nil {
		return template.HTML("<p>" + template.HTMLEscapeString(source) + "</p>") //nolint:gosec // G203: escaped
	}
	return template.HTML(b.String()) //nolint:gosec // G203: goldmark escapes texts; FuzzMarkdown checks elements and attributes
}

// htmlRenderer does not align table cells, because the Content-Security-Policy forbids style attributes.
var htmlRenderer = goldmark.New(
	goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignNone)), extension.Strikethrough),
	goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(html.NewRenderer(), 1000))),
).Renderer()

// restrict replaces the forbidden nodes of a tree and lowers its headings.
func restrict(tree ast.Node, source []byte) {
	var nodes []ast.Node
	_ = ast.Walk(tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function returns no error
		if entering {
			nodes = append(nodes, n)
		}
		return ast.WalkContinue, nil
	})
	for _, n := range nodes {
		switch n := n.(type) {
		case *ast.Heading:
			n.Level = min(n.Level+2, 6) // below the headings of the page
		case *ast.HTMLBlock:
			replace(n, paragraphOf(htmlText(n, source)))
		case *ast.RawHTML:
			n.Parent().RemoveChild(n.Parent(), n)
		case *ast.Image:
			restrictImage(n, source)
		case *ast.Link:
			restrictLink(n, string(n.Destination))
		case *ast.AutoLink:
			if isLinkable(string(n.URL(source))) || n.AutoLinkType == ast.AutoLinkEmail {
				n.SetAttributeString("rel", []byte(relation))
			} else {
				replace(n, ast.NewString(n.Label(source)))
			}
		}
	}
}

const relation = "noopener noreferrer nofollow"

func replace(old, by ast.Node) { old.Parent().ReplaceChild(old.Parent(), old, by) }

func paragraphOf(content string) ast.Node {
	p := ast.NewParagraph()
	p.AppendChild(p, ast.NewString([]byte(content)))
	return p
}

// tag matches a tag or a comment of HTML.
var tag = regexp.MustCompile(`<!--(?s:.*?)-->|<[^<>]*>`)

// htmlText returns the text of an HTML block without its tags.
func htmlText(n *ast.HTMLBlock, source []byte) string {
	var b strings.Builder
	for i := range n.Lines().Len() {
		line := n.Lines().At(i)
		b.Write(line.Value(source))
	}
	if n.HasClosure() {
		b.Write(n.ClosureLine.Value(source))
	}
	return strings.TrimSpace(tag.ReplaceAllString(b.String(), " "))
}

// restrictImage replaces an image with a link to it, because pages load nothing from other hosts. In a link, it uses the text.
func restrictImage(n *ast.Image, source []byte) {
	label := strings.TrimSpace(string(n.Text(source))) //nolint:staticcheck // SA1019: no other function returns the text of all children
	if label == "" {
		label = "image"
	}
	if inLink(n) || !isLinkable(string(n.Destination)) {
		replace(n, ast.NewString([]byte(label)))
		return
	}
	link := ast.NewLink()
	link.Destination = n.Destination
	link.SetAttributeString("rel", []byte(relation))
	link.AppendChild(link, ast.NewString([]byte(label)))
	replace(n, link)
}

func inLink(n ast.Node) bool {
	for p := n.Parent(); p != nil; p = p.Parent() {
		if p.Kind() == ast.KindLink {
			return true
		}
	}
	return false
}

// restrictLink replaces links that are not allowed, such as javascript: and relative URLs, with their text.
func restrictLink(n *ast.Link, destination string) {
	if isLinkable(destination) {
		n.Title = nil
		n.SetAttributeString("rel", []byte(relation))
		if !n.HasChildren() {
			n.AppendChild(n, ast.NewString(n.Destination))
		}
		return
	}
	parent := n.Parent()
	for child := n.FirstChild(); child != nil; child = n.FirstChild() {
		n.RemoveChild(n, child)
		parent.InsertBefore(parent, n, child)
	}
	parent.RemoveChild(parent, n)
}

// isLinkable reports whether pages link to a URL of a catalog: http, https and mailto.
func isLinkable(address string) bool {
	scheme, rest, ok := strings.Cut(address, ":")
	switch strings.ToLower(scheme) {
	case "http", "https":
		return ok && strings.HasPrefix(rest, "//") && len(rest) > len("//")
	case "mailto":
		return ok && rest != ""
	}
	return false
}
