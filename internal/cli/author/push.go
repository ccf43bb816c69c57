package author

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/operator-catalogs/catalogd/internal/authoring"
	"github.com/operator-catalogs/catalogd/internal/catalogimage"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/migrate"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
)

type pushRequest struct {
	dir, image string
	format     string
	dryRun     string
	force      bool
	insecure   bool
	olmV0      bool
}

// pushed is the result of push, as -o json prints it.
type pushed struct {
	Image     string `json:"image"`     // with its tag
	Digest    string `json:"digest"`    // of the index
	Reference string `json:"reference"` // with the digest
	DryRun    bool   `json:"dryRun,omitempty"`

	tag     name.Tag
	refused bool // whether catalogd would reject the image
	bundle  bool // whether it is a bundle instead of a catalog
}

func newPushCommand(s *session.Session) *cobra.Command {
	var req pushRequest
	cmd := &cobra.Command{
		Use:   "push DIR IMAGE",
		Short: "Build a catalog image from a directory and push it",
		Long: `Build a catalog image from a directory or file with a file-based catalog, and push it. A catalog
with errors is not pushed; the errors are listed with file and line. kubectl catalog lint DIR also
lists warnings.

The image is reproducible: the same files give the same digest, whatever their times, modes and
owners. Its creation time is 1970, or SOURCE_DATE_EPOCH. The directory .git is skipped. The command
prints the image with its digest.

The image is an index for amd64, arm64, ppc64le and s390x. Its only layer has the catalog at
/configs, and no program. OLM v0 from 0.33 on can run it nevertheless: --olm-v0 prints the
CatalogSource of OLM v0 for it.

The credentials are those of docker login. Plain HTTP is allowed for registries on loopback
addresses.`,
		Example: `  kubectl catalog push config/samples/catalog/configs 127.0.0.1:5005/catalogd/mine:latest
  kubectl catalog push my-catalog quay.io/example/catalog:v1 --dry-run=client
  kubectl catalog push my-catalog quay.io/example/catalog:v1 -o json
  kubectl catalog push my-catalog quay.io/example/catalog:v1 --olm-v0 | kubectl apply -n olm -f -`,
		ValidArgsFunction: completePath,
	}
	req.register(cmd)
	cmd.Flags().BoolVar(&req.force, "force", false, "push a catalog despite its errors")
	cmd.Flags().BoolVar(&req.olmV0, "olm-v0", false, "print a CatalogSource of OLM v0 with the image, without a namespace")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := req.parse(cmd, args); err != nil {
			return err
		}
		result, err := push(cmd.Context(), s, req)
		if err != nil {
			return err
		}
		if req.olmV0 {
			return result.printForOLMv0(s)
		}
		return result.report(s, req.format)
	}
	return cmd
}

// register adds the flags of all commands that push.
func (r *pushRequest) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&r.format, "output", "o", "", "`format`: json")
	flags.StringVar(&r.dryRun, "dry-run", "none", "none, or client: print the digest without pushing")
	flags.BoolVar(&r.insecure, "insecure", false, "allow plain HTTP and untrusted certificates")
	flags.Lookup("dry-run").NoOptDefVal = "client"
	lookup.CompleteValues(cmd, "output", "json")
	lookup.CompleteValues(cmd, "dry-run", "none", "client")
}

func (r *pushRequest) parse(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) > 2:
		return tooMany(args[2:], "specify one directory or file, and one image")
	case len(args) < 2:
		return exit.Usagef("specify a directory and an image: %s DIR IMAGE", cmd.CommandPath())
	case !authoring.IsPath(args[0]) && authoring.IsPath(args[1]):
		return exit.Usagef("the directory comes first: %s %s %s", cmd.CommandPath(), args[1], args[0])
	case r.format != "" && r.olmV0:
		return exit.Usagef("specify --output or --olm-v0, not both")
	case r.format != "" && r.format != "json":
		return output.UnknownFormat(r.format, []string{"json"})
	case r.dryRun == "server":
		return exit.Usagef("--dry-run=server is not supported by registries: use --dry-run=client")
	case r.dryRun != "none" && r.dryRun != "client":
		return exit.Usagef("invalid value %q of --dry-run; valid values are none, client", r.dryRun)
	}
	r.dir, r.image = args[0], args[1]
	return nil
}

func push(ctx context.Context, s *session.Session, req pushRequest) (*pushed, error) {
	if _, err := authoring.ParseTag(req.image, authoring.Options{Insecure: req.insecure}); err != nil {
		return nil, referenceError(err)
	}
	refused, err := checkBeforePush(ctx, s, req)
	if err != nil {
		return nil, err
	}
	result, err := pushIndex(ctx, s, req, catalogimage.Build)
	if err == nil {
		result.refused = refused
	}
	return result, err
}

