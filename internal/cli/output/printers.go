package output

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/operator-catalogs/catalogd/internal/cli/exit"
)

// Printers are kubectl's printers with the flags that choose one. They mean the same as in kubectl.
type Printers struct {
	Format string // value of -o; empty: in words

	template      string
	managedFields bool
	lenient       bool // about fields that a template names and an object lacks
	noHeaders     bool
	formats       []string
}

// The formats of kubectl that print objects. Those in templated need a value: -o FORMAT=VALUE, or --template VALUE.
var (
	objectFormats = []string{"json", "yaml", "kyaml", "name"}
	goTemplates   = []string{"go-template", "go-template-file", "template", "templatefile"}
	jsonPaths     = []string{"jsonpath", "jsonpath-as-json", "jsonpath-file"}
	columnFormats = []string{"custom-columns", "custom-columns-file"}
	templated     = slices.Concat(goTemplates, jsonPaths, columnFormats)
)

// NewPrinters adds the flags of the printers of kubectl's commands that change objects.
func NewPrinters(cmd *cobra.Command) *Printers {
	p := &Printers{formats: slices.Concat(objectFormats, goTemplates, jsonPaths)}
	p.addFlags(cmd)
	p.addOutput(cmd, "`format`: "+strings.Join(p.formats, ", "))
	return p
}

// addOutput adds -o.
func (p *Printers) addOutput(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVarP(&p.Format, "output", "o", "", usage)
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(p.formats, cobra.ShellCompDirectiveNoFileComp))
}

// addFlags adds the flags other than -o.
func (p *Printers) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&p.managedFields, "show-managed-fields", false, "keep managedFields in JSON and YAML")
	flags.StringVar(&p.template, "template", "", "`template` of -o go-template and -o jsonpath, or its file for -o go-template-file and "+
		"-o jsonpath-file (https://pkg.go.dev/text/template)")
	_ = cmd.MarkFlagFilename("template")
	flags.BoolVar(&p.lenient, "allow-missing-template-keys", true, "ignore fields and keys of a template that an object lacks")
}

// Printer returns the chosen printer. Without a format, it prints the object's name and the operation that was done.
func (p *Printers) Printer(operation string) (printers.ResourcePrinter, error) {
	format, template, err := p.parse()
	if err != nil {
		return nil, exit.Usagef("--output: %w", err)
	}
	switch {
	case format != "" && !slices.Contains(p.formats, format):
		return nil, UnknownFormat(p.Format, p.formats)
	case format == "" || format == "name":
		return &printers.NamePrinter{ShortOutput: format == "name", Operation: operation}, nil
	case slices.Contains(templated, format):
		printer, err := p.templatePrinter(format, template)
		if err != nil {
			return nil, exit.Usagef("--output: %w", err)
		}
		return printer, nil
	}
	var printer printers.ResourcePrinter = &printers.JSONPrinter{}
	switch format {
	case "yaml":
		printer = printers.ResourcePrinterFunc(printYAML)
	case "kyaml":
		printer = &printers.KYAMLPrinter{}
	}
	if !p.managedFields {
		printer = &printers.OmitManagedFieldsPrinter{Delegate: printer}
	}
	return printer, nil
}

// parse returns the format and its template, which it reads if the format names a file.
func (p *Printers) parse() (format, template string, err error) {
	format, template = p.Format, p.template
	if template == "" {
		if name, value, ok := strings.Cut(format, "="); ok && slices.Contains(templated, name) {
			format, template = name, value
		}
	} else if format == "" {
		format = "go-template"
	}
	if !slices.Contains(templated, format) {
		return strings.ToLower(format), "", nil
	}
	if template == "" {
		return "", "", fmt.Errorf("%s requires a value: write -o %[1]s=VALUE", format)
	}
	if !strings.HasSuffix(format, "file") {
		return format, template, nil
	}
	text, err := os.ReadFile(template)
	if err != nil {
		return "", "", fmt.Errorf("%s: %w", format, err)
	}
	return format, string(text), nil
}

func (p *Printers) templatePrinter(format, template string) (printers.ResourcePrinter, error) {
	switch {
	case slices.Contains(columnFormats, format):
		return newCustomColumns(template, format == "custom-columns-file", p.noHeaders)
	case slices.Contains(jsonPaths, format):
		printer, err := printers.NewJSONPathPrinter(template)
		if err != nil {
			return nil, fmt.Errorf("parsing %s %s: %w", format, template, err)
		}
		printer.AllowMissingKeys(p.lenient)
		printer.EnableJSONOutput(format == "jsonpath-as-json")
		return printer, nil
	}
	printer, err := printers.NewGoTemplatePrinter([]byte(template))
	if err != nil {
		return nil, fmt.Errorf("parsing %s %s: %w", format, template, err)
	}
	printer.AllowMissingKeys(p.lenient)
	return printer, nil
}

// UnknownFormat returns the error of an unknown value of -o.
func UnknownFormat(format string, valid []string) error {
	if format == "yml" {
		return exit.Usagef("unknown format \"yml\": did you mean yaml?")
	}
	return exit.Usagef("unknown format %q; valid formats are %s", format, strings.Join(valid, ", "))
}

// printYAML is kubectl's YAML printer, fed with JSON in which characters that YAML does not accept, such as C1 controls, are escaped.
// kubectl's own prints nothing for such texts.
func printYAML(object runtime.Object, w io.Writer) error {
	text, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("encoding the object: %w", err)
	}
	escaped := escape(string(text), func(r rune) bool { return r <= 0xFFFF && !unicode.IsGraphic(r) })
	return (&printers.YAMLPrinter{}).PrintObj(&runtime.Unknown{Raw: []byte(escaped)}, w)
}
