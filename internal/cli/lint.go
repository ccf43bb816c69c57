package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	local "github.com/operator-catalogs/catalogd/internal/authoring"
	term "github.com/operator-catalogs/catalogd/internal/cli/output"
)

type lintOptions struct {
	output     string
	strict     bool
	noWarnings bool
	insecure   bool
	rules      bool
}

func newLintCmd(e *env) *cobra.Command {
	var opts lintOptions
	cmd := &cobra.Command{
		Use:   "lint DIR|IMAGE",
		Short: "Find all that is wrong with a catalog, without a cluster",
		Long: `Find all that is wrong with a catalog: a directory or a file with a file-based catalog, or an image of one. No cluster is asked. The verdicts
are those of catalogd, which reads and checks with the same code; each fault is told with its file and line.

An error has catalogd leave out the package, which it then names in the status of the CatalogSource, or refuse the whole image, of which it goes
on to serve the one before: the last line says which. A warning is about what is sound and could be better, or is sound and yet not
published: a package without a ClusterServiceVersion at the head of any channel. --rules lists what is checked.

-o github is for steps of GitHub workflows, which then show the faults beside the lines; -o sarif is SARIF 2.1.0, which code scanning reads. The
exit code is 1 if there is an error or, with --strict, a warning.

In a directory what git keeps in .git is left out, as kubectl catalog push does. Images are pulled with the credentials of docker login.`,
		Example: `  kubectl catalog lint config/samples/catalog/configs
  kubectl catalog lint quay.io/operatorhubio/catalog:latest --no-warnings
  kubectl catalog lint my-catalog -o github --strict
  kubectl catalog lint --rules`,
		ValidArgsFunction: completePath,
	}
	flags := cmd.Flags()
	flags.StringVarP(&opts.output, "output", "o", "text", "`format`: "+strings.Join(local.Formats, ", "))
	flags.BoolVar(&opts.strict, "strict", false, "fail for warnings, too")
	flags.BoolVar(&opts.noWarnings, "no-warnings", false, "list errors only")
	flags.BoolVar(&opts.insecure, "insecure", false, "pull the image by plain HTTP as well, or from a registry whose certificate nobody vouches for")
	flags.BoolVar(&opts.rules, "rules", false, "list the rules instead")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(local.Formats, cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case opts.rules && len(args) == 0:
			return e.printRules()
		case opts.rules:
			return usagef("--rules lists the rules, whatever the catalog: leave %s out", args[0])
		case len(args) > 1:
			return tooMuch(args[1:], "one catalog at a time")
		case len(args) == 0:
			return usagef("say what to check: kubectl catalog lint DIR, or kubectl catalog lint IMAGE")
		case opts.strict && opts.noWarnings:
			return usagef("say --strict or --no-warnings, not both: the one is about what the other does not list")
		case !slices.Contains(local.Formats, opts.output):
			return usagef("there is no format %q: use one of %s", opts.output, strings.Join(local.Formats, ", "))
		}
		return e.lint(cmd.Context(), args[0], opts)
	}
	return cmd
}

// completePath completes the first argument; images are in registries, which nobody lists.
func completePath(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveDefault
}

func (e *env) lint(ctx context.Context, ref string, opts lintOptions) error {
	report, err := e.check(ctx, ref, opts.insecure)
	if err != nil {
		return err
	}
	summary, errs, warnings := report.Summary(), report.Errors(), len(report.Faults)-report.Errors()
	if opts.noWarnings {
		keepErrors(report)
	}
	if err := printReport(e.stdout, report, opts.output); err != nil {
		return err
	}
	switch {
	case errs > 0:
		return errors.New(summary)
	case opts.strict && warnings > 0:
		return fmt.Errorf("%s; --strict allows no warnings", summary)
	}
	fmt.Fprintln(e.stderr, summary)
	return nil
}

