package page

import (
	"bytes"
	"strings"
	"testing"

	"github.com/jba/templatecheck"
)

// framed is frame with a typed body.
type framed[T any] struct {
	frame
	Body T
}

// pageData has a value of the type of each template's data.
var pageData = map[string]any{
	"packages.html": framed[packageList]{}, "catalogs.html": framed[catalogsPage]{}, "catalog.html": framed[catalogPage]{},
	"package.html": framed[packagePage]{}, "error.html": framed[*apiError]{},
	"api.html": framed[apiView]{}, "kinds.html": framed[kindList]{}, "graphql.html": framed[explorer]{}, "changes.html": framed[changeList]{},
	"help.html":    framed[help]{},
	"channel.html": framed[channelPage]{},
	"bundles.html": framed[bundleComparison]{}, "compare.html": framed[comparison]{},
	"login.html": framed[loginPage]{},
}

// TestTemplatesFitTheirData checks every field, method and function that a template uses, also in branches that no test executes.
func TestTemplatesFitTheirData(t *testing.T) {
	for name, tmpl := range parseTemplates() {
		body, ok := pageData[name]
		if !ok {
			t.Errorf("template %s is not in pageData", name)
			continue
		}
		if err := templatecheck.CheckHTML(tmpl.Lookup("layout.html"), body); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"plain\ttext\n":      "plain\ttext\n",
		"a\u202egnp.exe":     "a\ufffdgnp.exe",
		"\u2066x\u2069":      "\ufffdx\ufffd",
		"bell\a\x1b[31m":     "bell\ufffd\ufffd[31m",
		"invalid \xff":       "invalid \xff",
		"right \u05d0\u05d1": "right \u05d0\u05d1",

		"e\u0301, z" + strings.Repeat("\u0337", 100) + "a\u0308": "e\u0301, z" + strings.Repeat("\u0337", maxMarks) + "a\u0308",
	} {
		if got := visible([]byte(text)); !bytes.Equal(got, []byte(want)) {
			t.Errorf("visible(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestShorten(t *testing.T) {
	for _, tt := range []struct {
		limit      int
		text, want string
	}{{5, "abc", "abc"}, {5, "abcde", "abcde"}, {5, "abcdef", "abcd…"}, {3, "äöü", "äöü"}, {3, "äöüß", "äö…"}} {
		if got := shorten(tt.limit, tt.text); got != tt.want {
			t.Errorf("shorten(%d, %q) = %q, want %q", tt.limit, tt.text, got, tt.want)
		}
	}
}

func TestByteSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 114_200_000: "114.2 MB"} {
		if got := byteSize(n); got != want {
			t.Errorf("byteSize(%d) = %q, want %q", n, got, want)
		}
	}
}
