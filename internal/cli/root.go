// Package cli is the kubectl plugin: `kubectl catalog`.
//
// Its commands are in the packages catalogs, packages, bundles, ui and author. A command parses its flags to a validated request, runs
// it with a session, and prints the result. Flags have the meaning of kubectl's (k8s.io/cli-runtime). Runs share no state.
package cli

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/operator-catalogs/catalogd/internal/cli/author"
	"github.com/operator-catalogs/catalogd/internal/cli/bundles"
	"github.com/operator-catalogs/catalogd/internal/cli/catalogs"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/packages"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
	"github.com/operator-catalogs/catalogd/internal/cli/ui"
)

// Run runs the plugin and returns its exit code; see package exit. Errors are printed to the error stream.
func Run(ctx context.Context, args []string, streams genericiooptions.IOStreams, version string) int {
	s := session.New(streams, os.Getenv, version)
	root := newRootCommand(s)
	started := false
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		err := s.Validate()
		if err == nil {
			err = readCatalogFlag(s, cmd)
		}
		started = err == nil
		return err
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil || exit.IsSilent(err):
	case ctx.Err() != nil:
		fmt.Fprintln(streams.ErrOut, "interrupted")
	default:
		fmt.Fprintf(streams.ErrOut, "%s %v\n", s.Stderr.Paint(output.Red, "error:"), output.Text(s.Explain(err)))
	}
	return exit.Code(ctx, err, started)
}

// readCatalogFlag reads TYPE/NAME in --catalog. Commands get the name, by which content is served.
func readCatalogFlag(s *session.Session, cmd *cobra.Command) error {
	flag := cmd.Flags().Lookup("catalog")
	if flag == nil {
		return nil
	}
	name, err := s.Name(flag.Value.String())
	if err == nil {
		err = flag.Value.Set(name)
	}
	return err
}

// NewRootCommand returns the root command, for documentation.
func NewRootCommand() *cobra.Command {
	noenv := func(string) string { return "" }
	return newRootCommand(session.New(genericiooptions.NewTestIOStreamsDiscard(), noenv, ""))
}

func newRootCommand(s *session.Session) *cobra.Command {
	root := &cobra.Command{
		Use:   "kubectl-catalog",
		Short: "View, query, manage and author catalogs of operators",
		Long: `View, query and manage the operator catalogs that catalogd serves on a cluster, and author catalogs
without a cluster.

Catalogs are cluster-scoped. Their content is read from catalogd through the API server, so access
to the API server is sufficient. --server-url calls catalogd directly. To install operators, use
another program, such as OLM.

Exit codes: 0 success, 1 failure, 2 invalid command line, 3 not found, 130 interrupted; for diff
--exit-code, 1 means differences and 4 failure.`,
		Annotations:       map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl catalog"},
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
		Version:           s.Version,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true}, // kubectl calls it
	}
	s.AddFlags(root.PersistentFlags())
	lookup.CompleteKubeconfig(s, root)
	root.SetUsageTemplate(usage)
	root.SetHelpCommand(newHelpCommand(root))
	root.AddCommand(newOptionsCommand(root))
	addGroup(root, "catalogs", "Catalogs on the cluster:", catalogs.Commands(s))
	addGroup(root, "content", "Content of catalogs:", slices.Concat(packages.Commands(s),
		[]*cobra.Command{bundles.NewCommand(s, author.BundleCommands(s)...), ui.NewCommand(s)}, author.ContentCommands(s)))
	addGroup(root, "authors", "For authors of catalogs:", author.Commands(s))
	addGroup(root, "", "", []*cobra.Command{author.NewMigrateCommand(s), newVersionCommand(s)})
	for _, c := range root.Commands() {
		if c.HasSubCommands() && !c.Runnable() {
			requireCommand(c)
		}
	}
	return root
}

func addGroup(root *cobra.Command, id, title string, commands []*cobra.Command) {
	if id != "" {
		root.AddGroup(&cobra.Group{ID: id, Title: title})
	}
	for _, c := range commands {
		c.GroupID = id
		lookup.CompleteNoFiles(c)
		root.AddCommand(c)
	}
}

// usage is cobra's template without the flags of all commands. They have their own list, as in kubectl.
const usage = `Usage:{{if .Runnable}}
  {{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} COMMAND{{end}}{{if gt (len .Aliases) 0}}

Aliases:
  {{.NameAndAliases}}{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}{{$cmds := .Commands}}{{range $group := .Groups}}

{{.Title}}{{range $cmds}}{{if (and (eq .GroupID $group.ID) .IsAvailableCommand)}}
  {{rpad .Name .NamePadding }} {{.Short}}{{end}}{{end}}{{end}}

Other commands:{{range $cmds}}{{if (and (eq .GroupID "") .IsAvailableCommand)}}
  {{rpad .Name .NamePadding }} {{.Short}}{{end}}{{end}}{{end}}{{if and .HasAvailableLocalFlags .HasParent}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}

{{if .HasAvailableSubCommands}}` +
	`Use "{{.CommandPath}} COMMAND --help" for more information about a command. {{end}}` +
	`Use "kubectl catalog options" for the flags of all commands.
`

// requireCommand makes a group of commands fail without one of them. cobra prints the help and succeeds, also for a mistyped one.
func requireCommand(group *cobra.Command) {
	group.DisableFlagsInUseLine, group.SuggestionsMinimumDistance = true, 2
	group.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		hint := ""
		if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
			hint = "did you mean " + like[0] + "? "
		}
		return exit.Usagef("unknown command %q: %s%s --help lists all commands", args[0], hint, cmd.CommandPath())
	}
}

// newHelpCommand returns the command help, which is the same as --help.
func newHelpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:    "help [COMMAND]",
		Hidden: true,
		RunE: func(_ *cobra.Command, args []string) error {
			of, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return exit.Usagef("unknown command %q; kubectl catalog --help lists all commands", strings.Join(args, " "))
			}
			return of.Help()
		},
	}
}

func newOptionsCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "options",
		Short: "List the flags of all commands",
		Args:  cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			cmd.Printf("Flags of all commands:\n\n%s", root.PersistentFlags().FlagUsages())
		},
	}
}
