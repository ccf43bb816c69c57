package output

import (
	"fmt"
	"io"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/util/jsonpath"
)

// customColumns prints a table of fields of objects, as kubectl's -o custom-columns.
type customColumns struct {
	headers []string // nil once they are printed
	fields  []*jsonpath.JSONPath
}

// newCustomColumns parses a specification, HEADER:FIELD,HEADER:FIELD, or that of a file, a line of headers and a line of fields.
func newCustomColumns(spec string, isFile, noHeaders bool) (*customColumns, error) {
	var headers, fields []string
	if isFile {
		first, second, _ := strings.Cut(spec, "\n")
		second, _, _ = strings.Cut(second, "\n")
		headers, fields = strings.Fields(first), strings.Fields(second)
		if len(headers) != len(fields) || len(headers) == 0 {
			return nil, fmt.Errorf("custom-columns-file: its first line has %d headers, and its second line %d fields: "+
				"write as many fields as headers", len(headers), len(fields))
		}
	} else {
		for _, column := range strings.Split(spec, ",") {
			header, field, ok := strings.Cut(column, ":")
			if !ok {
				return nil, fmt.Errorf("column %q is not HEADER:FIELD, such as NAME:.metadata.name", column)
			}
			headers, fields = append(headers, header), append(fields, field)
		}
	}
	printer := &customColumns{headers: headers}
	if noHeaders {
		printer.headers = nil
	}
	for _, field := range fields {
		parsed, err := parseField(field)
		if err != nil {
			return nil, err
		}
		printer.fields = append(printer.fields, parsed)
	}
	return printer, nil
}

// fieldPath matches a path with or without braces and a leading dot, as kubectl accepts it.
var fieldPath = regexp.MustCompile(`^(?:\{\.?([^{}]+)\}|\.?([^{}]+))$`)

// parseField returns the JSONPath of a field, such as .metadata.name, metadata.name or {.metadata.name}.
func parseField(path string) (*jsonpath.JSONPath, error) {
	found := fieldPath.FindStringSubmatch(path)
	if found == nil {
		return nil, fmt.Errorf("field %q is not a path such as .metadata.name", path)
	}
	field := jsonpath.New("").AllowMissingKeys(true)
	if err := field.Parse("{." + found[1] + found[2] + "}"); err != nil {
		return nil, fmt.Errorf("parsing field %q: %w", path, err)
	}
	return field, nil
}

// valuesOf returns the values of a field of an object: none if it has no such field.
func valuesOf(object runtime.Object, field *jsonpath.JSONPath) ([]any, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	found, err := field.FindResults(content)
	var values []any
	for _, results := range found {
		for _, value := range results {
			values = append(values, value.Interface())
		}
	}
	return values, err
}

// PrintObj implements printers.ResourcePrinter.
func (c *customColumns) PrintObj(object runtime.Object, w io.Writer) error {
	objects := []runtime.Object{object}
	if meta.IsListType(object) {
		var err error
		if objects, err = meta.ExtractList(object); err != nil {
			return err
		}
	}
	table := printers.GetNewTabWriter(w)
	if len(c.headers) > 0 {
		fmt.Fprintln(table, strings.Join(c.headers, "\t"))
		c.headers = nil
	}
	for _, object := range objects {
		cells := make([]string, len(c.fields))
		for i, field := range c.fields {
			values, err := valuesOf(object, field)
			if err != nil {
				return err
			}
			cells[i] = cell(values)
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	return table.Flush()
}

func cell(values []any) string {
	if len(values) == 0 {
		return "<none>"
	}
	texts := make([]string, len(values))
	for i, value := range values {
		texts[i] = printers.EscapeTerminal(fmt.Sprint(value))
	}
	return strings.Join(texts, ",")
}
