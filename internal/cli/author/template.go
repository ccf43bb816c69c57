package author

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/spf13/cobra"

	"github.com/operator-catalogs/catalogd/internal/authoring/edit"
	"github.com/operator-catalogs/catalogd/internal/authoring/export"
	"github.com/operator-catalogs/catalogd/internal/authoring/render"
	"github.com/operator-catalogs/catalogd/internal/authoring/template"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
)

func newTemplateCommand(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "template COMMAND",
		Short: "Render catalog templates, and make templates of catalogs",
		Long: `Render catalog templates of the schemas olm.semver, olm.template.basic and olm.template.substitutes, and
make templates of file-based catalogs.`,
	}
	cmd.AddCommand(newTemplateRenderCommand(s), newTemplateConvertCommand(s))
	return cmd
}

// A templateRequest is a template or a ci.yaml to render.
type templateRequest struct {
	bundleFlags
	file string
	to   string // json, yaml, mermaid, a file or a directory; of a ci.yaml, the directory of the catalogs
}

func newTemplateRenderCommand(s *session.Session) *cobra.Command {
	var req templateRequest
	cmd := &cobra.Command{
		Use:   "render FILE|ci.yaml",
		Short: "Render a template, or all catalogs of a ci.yaml",
		Long: `Render a catalog template: one of the schema olm.semver, olm.template.basic or
olm.template.substitutes. The result is that of opm alpha render-template. A field that opm would
ignore is an error. So is a result with an error of kubectl catalog lint.

FILE is - for standard input. It may be the ci.yaml of an operator for Red Hat's operator-pipelines. Its fbc.catalog_mapping names
templates in catalog-templates beside it, and catalogs for each. All catalogs are rendered in one run,
each bundle is pulled once, and nothing is written if one of them fails. The files are
../../catalogs/CATALOG/OPERATOR/catalog.yaml; OPERATOR is the name of the directory of the ci.yaml. The
name of a catalog is a version of OpenShift, which chooses the format of its bundles; --target applies
to all catalogs instead.` + renderNote + `

-o FILE with the suffix .json, .yaml or .yml writes one file; -o DIR writes DIR/PACKAGE/catalog.yaml. The
default is JSON on standard output. For a ci.yaml, -o DIR is the directory of the catalogs.`,
		Example: `  kubectl catalog template render catalog-templates/semver.yaml
  kubectl catalog template render catalog-templates/semver.yaml --target 4.16 -o catalog
  kubectl catalog template render catalog-templates/basic.yaml -o mermaid
  kubectl catalog template render operators/foo/ci.yaml`,
		ValidArgsFunction: completePath,
	}
	req.register(cmd)
	cmd.Flags().StringVarP(&req.to, "output", "o", "", "`directory or file` to write; json (default), yaml, mermaid: standard output")
	lookup.CompleteValues(cmd, "target", "4.16", "4.17")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := oneFile(args, "kubectl catalog template render FILE"); err != nil {
			return err
		}
		req.file = args[0]
		return req.run(cmd.Context(), s)
	}
	return cmd
}

// oneFile returns an error unless the only argument is a file or a directory.
func oneFile(args []string, usage string) error {
	switch {
	case len(args) == 0:
		return exit.Usagef("specify a file: %s", usage)
	case len(args) > 1:
		return tooMany(args[1:], "specify one file")
	}
	if _, err := os.Stat(args[0]); args[0] != "-" && errors.Is(err, fs.ErrNotExist) {
		return exit.NotFoundf("file %s not found", args[0])
	}
	return nil
}

// catalogFile is a catalog to render, and the file for it; "": another destination.
type catalogFile struct {
	template.Job
	path string
}

