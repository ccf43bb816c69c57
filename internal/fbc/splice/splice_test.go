package splice

import (
	"strings"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

func TestReplaceScalarKeepsTheSyntax(t *testing.T) {
	for name, test := range map[string]struct{ text, with, want string }{
		"null in JSON":         {`{"a":null}`, "b", `{"a":"b"}`},
		"JSON":                 {`{"a":"x"}`, "<&>", `{"a":"<&>"}`},
		"plain in YAML":        {"a: x # comment\n", "b", "a: b # comment\n"},
		"YAML in brackets":     {"{a: x, c: d}\n", "gone, use [b]", "{a: \"gone, use [b]\", c: d}\n"},
		"a boolean in YAML":    {"a: true\n", "b", "a: \"b\"\n"},
		"a text like a number": {"a: x\n", "12", "a: \"12\"\n"},
	} {
		t.Run(name, func(t *testing.T) {
			parse := func(text string) (*Value, error) { return ParseYAML([]byte(text), 0, len(text)) }
			if strings.Contains(name, "JSON") {
				parse = func(text string) (*Value, error) { return ParseJSON([]byte(text), 0) }
			}
			v, err := parse(test.text)
			must.Succeed(t, err)
			p, err := ReplaceScalar([]byte(test.text), v.Get("a"), test.with)
			must.Succeed(t, err)
			if got := string(Apply([]byte(test.text), p)); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			again, err := parse(test.want)
			must.Succeed(t, err)
			if got := again.Get("a").Text(); got != test.with {
				t.Errorf("it reads as %q, want %q", got, test.with)
			}
		})
	}
}

// TestLineBreaks refuses what the YAML library takes for line breaks: its places of values would be wrong.
func TestLineBreaks(t *testing.T) {
	for _, text := range []string{"a: 1 # \u2028\nb: 2\n", "a: \"x\u0085y\"\nb: 2\n", "a: 1\rb: 2\n", "a: \u2029\n"} {
		if _, err := ParseYAML([]byte(text), 0, len(text)); err == nil || !strings.Contains(err.Error(), "line break") {
			t.Errorf("%q: got error %v", text, err)
		}
	}
	text := "a: 1\r\nb: ~\r\n"
	v, err := ParseYAML([]byte(text), 0, len(text))
	if err != nil || v.Get("b").Text() != "" {
		t.Errorf("%q: got %q, error %v", text, v.Get("b").Text(), err)
	}
}
