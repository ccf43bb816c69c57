package author

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/operator-catalogs/catalogd/internal/authoring"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
)

// A lintRequest is the catalog to check and what to report.
type lintRequest struct {
	ref        string // empty with rules
	format     string
	strict     bool
	noWarnings bool
	insecure   bool
	rules      bool
	targetArgs []string
	targets    []authoring.Target
}

func newLintCommand(s *session.Session) *cobra.Command {
	var req lintRequest
	cmd := &cobra.Command{
		Use:   "lint DIR|IMAGE",
		Short: "Check a catalog for errors, without a cluster",
		Long: `Check a catalog for errors: a directory or file with a file-based catalog, or a catalog image. No
cluster is needed. catalogd reads and validates catalogs with the same code. Each finding has its
file and line.

An error makes catalogd omit the package, which the status of the CatalogSource then lists, or
reject the image and keep serving the previous one. The last line says which. A warning is about a
valid catalog that can be improved, or about a valid package that is not published because no
channel head has a ClusterServiceVersion. --rules lists the rules.

--target also checks what a consumer of the catalog demands: a version of OpenShift, or OLM v0 or v1.
It can be repeated.

-o github prints annotations for GitHub workflows; -o sarif prints SARIF 2.1.0 for code scanning.
The exit code is 1 if there is an error or, with --strict, a warning.

The directory .git is skipped, as in kubectl catalog push. Images are pulled with the credentials of
docker login.`,
		Example: `  kubectl catalog lint config/samples/catalog/configs
  kubectl catalog lint quay.io/operatorhubio/catalog:latest --no-warnings
  kubectl catalog lint my-catalog -o github --strict
  kubectl catalog lint my-catalog --target 4.17,olmv1
  kubectl catalog lint --rules`,
		ValidArgsFunction: completePath,
	}
	flags := cmd.Flags()
	flags.StringVarP(&req.format, "output", "o", "text", "`format`: "+strings.Join(authoring.Formats, ", "))
	flags.BoolVar(&req.strict, "strict", false, "fail on warnings too")
	flags.BoolVar(&req.noWarnings, "no-warnings", false, "report errors only")
	flags.BoolVar(&req.insecure, "insecure", false, "allow plain HTTP and untrusted certificates to pull the image")
	flags.StringSliceVar(&req.targetArgs, "target", nil, "also check the rules for these `targets`: versions of OpenShift such as 4.17, olmv0, olmv1")
	flags.BoolVar(&req.rules, "rules", false, "list the rules and exit")
	lookup.CompleteValues(cmd, "output", authoring.Formats...)
	lookup.CompleteValues(cmd, "target", "4.16", "4.17", "olmv0", "olmv1")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := req.parse(args); err != nil {
			return err
		}
		if req.rules {
			return printRules(s.Stdout)
		}
		report, err := lint(cmd.Context(), s, req.ref, req.insecure, req.targets...)
		if err != nil {
			return err
		}
		return printResult(s, report, req)
	}
	return cmd
}

func (r *lintRequest) parse(args []string) error {
	switch {
	case r.rules && len(args) == 0:
		return nil
	case r.rules:
		return exit.Usagef("--rules takes no argument: omit %s", args[0])
	case len(args) > 1:
		return tooMany(args[1:], "specify one catalog")
	case len(args) == 0:
		return exit.Usagef("specify a catalog: kubectl catalog lint DIR, or kubectl catalog lint IMAGE")
	case r.strict && r.noWarnings:
		return exit.Usagef("specify --strict or --no-warnings, not both")
	case !slices.Contains(authoring.Formats, r.format):
		return output.UnknownFormat(r.format, authoring.Formats)
	}
	for _, text := range r.targetArgs {
		target, err := authoring.ParseTarget(text)
		if err != nil {
			return exit.AsUsage(err)
		}
		r.targets = append(r.targets, target)
	}
	r.ref = args[0]
	return nil
}

// lint checks a directory or an image.
func lint(ctx context.Context, s *session.Session, ref string, insecure bool, targets ...authoring.Target) (*authoring.Report, error) {
	source, err := openSource(ctx, s, ref, insecure)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	progress := s.Stderr.Progress()
	defer progress.End()
	showStage(s, progress, "Checking "+ref)
	return authoring.Lint(ctx, source, targets...)
}

// printResult prints a report. Errors and, with --strict, warnings are returned as an error.
func printResult(s *session.Session, report *authoring.Report, req lintRequest) error {
	summary, errs, warnings := report.Summary(), report.Errors(), len(report.Faults)-report.Errors()
	if req.noWarnings {
		report.Faults = slices.DeleteFunc(report.Faults, func(f authoring.Fault) bool { return f.Severity != authoring.Error })
	}
	if err := printReport(s.Stdout, report, req.format); err != nil {
		return err
	}
	switch {
	case errs > 0:
		return errors.New(summary)
	case req.strict && warnings > 0:
		return fmt.Errorf("%s; --strict allows no warnings", summary)
	}
	fmt.Fprintln(s.Stderr, summary)
	return nil
}

// printReport prints a report in a format of package authoring. On a terminal, text is grouped by file.
func printReport(to *output.Terminal, r *authoring.Report, format string) error {
	if to.Live && format == "text" {
		return printFaults(to, r)
	}
	var b bytes.Buffer
	if err := r.Write(&b, format); err != nil {
		return err
	}
	clean := to.Clean(format == "json" || format == "sarif")
	_, err := to.Write([]byte(clean(b.String())))
	return err
}

func printFaults(to *output.Terminal, r *authoring.Report) error {
	lines := output.Lines{Terminal: to}
	for i, f := range r.Faults {
		if i == 0 || f.File != r.Faults[i-1].File {
			if i > 0 {
				lines.Printf("\n")
			}
			lines.Printf("%s\n", to.Paint(output.Bold, output.Line(cmp.Or(f.File, r.Source))))
		}
		style := output.Yellow
		if f.Severity == authoring.Error {
			style = output.Red
		}
		severity := to.Paint(style, fmt.Sprintf("%-7s", f.Severity))
		lines.Printf("  %-8s %s %s %s\n", f.Position(), severity, output.Line(f.Message), to.Paint(output.Faint, f.Rule))
	}
	return lines.Err
}

func printRules(to *output.Terminal) error {
	table := output.Table{Columns: []output.Column{{Name: "rule"}, {Name: "severity", Drop: 1}, {Name: "asks", Least: 20}}}
	for _, name := range slices.Sorted(maps.Keys(authoring.Rules)) {
		rule := authoring.Rules[name]
		table.Rows = append(table.Rows, []string{name, string(rule.Severity), rule.Asks})
	}
	return to.Print(table, output.Options{})
}