func (r *templateRequest) run(ctx context.Context, s *session.Session) error {
	text, err := r.read(s)
	if err != nil {
		return err
	}
	catalogs, err := r.catalogs(text)
	if err != nil {
		return err
	}
	flags := r.bundleFlags
	flags.target = "4.16" // jobs convert the objects of the bundles
	renderer, end, err := flags.renderer(s)
	if err != nil {
		return err
	}
	defer end()
	var jobs []template.Job
	for _, c := range catalogs {
		jobs = append(jobs, c.Job)
	}
	rendered, bundles, err := template.Render(ctx, renderer, jobs)
	if err != nil {
		return err
	}
	end()
	for _, ref := range refsOf(jobs) {
		warn(s, ref, bundles[ref].Bundle)
	}
	return r.write(s, catalogs, rendered, len(bundles))
}

func (r *templateRequest) read(s *session.Session) ([]byte, error) {
	if r.file == "-" {
		r.file = "standard input"
		return io.ReadAll(s.In)
	}
	return os.ReadFile(r.file)
}

// refsOf returns the images of templates, each once.
func refsOf(jobs []template.Job) (refs []string) {
	seen := map[string]bool{}
	for _, job := range jobs {
		for _, ref := range job.Template.Images() {
			if !seen[ref] {
				refs = append(refs, ref)
			}
			seen[ref] = true
		}
	}
	return refs
}

// catalogs returns the catalogs to render: one, or those of a ci.yaml.
func (r *templateRequest) catalogs(text []byte) ([]catalogFile, error) {
	format, err := formatFor(r.target)
	if err != nil {
		return nil, err
	}
	if template.IsCI(text) {
		switch r.to {
		case "-", "json", "yaml", "mermaid":
			return nil, exit.Usagef("%s is rendered to files: specify a directory with --output, or omit it", r.file)
		}
		return r.mapped(text)
	}
	t, err := template.Parse(r.file, text)
	if err != nil {
		return nil, err
	}
	return []catalogFile{{Job: template.Job{Template: t, Format: format}}}, nil
}

// mapped returns the catalogs of a ci.yaml with their files, as operator-pipelines names them (fbc/render_catalogs.sh).
func (r *templateRequest) mapped(text []byte) (catalogs []catalogFile, err error) {
	mappings, err := template.ParseCI(r.file, text)
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(filepath.Dir(r.file))
	if err != nil {
		return nil, err
	}
	if r.to == "" {
		r.to = filepath.Join(filepath.Dir(r.file), "..", "..", "catalogs")
	}
	for i, m := range mappings {
		file := filepath.Join(filepath.Dir(r.file), "catalog-templates", m.Template)
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("%s: fbc.catalog_mapping[%d]: %w", r.file, i, err)
		}
		t, err := template.Parse(file, text)
		if err != nil {
			return nil, err
		}
		if m.Type != "" && m.Type != t.Schema {
			return nil, fmt.Errorf("%s: fbc.catalog_mapping[%d] has type %s, but %s has schema %s: correct one of them", r.file, i, m.Type, file,
				t.Schema)
		}
		for _, name := range m.Catalogs {
			format, err := r.formatOf(name)
			if err != nil {
				return nil, fmt.Errorf("%s: fbc.catalog_mapping[%d]: %w", r.file, i, err)
			}
			path := filepath.Join(r.to, name, filepath.Base(dir), "catalog.yaml")
			catalogs = append(catalogs, catalogFile{template.Job{Template: t, Format: format}, path})
		}
	}
	return catalogs, nil
}

func (r *templateRequest) formatOf(catalog string) (render.Format, error) {
	if r.target != "" {
		return formatFor(r.target)
	}
	format, err := formatFor(catalog)
	if err != nil {
		return 0, fmt.Errorf("catalog %q is not named after a version of OpenShift such as v4.17, which chooses the format of its bundles: "+
			"specify --target", catalog)
	}
	return format, nil
}

