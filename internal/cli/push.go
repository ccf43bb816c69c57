package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/spf13/cobra"

	local "github.com/operator-catalogs/catalogd/internal/authoring"
	"github.com/operator-catalogs/catalogd/internal/catalogimage"
	olmv0 "github.com/operator-catalogs/catalogd/internal/cli/migrate"
	term "github.com/operator-catalogs/catalogd/internal/cli/output"
)

type pushOptions struct {
	output   string
	dryRun   string
	force    bool
	insecure bool
}

// pushed is what -o json tells of a push.
type pushed struct {
	Image     string `json:"image"`     // by tag, as it was given
	Digest    string `json:"digest"`    // of the index
	Reference string `json:"reference"` // by digest
	DryRun    bool   `json:"dryRun,omitempty"`
}

func newPushCmd(e *env) *cobra.Command {
	var opts pushOptions
	cmd := &cobra.Command{
		Use:   "push DIR IMAGE",
		Short: "Make a catalog image of a directory, and push it",
		Long: `Make a catalog image of a directory, or a file, with a file-based catalog, and push it. Of a catalog with errors nothing is pushed, but all of
them are listed, with file and line; kubectl catalog lint DIR lists warnings, too.

The image is reproducible: the same files give the same digest, whatever their times, modes and owners are. It was created in 1970, or when
SOURCE_DATE_EPOCH says. What git keeps in .git is left out. The image by digest is printed.

The image is an index for amd64, arm64, ppc64le and s390x, of one layer with the directory at /configs. There is no program in it, so OLM v0, which
runs catalog images, cannot use it; opm generate dockerfile is for that.

The credentials are those of docker login. Registries of loopback addresses may speak plain HTTP.`,
		Example: `  kubectl catalog push config/samples/catalog/configs 127.0.0.1:5005/catalogd/mine:latest
  kubectl catalog push my-catalog quay.io/example/catalog:v1 --dry-run=client
  kubectl catalog push my-catalog quay.io/example/catalog:v1 -o json`,
		ValidArgsFunction: completePath,
	}
	flags := cmd.Flags()
	flags.StringVarP(&opts.output, "output", "o", "", "`format`: json")
	flags.StringVar(&opts.dryRun, "dry-run", "none", "none, or client: tell the digest, and push nothing")
	flags.BoolVar(&opts.force, "force", false, "push a catalog with errors all the same")
	flags.BoolVar(&opts.insecure, "insecure", false, "push by plain HTTP as well, or to a registry whose certificate nobody vouches for")
	flags.Lookup("dry-run").NoOptDefVal = "client" // registries know no other
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]cobra.Completion{"json"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("dry-run", cobra.FixedCompletions([]cobra.Completion{"none", "client"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) > 2:
			return tooMuch(args[2:], "one directory or file to one image")
		case len(args) < 2:
			return usagef("say what to push, and where to: kubectl catalog push DIR IMAGE")
		case !local.IsPath(args[0]) && local.IsPath(args[1]):
			return usagef("what to push comes first: kubectl catalog push %s %s", args[1], args[0])
		case opts.output != "" && opts.output != "json":
			return usagef("there is no format %q: use json", opts.output)
		case opts.dryRun == "server":
			return usagef("--dry-run=server: registries cannot try; --dry-run=client tells the digest")
		case !slices.Contains([]string{"none", "client"}, opts.dryRun):
			return usagef("--dry-run is none or client, not %q", opts.dryRun)
		}
		return e.push(cmd.Context(), args[0], args[1], opts)
	}
	return cmd
}

func (e *env) push(ctx context.Context, dir, image string, opts pushOptions) error {
	progress := e.stderr.Progress()
	access := local.Options{Insecure: opts.insecure, UserAgent: e.userAgent(), Progress: transferred(progress, "Pushing "+image)}
	tag, err := local.ParseTag(image, access)
	if err != nil {
		return badReference(err)
	}
	wouldRefuse, err := e.checkBeforePush(ctx, dir, opts.force)
	if err != nil {
		return err
	}
	defer progress.End()
	e.showLive(progress, "Packing "+dir)
	index, err := catalogimage.Build(dir)
	if err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return fmt.Errorf("computing the digest: %w", err)
	}
	if opts.dryRun == "none" {
		if _, err := local.Push(ctx, index, tag, access); err != nil {
			return err
		}
	}
	progress.End()
	return e.tellPushed(tag, digest.String(), wouldRefuse, opts)
}

// checkBeforePush refuses a catalog with errors, which it lists, unless it is forced to take it. It tells whether catalogd would refuse it.
func (e *env) checkBeforePush(ctx context.Context, dir string, force bool) (wouldRefuse bool, err error) {
	if !local.IsPath(dir) {
		return false, notFoundf("there is no directory or file %s", dir)
	}
	report, err := e.check(ctx, dir, false)
	if err != nil {
		return false, err
	}
	summary := report.Summary()
	errors := report.Errors()
	report.Faults = slices.DeleteFunc(report.Faults, func(f local.Fault) bool { return f.Severity != local.Error && !f.Hides() })
	if errors == 0 && len(report.Faults) == 0 {
		return false, nil
	}
	if err := printReport(e.stderr, report, "text"); err != nil {
		return false, err
	}
	if errors > 0 && !force {
		return report.Refused, fmt.Errorf("nothing is pushed: %s; correct what is listed, or push it all the same with --force", summary)
	}
	fmt.Fprintf(e.stderr, "%s %s\n", e.stderr.Paint(term.Yellow, "warning:"), summary)
	return report.Refused, nil
}

// tellPushed says what was pushed, and what comes next, unless catalogd would refuse it.
func (e *env) tellPushed(tag name.Tag, digest string, wouldRefuse bool, opts pushOptions) error {
	reference := tag.Context().Digest(digest).String()
	dry := opts.dryRun == "client"
	if opts.output == "json" {
		text, err := json.MarshalIndent(pushed{tag.String(), digest, reference, dry}, "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(e.stdout, "%s\n", text)
		return err
	}
	if _, err := fmt.Fprintln(e.stdout, reference); err != nil {
		return err
	}
	switch catalog := olmv0.Label(path.Base(tag.RepositoryStr())); {
	case dry:
		fmt.Fprintln(e.stderr, "nothing is pushed (dry run)")
	case !wouldRefuse:
		fmt.Fprintf(e.stderr, "next, to have a cluster offer it: kubectl catalog add %s %s --wait\nif it is there already: kubectl catalog refresh %[1]s --wait\n", catalog, tag)
	}
	return nil
}
