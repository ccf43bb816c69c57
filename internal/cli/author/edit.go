package author

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	"github.com/pmezard/go-difflib/difflib"
	"github.com/spf13/cobra"

	"github.com/operator-catalogs/catalogd/internal/authoring"
	"github.com/operator-catalogs/catalogd/internal/authoring/edit"
	"github.com/operator-catalogs/catalogd/internal/authoring/render"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// editNote ends the help of the commands that change a catalog.
const editNote = `

The files are changed in place: comments, the order of keys, unknown fields and numbers stay. Nothing is
written if the result has an error that the catalog did not have (kubectl catalog lint), or if one of
the changes fails. --dry-run prints the differences instead of writing.`

// newPackageCommand returns the command package.
func newPackageCommand(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "package COMMAND",
		Short: "Keep or remove packages of a catalog in files",
		Long:  `Keep or remove packages of a file-based catalog: a directory or a file.`,
	}
	for _, c := range []*cobra.Command{newKeepCommand(s), newRemovePackageCommand(s)} {
		cmd.AddCommand(c)
	}
	return cmd
}

func newKeepCommand(s *session.Session) *cobra.Command {
	var selected selection
	cmd := newEditCommand(s, &cobra.Command{
		Use:   "keep DIR PACKAGE[/CHANNEL][@VERSIONS]...",
		Short: "Remove all other packages, channels and versions",
		Long: `Remove all other packages from a catalog: a directory or a file. Of a package, channels or versions can be
selected. Blobs without a package stay.` + selectionHelp + editNote,
		Example: `  kubectl catalog package keep my-catalog skupper-operator mercury-operator
  kubectl catalog package keep my-catalog skupper-operator/stable@1.8.0.. mercury-operator@heads --dry-run`,
	}, "PACKAGE", func(c *edit.Catalog, args []string) error {
		rules, err := selected.rules(args)
		if err != nil {
			return err
		}
		return selectionError(c.Select(rules...))
	})
	selected.addFlags(cmd)
	return cmd
}

func newRemovePackageCommand(s *session.Session) *cobra.Command {
	return newEditCommand(s, &cobra.Command{
		Use:     "remove DIR PACKAGE...",
		Short:   "Remove packages",
		Long:    `Remove packages from a catalog: a directory or a file.` + editNote,
		Example: `  kubectl catalog package remove my-catalog skupper-operator`,
	}, "PACKAGE", func(c *edit.Catalog, args []string) error { return c.RemovePackages(args...) })
}

// BundleCommands returns the commands below bundle that change a catalog.
func BundleCommands(s *session.Session) []*cobra.Command {
	var pkg string
	var heads bool
	remove := newEditCommand(s, &cobra.Command{
		Use:   "remove DIR BUNDLE...|PACKAGE[/CHANNEL]... --head",
		Short: "Remove bundles from a catalog in files",
		Long: `Remove bundles from a catalog: a directory or a file. Their entries in channels and their deprecations
are removed too. A bundle that replaced a removed one then replaces what that one replaced. skips stay:
they let clusters upgrade that have the removed bundle. A channel without entries is removed, unless it
is the default channel. --head removes the heads of channels, or of all channels of a package.` + editNote,
		Example: `  kubectl catalog bundle remove my-catalog skupper-operator.v1.8.0
  kubectl catalog bundle remove my-catalog skupper-operator/stable-1 --head
  kubectl catalog bundle remove my-catalog skupper-operator.v1.8.0 --dry-run`,
	}, "BUNDLE", func(c *edit.Catalog, args []string) error {
		if heads {
			return removeHeads(c, args)
		}
		return removeBundles(c, pkg, args)
	})
	remove.Flags().BoolVar(&heads, "head", false, "remove the heads of PACKAGE[/CHANNEL]")
	remove.Flags().StringVarP(&pkg, "package", "p", "", "the `package` of the bundles, if several have bundles of that name")
	return []*cobra.Command{newAddCommand(s), remove, newTruncateCommand(s), newImagesCommand(s), newBundleInitCommand(s), newBundlePushCommand(s)}
}

func newTruncateCommand(s *session.Session) *cobra.Command {
	var below, message string
	cmd := newEditCommand(s, &cobra.Command{
		Use:   "truncate DIR PACKAGE",
		Short: "Remove the old bundles of a package in files",
		Long: `Remove the bundles of a package below a version from a catalog: a directory or a file. The lowest
bundle that stays is deprecated, unless --message is empty or it is the head of a channel. It still
replaces what it replaced, so that clusters that have a removed bundle can upgrade.` + editNote,
		Example: `  kubectl catalog bundle truncate my-catalog skupper-operator --below 1.8.0
  kubectl catalog bundle truncate my-catalog skupper-operator --below 1.8.0 --message "" --dry-run`,
	}, "PACKAGE", func(c *edit.Catalog, args []string) error {
		switch {
		case len(args) > 1:
			return tooMany(args[1:], "specify one package")
		case below == "":
			return exit.Usagef("specify the lowest version that stays: --below VERSION")
		}
		if _, err := semver.Parse(below); err != nil {
			return exit.Usagef("--below %q is not a version: %v", below, err)
		}
		return c.Truncate(args[0], below, message)
	})
	flags := cmd.Flags()
	flags.StringVar(&below, "below", "", "remove bundles below this `version`")
	flags.StringVarP(&message, "message", "m", "Upgrade to a newer version.", "the `text` of the deprecation; empty: none")
	return cmd
}

