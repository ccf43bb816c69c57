package author

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/operator-catalogs/catalogd/internal/authoring/export"
	"github.com/operator-catalogs/catalogd/internal/authoring/template"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
)

func newTemplateConvertCommand(s *session.Session) *cobra.Command {
	var kind, to string
	cmd := &cobra.Command{
		Use:   "convert FILE|DIR --to basic|substitutes",
		Short: "Make a template of a catalog in files",
		Long: `Make a template of a file-based catalog: a directory or a file. The result is that of opm alpha
convert-template. In a basic template, a bundle is its image only, so that rendering the template
renders the bundles again.`,
		Example: `  kubectl catalog template convert my-catalog --to basic -o yaml
  kubectl catalog template convert my-catalog/foo/catalog.yaml --to basic -o catalog-templates/basic.yaml`,
		ValidArgsFunction: completePath,
	}
	cmd.Flags().StringVar(&kind, "to", "", "the `type` of the template: basic, substitutes")
	cmd.Flags().StringVarP(&to, "output", "o", "json", "`file` to create; json, yaml: standard output")
	lookup.CompleteValues(cmd, "to", "basic", "substitutes")
	lookup.CompleteValues(cmd, "output", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := oneFile(args, "kubectl catalog template convert FILE --to basic"); err != nil {
			return err
		}
		schema, ok := map[string]string{"basic": template.Basic, "substitutes": template.Substitutes}[kind]
		if !ok {
			return exit.Usagef("invalid value %q of --to; valid values are basic, substitutes", kind)
		}
		text, err := template.Convert(cmd.Context(), args[0], schema)
		if err != nil {
			return err
		}
		return writeTemplate(s, to, text)
	}
	return cmd
}

// writeTemplate writes a template, which is JSON.
func writeTemplate(s *session.Session, to string, text []byte) error {
	isJSON := to == "json" || filepath.Ext(to) == ".json"
	switch ext := filepath.Ext(to); {
	case isJSON:
		text = append(text, '\n')
	case to == "yaml" || ext == ".yaml" || ext == ".yml":
		document, err := yaml.JSONToYAML(text)
		if err != nil {
			return err
		}
		text = append([]byte("---\n"), document...)
	default:
		return exit.Usagef("invalid value %q of --output: specify json, yaml, or a file with the suffix .json, .yaml or .yml", to)
	}
	if to == "json" || to == "yaml" {
		return printTo(s.Stdout, isJSON, func(w io.Writer) error {
			_, err := w.Write(text)
			return err
		})
	}
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return exit.Usagef("%s already exists: specify another file", to)
	}
	return export.WriteFiles(map[string][]byte{to: text})
}
