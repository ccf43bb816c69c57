package catalogs

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/authoring"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/kube"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/migrate"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
	"github.com/operator-catalogs/catalogd/internal/cli/status"
)

// An addRequest is the catalog to add.
type addRequest struct {
	kind        string // a type
	spec        specFlags
	caFile      string
	wait        bool
	timeout     time.Duration
	catalog     *status.Catalog
	authorities []byte // content of --ca-file
}

func newAddCommand(s *session.Session) *cobra.Command {
	var req addRequest
	cmd := &cobra.Command{
		Use:   "add NAME IMAGE",
		Short: "Add a catalog",
		Long: `Add a catalog: create a CatalogSource for an image, or with --kind clustercatalog a ClusterCatalog
of OLM v1. catalogd unpacks the image, serves its content and polls for updates.

The name becomes part of URLs: at most 63 lower-case letters, digits and '-'. An image with a tag is
polled, by default every 15 minutes. An image with a digest never changes. Secrets and ConfigMaps
must be in catalogd's namespace.

A ClusterCatalog has an image, an interval of whole minutes, a priority and labels; other flags are
refused. Its name may contain dots. catalogd must run with --cluster-catalogs.

With --wait, the command fails at once if the image cannot be used until somebody fixes the cause.
It waits for temporary failures to pass, such as an unreachable registry.`,
		Example: `  kubectl catalog add mine 127.0.0.1:5005/catalogd/sample:latest --wait
  kubectl catalog add community quay.io/operatorhubio/catalog:latest --interval 1h --wait
  kubectl catalog add private registry.example/team/catalog:v1 --pull-secret registry-credentials --ca-file ca.crt
  kubectl catalog add nightly registry.example/catalog:nightly --schedule "CRON_TZ=Europe/Prague 0 3 * * *" --priority 10
  kubectl catalog add versioned --image-template "registry.example/catalog:v{kube_major_version}.{kube_minor_version}"
  kubectl catalog add operatorhubio quay.io/operatorhubio/catalog:latest --kind clustercatalog --wait
  kubectl catalog add mine registry.example/catalog:latest --dry-run=client -o yaml > catalog.yaml`,
	}
	flags := cmd.Flags()
	req.spec.add(flags)
	flags.StringVar(&req.kind, "kind", status.CatalogSource.Type(), "`kind` of the catalog: catalogsource or clustercatalog")
	lookup.CompleteValues(cmd, "kind", status.CatalogSource.Type(), status.ClusterCatalog.Type())
	flags.StringVar(&req.caFile, "ca-file", "", "PEM `file` with certificate authorities to trust in addition to those of catalogd's "+
		"system; stored in the ConfigMap NAME-ca, which is deleted with the catalog")
	flags.BoolVar(&req.wait, "wait", false, "show the progress until the catalog is served and its packages are published")
	flags.DurationVar(&req.timeout, "timeout", 10*time.Minute, "how long to wait")
	ch := newChange(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := req.parse(s, args); err != nil {
			return err
		}
		return add(cmd.Context(), s, ch, req)
	}
	return cmd
}

// parse sets the catalog of a command line.
func (r *addRequest) parse(s *session.Session, args []string) error {
	kind, err := status.ParseKind(r.kind)
	if err != nil {
		return fmt.Errorf("--kind: %w", err)
	}
	if err := validateNameAndImage(kind, args, r.spec.catalog.Spec.ImageTemplate); err != nil {
		return err
	}
	source, err := r.spec.source()
	if err != nil {
		return err
	}
	source.Name = args[0]
	if len(args) == 2 {
		source.Spec.Image = args[1]
	}
	if err := r.readAuthorities(s, source); err != nil {
		return err
	}
	r.catalog = status.Of(source)
	if kind == status.ClusterCatalog {
		r.catalog, err = clusterCatalog(source)
	}
	return err
}

// readAuthorities reads the file of --ca-file.
func (r *addRequest) readAuthorities(s *session.Session, source *v1beta1.CatalogSource) (err error) {
	if r.caFile == "" {
		return nil
	}
	if r.spec.caBundle != "" {
		return exit.Usagef("specify --ca-file or --ca-bundle, not both")
	}
	if source.Spec.Registry == nil {
		source.Spec.Registry = &v1beta1.RegistryAccess{}
	}
	source.Spec.Registry.CABundle = &v1beta1.BundleReference{Kind: "ConfigMap", Name: source.Name + "-ca", Key: "ca.crt"}
	if r.authorities, err = s.ReadFile(r.caFile); err != nil {
		return fmt.Errorf("--ca-file: %w", err)
	}
	if block, _ := pem.Decode(r.authorities); block == nil {
		return fmt.Errorf("--ca-file: %s contains no PEM block (-----BEGIN CERTIFICATE-----)", r.caFile)
	}
	return nil
}

// clusterCatalog returns the ClusterCatalog of the flags. Those without a counterpart are refused.
func clusterCatalog(source *v1beta1.CatalogSource) (*status.Catalog, error) {
	if source.Spec.PollingSchedule != "" {
		return nil, exit.Usagef("ClusterCatalogs have no schedule: omit --schedule, or set --interval")
	}
	if interval := source.Spec.PollingInterval; interval != nil && interval.Duration%time.Minute != 0 {
		return nil, exit.Usagef("--interval %s: ClusterCatalogs are polled at intervals of whole minutes", interval.Duration)
	}
	converted, err := migrate.ToClusterCatalog(source, source.Name)
	if err != nil {
		return nil, exit.Usagef("%s", fieldsAsFlags.Replace(err.Error()))
	}
	for _, f := range converted.Fields {
		if f.IsLost() {
			note := ""
			if f.Note != "" {
				note = " (" + f.Note + ")"
			}
			return nil, exit.Usagef("ClusterCatalogs have no counterpart of %s: omit it%s", fieldsAsFlags.Replace(f.Name), note)
		}
	}
	return status.Of(converted.To), nil
}

