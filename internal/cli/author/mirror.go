package author

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/operator-catalogs/catalogd/internal/authoring"
	"github.com/operator-catalogs/catalogd/internal/authoring/mirror"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
	"github.com/operator-catalogs/catalogd/internal/subset"
)

// mirrorRequest is a parsed command line of mirror.
type mirrorRequest struct {
	catalog   string   // or directory, file or image
	defaults  []string // PACKAGE=CHANNEL
	all       bool
	closure   bool // with dependencies
	from      string
	to        string
	name      string
	dir       string // of the manifests; "": standard output
	jobs      int
	dryRun    bool
	force     bool
	insecure  bool
	allowMiss bool

	toArchive   bool
	rules       []subset.Include
	destination *mirror.Destination // nil: an archive, or none
	as, tag     string              // of the catalog
}

func newMirrorCommand(s *session.Session) *cobra.Command {
	var req mirrorRequest
	cmd := &cobra.Command{
		Use:   "mirror CATALOG|DIR|FILE|IMAGE PACKAGE[/CHANNEL][@VERSIONS]... --to REGISTRY/PREFIX|ARCHIVE.tar",
		Short: "Copy packages of a catalog and all their images to another registry",
		Long: `Copy packages of a catalog, the images of their bundles and the images that their operators run to
another registry, or to an archive for a network without access. The catalog is one of the cluster, a
path that begins with ./ or /, or an image.

Packages are selected as ` + subset.Syntax + `

--with-dependencies adds what the bundles require and the selection lacks: of the package that has it,
the highest version in the default channel. It lists what was added and what nothing provides.

Images keep their digests. They are copied for all architectures, with their signatures and other
artifacts: tags of cosign, and referrers of OCI. The image HOST/PATH is copied to PREFIX/HOST/PATH; "_"
replaces the ":" before a port. Images that bundles name by digest get a tag, mirrored-DIGEST, because
registries may remove untagged images. Images that the target has are not copied again, so repeat an
interrupted or failed command to continue it.

The catalog is pushed to PREFIX/NAME:TAG once all images are there. It is a new image, so a signature
of the original does not apply: sign it again.

The command prints the manifests that make clusters use the mirror: a CatalogSource, a ClusterCatalog, a CatalogSource
of OLM v0, an ImageDigestMirrorSet and an ImageTagMirrorSet of OpenShift, and a registries.conf for
container runtimes and for catalogd's --registries-conf. -o DIR writes them to files.

An archive is an OCI image layout in a tar. Until it is complete, its name ends with .mirror-partial.`,
		Example: `  kubectl catalog mirror operatorhubio skupper-operator --to registry.example/mirror --dry-run
  kubectl catalog mirror quay.io/operatorhubio/catalog:latest skupper-operator@heads \
    --with-dependencies --to registry.example/mirror -o manifests
  kubectl catalog mirror ./my-catalog skupper-operator/stable@1.8.0.. --to mirror.tar
  kubectl catalog mirror --from mirror.tar --to registry.example/mirror -o manifests`,
		ValidArgsFunction: completeExport(s),
	}
	flags := cmd.Flags()
	flags.StringVar(&req.to, "to", "", "`destination` as REGISTRY/PREFIX, or a file that ends with .tar")
	flags.StringVar(&req.from, "from", "", "copy from this `archive`, instead of from a catalog")
	flags.BoolVar(&req.all, "all", false, "copy all packages of the catalog")
	flags.BoolVar(&req.closure, "with-dependencies", false, "also copy what the bundles require")
	flags.StringSliceVar(&req.defaults, "default-channel", nil, "default channel, as `PACKAGE=CHANNEL`, if the selection lacks that of the catalog")
	flags.StringVar(&req.name, "name", "", "name of the catalog at the destination, as `NAME[:TAG]`; default: those of the source, and latest")
	flags.StringVarP(&req.dir, "output", "o", "", "write the manifests to this `directory`")
	flags.IntVar(&req.jobs, "jobs", 8, "`number` of concurrent transfers")
	flags.BoolVar(&req.dryRun, "dry-run", false, "list the images with their sizes, and copy nothing")
	flags.BoolVar(&req.force, "force", false, "replace an existing archive, and mirror a catalog that has errors")
	flags.BoolVar(&req.allowMiss, "allow-missing", false, "push the catalog even if images could not be copied")
	flags.BoolVar(&req.insecure, "insecure", false, "allow plain HTTP and untrusted certificates")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := req.parse(s, args); err != nil {
			return err
		}
		if req.from != "" {
			return mirrorArchive(cmd.Context(), s, req)
		}
		return mirrorCatalog(cmd.Context(), s, req)
	}
	return cmd
}

