package output

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMarkdown(t *testing.T) {
	for name, test := range map[string]struct{ in, want string }{
		"empty":             {"", ""},
		"paragraphs":        {"one two three four five six seven\neight\n\nnine\n", "one two three four five six\nseven eight\n\nnine\n"},
		"heading, directly": {"# Title #\ntext", "Title\n\ntext\n"},
		"emphasis":          {"a **b c** *d*e, `f  g`", "a b c de, f g\n"},
		"a hard line break": {"a  \nb\\\nc<br/>d", "a\nb\nc\nd\n"},
		"escapes, entities": {`\*a\* &amp; &lt;b&gt; &#x41;`, "*a* & <b> A\n"},
		"list": {
			"* a\n* b b b b b b b b b b b b b b b b b\n  1. c\n  2. d\n", "• a\n• b b b b b b b b b b b b b b\n  b b b\n  1. c\n  2. d\n",
		},
		"loose list": {"- a\n\n- b\n\n  c\n", "• a\n\n• b\n\n  c\n"},
		"numbers":    {"9. a\n10. b\n", "9. a\n10. b\n"},
		"code": {
			"x\n\n```yaml\na:\n  b:   looooooooooooooooooooooong\n```\n", "x\n\n    a:\n      b:   looooooooooooooooooooooong\n",
		},
		"quote": {"> a\n> b\n>\n> c\n", "│ a b\n│\n│ c\n"},
		"links": {
			"[a b](https://x/y), [](https://z) <https://u> https://v [w](#w)", "a b (https://x/y), https://z\nhttps://u https://v w\n",
		},
		"images": {"![logo](https://x/y.png) a", "logo a\n"},
		"HTML":   {"<div><b>a</b>\n<!-- hidden --></div>\n\nb <i>c</i>", "a\n\nb c\n"},
		"table":  {"| a | b |\n|---|---|\n| `c` | **d** |\n", "A   B\nc   d\n"},
		"wide characters": {
			"漢字漢字漢字 漢字漢字漢字 漢字漢字漢字", "漢字漢字漢字 漢字漢字漢字\n漢字漢字漢字\n",
		},
		"a word too long":    {"a bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb c", "a\nbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\nc\n"},
		"escape sequences":   {"a\x1b[2Jb &#27;[31m `\x1b]0;x\x07`", "a\ufffd[2Jb \ufffd[31m \ufffd]0;x\ufffd\n"},
		"right to left":      {"a \u202eb [x](https://\u202e)", "a \ufffdb x (https://\ufffd)\n"},
		"nested without end": {strings.Repeat("> ", 30_000) + "a", strings.Repeat("│ ", 17) + "…\n"},
		"table without end": {
			strings.Repeat("|a", 300) + "|\n" + strings.Repeat("|-", 300) + "|\n|\n|\n", strings.Repeat("|a", 300) + "|\n|… | |\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := (&Terminal{Width: 30}).Markdown(test.in)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestMarkdownColors(t *testing.T) {
	got := (&Terminal{Width: 80, Colors: true}).Markdown("# a `b`\n\n**c *d***, [e](https://f)")
	want := "\x1b[1ma\x1b[0m \x1b[36mb\x1b[0m\n\n\x1b[1mc\x1b[0m \x1b[1;3md\x1b[0m, e (\x1b[4mhttps://f\x1b[0m)\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// FuzzMarkdown checks that no text prints characters that could harm a terminal.
func FuzzMarkdown(f *testing.F) {
	f.Add("# a\n* b\n  > `c` [d](e) <f>\n\n|a|b|\n|-|-|\n|1|2|\n")
	f.Add("&#27;[2J\x1b[2J\x9b2J &#x202e;")
	f.Fuzz(func(t *testing.T, in string) {
		for _, term := range []*Terminal{{}, {Width: 10}, {Width: 80, Colors: true}} {
			out := term.Markdown(in)
			if term.Colors {
				out = styles.ReplaceAllString(out, "")
			}
			for _, r := range out {
				if r != '\n' && isHarmful(r) {
					t.Fatalf("%q has %q, from %q", out, r, in)
				}
			}
		}
	})
}
