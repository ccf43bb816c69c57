package author

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/operator-catalogs/catalogd/internal/authoring"
	"github.com/operator-catalogs/catalogd/internal/authoring/export"
	"github.com/operator-catalogs/catalogd/internal/authoring/render"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
)

// renderNote is the part of the help that all commands share which render bundles.
const renderNote = `

Bundles are images, or directories with manifests and metadata. The CSV becomes the property
olm.csv.metadata, which OpenShift 4.17 and later need. --target 4.16 keeps all manifests in the
catalog, as olm.bundle.object, which earlier versions need. Images are pulled 16 at a time and kept
by digest in the cache directory of the user for 30 days. The credentials are those of docker login.`

// bundleFlags are the flags of commands that render bundles.
type bundleFlags struct {
	target   string
	as       string
	pin      bool
	noCache  bool
	insecure bool
}

func (f *bundleFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.target, "target", "", "the `version` of OpenShift that is to read the catalog, such as 4.16 or 4.18")
	flags.StringVar(&f.as, "as", "", "`template` of the image references in the catalog, for bundles that are pulled from elsewhere; it may "+
		"use {{.Package}}, {{.Name}} and {{.Version}}")
	flags.BoolVar(&f.pin, "pin", false, "name bundle images by digest instead of tag")
	flags.BoolVar(&f.noCache, "no-cache", false, "do not use the cache of rendered bundles")
	flags.BoolVar(&f.insecure, "insecure", false, "allow plain HTTP and untrusted certificates")
}

// renderer returns a renderer that shows its progress until end is called.
func (f *bundleFlags) renderer(s *session.Session) (r *render.Renderer, end func(), err error) {
	opts := render.Options{
		Registry: authoring.Options{Insecure: f.insecure, UserAgent: s.UserAgent()},
		Pin:      f.pin,
	}
	if opts.Format, err = formatFor(f.target); err != nil {
		return nil, nil, err
	}
	if f.as != "" {
		if opts.As, err = template.New("--as").Option("missingkey=error").Parse(f.as); err != nil {
			return nil, nil, exit.Usagef("--as is not a template: %v", err)
		}
	}
	if !f.noCache {
		opts.Cache = render.DefaultCache()
	}
	progress := s.Stderr.Progress()
	opts.Progress = func(done, total int) {
		if done < total || s.Stderr.Live {
			progress.Show("rendering bundles", fmt.Sprintf("%d of %d", done, total))
		}
	}
	r, err = render.New(opts)
	return r, progress.End, err
}

// formatFor returns the format that a version of OpenShift needs.
func formatFor(target string) (render.Format, error) {
	if target == "" {
		return render.Metadata, nil
	}
	parsed, err := authoring.ParseTarget(target)
	if err != nil {
		return 0, exit.Usagef("invalid value of --target: %v", err)
	}
	if parsed.BundleObjects() {
		return render.Objects, nil
	}
	return render.Metadata, nil
}

