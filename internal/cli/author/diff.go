package author

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/operator-catalogs/catalogd/internal/authoring"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
	"github.com/operator-catalogs/catalogd/internal/diff"
)

// A diffRequest is a parsed command line of diff.
type diffRequest struct {
	from, to string
	packages []string // empty: all
	insecure bool
}

func newDiffCommand(s *session.Session) *cobra.Command {
	var req diffRequest
	var exitCode bool
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Show the differences between two catalogs",
		Long: `Show the differences between two catalogs: packages, channels (with their heads and changed
entries), bundles and deprecations that were added (+), changed (~) or removed (-) from A to B.
Packages that are invalid in B, and therefore not published, are marked (!).

Each argument is a catalog of the cluster (NAME), a version of it (NAME@DIGEST; 8 digits are enough
for the served version; catalogd keeps a version for 15 minutes after it was replaced), an image in
a registry (REGISTRY/NAME:TAG), or a directory or file (./DIR).

With --exit-code, the exit code is 0 without differences and 1 with differences. Failures have other
codes: 2 for an invalid command line, 3 if an argument does not exist, 4 for any other failure.`,
		Example: `  kubectl catalog diff sample ./config/samples/catalog/configs
  kubectl catalog diff sample registry.example.com/catalogs/sample:next
  kubectl catalog diff sample ./my-catalog --package skupper-operator --exit-code`,
		ValidArgsFunction: completeDiff(s),
	}
	format := output.NewUnnamedFormat(cmd)
	flags := cmd.Flags()
	flags.StringSliceVarP(&req.packages, "package", "p", nil, "compare only these `packages`")
	flags.BoolVar(&req.insecure, "insecure", false, "allow plain HTTP and untrusted certificates")
	flags.BoolVar(&exitCode, "exit-code", false, "exit with 1 if there are differences, and with 4 after a failure")
	lookup.CompleteFlags(s, cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := req.parse(args); err != nil {
			return err
		}
		found, err := compare(cmd.Context(), s, req)
		switch {
		case err != nil:
		case format.IsTable():
			err = printDifference(s.Stdout, found)
		default:
			err = format.PrintObject(s.Stdout, "CatalogDifference", "", found)
		}
		if !exitCode {
			return err
		}
		if err == nil && len(found.Packages) > 0 {
			err = exit.Silent(errors.New("the catalogs differ"))
		}
		return exit.AsTrouble(err)
	}
	return cmd
}

// parse reads the arguments and validates the request.
func (r *diffRequest) parse(args []string) error {
	if len(args) > 2 {
		return tooMany(args[2:], "specify two catalogs, and packages with --package")
	}
	if len(args) < 2 {
		return exit.Usagef("specify two catalogs: kubectl catalog diff A B, each a catalog of the cluster, an image, a directory or a file")
	}
	for _, ref := range args {
		if strings.Contains(ref, "://") {
			_, err := authoring.ParseImage(ref, authoring.Options{})
			return referenceError(err)
		}
	}
	r.from, r.to = args[0], args[1]
	return nil
}

// completeDiff completes catalogs, or paths that contain "." or "/".
func completeDiff(s *session.Session) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		switch {
		case len(args) > 1:
			return nil, cobra.ShellCompDirectiveNoFileComp
		case strings.ContainsAny(prefix, "./"):
			return nil, cobra.ShellCompDirectiveDefault
		}
		found, directive := lookup.CompleteCatalogs(s)(cmd, nil, prefix)
		if len(found) == 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return found, directive
	}
}

func compare(ctx context.Context, s *session.Session, req diffRequest) (found *diff.Difference, err error) {
	a, closeA, err := outlineOf(ctx, s, req.from, req.insecure)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeA()) }()
	b, closeB, err := outlineOf(ctx, s, req.to, req.insecure)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeB()) }()
	packages := make([]string, len(req.packages))
	for i, name := range req.packages {
		names := lookup.PossibleNames(name)
		at := slices.IndexFunc(names, func(pkg string) bool { return hasPackage(a, name, pkg) || hasPackage(b, name, pkg) })
		if at < 0 {
			return nil, exit.NotFoundf("package %q not found in %s or %s", name, req.from, req.to)
		}
		packages[i] = names[at]
	}
	return diff.Compare(ctx, a, b, packages)
}

// hasPackage reports whether a catalog has a package that is named name, which may be PACKAGE.CATALOG.
func hasPackage(c diff.Catalog, name, pkg string) bool {
	catalog, _ := lookup.CutVersion(c.Name)
	_, ok := c.Packages[pkg]
	return ok && lookup.Matches(name, pkg, catalog)
}
