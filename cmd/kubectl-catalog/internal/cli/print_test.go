package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/operator-catalogs/catalogd/cmd/kubectl-catalog/internal/term"
)

// What is no table is harmless on a terminal, too, and is what it is elsewhere.
func TestOutputOnATerminal(t *testing.T) {
	const evil = "a\x1b[2J\u202eb"
	object, err := view("Package", "p", map[string]string{"text": evil})
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"json", "yaml", "jsonpath={.text}", "custom-columns=T:.text", "go-template={{.text}}"} {
		for _, live := range []bool{true, false} {
			cmd := &cobra.Command{}
			out := newOutput(cmd)
			if err := cmd.Flags().Set("output", format); err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if err := out.print(&term.Terminal{Writer: &b, Live: live}, nil, []row{{object: object}}, true); err != nil {
				t.Fatal(err)
			}
			if live && strings.ContainsAny(b.String(), "\x1b\u202e") {
				t.Errorf("-o %s on a terminal: %q", format, b.String())
			}
			if !live && strings.HasPrefix(format, "jsonpath") && b.String() != evil {
				t.Errorf("-o %s: %q", format, b.String())
			}
			var back struct{ Text string }
			if format == "json" && (json.Unmarshal(b.Bytes(), &back) != nil || back.Text != evil) {
				t.Errorf("the JSON says something else: %q", b.String())
			}
		}
	}
}
