package packages

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/cli/content"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/session/sessiontest"
)

func TestQuestion(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(`{"n": 12345678901234567890, "p": "file"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		text  string
		opts  queryFlags
		want  string // as JSON
		usage string // part of the usage error
	}{
		{name: "text", text: "{ a }", want: `{"Query":"{ a }","Operation":"","Variables":{}}`},
		{name: "standard input", text: "-", want: `{"Query":"stdin","Operation":"","Variables":{}}`},
		{name: "standard input by flag", opts: queryFlags{file: "-"}, want: `{"Query":"stdin","Operation":"","Variables":{}}`},
		{name: "variables", text: "q", opts: queryFlags{
			operation: "A", variables: []string{"a=1", "$b=x=y", `c={"d":1.0}`, "e=", `f="1"`, "g=1e400", "h=[1"},
		},
			want: `{"Query":"q","Operation":"A","Variables":{"a":1,"b":"x=y","c":{"d":1.0},"e":"","f":"1","g":1e400,"h":"[1"}}`},
		{name: "variables of a file", text: "q", opts: queryFlags{varFile: file, variables: []string{"p=flag"}},
			want: `{"Query":"q","Operation":"","Variables":{"n":12345678901234567890,"p":"flag"}}`},
		{name: "nothing", usage: "specify a query"},
		{name: "twice", text: "q", opts: queryFlags{file: "f"}, usage: "not both"},
		{name: "no variable", text: "q", opts: queryFlags{variables: []string{"a"}}, usage: "NAME=VALUE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sessiontest.New(t, io.Discard)
			q, err := c.opts.parse(s, c.text)
			if c.usage != "" {
				if !exit.IsUsage(err) || !strings.Contains(err.Error(), c.usage) {
					t.Errorf("error is %v, want a usage error with %q", err, c.usage)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(q)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFaults(t *testing.T) {
	if err := queryErrors(nil); err != nil {
		t.Error(err)
	}
	var answer content.Answer
	text := `{"errors":[{"message":"no\u001b[2J field","locations":[{"line":1,"column":3}]},{"message":"too deep"}]}`
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("no\uFFFD[2J field (line 1, column 3)\ntoo deep", queryErrors(answer.Errors).Error()); diff != "" {
		t.Error(diff)
	}
}