// pushIndex builds an image from a directory and pushes it, unless it is a dry run.
func pushIndex(ctx context.Context, s *session.Session, req pushRequest, build func(dir string) (v1.ImageIndex, error)) (*pushed, error) {
	progress := s.Stderr.Progress()
	defer progress.End()
	access := authoring.Options{
		Insecure: req.insecure, UserAgent: s.UserAgent(), Progress: transferProgress(progress, "Pushing "+req.image),
	}
	tag, err := authoring.ParseTag(req.image, access)
	if err != nil {
		return nil, referenceError(err)
	}
	showStage(s, progress, "Packing "+req.dir)
	index, err := build(req.dir)
	if err != nil {
		return nil, err
	}
	digest, err := index.Digest()
	if err != nil {
		return nil, fmt.Errorf("computing the digest: %w", err)
	}
	if req.dryRun == "none" {
		if err := authoring.Push(ctx, index, tag, access); err != nil {
			return nil, err
		}
	}
	reference := tag.Context().Digest(digest.String()).String()
	return &pushed{Image: tag.String(), Digest: digest.String(), Reference: reference, DryRun: req.dryRun == "client", tag: tag}, nil
}

// checkBeforePush lints the directory. A catalog with errors is refused without --force. It reports whether catalogd
// would reject the image.
func checkBeforePush(ctx context.Context, s *session.Session, req pushRequest) (refused bool, err error) {
	if !authoring.IsPath(req.dir) {
		return false, exit.NotFoundf("directory or file %s not found", req.dir)
	}
	report, err := lint(ctx, s, req.dir, false)
	if err != nil {
		return false, err
	}
	summary, errs := report.Summary(), report.Errors()
	report.Faults = slices.DeleteFunc(report.Faults, func(f authoring.Fault) bool {
		return f.Severity != authoring.Error && !f.Hides()
	})
	if errs == 0 && len(report.Faults) == 0 {
		return false, nil
	}
	if err := printReport(s.Stderr, report, "text"); err != nil {
		return false, err
	}
	if errs > 0 && !req.force {
		return report.Refused, fmt.Errorf("not pushed: %s; fix the errors, or push anyway with --force", summary)
	}
	s.Stderr.Warnf("%s", summary)
	return report.Refused, nil
}

// report prints the image and, unless catalogd would reject it, the next command.
func (p *pushed) report(s *session.Session, format string) error {
	if format == "json" {
		encoder := json.NewEncoder(s.Stdout)
		encoder.SetIndent("", "  ")
		return encoder.Encode(p)
	}
	if _, err := fmt.Fprintln(s.Stdout, p.Reference); err != nil {
		return err
	}
	switch catalog := migrate.Label(path.Base(p.tag.RepositoryStr())); {
	case p.DryRun:
		fmt.Fprintln(s.Stderr, "not pushed (dry run)")
	case p.bundle:
		fmt.Fprintf(s.Stderr, "to add it to a catalog: kubectl catalog bundle add DIR %s\n", p.tag)
	case !p.refused:
		fmt.Fprintf(s.Stderr, "to add it to a cluster: kubectl catalog add %s %s --wait\n"+
			"if it is already there: kubectl catalog refresh %[1]s --wait\n", catalog, p.tag)
	}
	return nil
}

// printForOLMv0 prints a CatalogSource of OLM v0 for the image.
func (p *pushed) printForOLMv0(s *session.Session) error {
	text, err := yaml.Marshal(catalogSourceOfOLMv0(migrate.Label(path.Base(p.tag.RepositoryStr())), p.tag.String()))
	if err != nil {
		return err
	}
	_, err = s.Stdout.Write(text)
	return err
}

// catalogSourceOfOLMv0 returns a CatalogSource of OLM v0 that runs its own opm on the content of the image, which has no program.
// OLM v0 reads a cache from the image if spec.grpcPodConfig.extractContent.cacheDir is set, which it demanded before 0.33
// (pkg/controller/registry/reconciler/reconciler.go).
func catalogSourceOfOLMv0(name, image string) any {
	return map[string]any{
		"apiVersion": migrate.CatalogSource.GroupVersion().String(),
		"kind":       migrate.CatalogSource.Kind,
		"metadata":   map[string]any{"name": name},
		"spec": map[string]any{
			"sourceType": "grpc",
			"image":      image,
			"grpcPodConfig": map[string]any{
				"securityContextConfig": "restricted",
				"extractContent":        map[string]any{"catalogDir": "/" + catalogimage.ConfigsDir},
			},
			"updateStrategy": map[string]any{"registryPoll": map[string]any{"interval": "15m"}},
		},
	}
}
