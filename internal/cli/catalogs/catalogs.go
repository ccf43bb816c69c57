// Package catalogs has the commands on the catalogs of a cluster: list, describe, add, refresh, suspend, resume, remove and watch.
package catalogs

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	xterm "golang.org/x/term"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
	"github.com/operator-catalogs/catalogd/internal/cli/status"
)

// Commands returns the commands of the package.
func Commands(s *session.Session) []*cobra.Command {
	return []*cobra.Command{
		newListCommand(s), newDescribeCommand(s), newAddCommand(s), newRefreshCommand(s), newSuspendCommand(s),
		newResumeCommand(s), newRemoveCommand(s), newWatchCommand(s),
	}
}

// A selection is the catalogs that a command changes: those named, or all.
type selection struct {
	names []string
	all   bool
}

// find reads all catalogs of the selection before the first is changed.
func (sel selection) find(ctx context.Context, s *session.Session) ([]status.Catalog, error) {
	switch {
	case sel.all && len(sel.names) > 0:
		return nil, exit.Usagef("specify catalogs or --all, not both")
	case !sel.all && len(sel.names) == 0:
		return nil, exit.Usagef("specify a catalog or --all; kubectl catalog list shows all catalogs")
	case !sel.all:
		return lookup.Catalogs(ctx, s, sel.names)
	}
	catalogs, err := s.Catalogs(ctx)
	catalogs = slices.DeleteFunc(catalogs, func(c status.Catalog) bool { return !c.IsOurs() })
	if err == nil && len(catalogs) == 0 {
		fmt.Fprintln(s.Stderr, lookup.EmptyCluster)
	}
	return catalogs, err
}

// A change holds the flags --dry-run and -o of a command that changes objects. They mean the same as in kubectl.
type change struct {
	printers *output.Printers
	dryRun   string
}

// The values of --dry-run.
const (
	dryRunNone   = "none"
	dryRunClient = "client"
	dryRunServer = "server"
)

// newChange adds the flags to a command.
func newChange(cmd *cobra.Command) *change {
	ch := &change{printers: output.NewPrinters(cmd)}
	cmd.Flags().StringVar(&ch.dryRun, "dry-run", dryRunNone, "none; client: print what would be done, and send nothing; or server: send "+
		"the request, but let the API server store nothing")
	cmd.Flag("dry-run").NoOptDefVal = dryRunClient
	lookup.CompleteValues(cmd, "dry-run", dryRunNone, dryRunClient, dryRunServer)
	cmd.PreRunE = func(*cobra.Command, []string) error { return ch.parse() }
	return ch
}

func (ch *change) parse() error {
	if !slices.Contains([]string{dryRunNone, dryRunClient, dryRunServer}, ch.dryRun) {
		return exit.Usagef("--dry-run %q is not none, client or server", ch.dryRun)
	}
	_, err := ch.printer("")
	return err
}

// isDry reports whether nothing is changed.
func (ch *change) isDry() bool { return ch.dryRun != dryRunNone }

// dryRunOption returns the option dryRun of a request.
func (ch *change) dryRunOption() []string {
	if ch.isDry() {
		return []string{metav1.DryRunAll}
	}
	return nil
}

// isText reports whether the change is printed in words, not as an object.
func (ch *change) isText() bool { return ch.printers.Format == "" }

func (ch *change) printer(operation string) (printers.ResourcePrinter, error) {
	switch ch.dryRun {
	case dryRunClient:
		operation += " (dry run)"
	case dryRunServer:
		operation += " (server dry run)"
	}
	printer, err := ch.printers.Printer(operation)
	if err != nil {
		return nil, err
	}
	return printers.NewTypeSetter(session.Scheme).ToPrinter(printer), nil
}

// print prints the object, or its name and what was done: "catalogsource.catalogd.operatorframework.io/sample suspended".
func (ch *change) print(to *output.Terminal, c *status.Catalog, operation string) error {
	printer, err := ch.printer(operation)
	if err != nil {
		return err
	}
	return printer.PrintObj(c.Object, to)
}

// patch sets only the given fields of a catalog, so that the others keep their owners. null removes a field. With a UID among them, the API
// server refuses the patch if the catalog was recreated.
func (ch *change) patch(ctx context.Context, s *session.Session, c *status.Catalog, fields map[string]any) error {
	data, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	api, err := s.Client()
	if err != nil {
		return err
	}
	// Even with --dry-run=client: only the API server can apply a patch.
	err = api.Patch(ctx, c.Object, data, metav1.PatchOptions{FieldManager: session.FieldManager, DryRun: ch.dryRunOption()})
	return session.CatalogError(err, c.Arg())
}

// confirm asks the user a question on the terminal. Without one, it returns a usage error.
func confirm(ctx context.Context, s *session.Session, question string) error {
	in, ok := s.In.(*os.File)
	if !ok || !xterm.IsTerminal(int(in.Fd())) {
		return exit.Usagef("%s Standard input is no terminal: confirm with --yes", question)
	}
	fmt.Fprintf(s.Stderr, "%s [y/N] ", question)
	answers := make(chan string, 1)
	go func() { // a signal does not interrupt the read
		line, _ := bufio.NewReader(in).ReadString('\n')
		answers <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case answer := <-answers:
		if answer == "y" || answer == "yes" {
			return nil
		}
		return errors.New("canceled; nothing was removed")
	case <-ctx.Done():
		fmt.Fprintln(s.Stderr) // ends the line of the question
		return ctx.Err()
	}
}

func newSuspendCommand(s *session.Session) *cobra.Command {
	return addSuspension(s, true, &cobra.Command{
		Use:   "suspend NAME...",
		Short: "Stop polling catalogs",
		Long: `Stop polling catalogs: set spec.suspend of a CatalogSource, or the annotation
catalogd.operatorframework.io/suspend of a ClusterCatalog. Served content stays served. A replica
that lacks the current digest still unpacks it.`,
		Example: `  kubectl catalog suspend sample
  kubectl catalog suspend --all`,
	})
}

func newResumeCommand(s *session.Session) *cobra.Command {
	return addSuspension(s, false, &cobra.Command{
		Use:   "resume NAME...",
		Short: "Poll suspended catalogs again",
		Example: `  kubectl catalog resume sample
  kubectl catalog resume --all`,
	})
}

func addSuspension(s *session.Session, suspend bool, cmd *cobra.Command) *cobra.Command {
	var sel selection
	cmd.Flags().BoolVar(&sel.all, "all", false, "all catalogs")
	cmd.ValidArgsFunction = lookup.CompleteCatalogs(s)
	ch := newChange(cmd)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		sel.names = names
		catalogs, err := sel.find(cmd.Context(), s)
		if err != nil {
			return err
		}
		for i := range catalogs {
			done, err := setSuspend(cmd.Context(), s, ch, &catalogs[i], suspend)
			if err == nil {
				err = ch.print(s.Stdout, &catalogs[i], done)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}

// setSuspend suspends or resumes a catalog and returns what was done.
func setSuspend(ctx context.Context, s *session.Session, ch *change, c *status.Catalog, suspend bool) (string, error) {
	done := "suspended"
	if !suspend {
		done = "resumed"
	}
	if c.Spec.Suspend == suspend {
		return "already " + done, nil
	}
	return done, ch.patch(ctx, s, c, c.Suspension(suspend))
}