// bundles renders images and directories, in the order of refs.
func bundles(ctx context.Context, s *session.Session, r *render.Renderer, refs []string) (all []*render.Bundle, err error) {
	rendered, err := r.Bundles(ctx, imagesOf(refs))
	if err != nil {
		return nil, err
	}
	for _, ref := range refs {
		if !authoring.IsPath(ref) {
			all, rendered = append(all, rendered[0]), rendered[1:]
			continue
		}
		b, err := r.Directory(ref)
		if err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	for i, b := range all {
		warn(s, refs[i], b)
	}
	return all, nil
}

// warn prints the warnings of a bundle.
func warn(s *session.Session, ref string, b *render.Bundle) {
	for _, warning := range b.Warnings {
		fmt.Fprintf(s.Stderr, "warning: %s: %s\n", output.Line(ref), output.Line(warning))
	}
}

func newRenderCommand(s *session.Session) *cobra.Command {
	var flags bundleFlags
	var to string
	var force bool
	cmd := &cobra.Command{
		Use:   "render REF...",
		Short: "Print bundles and catalogs as a file-based catalog",
		Long: `Print bundles and catalogs as a file-based catalog. REF is an image or a directory of a bundle, or
an image, a directory or a file of a catalog. The blobs of catalogs are unchanged; those in the
legacy SQLite format are converted.` + renderNote + `

-o DIR creates a directory with a file PACKAGE/catalog.json for each package. -o FILE with the suffix
.json, .yaml or .yml creates one file. The default is JSON on standard output.`,
		Example: `  kubectl catalog render quay.io/example/foo-bundle:v1.0.0
  kubectl catalog render quay.io/example/foo-bundle:v1.0.0 quay.io/example/foo-bundle:v1.1.0 -o foo.yaml
  kubectl catalog render ./bundle --as 'quay.io/example/{{.Package}}-bundle:v{{.Version}}'
  kubectl catalog render quay.io/operatorhubio/catalog:latest -o catalog`,
		ValidArgsFunction: completePath,
	}
	flags.register(cmd)
	cmd.Flags().StringVarP(&to, "output", "o", "json", "`directory or file` to create; json, yaml: standard output")
	cmd.Flags().BoolVar(&force, "force", false, "replace the directory or file with all its content")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return exit.Usagef("specify a bundle or a catalog: kubectl catalog render REF")
		}
		r, end, err := flags.renderer(s)
		if err != nil {
			return err
		}
		defer end()
		sink, err := openSink(s.Stdout, to, force)
		if err != nil {
			return err
		}
		defer sink.Abort()
		if err := renderTo(cmd.Context(), s, r, sink, flags.insecure, args); err != nil {
			return err
		}
		end()
		return sink.Commit()
	}
	return cmd
}

// renderTo writes the blobs of bundles and catalogs, in the order of refs. It writes none before all bundles are rendered.
func renderTo(ctx context.Context, s *session.Session, r *render.Renderer, to *export.Sink, insecure bool, refs []string) error {
	rendered, err := renderImages(ctx, r, imagesOf(refs))
	if err != nil {
		return err
	}
	for _, ref := range refs {
		b := rendered[ref]
		if authoring.IsPath(ref) && render.IsDirectory(ref) {
			if b, err = r.Directory(ref); err != nil {
				return err
			}
		}
		if b == nil {
			err = copyCatalog(ctx, s, ref, insecure, to)
		} else {
			warn(s, ref, b)
			err = putBundle(to, b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// imagesOf returns the references that are no paths.
func imagesOf(refs []string) (images []string) {
	for _, ref := range refs {
		if !authoring.IsPath(ref) {
			images = append(images, ref)
		}
	}
	return images
}

// renderImages renders those images that are not of catalogs.
func renderImages(ctx context.Context, r *render.Renderer, images []string) (map[string]*render.Bundle, error) {
	results, err := r.Try(ctx, images)
	if err != nil {
		return nil, err
	}
	rendered := map[string]*render.Bundle{}
	var errs []error
	for ref, result := range results {
		rendered[ref] = result.Bundle
		if other, ok := errors.AsType[*render.NotBundleError](result.Err); !ok || !other.Catalog {
			errs = append(errs, result.Err)
		}
	}
	return rendered, errors.Join(errs...)
}

func putBundle(to *export.Sink, b *render.Bundle) error {
	blob, err := b.Blob()
	if err != nil {
		return err
	}
	return to.Put(b.Package, blob)
}

// copyCatalog writes the blobs of a catalog.
func copyCatalog(ctx context.Context, s *session.Session, ref string, insecure bool, to *export.Sink) (err error) {
	source, err := openSource(ctx, s, ref, insecure)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	blobs, err := source.Blobs(ctx)
	if err != nil {
		return fmt.Errorf("rendering catalog %s: %w", ref, err)
	}
	for blob, err := range blobs {
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		if err := to.Put(blob.Package, blob.JSON); err != nil {
			return err
		}
	}
	return nil
}
