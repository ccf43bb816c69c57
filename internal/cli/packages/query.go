package packages

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/operator-catalogs/catalogd/internal/cli/content"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
)

// queryFlags are the flags of query.
type queryFlags struct {
	file      string // with the query
	catalog   string
	operation string
	variables []string // name=value
	varFile   string   // with a JSON object
}

func newQueryCommand(s *session.Session) *cobra.Command {
	var flags queryFlags
	cmd := &cobra.Command{
		Use:   "query GRAPHQL|-",
		Short: "Run a GraphQL query",
		Long: `Run a GraphQL query on the catalogs and print the data of the response as JSON. Errors in a query
are printed to the error stream, with exit code 1. With -, the query is read from standard input.
The schema contains its documentation; GraphQL tools show it by introspection.`,
		Example: `  kubectl catalog query '{ catalogs { name counts { packages bundles } } }'
  kubectl catalog query 'query($p: String!) { package(name: $p) { channels { name head { version } } } }' -v p=skupper-operator
  kubectl catalog query -f query.graphql --var-file variables.json --catalog sample`,
		Args: cobra.MaximumNArgs(1),
	}
	set := cmd.Flags()
	set.StringVarP(&flags.file, "filename", "f", "", "`file` with the query; -: standard input")
	set.StringVarP(&flags.catalog, "catalog", "c", "", "query this `catalog` instead of all")
	set.StringVar(&flags.operation, "operation", "", "`name` of the operation, if the query has several")
	set.StringArrayVarP(&flags.variables, "var", "v", nil, "value of a variable, `name=value`: JSON, or else a string")
	set.StringVar(&flags.varFile, "var-file", "", "`file` with a JSON object of variables")
	lookup.CompleteFlags(s, cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		question, err := flags.parse(s, strings.Join(args, ""))
		if err != nil {
			return err
		}
		service, err := lookup.OnlyService(cmd.Context(), s, flags.catalog)
		if err != nil {
			return err
		}
		answer, err := service.Ask(cmd.Context(), flags.catalog, "", question)
		if err != nil {
			return session.CatalogError(err, flags.catalog)
		}
		if err := printJSON(s.Stdout, answer.Data); err != nil {
			return err
		}
		return queryErrors(answer.Errors)
	}
	return cmd
}

// parse returns the query of a command line.
func (f queryFlags) parse(s *session.Session, text string) (content.Question, error) {
	q := content.Question{Query: text, Operation: f.operation, Variables: map[string]any{}}
	switch {
	case text != "" && f.file != "":
		return q, exit.Usagef("specify a query or --filename, not both")
	case text == "" && f.file == "":
		return q, exit.Usagef("specify a query, such as kubectl catalog query '{ catalogs { name } }', or --filename")
	case text == "-" || f.file != "":
		text, err := s.ReadFile(cmp.Or(f.file, "-"))
		if err != nil {
			return q, err
		}
		q.Query = string(text)
	}
	if f.varFile != "" {
		text, err := s.ReadFile(f.varFile)
		if err != nil {
			return q, err
		}
		var variables map[string]json.RawMessage
		if err := json.Unmarshal(text, &variables); err != nil {
			return q, exit.Usagef("--var-file %s: expected a JSON object: %w", f.varFile, err)
		}
		for name, value := range variables {
			q.Variables[name] = value
		}
	}
	for _, v := range f.variables {
		name, value, ok := strings.Cut(v, "=")
		if !ok || name == "" {
			return q, exit.Usagef("--var %s: expected NAME=VALUE", v)
		}
		q.Variables[strings.TrimPrefix(name, "$")] = variable(value)
	}
	return q, nil
}

// variable returns JSON as it is, with all digits of its numbers, and any other text as a string.
func variable(value string) any {
	if json.Valid([]byte(value)) {
		return json.RawMessage(value)
	}
	return value
}

// printJSON prints data unchanged, or indented on a terminal.
func printJSON(to *output.Terminal, data json.RawMessage) error {
	if len(data) == 0 || string(data) == "null" {
		return nil
	}
	text := string(data)
	if to.Live {
		var indented bytes.Buffer
		if err := json.Indent(&indented, data, "", "  "); err != nil {
			return err
		}
		text = output.JSON(indented.String())
	}
	_, err := fmt.Fprintln(to, text)
	return err
}

// queryErrors returns the errors of a response as one, or nil.
func queryErrors(found []content.QueryError) error {
	var texts []string
	for _, f := range found {
		text := output.Line(f.Message)
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

// getRaw prints a response of the content service.
func getRaw(ctx context.Context, s *session.Session, path, catalog string) error {
	u, err := url.Parse(path)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(u.Path, "/") {
		return exit.Usagef("--raw %s: expected a path of the content service, such as /catalogs", path)
	}
	params, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return exit.Usagef("--raw %s: %w", path, err)
	}
	service, err := lookup.OnlyService(ctx, s, catalog)
	if err != nil {
		return err
	}
	resp, err := service.Get(ctx, u.EscapedPath(), params, nil)
	if err != nil {
		return session.CatalogError(err, catalog)
	}
	defer resp.Body.Close()
	if s.Stdout.Live {
		return printHarmless(s.Stdout, resp)
	}
	_, err = io.Copy(s.Stdout, resp.Body)
	return err
}

// printHarmless prints a text response without characters that could harm a terminal.
func printHarmless(to *output.Terminal, resp *http.Response) error {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	isJSON := strings.HasSuffix(kind, "json") || strings.HasSuffix(kind, "jsonl")
	if !isJSON && !strings.HasPrefix(kind, "text/") && !strings.HasSuffix(kind, "xml") {
		return exit.Usagef("the response is %s, which cannot be shown on a terminal: redirect it to a file", kind)
	}
	clean := to.Clean(isJSON)
	lines := bufio.NewReader(resp.Body)
	for {
		line, err := lines.ReadString('\n')
		if _, err := io.WriteString(to, clean(line)); err != nil {
			return err
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
