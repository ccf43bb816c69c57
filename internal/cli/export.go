package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/operator-catalogs/catalogd/internal/authoring/export"
	"github.com/operator-catalogs/catalogd/internal/cli/content"
	term "github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/fbc"
)

func newExportCmd(e *env) *cobra.Command {
	var output string
	var force bool
	cmd := &cobra.Command{
		Use:   "export CATALOG[@DIGEST] [PACKAGE...] -o DIR|FILE",
		Short: "Write a catalog, or packages of it, as a file-based catalog",
		Long: `Write a catalog, or packages of it, as a file-based catalog, which opm reads and kubectl catalog push makes an image of. All of it is of one
version of the catalog: the one that is served or, as long as catalogd keeps it, that of a digest.

-o DIR is for a new directory, which gets a file PACKAGE/catalog.json for each package and one, catalog.json, for what belongs to none. -o FILE
with the suffix .json, .yaml or .yml is for one file with all; -o json, -o yaml and -o - (JSON) write to standard output.

Blobs stand as they do in the catalog: the order of their keys and the digits of their numbers are kept, and in JSON every byte but white space.`,
		Example: `  kubectl catalog export sample -o sample-catalog
  kubectl catalog export sample skupper-operator -o skupper.yaml
  kubectl catalog export sample skupper-operator -o json`,
		ValidArgsFunction: e.completeExport,
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "`directory or file` to write; json, yaml: standard output")
	cmd.Flags().BoolVar(&force, "force", false, "replace the directory or file, with all that is in it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef("say which catalog: kubectl catalog export CATALOG -o DIR; kubectl catalog list shows those there are")
		}
		if output == "" {
			return usagef("say where to: -o DIR, -o FILE.json, -o FILE.yaml, or -o json for standard output")
		}
		return e.export(cmd.Context(), args[0], args[1:], output, force)
	}
	return cmd
}

// completeExport completes the catalog, and behind it packages of it.
func (e *env) completeExport(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return e.completeCatalogs(cmd, args, prefix)
	}
	catalog, _ := cutVersion(args[0])
	return complete(cmd, args[1:], prefix, func(ctx context.Context, _ completionScope) ([]cobra.Completion, error) {
		return e.packageNames(ctx, completionScope{catalog: catalog})
	})
}

func (e *env) export(ctx context.Context, ref string, packages []string, output string, force bool) error {
	catalog, version := cutVersion(ref)
	service, err := e.service(ctx, catalog)
	if err != nil {
		return err
	}
	if version, err = wholeVersion(ctx, service, catalog, version); err != nil {
		return missing(err, catalog)
	}
	to, err := e.sinkOf(output, force)
	if err != nil {
		return err
	}
	defer to.Abort()
	x := &exporter{env: e, service: service, catalog: catalog, version: version, to: to, progress: e.stderr.Progress(), seen: map[string]bool{}}
	if len(packages) == 0 {
		err = x.all(ctx)
	} else {
		err = x.packages(ctx, packages)
	}
	x.progress.End()
	if err != nil {
		return missing(gone(err, catalog, version), catalog)
	}
	if err := to.Commit(); err != nil {
		return err
	}
	if !isStream(output) {
		fmt.Fprintf(e.stderr, "%s: %s, %s of %s at %s\n", output, counted(len(x.seen), "package", "packages"), counted(x.blobs, "blob", "blobs"), catalog, x.version)
	}
	return nil
}

// isStream tells whether -o means standard output.
func isStream(output string) bool { return output == "-" || output == "json" || output == "yaml" }

// sinkOf returns what writes an export to where -o says. On a terminal nothing in it may mean anything to the terminal.
func (e *env) sinkOf(output string, force bool) (export.Sink, error) {
	if !isStream(output) {
		to, err := export.ToPath(output, force)
		var exists export.ExistsError
		if errors.As(err, &exists) {
			err = usageError{err}
		}
		return to, err
	}
	encode, clean := export.JSON, term.JSON
	if output == "yaml" {
		encode, clean = export.YAML, term.Text
	}
	return export.ToWriter(e.stdout, func(blob []byte) ([]byte, error) {
		text, err := encode(blob)
		if err == nil && e.stdout.Live {
			text = []byte(clean(string(text)))
		}
		return text, err
	}), nil
}

