package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/operator-catalogs/catalogd/internal/cli/content"
	term "github.com/operator-catalogs/catalogd/internal/cli/output"
)

// queryOptions say what to ask.
type queryOptions struct {
	text      string
	file      string // with the text
	catalog   string
	operation string
	variables []string // name=value
	varFile   string   // with an object of them
}

func newQueryCmd(e *env) *cobra.Command {
	var opts queryOptions
	cmd := &cobra.Command{
		Use:   "query GRAPHQL|-",
		Short: "Ask in GraphQL",
		Long: `Ask the catalogs in GraphQL, and print the data of the answer as JSON; what is wrong with a query goes to the error stream, and the exit code is
1. With - the query is read from standard input. The schema is documented in itself, as any tool for GraphQL shows it by introspection.`,
		Example: `  kubectl catalog query '{ catalogs { name counts { packages bundles } } }'
  kubectl catalog query 'query($p: String!) { package(name: $p) { channels { name head { version } } } }' -v p=skupper-operator
  kubectl catalog query -f query.graphql --var-file variables.json --catalog sample`,
		Args: cobra.MaximumNArgs(1),
	}
	flags := cmd.Flags()
	flags.StringVarP(&opts.file, "filename", "f", "", "`file` with the query; -: standard input")
	flags.StringVarP(&opts.catalog, "catalog", "c", "", "ask this `catalog` instead of all")
	flags.StringVar(&opts.operation, "operation", "", "`name` of the operation, where the query has several")
	flags.StringArrayVarP(&opts.variables, "var", "v", nil, "value of a variable, `name=value`: JSON if it is that, else text")
	flags.StringVar(&opts.varFile, "var-file", "", "`file` with a JSON object of variables")
	e.completeFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		opts.text = strings.Join(args, "")
		return e.query(cmd.Context(), opts)
	}
	return cmd
}

func (e *env) query(ctx context.Context, opts queryOptions) error {
	question, err := e.question(opts)
	if err != nil {
		return err
	}
	service, err := e.oneService(ctx, opts.catalog)
	if err != nil {
		return err
	}
	answer, err := service.Ask(ctx, opts.catalog, "", question)
	if err != nil {
		return missing(err, opts.catalog)
	}
	if err := e.printJSON(answer.Data); err != nil {
		return err
	}
	return faults(answer.Errors)
}

// question reads what the command line says to ask.
func (e *env) question(opts queryOptions) (content.Question, error) {
	q := content.Question{Query: opts.text, Operation: opts.operation, Variables: map[string]any{}}
	switch {
	case opts.text != "" && opts.file != "":
		return q, usagef("give the query or --filename, not both")
	case opts.text == "" && opts.file == "":
		return q, usagef("say what to ask: kubectl catalog query '{ catalogs { name } }'; or a file: --filename")
	case opts.text == "-" || opts.file != "":
		text, err := e.readFile(cmp.Or(opts.file, "-"))
		if err != nil {
			return q, err
		}
		q.Query = string(text)
	}
	if opts.varFile != "" {
		text, err := e.readFile(opts.varFile)
		if err != nil {
			return q, err
		}
		var variables map[string]json.RawMessage
		if err := json.Unmarshal(text, &variables); err != nil {
			return q, usagef("%s is no JSON object of variables: %w", opts.varFile, err)
		}
		for name, value := range variables {
			q.Variables[name] = value
		}
	}
	for _, v := range opts.variables {
		name, value, ok := strings.Cut(v, "=")
		if !ok || name == "" {
			return q, usagef("--var %s: it has to be NAME=VALUE", v)
		}
		q.Variables[strings.TrimPrefix(name, "$")] = variable(value)
	}
	return q, nil
}

// variable is JSON as it stands, numbers with all their digits, or a text.
func variable(value string) any {
	if json.Valid([]byte(value)) {
		return json.RawMessage(value)
	}
	return value
}

// readFile reads a file, or with - standard input. That a file is not there is as with all that is asked for by name.
func (e *env) readFile(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(e.In)
	}
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		err = notFoundf("there is no file %q", name)
	}
	return text, err
}

// printJSON prints data as it came, and with indents for people.
func (e *env) printJSON(data json.RawMessage) error {
	if len(data) == 0 || string(data) == "null" {
		return nil
	}
	text := string(data)
	if e.stdout.Live {
		var indented bytes.Buffer
		if err := json.Indent(&indented, data, "", "  "); err != nil {
			return err
		}
		text = term.JSON(indented.String())
	}
	_, err := fmt.Fprintln(e.stdout, text)
	return err
}

// faults is the error of a query that is answered with faults; nil if there are none.
func faults(found []content.QueryError) error {
	var texts []string
	for _, f := range found {
		text := term.Line(f.Message)
		for _, at := range f.Locations {
			text += fmt.Sprintf(" (line %d, column %d)", at.Line, at.Column)
		}
		texts = append(texts, text)
	}
	if texts == nil {
		return nil
	}
	return errors.New(strings.Join(texts, "\n"))
}