func newImagesCommand(s *session.Session) *cobra.Command {
	var related bool
	cmd := &cobra.Command{
		Use:   "images DIR [PACKAGE...]",
		Short: "List the bundle images of a catalog in files",
		Long: `List the images of the bundles of a catalog: a directory or a file. With --related, the images that the
operators run are listed too: all that a mirror needs. Each image is listed once.`,
		Example: `  kubectl catalog bundle images my-catalog
  kubectl catalog bundle images my-catalog skupper-operator --related`,
		ValidArgsFunction: completePath,
	}
	cmd.Flags().BoolVar(&related, "related", false, "list the related images too")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return exit.Usagef("specify a directory or a file: kubectl catalog bundle images DIR")
		}
		c, err := openCatalog(args[0])
		if err != nil {
			return err
		}
		defer c.Close()
		images, err := c.Images(related, args[1:]...)
		if err != nil {
			return editError(err)
		}
		for _, image := range images {
			if _, err := fmt.Fprintln(s.Stdout, output.Line(image)); err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}

func openCatalog(ref string) (*edit.Catalog, error) {
	if !authoring.IsPath(ref) {
		return nil, exit.AsNotFound(fmt.Errorf("directory or file %s not found", ref))
	}
	return edit.Open(ref)
}

// editError sets the exit code for what the catalog does not have.
func editError(err error) error {
	if _, ok := errors.AsType[*edit.NotFoundError](err); ok {
		return exit.AsNotFound(err)
	}
	return err
}

// removeHeads removes the heads of channels, written PACKAGE/CHANNEL, or of packages.
func removeHeads(c *edit.Catalog, channels []string) error {
	for _, text := range channels {
		pkg, name, _ := strings.Cut(text, "/")
		names, err := c.Heads(pkg, name)
		if err != nil {
			return err
		}
		if err := c.RemoveBundles(pkg, names...); err != nil {
			return err
		}
	}
	return nil
}

func removeBundles(c *edit.Catalog, pkg string, names []string) error {
	byPackage := map[string][]string{}
	for _, name := range names {
		of := pkg
		if of == "" {
			switch found := c.PackagesOf(name); len(found) {
			case 0:
				return &edit.NotFoundError{What: "bundle", Name: name, Where: "in the catalog"}
			case 1:
				of = found[0]
			default:
				return exit.Usagef("packages %s have a bundle %q: specify one with --package", strings.Join(found, ", "), name)
			}
		}
		byPackage[of] = append(byPackage[of], name)
	}
	for _, of := range slices.Sorted(maps.Keys(byPackage)) {
		if err := c.RemoveBundles(of, byPackage[of]...); err != nil {
			return err
		}
	}
	return nil
}

// newDeprecateCommand returns the command deprecate.
func newDeprecateCommand(s *session.Session) *cobra.Command {
	var channel, bundle, message string
	cmd := newEditCommand(s, &cobra.Command{
		Use:   "deprecate DIR PACKAGE",
		Short: "Deprecate a package, a channel or a bundle of a catalog in files",
		Long: `Deprecate a package of a catalog, or with --channel or --bundle a part of it: a directory or a file.
A deprecation that exists gets the new message.` + editNote,
		Example: `  kubectl catalog deprecate my-catalog skupper-operator --message "Use skupper-router."
  kubectl catalog deprecate my-catalog skupper-operator --bundle skupper-operator.v1.8.0 -m "It has CVE-2026-1."`,
	}, "PACKAGE", func(c *edit.Catalog, args []string) error {
		switch {
		case len(args) > 1:
			return tooMany(args[1:], "specify one package")
		case channel != "" && bundle != "":
			return exit.Usagef("specify --channel or --bundle, not both")
		case message == "":
			return exit.Usagef("specify what users should do instead: --message TEXT")
		case channel != "":
			return c.Deprecate(args[0], fbc.SchemaChannel, channel, message)
		case bundle != "":
			return c.Deprecate(args[0], fbc.SchemaBundle, bundle, message)
		}
		return c.Deprecate(args[0], fbc.SchemaPackage, "", message)
	})
	flags := cmd.Flags()
	flags.StringVar(&channel, "channel", "", "deprecate this `channel`")
	flags.StringVar(&bundle, "bundle", "", "deprecate this `bundle`")
	flags.StringVarP(&message, "message", "m", "", "the `text` for users")
	return cmd
}

