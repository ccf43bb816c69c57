package author

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/operator-catalogs/catalogd/internal/authoring/export"
	"github.com/operator-catalogs/catalogd/internal/authoring/mirror"
	"github.com/operator-catalogs/catalogd/internal/cli/content"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
	"github.com/operator-catalogs/catalogd/internal/subset"
)

// An exportRequest is a parsed command line of export.
type exportRequest struct {
	catalog, version string
	selection        selection
	rules            []subset.Include // of packages; empty: all
	to               string
	force            bool
	images           bool
}

func newExportCommand(s *session.Session) *cobra.Command {
	var req exportRequest
	var more []string
	cmd := &cobra.Command{
		Use:   "export CATALOG[@DIGEST] [PACKAGE[/CHANNEL][@VERSIONS]...] -o DIR|FILE",
		Short: "Export a catalog or a part of it as a file-based catalog",
		Long: `Export a catalog, or some of its packages, channels or versions, as a file-based catalog, which opm reads and kubectl
catalog push makes an image of. The export is consistent: all of it comes from the served version
or, while catalogd keeps it, from the version of a digest.

-o DIR creates a directory with a file PACKAGE/catalog.json for each package, and catalog.json for
blobs without a package. -o FILE with the suffix .json, .yaml or .yml creates one file. -o json, -o
yaml and -o - (JSON) print to standard output.

Blobs are unchanged, but for entries that are left out: the order of keys and the digits of numbers stay.
JSON differs in white space only.

--images lists the images of the bundles and the images that the operators run instead, each once.
kubectl catalog mirror copies them.` + selectionHelp,
		Example: `  kubectl catalog export sample -o sample-catalog
  kubectl catalog export sample skupper-operator/alpha@1.8.0.. mercury-operator@heads -o subset
  kubectl catalog export sample --packages skupper-operator,mercury-operator -o subset
  kubectl catalog export sample skupper-operator -o skupper.yaml
  kubectl catalog export sample skupper-operator -o json
  kubectl catalog export sample skupper-operator --images`,
		ValidArgsFunction: completeExport(s),
	}
	cmd.Flags().StringVarP(&req.to, "output", "o", "", "`directory or file` to create; json, yaml: standard output")
	cmd.Flags().BoolVar(&req.force, "force", false, "replace the directory or file with all its content")
	cmd.Flags().StringArrayVar(&more, "packages", nil, "the same as arguments, separated by commas: `PACKAGE[/CHANNEL][@VERSIONS],...`")
	req.selection.addFlags(cmd)
	cmd.Flags().BoolVar(&req.images, "images", false, "print the images of the bundles to standard output instead")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			args = append(args, splitPackages(more)...)
		}
		if err := req.parse(s, args); err != nil {
			return err
		}
		result, err := exportCatalog(cmd.Context(), s, req)
		if err == nil && !isStream(req.to) {
			fmt.Fprintf(s.Stderr, "%s: %s, %s of %s at %s\n", req.to, output.Counted(len(result.seen), "package", "packages"),
				output.Counted(result.blobs, "blob", "blobs"), req.catalog, result.version)
		}
		return err
	}
	return cmd
}

func (r *exportRequest) parse(s *session.Session, args []string) (err error) {
	if len(args) == 0 {
		return exit.Usagef("specify a catalog: kubectl catalog export CATALOG -o DIR; kubectl catalog list shows all catalogs")
	}
	switch {
	case r.images && r.to != "":
		return exit.Usagef("specify --images or -o, not both: --images prints to standard output")
	case r.images:
		r.to = "-"
	case r.to == "":
		return exit.Usagef("specify the destination: -o DIR, -o FILE.json, -o FILE.yaml, or -o json for standard output")
	}
	if r.rules, err = r.selection.rules(args[1:]); err != nil {
		return err
	}
	r.catalog, r.version, err = lookup.CutVersion(s, args[0])
	return err
}

// completeExport completes the catalog, and then its packages.
func completeExport(s *session.Session) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return lookup.CompleteCatalogs(s)(cmd, args, prefix)
		}
		catalog, _, _ := strings.Cut(args[0], "@")
		return lookup.CompletePackagesOf(cmd, s, catalog, args[1:], prefix)
	}
}