// check lints a directory or an image.
func (e *env) check(ctx context.Context, ref string, insecure bool) (*local.Report, error) {
	source, err := e.openLocal(ctx, ref, insecure)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	progress := e.stderr.Progress()
	defer progress.End()
	e.showLive(progress, "Checking "+ref)
	return local.Lint(ctx, source)
}

// openLocal opens a directory or pulls an image.
func (e *env) openLocal(ctx context.Context, ref string, insecure bool) (*local.Source, error) {
	progress := e.stderr.Progress()
	defer progress.End()
	source, err := local.Open(ctx, ref, local.Options{
		Insecure: insecure, UserAgent: e.userAgent(), Progress: transferred(progress, "Downloading "+ref),
	})
	if local.IsNotFound(err) {
		err = notFoundError{err}
	}
	return source, badReference(err)
}

// badReference tells what names no image, which is an error of the command line, from other errors.
func badReference(err error) error {
	if _, ok := errors.AsType[*local.ReferenceError](err); ok {
		return usageError{err}
	}
	return err
}

// showLive tells of work that is short: to somebody who waits for it, but not to a log.
func (e *env) showLive(progress *term.Progress, stage string) {
	if e.stderr.Live {
		progress.Show(stage, "")
	}
}

func keepErrors(r *local.Report) {
	r.Faults = slices.DeleteFunc(r.Faults, func(f local.Fault) bool { return f.Severity != local.Error })
}

// transferred returns what a transfer tells of its bytes, from any goroutine. It shows them some times a second.
func transferred(progress *term.Progress, stage string) func(done, total int64) {
	const interval = 200 * time.Millisecond
	var mu sync.Mutex
	m := newMeter()
	return func(done, total int64) {
		mu.Lock()
		defer mu.Unlock()
		switch first := m.at.IsZero(); {
		case first:
			m.download(done, total)
			progress.Show(stage, "")
		case done == total || m.now().Sub(m.at) >= interval:
			progress.Show(stage, m.download(done, total))
		}
	}
}

// printReport writes a report in a format of package local, or as text for people.
func printReport(to *term.Terminal, r *local.Report, format string) error {
	if to.Live && format == "text" {
		return printFaults(to, r)
	}
	var b bytes.Buffer
	if err := r.Write(&b, format); err != nil {
		return err
	}
	text := b.String()
	switch {
	case !to.Live:
	case format == "json" || format == "sarif":
		text = term.JSON(text)
	default:
		text = term.Text(text)
	}
	_, err := to.Write([]byte(text))
	return err
}

// printFaults writes the faults below the names of their files.
func printFaults(to *term.Terminal, r *local.Report) error {
	var b strings.Builder
	for i, f := range r.Faults {
		if i == 0 || f.File != r.Faults[i-1].File {
			if i > 0 {
				b.WriteByte('\n')
			}
			fmt.Fprintln(&b, to.Paint(term.Bold, term.Line(cmp.Or(f.File, r.Source))))
		}
		style := term.Yellow
		if f.Severity == local.Error {
			style = term.Red
		}
		fmt.Fprintf(&b, "  %-8s %s %s %s\n", position(f), to.Paint(style, fmt.Sprintf("%-7s", f.Severity)), term.Line(f.Message), to.Paint(term.Faint, f.Rule))
	}
	_, err := to.Write([]byte(b.String()))
	return err
}

func position(f local.Fault) string {
	switch {
	case f.Line == 0:
		return ""
	case f.Column == 0:
		return strconv.Itoa(f.Line)
	}
	return fmt.Sprintf("%d:%d", f.Line, f.Column)
}

func (e *env) printRules() error {
	table := term.Table{Columns: []term.Column{{Name: "rule"}, {Name: "severity", Drop: 1}, {Name: "asks", Least: 20}}}
	for _, name := range slices.Sorted(maps.Keys(local.Rules)) {
		rule := local.Rules[name]
		table.Rows = append(table.Rows, []string{name, string(rule.Severity), rule.Asks})
	}
	return e.stdout.Print(table, term.Options{})
}
