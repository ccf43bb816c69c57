package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/kubectl/pkg/cmd/get"

	term "github.com/operator-catalogs/catalogd/internal/cli/output"
)

// viewVersion is the apiVersion of what the plugin prints with -o that is no object of the API server: packages, channels and the like, as
// the content service has them.
const (
	viewGroup   = "content.catalogd.operatorframework.io"
	viewVersion = viewGroup + "/v1"
)

// An output prints a list as -o asks for: a table for people, or with kubectl's own printers.
type output struct {
	flags *get.PrintFlags
	own   []string // formats that the command prints itself

	nameless bool // whether what is printed has no name
}

// newOutput adds -o and what belongs to it to a command, which may have formats of its own.
func newOutput(cmd *cobra.Command, own ...string) *output {
	return addOutput(cmd, &output{flags: get.NewGetPrintFlags(), own: own})
}

// newNamelessOutput is newOutput for what has no name to print.
func newNamelessOutput(cmd *cobra.Command) *output {
	o := addOutput(cmd, &output{flags: get.NewGetPrintFlags(), nameless: true})
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if *o.flags.OutputFormat == "name" {
			return noFormat("name", o.formats())
		}
		return nil
	}
	return o
}

// formats are those that there are.
func (o *output) formats() []string {
	return slices.DeleteFunc(slices.Concat(o.own, o.flags.AllowedFormats()), func(format string) bool { return o.nameless && format == "name" })
}

func addOutput(cmd *cobra.Command, o *output) *output {
	o.flags.JSONYamlPrintFlags.AddFlags(cmd)
	o.flags.TemplateFlags.AddFlags(cmd)
	formats := o.formats()
	usage := "`format`: "
	if len(o.own) > 0 {
		usage += strings.Join(o.own, ", ") + "; or "
	}
	cmd.Flags().StringVarP(o.flags.OutputFormat, "output", "o", "", usage+strings.Join(formats[len(o.own):], ", ")+" (as kubectl get has them)")
	cmd.Flags().BoolVar(o.flags.NoHeaders, "no-headers", false, "print no headers above a table")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	return o
}

// isTable tells whether a table is wanted.
func (o *output) isTable() bool {
	format := *o.flags.OutputFormat
	template := o.flags.TemplateFlags.TemplateArgument
	return (format == "" || format == "wide") && (template == nil || *template == "")
}

// isPlain tells whether a table of the usual columns is all that is wanted.
func (o *output) isPlain() bool { return o.isTable() && *o.flags.OutputFormat == "" }

// A row of a list: what a table shows of it, and what other formats print.
type row struct {
	cells  []string
	object *unstructured.Unstructured
}

// view makes what -o prints of something that is no object of the API server. fields is any struct that encodes to a JSON object.
func view(kind, name string, fields any) (*unstructured.Unstructured, error) {
	encoded, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(encoded, &u.Object); err != nil {
		return nil, err
	}
	u.SetAPIVersion(viewVersion)
	u.SetKind(kind)
	u.SetName(name)
	return u, nil
}

func cellsOf(rows []row) [][]string {
	cells := make([][]string, len(rows))
	for i, r := range rows {
		cells[i] = r.cells
	}
	return cells
}

func (o *output) tableOptions() term.Options {
	return term.Options{Wide: *o.flags.OutputFormat == "wide", NoHeaders: *o.flags.NoHeaders}
}

// print writes a list to the terminal. single has other formats print the one row as an object rather than as a list, as kubectl does for a
// name.
func (o *output) print(to *term.Terminal, columns []term.Column, rows []row, single bool) error {
	if o.isTable() {
		return to.Print(term.Table{Columns: columns, Rows: cellsOf(rows)}, o.tableOptions())
	}
	if single && len(rows) == 1 {
		write, err := o.stream(to, columns)
		if err != nil {
			return err
		}
		return write(rows)
	}
	printer, err := o.printer(to)
	if err != nil {
		return err
	}
	if *o.flags.OutputFormat == "name" { // what is in several catalogs has one name
		seen := map[string]bool{}
		rows = slices.DeleteFunc(slices.Clone(rows), func(r row) bool {
			was := seen[r.object.GetName()]
			seen[r.object.GetName()] = true
			return was
		})
	}
	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "List", "metadata": map[string]any{}}}
	for _, r := range rows {
		list.Items = append(list.Items, *r.object)
	}
	return printer.PrintObj(list, to)
}

// stream returns what writes rows that come one after another: to a table, in other formats each as an object of its own.
func (o *output) stream(to *term.Terminal, columns []term.Column) (func([]row) error, error) {
	if o.isTable() {
		table := to.Stream(columns, o.tableOptions())
		return func(rows []row) error { return table.Print(cellsOf(rows)...) }, nil
	}
	printer, err := o.printer(to)
	return func(rows []row) error {
		for _, r := range rows {
			if err := printer.PrintObj(r.object, to); err != nil {
				return err
			}
		}
		return nil
	}, err
}

// printer is kubectl's own. What they leave as it stands in the objects would be no good for a terminal.
func (o *output) printer(to *term.Terminal) (printers.ResourcePrinter, error) {
	printer, err := o.flags.ToPrinter()
	if *o.flags.OutputFormat == "yml" {
		err = usagef("there is no format \"yml\": did you mean yaml?")
	} else if genericclioptions.IsNoCompatiblePrinterError(err) {
		err = noFormat(*o.flags.OutputFormat, o.formats())
	}
	if *o.flags.OutputFormat == "yaml" {
		printer = o.yamlPrinter()
	}
	if err != nil || !to.Live {
		return printer, err
	}
	clean := term.Text
	if *o.flags.OutputFormat == "json" {
		clean = term.JSON
	}
	return printers.ResourcePrinterFunc(func(object runtime.Object, w io.Writer) error {
		var b strings.Builder
		if err := printer.PrintObj(object, &b); err != nil {
			return err
		}
		_, err := io.WriteString(w, clean(b.String()))
		return err
	}), nil
}

// noFormat is the error of a format that there is not.
func noFormat(format string, all []string) error {
	return usagef("there is no format %q: use one of %s", format, strings.Join(all, ", "))
}

// yamlPrinter is kubectl's own, but for texts with characters that it takes from JSON only if they are escaped there: it would print nothing.
func (o *output) yamlPrinter() printers.ResourcePrinter {
	ofJSON := &printers.YAMLPrinter{}
	var printer printers.ResourcePrinter = printers.ResourcePrinterFunc(func(object runtime.Object, w io.Writer) error {
		text, err := json.Marshal(object)
		if err != nil {
			return err
		}
		return ofJSON.PrintObj(&runtime.Unknown{Raw: escapeForYAML(text)}, w)
	})
	if !o.flags.JSONYamlPrintFlags.ShowManagedFields {
		printer = &printers.OmitManagedFieldsPrinter{Delegate: printer}
	}
	return printer
}

// escapeForYAML escapes what YAML does not take as it stands, such as C1 characters, in a JSON text without white space between its values.
func escapeForYAML(text []byte) []byte {
	var b bytes.Buffer
	for _, r := range string(text) {
		if r <= 0xFFFF && !unicode.IsGraphic(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.Bytes()
}
