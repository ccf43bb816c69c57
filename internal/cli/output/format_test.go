package output

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// TestOutputOnTerminalIsHarmless checks that formats are harmless on a terminal and unchanged elsewhere.
func TestOutputOnTerminalIsHarmless(t *testing.T) {
	const evil = "a\x1b[2J\u202eb"
	object, err := NewRow("Package", "p", map[string]string{"text": evil})
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"json", "yaml", "jsonpath={.text}", "custom-columns=T:.text", "go-template={{.text}}"} {
		for _, live := range []bool{true, false} {
			cmd := &cobra.Command{}
			out := NewFormat(cmd)
			if err := cmd.Flags().Set("output", format); err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if err := out.Print(&Terminal{Writer: &b, Live: live}, nil, []Row{object}, true); err != nil {
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
				t.Errorf("the value differs in the JSON: %q", b.String())
			}
		}
	}
}

// TestYAMLKeepsAllCharacters checks that YAML keeps texts with any characters.
func TestYAMLKeepsAllCharacters(t *testing.T) {
	texts := map[string]string{
		"C0": "a\x01\tb\x1b", "DEL": "a\x7f", "C1": "a\u0080\u0085\u009bb", "BOM": "a\ufeffb", "no characters": "\ufffe\uffff",
		"astral": "\U0001F600\U000E0001",
		"bidi":   "\u202e", "lines": "a\nb\u2028c", "quotes": `"a\b"`, "private": "\ue000",
	}
	object, err := NewRow("Package", "p", map[string]any{"texts": texts})
	if err != nil {
		t.Fatal(err)
	}
	object.Object.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "somebody"}})
	cmd := &cobra.Command{}
	out := NewFormat(cmd)
	if err := cmd.Flags().Set("output", "yaml"); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := out.Print(&Terminal{Writer: &b}, nil, []Row{object, object}, false); err != nil {
		t.Fatal(err)
	}
	var back struct {
		Items []struct{ Texts map[string]string }
	}
	if err := yaml.Unmarshal(b.Bytes(), &back); err != nil || len(back.Items) != 2 {
		t.Fatalf("%v; the YAML is %s", err, b.String())
	}
	if diff := cmp.Diff(texts, back.Items[1].Texts); diff != "" {
		t.Error(diff)
	}
	if strings.Contains(b.String(), "managedFields") {
		t.Errorf("managed fields are shown: %s", b.String())
	}
}