// cutVersion parts CATALOG@VERSION. A version begins with the digest.
func cutVersion(ref string) (catalog, version string) {
	catalog, version, _ = strings.Cut(ref, "@")
	return catalog, version
}

// shortVersion matches the first digits of a digest, as tables show them.
var shortVersion = regexp.MustCompile(`^(?:sha256:)?([0-9a-f]{8,63})$`)

// wholeVersion is the version that is meant by the first digits of its digest. What else is kept cannot be listed, so it is the one that is served.
func wholeVersion(ctx context.Context, s *content.Service, catalog, version string) (string, error) {
	short := shortVersion.FindStringSubmatch(version)
	if short == nil {
		return version, nil
	}
	served, err := s.Version(ctx, catalog)
	if err != nil || strings.HasPrefix(served, "sha256:"+short[1]) {
		return served, err
	}
	return "", notFoundf("catalog %q is at %s now, not at %s: name another version by its whole digest, which refresh --wait tells, and the events below kubectl catalog describe %s",
		catalog, shortDigest(served), short[1], catalog)
}

// gone says of a version that is not there what can be done.
func gone(err error, catalog, version string) error {
	if version == "" || !content.IsNotFound(err) {
		return err
	}
	return notFoundf("catalog %q has no version %s: one is kept while it is served and 15 minutes longer", catalog, version)
}

// exporter hands the blobs of one version of a catalog to a sink.
type exporter struct {
	*env
	service          *content.Service
	catalog, version string
	to               export.Sink
	progress         *term.Progress
	seen             map[string]bool
	blobs            int
}

func (x *exporter) all(ctx context.Context) error {
	var info struct{ Bytes int64 }
	if err := x.service.JSON(ctx, "/catalogs/"+url.PathEscape(x.catalog), nil, &info); err != nil {
		return err
	}
	told := int64(0)
	progress := func(read int64) {
		if read-told > 1<<20 {
			told = read
			x.progress.Show("exporting "+x.catalog, fmt.Sprintf("%s of %s", term.Bytes(read), term.Bytes(max(read, info.Bytes))))
		}
	}
	version, err := x.service.Blobs(ctx, x.catalog, x.version, "all", progress, x.put)
	x.version = cmp.Or(version, x.version)
	return err
}

// packages exports some packages. The first tells the version, of which the others then are.
func (x *exporter) packages(ctx context.Context, names []string) error {
	asked := x.version
	for i, name := range names {
		if x.seen[name] {
			continue
		}
		x.progress.Show("exporting "+x.catalog, fmt.Sprintf("package %s (%d of %d)", name, i+1, len(names)))
		version, err := x.one(ctx, name)
		if content.IsNotFound(err) && asked == "" {
			return x.noPackage(ctx, name, x.catalog)
		}
		if content.IsNotFound(err) {
			return notFoundf("catalog %q has no package %q at %s, or no such version any more: one is kept while it is served and 15 minutes longer", x.catalog, name, x.version)
		}
		if err != nil {
			return err
		}
		x.version = cmp.Or(version, x.version)
	}
	return nil
}

// one exports a package, which may be named PACKAGE.CATALOG.
func (x *exporter) one(ctx context.Context, name string) (version string, err error) {
	for _, pkg := range namesMeant(name) {
		if !isMeant(name, pkg, x.catalog) {
			break
		}
		version, err = x.service.Blobs(ctx, x.catalog, x.version, "packages/"+url.PathEscape(pkg), nil, x.put)
		if !content.IsNotFound(err) {
			break
		}
	}
	return version, err
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