func (r *mirrorRequest) parse(s *session.Session, args []string) (err error) {
	r.toArchive = strings.HasSuffix(r.to, ".tar")
	check := r.checkCatalog
	if r.from != "" {
		check = r.checkFrom
	}
	if err := check(args); err != nil {
		return err
	}
	switch {
	case r.to == "" && !r.dryRun:
		return exit.Usagef("specify the destination: --to REGISTRY/PREFIX, or --to ARCHIVE.tar")
	case r.jobs < 1:
		return exit.Usagef("--jobs must be at least 1")
	}
	if r.to != "" && !r.toArchive {
		to, err := mirror.ParseDestination(r.to, r.access(s).Name()...)
		if err != nil {
			return exit.AsUsage(fmt.Errorf("--to: %w", err))
		}
		r.destination = &to
	}
	if r.from != "" {
		return nil
	}
	r.catalog = args[0]
	if r.rules, err = subset.Parse(args[1:]); err == nil {
		err = subset.SetDefaultChannels(r.rules, r.defaults)
	}
	if err != nil {
		return exit.AsUsage(err)
	}
	return r.parseName(s)
}

// checkFrom checks a command line with --from.
func (r *mirrorRequest) checkFrom(args []string) error {
	switch {
	case len(args) > 0:
		return tooMany(args, "--from copies all of an archive")
	case r.all || r.closure || r.name != "" || len(r.defaults) > 0:
		return exit.Usagef("--from copies the catalog of the archive: --all, --name, --with-dependencies and --default-channel do not apply")
	case r.to == "" || r.toArchive:
		return exit.Usagef("specify the registry to copy the archive to: --to REGISTRY/PREFIX")
	}
	return nil
}

// checkCatalog checks a command line with a catalog.
func (r *mirrorRequest) checkCatalog(args []string) error {
	switch {
	case len(args) == 0:
		return exit.Usagef("specify a catalog, its packages and the destination: kubectl catalog mirror CATALOG PACKAGE... --to REGISTRY/PREFIX")
	case len(args) == 1 && !r.all:
		return exit.Usagef("specify the packages to copy, or --all")
	case len(args) > 1 && r.all:
		return exit.Usagef("specify packages or --all, not both")
	case r.toArchive && r.dir != "":
		return exit.Usagef("-o does not apply to archives: mirror --from %s writes the manifests", r.to)
	}
	return nil
}

// parseName sets the name and the tag of the catalog at the destination.
func (r *mirrorRequest) parseName(s *session.Session) error {
	ref := r.name
	switch {
	case ref != "":
	case catalogRef.MatchString(r.catalog):
		catalog, _, err := lookup.CutVersion(s, r.catalog)
		if err != nil {
			return err
		}
		ref = catalog
	case authoring.IsPath(r.catalog):
		at, err := filepath.Abs(r.catalog)
		if err != nil {
			return err
		}
		ref = strings.ToLower(strings.TrimSuffix(filepath.Base(at), filepath.Ext(at)))
	default:
		ref = path.Base(strings.ToLower(r.catalog))
		ref, _, _ = strings.Cut(ref, "@")
	}
	as, tag, hasTag := strings.Cut(ref, ":")
	if !hasTag {
		tag = "latest"
	}
	if !mirror.ValidName(as, tag) {
		return exit.Usagef("%q is not a valid name of a catalog image: specify --name NAME[:TAG]", ref)
	}
	r.as, r.tag = as, tag
	return nil
}