func validateNameAndImage(kind status.Kind, args []string, template string) error {
	switch {
	case len(args) == 0:
		return exit.Usagef("specify a name and an image: kubectl catalog add NAME IMAGE")
	case len(args) > 2:
		return exit.Usagef("too many arguments: %q; specify a name and an image", args[2])
	case len(args) == 2 && authoring.IsPath(args[1]):
		return exit.Usagef("%s is a local path, and catalogd pulls images; push it first: kubectl catalog push %s REGISTRY/NAME:TAG",
			args[1], args[1])
	case len(args) == 1 && template == "" && !strings.ContainsAny(args[0], imageChars):
		return exit.Usagef("specify the image of catalog %q: kubectl catalog add %s IMAGE", args[0], args[0])
	}
	if err := validateName(kind, args[0]); err != nil || len(args) == 1 {
		return err
	}
	if template != "" {
		return exit.Usagef("specify an image or --image-template, not both: a template overrides %s", args[1])
	}
	if _, err := authoring.ParseImage(args[1], authoring.Options{}); err != nil {
		return exit.AsUsage(err)
	}
	return nil
}

// imageChars are valid in image references and invalid in names of catalogs.
const imageChars = "/:@"

// validateName refuses an invalid name with a shorter message than the API server's.
func validateName(kind status.Kind, name string) error {
	isCluster := kind == status.ClusterCatalog
	switch {
	case strings.ContainsAny(name, imageChars):
		return exit.Usagef("the name comes first: kubectl catalog add NAME IMAGE")
	case isCluster && (len(validation.IsDNS1123Subdomain(name)) > 0 || len(name) > validation.LabelValueMaxLength):
		return exit.Usagef("invalid name %q: use at most 63 lower-case letters, digits, '-' and '.'; start and end with a letter or digit", name)
	case !isCluster && len(validation.IsDNS1123Label(name)) > 0:
		return exit.Usagef("invalid name %q: use at most 63 lower-case letters, digits and '-'; start and end with a letter or digit", name)
	}
	return nil
}

func add(ctx context.Context, s *session.Session, ch *change, req addRequest) error {
	c := req.catalog
	if ch.dryRun != dryRunClient {
		warnOfMissing(ctx, s, c, len(req.authorities) > 0)
		if err := create(ctx, s, ch, c.Object, c.Spec.Registry, req.authorities); err != nil {
			return err
		}
		c = status.Of(c.Object)
	}
	if !req.wait || ch.isDry() {
		return ch.print(s.Stdout, c, "created")
	}
	if ch.isText() {
		if err := ch.print(s.Stdout, c, "created"); err != nil {
			return err
		}
	}
	added, err := wait(ctx, s, waitRequest{
		kind: c.Kind, name: c.Name, uid: c.UID, timeout: req.timeout, goal: "ready", continues: wasCreated(c.Name), check: readiness,
	})
	if err != nil {
		return addError(ctx, c.Name, err)
	}
	if !ch.isText() {
		return ch.print(s.Stdout, added, "created")
	}
	_, err = fmt.Fprintf(s.Stdout, "%s\n", outcome(added))
	return err
}

// addError adds to the reason why a catalog is not ready that it exists. After an interrupt, that is printed already.
func addError(ctx context.Context, name string, err error) error {
	_, recreated := errors.AsType[session.RecreatedError](err)
	if ctx.Err() != nil || exit.IsNotFound(err) || recreated {
		return err
	}
	return fmt.Errorf("%w\n%s", err, wasCreated(name))
}

func wasCreated(name string) string {
	return fmt.Sprintf("the catalog was created, and catalogd continues to process it: kubectl catalog describe %s shows its state, "+
		"kubectl catalog remove %s removes it", name, name)
}

// create creates the ConfigMap of --ca-file, if any, and then the catalog, which becomes its owner.
func create(ctx context.Context, s *session.Session, ch *change, c kube.Object, access *v1beta1.RegistryAccess, authorities []byte,
) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	opts := metav1.CreateOptions{FieldManager: session.FieldManager, DryRun: ch.dryRunOption()}
	var bundle *caBundle
	if len(authorities) > 0 {
		if bundle, err = createBundle(ctx, api, access.CABundle, s.DaemonNamespace(ctx), authorities, opts); err != nil {
			return err
		}
	}
	if err := api.Create(ctx, c, opts); err != nil {
		if bundle != nil && !ch.isDry() {
			bundle.remove(ctx)
		}
		switch {
		case apierrors.IsAlreadyExists(err):
			return fmt.Errorf("catalog %q already exists: choose another name or change it with kubectl edit %s; "+
				"to poll for a new image: kubectl catalog refresh %s", c.GetName(), status.Of(c).Ref(), c.GetName())
		case session.IsRefused(err):
			return exit.Usagef("%s", fieldsAsFlags.Replace(session.Refusal(err)))
		}
		return err
	}
	if bundle != nil && !ch.isDry() {
		return bundle.setOwner(ctx, c)
	}
	return nil
}

// outcome returns a sentence on the state of a catalog after a wait.
func outcome(c *status.Catalog) string {
	ready := status.Ready(c)
	switch {
	case ready.Status == metav1.ConditionTrue:
		return fmt.Sprintf("catalog %q is ready: %s", c.Name, status.Sentence(c, ready.Message))
	case c.Spec.Suspend:
		return fmt.Sprintf("catalog %q is suspended; to unpack it: kubectl catalog resume %s", c.Name, c.Name)
	}
	return fmt.Sprintf("catalog %q is unavailable: %s", c.Name, ready.Message)
}
