// Package cli is `kubectl catalog`: a command a file, each a function that makes the command and one that does its work.
//
// Flags mean what they mean in kubectl, as they are kubectl's own (k8s.io/cli-runtime). What catalogs hold is asked of the content service,
// the rest of the API server; nothing is kept between two calls.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	term "github.com/operator-catalogs/catalogd/internal/cli/output"
)

// Groups of commands, as help lists them.
const (
	groupCatalogs = "catalogs" // the CatalogSources of a cluster
	groupContent  = "content"  // what they hold
	groupAuthors  = "authors"  // making catalogs, without a cluster
)

// Run does what args ask for, and returns the exit code: see ExitCode. Errors are printed to the error stream.
func Run(ctx context.Context, args []string, streams genericiooptions.IOStreams, version string) int {
	e := newEnv(streams, os.Getenv, version)
	root := newRootCmd(e)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var silent silentError
	switch {
	case err == nil || errors.As(err, &silent):
	case ctx.Err() != nil:
		fmt.Fprintln(streams.ErrOut, "interrupted")
	default:
		fmt.Fprintf(streams.ErrOut, "%s %v\n", e.stderr.Paint(term.Red, "error:"), term.Text(e.explain(err)))
	}
	return exitCode(ctx, err, e.started)
}

// NewRootCmd returns the whole command, for documentation.
func NewRootCmd(version string) *cobra.Command {
	return newRootCmd(newEnv(genericiooptions.NewTestIOStreamsDiscard(), func(string) string { return "" }, version))
}

func newRootCmd(e *env) *cobra.Command {
	root := &cobra.Command{
		Use:   "kubectl-catalog",
		Short: "See, query and manage the catalogs of operators on a cluster, and make them",
		Long: `See, query and manage the catalogs of operators that catalogd serves on a cluster, and make catalogs without one.

Catalogs are cluster-scoped. What they hold is read from catalogd through the API server, so whoever may use the one can use the other;
--server-url calls catalogd directly. Operators are installed by other programs, such as OLM.

Exit codes: 0 done, 1 failure, 2 the command line is wrong, 3 what was asked for does not exist,
130 interrupted; of diff --exit-code, 1 is that there are differences, and 4 failure.`,
		Annotations:       map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl catalog"},
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: func(*cobra.Command, []string) error { return e.start() },
		DisableAutoGenTag: true,
		Version:           e.version,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true}, // kubectl has its own, which calls us
	}
	root.SetIn(e.In)
	root.SetOut(e.Out)
	root.SetErr(e.ErrOut)
	root.AddGroup(&cobra.Group{ID: groupCatalogs, Title: "Catalogs on the cluster:"},
		&cobra.Group{ID: groupContent, Title: "What they hold:"},
		&cobra.Group{ID: groupAuthors, Title: "For authors of catalogs:"})
	e.addFlags(root.PersistentFlags())
	e.completeKubeconfig(root)
	root.SetUsageTemplate(usage)
	root.SetHelpCommand(newHelpCmd(root))
	root.AddCommand(newOptionsCmd(root), newInstallCmd())
	for _, group := range []struct {
		id       string
		commands []func(*env) *cobra.Command
	}{
		{groupCatalogs, []func(*env) *cobra.Command{newListCmd, newDescribeCmd, newAddCmd, newRefreshCmd, newSuspendCmd, newResumeCmd, newRemoveCmd, newWatchCmd}},
		{groupContent, []func(*env) *cobra.Command{newGetCmd, newShowCmd, newSearchCmd, newProvidersCmd, newGraphCmd, newPathCmd, newDiffCmd, newExportCmd, newQueryCmd}},
		{groupAuthors, []func(*env) *cobra.Command{newLintCmd, newPushCmd}},
		{"", []func(*env) *cobra.Command{newMigrateCmd, newVersionCmd}},
	} {
		for _, command := range group.commands {
			c := command(e)
			c.GroupID = group.id
			completeNoFiles(c)
			root.AddCommand(c)
		}
	}
	return root
}

// usage is cobra's, but for the flags that all commands have: as in kubectl they stand in a list of their own.
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

{{if .HasAvailableSubCommands}}"{{.CommandPath}} COMMAND --help" says more of a command. {{end}}Flags that every command has, kubectl's own among them: kubectl catalog options
`

// newHelpCmd is for those who ask that way; --help says the same.
func newHelpCmd(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:    "help [COMMAND]",
		Hidden: true,
		RunE: func(_ *cobra.Command, args []string) error {
			of, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return usagef("there is no command %q: kubectl catalog --help lists those there are", strings.Join(args, " "))
			}
			return of.Help()
		},
	}
}

// newInstallCmd is for those who look for it here.
func newInstallCmd() *cobra.Command {
	return &cobra.Command{
		Use:                "install",
		Aliases:            []string{"uninstall", "upgrade"},
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usagef("there is no %s: catalogd keeps catalogs, and what installs operators is another program, such as OLM; "+
				"kubectl catalog show PACKAGE tells what to install: package, channel, version and image", cmd.CalledAs())
		},
	}
}

// newOptionsCmd lists the flags that all commands have.
func newOptionsCmd(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "options",
		Short: "List the flags that every command has",
		Args:  cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			cmd.Printf("Flags that every command has:\n\n%s", root.PersistentFlags().FlagUsages())
		},
	}
}