func (r *mirrorRequest) access(s *session.Session) authoring.Options {
	return authoring.Options{Insecure: r.insecure, UserAgent: s.UserAgent()}
}

// options returns the options of a copy whose progress is shown.
func (r *mirrorRequest) options(s *session.Session, progress *output.Progress) mirror.Options {
	rate := output.NewRate()
	return mirror.Options{
		Remote: r.access(s).Remote(), Jobs: r.jobs,
		Progress: func(p mirror.Progress) {
			count := fmt.Sprintf("%d of %s", p.Images, output.Counted(p.AllImages, "image", "images"))
			if p.Planning {
				progress.Show("Resolving", count)
				return
			}
			detail := count + ", " + rate.Progress(p.Bytes, p.AllBytes)
			if left := p.Left(); left > 0 {
				detail += ", " + left.Round(time.Second).String() + " left"
			}
			progress.Show("Copying", detail)
		},
	}
}

// mirrorArchive copies an archive to a registry.
func mirrorArchive(ctx context.Context, s *session.Session, req mirrorRequest) (err error) {
	archive, err := mirror.OpenArchive(req.from)
	if errors.Is(err, fs.ErrNotExist) {
		return exit.AsNotFound(err)
	}
	if err != nil {
		return err
	}
	defer archive.Close()
	req.as, req.tag = archive.Catalog()
	progress := s.Stderr.Progress()
	copier, err := mirror.FromArchive(archive, *req.destination, req.options(s, progress))
	if err != nil {
		return err
	}
	m := &mirroring{s: s, req: req, copier: copier, progress: progress, images: archive.Images()}
	defer func() { err = errors.Join(err, copier.Close()) }()
	if done, err := m.copy(ctx); err != nil || done {
		return err
	}
	if err := copier.PutCatalog(ctx, req.as, req.tag, nil); err != nil {
		return err
	}
	return m.printManifests()
}

// mirrorCatalog copies a part of a catalog to a registry or an archive.
func mirrorCatalog(ctx context.Context, s *session.Session, req mirrorRequest) (err error) {
	temp, err := os.MkdirTemp("", "kubectl-catalog-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	part, err := selectPart(ctx, s, req, temp)
	if err != nil {
		return err
	}
	m := &mirroring{s: s, req: req, progress: s.Stderr.Progress(), images: part.images}
	options := req.options(s, m.progress)
	var archive *mirror.ArchiveWriter
	switch {
	case req.destination == nil && !req.dryRun:
		if archive, err = openArchive(ctx, s, req); err != nil {
			return err
		}
		defer archive.Close()
		m.copier, err = mirror.ToArchive(archive, options)
	default:
		m.copier, err = mirror.ToRegistry(req.destination, options)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.copier.Close()) }()
	if done, err := m.copy(ctx); err != nil || done {
		return err
	}
	if err := m.putCatalog(ctx, part.dir); err != nil {
		return err
	}
	if archive == nil {
		return m.printManifests()
	}
	if err := archive.Commit(); err != nil {
		return err
	}
	fmt.Fprintf(s.Stderr, "%s is complete; to copy it to a registry: kubectl catalog mirror --from %s --to REGISTRY/PREFIX\n",
		req.to, filepath.Base(req.to))
	return nil
}

func openArchive(ctx context.Context, s *session.Session, req mirrorRequest) (*mirror.ArchiveWriter, error) {
	archive, err := mirror.CreateArchive(ctx, req.to, req.force)
	if errors.Is(err, fs.ErrExist) {
		return nil, exit.Usagef("%s already exists: specify another archive, or --force to replace it", req.to)
	}
	if err != nil {
		return nil, err
	}
	if blobs, bytes := archive.Resumed(); blobs > 0 {
		fmt.Fprintf(s.Stderr, "continuing an interrupted archive of %s\n", output.Bytes(bytes))
	}
	return archive, nil
}