// write writes all catalogs, or none.
func (r *templateRequest) write(s *session.Session, files []catalogFile, catalogs []*declcfg.DeclarativeConfig, bundles int) error {
	switch r.to {
	case "", "-", "json":
		return printTo(s.Stdout, true, func(w io.Writer) error { return declcfg.WriteJSON(*catalogs[0], w) })
	case "yaml":
		return printTo(s.Stdout, false, func(w io.Writer) error { return declcfg.WriteYAML(*catalogs[0], w) })
	case "mermaid":
		return printTo(s.Stdout, false, func(w io.Writer) error { return declcfg.NewMermaidWriter().WriteChannels(*catalogs[0], w) })
	}
	texts := map[string][]byte{}
	for i, c := range files {
		if c.path == "" {
			var err error
			if c.path, err = pathFor(r.to, catalogs[i]); err != nil {
				return err
			}
		}
		if err := mayReplace(c.path); err != nil {
			return err
		}
		if filepath.Base(c.path) == "catalog.yaml" {
			if err := onlyFile(c.path); err != nil {
				return err
			}
		}
		encode := declcfg.WriteYAML
		if filepath.Ext(c.path) == ".json" {
			encode = declcfg.WriteJSON
		}
		var text bytes.Buffer
		if err := encode(*catalogs[i], &text); err != nil {
			return err
		}
		texts[c.path] = text.Bytes()
	}
	if err := export.WriteFiles(texts); err != nil {
		return err
	}
	for _, path := range unmapped(files) {
		s.Stderr.Warnf("%s is not in fbc.catalog_mapping, so it was not rendered: remove it if it is obsolete", path)
	}
	fmt.Fprintf(s.Stderr, "%s rendered from %s\n", output.Counted(len(texts), "catalog", "catalogs"), output.Counted(bundles, "bundle", "bundles"))
	return nil
}

// unmapped returns the other catalogs of the operator of a ci.yaml.
func unmapped(files []catalogFile) (others []string) {
	if files[0].path == "" {
		return nil
	}
	operator := filepath.Dir(files[0].path)
	others, _ = filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(operator)), "*", filepath.Base(operator), "catalog.*"))
	return slices.DeleteFunc(others, func(other string) bool {
		return slices.ContainsFunc(files, func(c catalogFile) bool { return c.path == other })
	})
}

// printTo prints a catalog. On a terminal, harmful characters are replaced.
func printTo(to *output.Terminal, isJSON bool, write func(io.Writer) error) error {
	var text bytes.Buffer
	if err := write(&text); err != nil {
		return err
	}
	_, err := io.WriteString(to, to.Clean(isJSON)(text.String()))
	return err
}

// pathFor returns the file for a catalog. In a directory, that is catalog.yaml of the package.
func pathFor(to string, catalog *declcfg.DeclarativeConfig) (string, error) {
	switch filepath.Ext(to) {
	case ".json", ".yaml", ".yml":
		return to, nil
	}
	if len(catalog.Packages) != 1 {
		return "", fmt.Errorf("the catalog has %s, so %s needs more than one file: specify a file, such as %s.yaml",
			output.Counted(len(catalog.Packages), "package", "packages"), to, to)
	}
	return filepath.Join(to, catalog.Packages[0].Name, "catalog.yaml"), nil
}

// onlyFile returns an error if the directory of a catalog has another file, which would be part of the catalog too.
func onlyFile(path string) error {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil // WriteFiles makes the directory
	}
	for _, entry := range entries {
		if name := entry.Name(); name != filepath.Base(path) && strings.HasPrefix(name, "catalog.") {
			return fmt.Errorf("%s and %s would have the same blobs: remove one of them", filepath.Join(filepath.Dir(path), name), path)
		}
	}
	return nil
}

// mayReplace returns an error for a file that is not a catalog, such as the template.
func mayReplace(path string) error {
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		return nil //nolint:nilerr // writing it reports other errors
	}
	c, err := edit.Open(path)
	if err != nil {
		return exit.Usagef("%s exists and is not a catalog: specify another file", path)
	}
	defer c.Close()
	if c.IsTemplate() {
		return exit.Usagef("%s is a template: specify another file", path)
	}
	return nil
}
