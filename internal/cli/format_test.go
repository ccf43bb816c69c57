package cli

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	term "github.com/operator-catalogs/catalogd/internal/cli/output"
)

// On a narrow terminal rows can be told apart, and what was asked for by name goes first.
func TestNarrowListOfBundles(t *testing.T) {
	var rows []row
	for _, version := range []string{"0.51.0", "0.50.1"} {
		rows = append(rows, row{cells: []string{"strimzi-cluster-operator.v" + version, "strimzi-kafka-operator", "community", version, "stable, strimzi-0.x", "", ""}})
	}
	for _, c := range []struct {
		opts getOptions
		want string
	}{
		{getOptions{pkg: "strimzi-kafka-operator", catalog: "community"}, `NAME                               VERSION   CHANNELS
strimzi-cluster-operator.v0.51.0   0.51.0    stable, s…
strimzi-cluster-operator.v0.50.1   0.50.1    stable, s…
`},
		{getOptions{all: true}, `NAME                               CATALOG     VERSION
strimzi-cluster-operator.v0.51.0   community   0.51.0
strimzi-cluster-operator.v0.50.1   community   0.50.1
`},
	} {
		var b bytes.Buffer
		out := newOutput(&cobra.Command{})
		if err := out.print(&term.Terminal{Writer: &b, Width: 55}, c.opts.known(bundleKind.columns), rows, false); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, b.String()); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c.opts, diff)
		}
	}
}

// What provides an API and what needs it is told apart by the API's version, too, in 60 columns.
func TestNarrowListOfProviders(t *testing.T) {
	rows := []row{
		{cells: []string{"strimzi-kafka-operator", "community", provides, "Kafka.v1.kafka.strimzi.io", "0.49.0", "1.2.0", ""}},
		{cells: []string{"strimzi-kafka-operator", "sample", provides, "Kafka.v1beta2.kafka.strimzi.io", "0.23.0", "0.51.0", "no longer"}},
	}
	const want = `PACKAGE              CATALOG     DOES    API
strimzi-…-operator   community   prov…   Kafka.v1.…trimzi.io
strimzi-…-operator   sample      prov…   Kafka.v1b…trimzi.io
`
	var b bytes.Buffer
	out := newOutput(&cobra.Command{})
	if err := out.print(&term.Terminal{Writer: &b, Width: 60}, providerColumns, rows, false); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// By metadata.name nobody finds a package by its own name, and is told what does.
func TestNoneOfThisMetadataName(t *testing.T) {
	for fields, wanted := range map[string]bool{"metadata.name=argocd-operator": true, "spec.packageName=argocd-operator": false} {
		var b bytes.Buffer
		e := &env{stderr: &term.Terminal{Writer: &b}, serverURL: "http://127.0.0.1:1"}
		if err := e.nothingListed(t.Context(), newOutput(&cobra.Command{}), packageKind, getOptions{fields: fields}); err != nil {
			t.Fatal(err)
		}
		want := "There are no packages with the fields \"" + fields + "\"."
		if got := b.String(); !strings.HasPrefix(got, want) || strings.Contains(got, "metadata.name is PACKAGE.CATALOG; the name of the package alone is spec.packageName.") != wanted {
			t.Errorf("%s: %s", fields, got)
		}
	}
}

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

// YAML has every text, whatever characters it is of.
func TestOutputAsYAML(t *testing.T) {
	texts := map[string]string{
		"C0": "a\x01\tb\x1b", "DEL": "a\x7f", "C1": "a\u0080\u0085\u009bb", "BOM": "a\ufeffb", "no characters": "\ufffe\uffff", "astral": "\U0001F600\U000E0001",
		"bidi": "\u202e", "lines": "a\nb\u2028c", "quotes": `"a\b"`, "private": "\ue000",
	}
	object, err := view("Package", "p", map[string]any{"texts": texts})
	if err != nil {
		t.Fatal(err)
	}
	object.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "somebody"}})
	cmd := &cobra.Command{}
	out := newOutput(cmd)
	if err := cmd.Flags().Set("output", "yaml"); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := out.print(&term.Terminal{Writer: &b}, nil, []row{{object: object}, {object: object}}, false); err != nil {
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

// What -o prints names its package and its catalog in one way, whatever it is.
func TestViewsNameAlike(t *testing.T) {
	for _, v := range []any{packageView{}, packagePage{}, pageOther{}, channelView{}, bundleView{}, deprecationView{}, apiUser{}, graphView{}, pathView{}} {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(v)) {
			tag := field.Tag.Get("json")
			if (tag == "catalog" || tag == "package") && field.Type != reflect.TypeFor[named]() {
				t.Errorf("%T: %s is a %s", v, tag, field.Type)
			}
		}
	}
}
