package page

import (
	"strings"
	"testing"

	"golang.org/x/net/html"
)

func TestMarkdown(t *testing.T) {
	for name, tt := range map[string]struct{ source, want string }{
		"headings are below those of the page": {"# One\n\n##### Five", "<h3>One</h3>\n<h6>Five</h6>\n"},
		"link":                                 {"[a](https://a.example/x \"t\")", `<p><a href="https://a.example/x" rel="noopener noreferrer nofollow">a</a></p>` + "\n"},
		"bare address":                         {"https://a.example", `<p><a href="https://a.example" rel="noopener noreferrer nofollow">https://a.example</a></p>` + "\n"},
		"script address":                       {"[run](javascript:alert(1)) and [x](data:text/html,x)", "<p>run and x</p>\n"},
		"relative address":                     {"[other](../../logout)", "<p>other</p>\n"},
		"empty link":                           {"[](https://a.example)", `<p><a href="https://a.example" rel="noopener noreferrer nofollow">https://a.example</a></p>` + "\n"},
		"image becomes a link":                 {"![logo](https://a.example/x.png)", `<p><a href="https://a.example/x.png" rel="noopener noreferrer nofollow">logo</a></p>` + "\n"},
		"badge":                                {"[![build](https://a.example/b.svg)](https://a.example)", `<p><a href="https://a.example" rel="noopener noreferrer nofollow">build</a></p>` + "\n"},
		"inline markup":                        {"a <b onclick=x>bold</b> <script>alert(1)</script>", "<p>a bold alert(1)</p>\n"},
		"block of markup":                      {"<div style=\"x\">\n<img src=x onerror=alert(1)>\nkept\n</div>", "<p>kept</p>\n"},
		"table":                                {"| a | b |\n|:-|-:|\n| 1 | 2 |", "<table>\n<thead>\n<tr>\n<th>a</th>\n<th>b</th>\n</tr>\n</thead>\n<tbody>\n<tr>\n<td>1</td>\n<td>2</td>\n</tr>\n</tbody>\n</table>\n"},
		"mail":                                 {"<a@b.example>", `<p><a href="mailto:a@b.example" rel="noopener noreferrer nofollow">a@b.example</a></p>` + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := string(markdown(tt.source)); got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

// allowedElements are the elements of a description, with their attributes.
var allowedElements = map[string]string{
	"p": "", "br": "", "hr": "", "em": "", "strong": "", "del": "", "blockquote": "", "ul": "", "li": "", "ol": "start", "pre": "", "code": "class",
	"h3": "", "h4": "", "h5": "", "h6": "", "table": "", "thead": "", "tbody": "", "tr": "", "th": "", "td": "", "a": "href rel",
	"html": "", "head": "", "body": "", // of the parser
}

func FuzzMarkdown(f *testing.F) {
	for _, seed := range []string{
		"# a\n\n[b](javascript:x) ![c](//d)", "<script>x</script>", "> - 1. x\n```\n<b>\n```", "|a|\n|-|\n|<i>|", "[a]: javascript:x\n[a]",
		"<https://a.example/\">", "[x](https://a.example/\"onmouseover=x)", "![](http://x)", "<!-- a\n--> b", "[![a](b)](c)", "www.a.example",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, source string) {
		tree, err := html.Parse(strings.NewReader(string(markdown(source))))
		if err != nil {
			t.Fatal(err)
		}
		for n := range tree.Descendants() {
			switch n.Type {
			case html.ElementNode:
				checkElement(t, n)
			case html.CommentNode, html.DoctypeNode, html.RawNode:
				t.Errorf("node %v %q", n.Type, n.Data)
			case html.ErrorNode, html.TextNode, html.DocumentNode:
			}
		}
	})
}

func checkElement(t *testing.T, n *html.Node) {
	attributes, ok := allowedElements[n.Data]
	if !ok {
		t.Errorf("element %s", n.Data)
	}
	for _, a := range n.Attr {
		if !strings.Contains(" "+attributes+" ", " "+a.Key+" ") {
			t.Errorf("attribute %s of %s", a.Key, n.Data)
		}
		if a.Key == "href" && !isLinkable(a.Val) {
			t.Errorf("link to %q", a.Val)
		}
	}
}
