package scan

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestObjects(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want []string
		err  string
	}{
		"empty":           {"", nil, ""},
		"comments":        {"# a\n---\n# b\n", nil, ""},
		"documents":       {"a: 1\n---\nb: 1.10\n", []string{`{"a":1}`, `{"b":1.10}`}, ""},
		"explicit end":    {"a: 1\n...\n---\n{b: 2}\n", []string{`{"a":1}`, `{"b":2}`}, ""},
		"JSON":            {"\xef\xbb\xbf{ \"a\": 1 }", []string{`{"a":1}`}, ""},
		"stream of JSON":  {`{"a":1} {"b":12345678901234567890}`, []string{`{"a":1}`, `{"b":12345678901234567890}`}, ""},
		"JSON documents":  {"{\"a\":1}\n---\n{\"b\":2}", []string{`{"a":1}`, `{"b":2}`}, ""},
		"no object":       {"- a\n", []string{`["a"]`}, ""},
		"broken":          {"a: 1\n---\nb: [\n", []string{`{"a":1}`}, "line 3"},
		"large":           {"a: 1\n---\nb: " + strings.Repeat("x", 100), []string{`{"a":1}`}, "it has more than 50 bytes (limit of an object)"},
		"large JSON":      {`{"b":"` + strings.Repeat("x", 100) + `"}`, nil, "it has more than 50 bytes (limit of an object)"},
		"of the callback": {"stop: 1\n---\nb: 1\n", []string{`{"stop":1}`}, errStop.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			err := Objects([]byte(test.text), 50, func(object []byte) error {
				got = append(got, string(object))
				if strings.Contains(string(object), "stop") {
					return errStop
				}
				return nil
			})
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if (err == nil) != (test.err == "") || (err != nil && !strings.Contains(err.Error(), test.err)) {
				t.Errorf("got error %v, want %q", err, test.err)
			}
		})
	}
}

var errStop = errors.New("stopped by the callback")
