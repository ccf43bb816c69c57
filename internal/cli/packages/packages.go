// Package packages has the commands on the content of catalogs: get, show, search, providers, graph, path and query.
package packages

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
)

// Commands returns the commands of the package.
func Commands(s *session.Session) []*cobra.Command {
	return []*cobra.Command{
		newGetCommand(s), newShowCommand(s), newSearchCommand(s), newProvidersCommand(s), newGraphCommand(s),
		newPathCommand(s), newQueryCommand(s),
	}
}

// onePackage checks that a command has exactly one argument, a package. Further arguments are suggested as values of flags.
func onePackage(use string, flags ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 1:
			if kind, name, ok := strings.Cut(args[0], "/"); ok && kinds[strings.TrimSuffix(kind, "."+output.Group)].arePackages {
				args[0] = name // as printed by -o name
			}
			return nil
		case len(args) == 0:
			return exit.Usagef("specify a package: kubectl catalog %s; kubectl catalog get packages lists all packages", use)
		}
		hint := ""
		if extra := args[1:]; len(extra) <= len(flags) {
			hint = fmt.Sprintf("; did you mean kubectl catalog %s %s", cmd.Name(), args[0])
			for i, value := range extra {
				hint += fmt.Sprintf(" --%s %s", flags[i], value)
			}
			hint += "?"
		}
		return tooMany(args[1:], "specify one package"+hint)
	}
}

// queryPackage runs a query on a package in the catalog with the highest priority, and sets the scope to it. It also
// returns the packages of this name in all catalogs.
func queryPackage[T any](ctx context.Context, s *session.Session, scope *lookup.Scope, query string) (*T, []lookup.Package, error) {
	found, err := lookup.ExistingPackages(ctx, s, scope.Package, scope.Catalog)
	if err != nil {
		return nil, nil, err
	}
	scope.Package, scope.Catalog = found[0].Name, found[0].Catalog.Name
	var answer struct{ Package *T }
	variables := map[string]any{"name": scope.Package, "catalog": scope.Catalog}
	if err := found[0].Service.Query(ctx, "", "", query, variables, &answer); err != nil {
		return nil, nil, err
	}
	if answer.Package == nil { // removed just now
		return nil, nil, lookup.NoPackage(ctx, s, scope.Package, scope.Catalog)
	}
	return answer.Package, found, nil
}

// tooMany returns the error of arguments that a command does not take.
func tooMany(extra []string, instead string) error {
	return exit.Usagef("unexpected argument %s: %s", strings.Join(extra, " "), instead)
}

// known marks the columns whose value the command line gives.
func known(columns []output.Column, scope lookup.Scope) []output.Column {
	marked := make([]output.Column, len(columns))
	for i, c := range columns {
		c.Known = (c.Name == "package" && scope.Package != "") || (c.Name == "catalog" && scope.Catalog != "")
		marked[i] = c
	}
	return marked
}