// newEditCommand returns a command whose first argument is a catalog, and the others are for change.
func newEditCommand(s *session.Session, cmd *cobra.Command, what string, change func(c *edit.Catalog, args []string) error) *cobra.Command {
	var dryRun bool
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print the differences, and write nothing")
	cmd.ValidArgsFunction = completePath
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) < 2 {
			return exit.Usagef("specify a directory or a file, and a %s: %s", what, cmd.UseLine())
		}
		return runEdit(cmd.Context(), s, args[0], dryRun, func(c *edit.Catalog) error { return change(c, args[1:]) })
	}
	lookup.CompleteNoFiles(cmd)
	return cmd
}

// runEdit changes a catalog. If it is a template, its bundles are rendered first.
func runEdit(ctx context.Context, s *session.Session, ref string, dryRun bool, change func(*edit.Catalog) error) error {
	r, end, err := (&bundleFlags{}).renderer(s)
	if err != nil {
		return err
	}
	defer end()
	return runEdits(ctx, s, r, dryRun, catalogChange{ref: ref, change: func(c *edit.Catalog) error {
		if c.IsSemver() {
			return exit.Usagef("%s is a semver template: only bundle add can change it; edit it by hand", ref)
		}
		return change(c)
	}})
}

// catalogChange is a change of a catalog in files.
type catalogChange struct {
	ref        string
	change     func(*edit.Catalog) error
	incomplete bool // the result need not be valid yet
}

// runEdits changes catalogs, unless that causes new errors. r renders the bundles of templates.
func runEdits(ctx context.Context, s *session.Session, r *render.Renderer, dryRun bool, changes ...catalogChange) (err error) {
	var catalogs []*edit.Catalog
	defer func() {
		for _, c := range catalogs {
			err = errors.Join(err, c.Close())
		}
	}()
	for _, change := range changes {
		c, err := openCatalog(change.ref)
		if err != nil {
			return err
		}
		catalogs = append(catalogs, c)
		if err := renderTemplate(ctx, r, c); err != nil {
			return fmt.Errorf("%s: %w", change.ref, err)
		}
		err = change.apply(ctx, c)
		if err != nil && len(changes) > 1 {
			err = fmt.Errorf("%s: %w", change.ref, err)
		}
		if err != nil {
			return err
		}
	}
	var all []edit.Change
	for _, c := range catalogs {
		all = append(all, c.Changes()...)
	}
	if dryRun {
		return printChanges(s.Stdout, all)
	}
	for _, c := range catalogs {
		if err := c.Write(); err != nil {
			return err
		}
	}
	removed := 0
	for _, change := range all {
		if change.After == nil {
			removed++
		}
	}
	fmt.Fprintf(s.Stderr, "%s changed, %d removed\n", output.Counted(len(all)-removed, "file", "files"), removed)
	return nil
}

// apply changes a catalog in memory. It returns an error if the result has errors that the catalog did not have.
func (change catalogChange) apply(ctx context.Context, c *edit.Catalog) error {
	before := c.Clone()
	if err := change.change(c); err != nil || change.incomplete {
		return editError(err)
	}
	packages := c.ChangedPackages()
	added, err := authoring.NewErrors(ctx, before.Blobs(packages), c.Blobs(packages))
	if err != nil || len(added) == 0 {
		return err
	}
	var lines []string
	for _, f := range added {
		lines = append(lines, "  "+output.Line(f.Message)+" ("+f.Rule+")")
	}
	return fmt.Errorf("no file was changed, because the catalog would have new errors:\n%s", strings.Join(slices.Compact(lines), "\n"))
}

// printChanges prints unified differences.
func printChanges(to *output.Terminal, changes []edit.Change) error {
	clean := to.Clean(false)
	for _, c := range changes {
		after := path.Join("b", c.File)
		if c.After == nil {
			after = "/dev/null"
		}
		before := path.Join("a", c.File)
		if c.Before == nil {
			before = "/dev/null"
		}
		text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
			A: linesOf(c.Before), B: linesOf(c.After),
			FromFile: before, ToFile: after, Context: 3,
		})
		if err != nil {
			return err
		}
		if _, err := io.WriteString(to, clean(text)); err != nil {
			return err
		}
	}
	return nil
}

// linesOf returns lines with their newlines.
func linesOf(text []byte) []string {
	lines := strings.SplitAfter(string(text), "\n")
	if last := len(lines) - 1; lines[last] == "" {
		lines = lines[:last]
	}
	return lines
}