func exportCatalog(ctx context.Context, s *session.Session, req exportRequest) (*exporter, error) {
	service, err := lookup.Service(ctx, s, req.catalog)
	if err != nil {
		return nil, err
	}
	version, err := wholeVersion(ctx, service, req.catalog, req.version)
	if err != nil {
		return nil, session.CatalogError(err, req.catalog)
	}
	to := export.ToWriter(s.Stdout, imageLines())
	if !req.images {
		if to, err = openSink(s.Stdout, req.to, req.force); err != nil {
			return nil, err
		}
	}
	defer to.Abort()
	x := &exporter{
		session: s, service: service, catalog: req.catalog, version: version, to: to,
		progress: s.Stderr.Progress(), seen: map[string]bool{},
	}
	if len(req.rules) == 0 {
		err = x.all(ctx)
	} else {
		err = x.packages(ctx, req.rules)
	}
	x.progress.End()
	if err != nil {
		return nil, session.CatalogError(versionError(err, req.catalog, version), req.catalog)
	}
	return x, to.Commit()
}

// isStream reports whether a destination is standard output.
func isStream(to string) bool { return to == "-" || to == "json" || to == "yaml" }

// openSink opens a destination. On a terminal, harmful characters are replaced.
func openSink(stdout *output.Terminal, destination string, force bool) (*export.Sink, error) {
	if !isStream(destination) {
		to, err := export.ToPath(destination, force)
		if _, exists := errors.AsType[export.ExistsError](err); exists {
			err = exit.AsUsage(err)
		}
		return to, err
	}
	encode := export.JSON
	if destination == "yaml" {
		encode = export.YAML
	}
	clean := stdout.Clean(destination != "yaml")
	return export.ToWriter(stdout, func(blob []byte) ([]byte, error) {
		text, err := encode(blob)
		return []byte(clean(string(text))), err
	}), nil
}

// imageLines returns a function that returns the images of a blob that it did not return before, one a line.
func imageLines() func(blob []byte) ([]byte, error) {
	seen := map[string]bool{"": true}
	return func(blob []byte) (lines []byte, err error) {
		var is struct{ Schema string }
		if err := json.Unmarshal(blob, &is); err != nil || is.Schema != fbc.SchemaBundle {
			return nil, err
		}
		refs, err := mirror.ReferencesOf(blob)
		for _, r := range refs {
			if !seen[r.Image] {
				seen[r.Image] = true
				lines = fmt.Appendln(lines, output.Line(r.Image))
			}
		}
		return lines, err
	}
}

// shortVersion matches the first digits of a digest, as tables show them.
var shortVersion = regexp.MustCompile(`^(?:sha256:)?([0-9a-f]{8,63})$`)

// wholeVersion completes the first digits of a digest. They can only be those of the served version, because others cannot be listed.
func wholeVersion(ctx context.Context, s *content.Service, catalog, version string) (string, error) {
	short := shortVersion.FindStringSubmatch(version)
	if short == nil {
		return version, nil
	}
	served, err := s.Version(ctx, catalog)
	if err != nil || strings.HasPrefix(served, "sha256:"+short[1]) {
		return served, err
	}
	return "", exit.NotFoundf("catalog %q is at %s now, not at %s: specify the full digest of another version; "+
		"refresh --wait and the events of kubectl catalog describe %s show it", catalog, output.ShortDigest(served), short[1], catalog)
}

// versionError explains the error of a version that does not exist.
func versionError(err error, catalog, version string) error {
	if version == "" || !content.IsNotFound(err) {
		return err
	}
	return exit.NotFoundf("version %s of catalog %q not found: catalogd keeps a version for 15 minutes after it was replaced",
		version, catalog)
}

// An exporter copies the blobs of one version of a catalog to a sink.
type exporter struct {
	session          *session.Session
	service          *content.Service
	catalog, version string
	to               *export.Sink
	progress         *output.Progress
	seen             map[string]bool // packages
	blobs            int
}

