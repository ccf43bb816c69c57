package output

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"
)

// Group and Version are the API group and version of printed objects that do not exist in the API server, such as
// packages and channels.
const (
	Group   = "content.catalogd.operatorframework.io"
	version = Group + "/v1"
)

// A Format is the value of -o with its related flags: a table, or a format of kubectl's own printers.
type Format struct {
	printers Printers
	own      []string // formats that the command prints itself
	unnamed  bool     // whether the printed objects have no name
}

// NewFormat adds -o and related flags to a command, which may have formats of its own.
func NewFormat(cmd *cobra.Command, own ...string) *Format {
	return addFormat(cmd, &Format{own: own})
}

// NewUnnamedFormat is NewFormat for objects without a name.
func NewUnnamedFormat(cmd *cobra.Command) *Format {
	return addFormat(cmd, &Format{unnamed: true})
}

func addFormat(cmd *cobra.Command, f *Format) *Format {
	formats := slices.Concat(objectFormats, templated, []string{"wide"})
	if f.unnamed {
		formats = slices.DeleteFunc(formats, func(format string) bool { return format == "name" })
	}
	f.printers.formats = slices.Concat(f.own, formats)
	usage := "`format`: "
	if len(f.own) > 0 {
		usage += strings.Join(f.own, ", ") + "; or "
	}
	f.printers.addFlags(cmd)
	f.printers.addOutput(cmd, usage+strings.Join(formats, ", ")+" (as in kubectl get)")
	cmd.Flags().BoolVar(&f.printers.noHeaders, "no-headers", false, "print no table headers")
	cmd.PreRunE = func(*cobra.Command, []string) error { return f.validate() }
	return f
}

// validate returns an error if the format is unknown or its template is malformed.
func (f *Format) validate() error {
	if f.IsTable() || slices.Contains(f.own, f.Name()) {
		return nil
	}
	_, err := f.printers.Printer("")
	return err
}

// Name returns the value of -o.
func (f *Format) Name() string { return f.printers.Format }

// IsTable reports whether the format is a table.
func (f *Format) IsTable() bool {
	return (f.Name() == "" || f.Name() == "wide") && f.printers.template == ""
}

// IsPlain reports whether the format is a table of the default columns.
func (f *Format) IsPlain() bool { return f.IsTable() && f.Name() == "" }

// A Row of a list has cells for a table and an object for the other formats.
type Row struct {
	Cells  []string
	Object *unstructured.Unstructured
}

// NewRow returns a row. fields is any value that encodes to a JSON object: the printed object without apiVersion, kind
// and name.
func NewRow(kind, name string, fields any, cells ...string) (Row, error) {
	encoded, err := json.Marshal(fields)
	if err != nil {
		return Row{}, err
	}
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(encoded, &u.Object); err != nil {
		return Row{}, err
	}
	u.SetAPIVersion(version)
	u.SetKind(kind)
	u.SetName(name)
	return Row{cells, u}, nil
}

func cellsOf(rows []Row) [][]string {
	cells := make([][]string, len(rows))
	for i, r := range rows {
		cells[i] = r.Cells
	}
	return cells
}

func (f *Format) tableOptions() Options {
	return Options{Wide: f.Name() == "wide", NoHeaders: f.printers.noHeaders}
}

// PrintObject prints one object in a format other than a table. See NewRow for fields.
func (f *Format) PrintObject(to *Terminal, kind, name string, fields any) error {
	row, err := NewRow(kind, name, fields)
	if err != nil {
		return err
	}
	return f.Print(to, nil, []Row{row}, true)
}

// Print writes a list. With single, other formats print the only row as an object, as kubectl does for a name.
func (f *Format) Print(to *Terminal, columns []Column, rows []Row, single bool) error {
	if f.IsTable() {
		return to.Print(Table{Columns: columns, Rows: cellsOf(rows)}, f.tableOptions())
	}
	if single && len(rows) == 1 {
		write, err := f.Stream(to, columns)
		if err != nil {
			return err
		}
		return write(rows)
	}
	printer, err := f.printer(to)
	if err != nil {
		return err
	}
	if f.Name() == "name" { // a package of several catalogs has one name
		seen := map[string]bool{}
		rows = slices.DeleteFunc(slices.Clone(rows), func(r Row) bool {
			key := r.Object.GetKind() + "/" + r.Object.GetName()
			was := seen[key]
			seen[key] = true
			return was
		})
	}
	list := &unstructured.UnstructuredList{Object: map[string]any{
		"apiVersion": "v1", "kind": "List", "metadata": map[string]any{},
	}}
	for _, r := range rows {
		list.Items = append(list.Items, *r.Object)
	}
	return printer.PrintObj(list, to)
}

// Stream returns a function that prints rows as they arrive: lines of one table, or separate objects.
func (f *Format) Stream(to *Terminal, columns []Column) (func([]Row) error, error) {
	if f.IsTable() {
		table := to.Stream(columns, f.tableOptions())
		return func(rows []Row) error { return table.Print(cellsOf(rows)...) }, nil
	}
	printer, err := f.printer(to)
	return func(rows []Row) error {
		for _, r := range rows {
			if err := printer.PrintObj(r.Object, to); err != nil {
				return err
			}
		}
		return nil
	}, err
}

// printer returns kubectl's printer. On a terminal, harmful characters are replaced.
func (f *Format) printer(to *Terminal) (printers.ResourcePrinter, error) {
	printer, err := f.printers.Printer("")
	if err != nil || !to.Live {
		return printer, err
	}
	clean := Text
	if f.Name() == "json" {
		clean = JSON
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

// Lines writes formatted text to a terminal until a write fails.
type Lines struct {
	*Terminal
	Err error
}

// Printf writes formatted text, unless an earlier write failed.
func (l *Lines) Printf(format string, args ...any) {
	if l.Err == nil {
		_, l.Err = fmt.Fprintf(l.Terminal, format, args...)
	}
}

// Do runs a function that writes to the same terminal, unless an earlier write failed.
func (l *Lines) Do(write func() error) {
	if l.Err == nil {
		l.Err = write()
	}
}
