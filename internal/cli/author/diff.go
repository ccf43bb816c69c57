package author

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/operator-catalogs/catalogd/internal/authoring"
	"github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/cli/content"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
	"github.com/operator-catalogs/catalogd/internal/diff"
)

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
	return diff.Compare(ctx, a, b, packages, maxLoads)
}

// maxLoads limits concurrent loads. Loads mostly wait for the network.
const maxLoads = 8

// hasPackage reports whether a catalog has a package that is named name, which may be PACKAGE.CATALOG.
func hasPackage(c diff.Catalog, name, pkg string) bool {
	catalog, _, _ := strings.Cut(c.Name, "@")
	_, ok := c.Packages[pkg]
	return ok && lookup.Matches(name, pkg, catalog[strings.LastIndex(catalog, "/")+1:])
}

// catalogRef matches catalogs of the cluster, as opposed to images and paths. A name with dots needs its type.
var catalogRef = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]*[a-z0-9])?|(catalogsources?|catd|clustercatalogs?)(\.[a-z0-9.]+)?/[a-z0-9.-]+)` +
	`(@(sha256:)?[0-9a-f]+(-[0-9a-f]+)?)?$`)

// outlineOf reads the outline of a catalog of the cluster, an image, a directory or a file. free releases its resources.
func outlineOf(ctx context.Context, s *session.Session, ref string, insecure bool) (o diff.Catalog, free func() error, err error) {
	if catalogRef.MatchString(ref) {
		o, err = servedOutline(ctx, s, ref)
		if _, statErr := os.Stat(ref); err != nil && statErr == nil {
			err = fmt.Errorf("%w; for the local file or directory, use ./%s", err, ref)
		}
		return o, func() error { return nil }, err
	}
	source, err := openSource(ctx, s, ref, insecure)
	if err != nil {
		return diff.Catalog{}, nil, err
	}
	o, err = authoring.Outline(ctx, source)
	o.Name = ref
	if err != nil {
		return diff.Catalog{}, nil, fmt.Errorf("%s: %w", ref, errors.Join(err, source.Close()))
	}
	return o, source.Close, nil
}

// servedOutline reads the hashes of all packages from the content service.
func servedOutline(ctx context.Context, s *session.Session, ref string) (diff.Catalog, error) {
	catalog, version, err := lookup.CutVersion(s, ref)
	if err != nil {
		return diff.Catalog{}, err
	}
	service, err := lookup.Service(ctx, s, catalog)
	if err != nil {
		return diff.Catalog{}, err
	}
	o := diff.Catalog{Name: ref, Packages: map[string]diff.Package{}}
	if version == "" {
		version, err = service.Version(ctx, catalog)
	} else {
		version, err = wholeVersion(ctx, service, catalog, version)
	}
	if err != nil {
		return o, session.CatalogError(err, catalog)
	}
	const known = `{ catalogs { digest invalidPackages { name reason hash } } }`
	var info struct {
		Catalogs []struct {
			Digest          string
			InvalidPackages []struct{ Name, Reason, Hash string }
		}
	}
	if err := service.Query(ctx, catalog, version, known, nil, &info); err != nil {
		return o, session.CatalogError(versionError(diffError(err), catalog, version), catalog)
	}
	for _, c := range info.Catalogs {
		o.Digest = c.Digest
		for _, p := range c.InvalidPackages {
			load := func(context.Context) (*diff.Details, error) { return &diff.Details{Invalid: p.Reason}, nil }
			o.Packages[p.Name] = diff.Package{Hash: p.Hash, Load: load}
		}
	}
	const query = `query($after: String) { packages(first: 100, after: $after) { nodes { name hash } pageInfo { hasNextPage endCursor } } }`
	packages, err := content.All[struct{ Name, Hash string }](ctx, service, catalog, version, query, nil)
	for _, p := range packages {
		load := func(ctx context.Context) (*diff.Details, error) {
			return servedDetails(ctx, service, catalog, version, p.Name)
		}
		o.Packages[p.Name] = diff.Package{Hash: p.Hash, Load: load}
	}
	return o, err
}

// diffError explains the error of a content service that does not know hashes.
func diffError(err error) error {
	if strings.Contains(err.Error(), `Cannot query field "hash"`) {
		return fmt.Errorf("the server does not support diff (needs v0.2 or later); "+
			"use kubectl catalog export and diff the directories (%w)", err)
	}
	return err
}

func servedDetails(ctx context.Context, s *content.Service, catalog, version, pkg string) (*diff.Details, error) {
	const inPackage = `query($p: String!) { package(name: $p) { defaultChannel { name } deprecation { message }
		channels { name hash entries { name replaces skips skipRange } deprecation { message } } } }`
	var is struct {
		Package struct {
			DefaultChannel content.Named
			Deprecation    *content.Deprecation
			Channels       []struct {
				Name, Hash  string
				Entries     []channel.Entry
				Deprecation *content.Deprecation
			}
		}
	}
	if err := s.Query(ctx, catalog, version, inPackage, map[string]any{"p": pkg}, &is); err != nil {
		return nil, err
	}
	d := diff.NewDetails()
	d.DefaultChannel = is.Package.DefaultChannel.Name
	deprecate(d, diff.Reference{Kind: "package"}, is.Package.Deprecation)
	for _, c := range is.Package.Channels {
		d.Channels[c.Name] = diff.NewChannel(c.Hash, c.Entries)
		deprecate(d, diff.Reference{Kind: "channel", Name: c.Name}, c.Deprecation)
	}
	const ofBundles = `query($p: String!, $after: String) { bundles(filter: { package: $p }, first: 100, after: $after) {
		nodes { name hash version deprecation { message } } pageInfo { hasNextPage endCursor } } }`
	type bundle struct {
		Name, Hash, Version string
		Deprecation         *content.Deprecation
	}
	bundles, err := content.All[bundle](ctx, s, catalog, version, ofBundles, map[string]any{"p": pkg})
	for _, b := range bundles {
		d.Bundles[b.Name] = diff.Bundle{Hash: b.Hash, Version: b.Version}
		deprecate(d, diff.Reference{Kind: "bundle", Name: b.Name}, b.Deprecation)
	}
	return d, err
}

func deprecate(d *diff.Details, of diff.Reference, by *content.Deprecation) {
	if by != nil {
		d.Deprecations[of] = by.Message
	}
}