func (x *exporter) all(ctx context.Context) error {
	var info struct{ Bytes int64 }
	if err := x.service.JSON(ctx, "/catalogs/"+url.PathEscape(x.catalog), nil, &info); err != nil {
		return err
	}
	shown := int64(0)
	progress := func(read int64) {
		if read-shown > 1<<20 {
			shown = read
			x.show(fmt.Sprintf("%s of %s", output.Bytes(read), output.Bytes(max(read, info.Bytes))))
		}
	}
	version, err := x.service.Blobs(ctx, x.catalog, x.version, "all", progress, x.put)
	x.version = cmp.Or(version, x.version)
	return err
}

func (x *exporter) show(detail string) { x.progress.Show("exporting "+x.catalog, detail) }

// packages exports some packages. Without a requested version, all are of the version of the first.
func (x *exporter) packages(ctx context.Context, rules []subset.Include) error {
	requested := x.version
	names, of := packagesOf(rules)
	for i, name := range names {
		x.show(fmt.Sprintf("package %s (%d of %d)", name, i+1, len(names)))
		version, err := x.one(ctx, name, of[name])
		if content.IsNotFound(err) && requested == "" {
			return lookup.NoPackage(ctx, x.session, name, x.catalog)
		}
		if content.IsNotFound(err) {
			return exit.NotFoundf("package %q not found in catalog %q at %s, or the version is gone: "+
				"catalogd keeps it for 15 minutes after it was replaced", name, x.catalog, x.version)
		}
		if err != nil {
			return err
		}
		x.version = cmp.Or(version, x.version)
	}
	return nil
}

// one exports what rules select of a package, which may be named PACKAGE.CATALOG.
func (x *exporter) one(ctx context.Context, name string, rules []subset.Include) (version string, err error) {
	for _, pkg := range lookup.PossibleNames(name) {
		if !lookup.Matches(name, pkg, x.catalog) {
			break
		}
		var blobs []scan.Blob
		put := x.put
		part := !slices.ContainsFunc(rules, subset.Include.IsWhole) || rules[0].DefaultChannel != ""
		if part {
			put = func(text []byte) error {
				b, err := scan.ParseBlob(bytes.Clone(text))
				blobs = append(blobs, b)
				return err
			}
		}
		version, err = x.service.Blobs(ctx, x.catalog, x.version, "packages/"+url.PathEscape(pkg), nil, put)
		if err == nil && part {
			err = x.putPart(pkg, rules, blobs)
		}
		if !content.IsNotFound(err) {
			break
		}
	}
	return version, err
}

// putPart exports what rules select of the blobs of a package.
func (x *exporter) putPart(pkg string, rules []subset.Include, blobs []scan.Blob) error {
	rules = slices.Clone(rules)
	for i := range rules {
		rules[i].Package = pkg
	}
	kept, report, err := subset.Filter{Include: rules}.Apply(blobs)
	fault, isFault := errors.AsType[*subset.Error](err)
	switch {
	case isFault && len(fault.Unmatched) > 0:
		return exit.NotFoundf("%s not found in catalog %q", fault.Unmatched[0], x.catalog)
	case err != nil:
		return selectionError(err)
	case len(report.Unmatched) > 0:
		return exit.NotFoundf("%s not found in catalog %q", report.Unmatched[0], x.catalog)
	case len(report.Unreadable) > 0:
		return fmt.Errorf("package %q cannot be read: %s; export it as a whole", pkg, report.Unreadable[0].Reason)
	}
	for _, b := range kept {
		if err := x.put(b.JSON); err != nil {
			return err
		}
	}
	return nil
}

func (x *exporter) put(blob []byte) error {
	var is struct{ Schema, Package, Name string }
	if err := json.Unmarshal(blob, &is); err != nil {
		return fmt.Errorf("reading a blob of catalog %q: %w", x.catalog, err)
	}
	pkg, _ := fbc.PackageOf(is.Schema, is.Package, is.Name)
	if pkg != "" {
		x.seen[pkg] = true
	}
	x.blobs++
	if err := x.to.Put(pkg, blob); err != nil {
		return fmt.Errorf("writing the %s %q of package %q: %w", is.Schema, is.Name, pkg, err)
	}
	return nil
}
