package cli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/operator-catalogs/catalogd/internal/cli/content"
)

func TestQuestion(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(`{"n": 12345678901234567890, "p": "file"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		opts  queryOptions
		want  string // as JSON
		usage string // what is wrong with the command line
	}{
		{name: "text", opts: queryOptions{text: "{ a }"}, want: `{"Query":"{ a }","Operation":"","Variables":{}}`},
		{name: "standard input", opts: queryOptions{text: "-"}, want: `{"Query":"stdin","Operation":"","Variables":{}}`},
		{name: "standard input by flag", opts: queryOptions{file: "-"}, want: `{"Query":"stdin","Operation":"","Variables":{}}`},
		{name: "variables", opts: queryOptions{text: "q", operation: "A", variables: []string{"a=1", "$b=x=y", `c={"d":1.0}`, "e=", `f="1"`, "g=1e400", "h=[1"}},
			want: `{"Query":"q","Operation":"A","Variables":{"a":1,"b":"x=y","c":{"d":1.0},"e":"","f":"1","g":1e400,"h":"[1"}}`},
		{name: "variables of a file", opts: queryOptions{text: "q", varFile: file, variables: []string{"p=flag"}},
			want: `{"Query":"q","Operation":"","Variables":{"n":12345678901234567890,"p":"flag"}}`},
		{name: "nothing", usage: "say what to ask"},
		{name: "twice", opts: queryOptions{text: "q", file: "f"}, usage: "not both"},
		{name: "no variable", opts: queryOptions{text: "q", variables: []string{"a"}}, usage: "NAME=VALUE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := &env{IOStreams: genericiooptions.IOStreams{In: strings.NewReader("stdin")}}
			q, err := e.question(c.opts)
			var usage usageError
			if c.usage != "" {
				if !errors.As(err, &usage) || !strings.Contains(err.Error(), c.usage) {
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

func TestQueryOfNoFile(t *testing.T) {
	for _, args := range [][]string{{"query", "-f", "nope"}, {"query", "{ x }", "--var-file", "nope"}} {
		if code, _, stderr := run(t, args...); code != exitNotFound || stderr != "error: there is no file \"nope\"\n" {
			t.Errorf("%q: exit code %d: %s", args, code, stderr)
		}
	}
}

func TestFaults(t *testing.T) {
	if err := faults(nil); err != nil {
		t.Error(err)
	}
	var answer content.Answer
	text := `{"errors":[{"message":"no\u001b[2J field","locations":[{"line":1,"column":3}]},{"message":"too deep"}]}`
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("no\uFFFD[2J field (line 1, column 3)\ntoo deep", faults(answer.Errors).Error()); diff != "" {
		t.Error(diff)
	}
}
