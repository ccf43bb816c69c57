package cli

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
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	local "github.com/operator-catalogs/catalogd/internal/authoring"
)

// addOptions say which catalog to add, and how.
type addOptions struct {
	spec specFlags

	caFile  string
	wait    bool
	timeout time.Duration
}

func newAddCmd(e *env) *cobra.Command {
	var opts addOptions
	cmd := &cobra.Command{
		Use:   "add NAME IMAGE",
		Short: "Add a catalog",
		Long: `Add a catalog: create a CatalogSource of an image, which catalogd then unpacks, serves and follows.

The name is part of URLs: at most 63 lower-case letters, digits and '-'. An image named by tag is polled, by default every 15 minutes; one named
by digest is what it is. Secrets and ConfigMaps are those in catalogd's namespace.

With --wait it is an error, and said at once, if the image cannot be used until somebody does something about it. What may pass, such as a
registry that does not answer, is waited for.`,
		Example: `  kubectl catalog add mine 127.0.0.1:5005/catalogd/sample:latest --wait
  kubectl catalog add community quay.io/operatorhubio/catalog:latest --interval 1h --wait
  kubectl catalog add private registry.example/team/catalog:v1 --pull-secret registry-credentials --ca-file ca.crt
  kubectl catalog add nightly registry.example/catalog:nightly --schedule "CRON_TZ=Europe/Prague 0 3 * * *" --priority 10
  kubectl catalog add versioned --image-template "registry.example/catalog:v{kube_major_version}.{kube_minor_version}"
  kubectl catalog add mine registry.example/catalog:latest --dry-run=client -o yaml > catalog.yaml`,
	}
	opts.spec.add(cmd.Flags())
	cmd.Flags().StringVar(&opts.caFile, "ca-file", "", "`file` with authorities to trust besides those of catalogd's system, in PEM form; made a ConfigMap NAME-ca, which is removed with the catalog")
	cmd.Flags().BoolVar(&opts.wait, "wait", false, "wait until it is served and its packages are published, and tell how far that is")
	cmd.Flags().DurationVar(&opts.timeout, "timeout", 10*time.Minute, "how long to wait")
	ch := newChange(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := ch.begin(cmd); err != nil {
			return err
		}
		c, err := opts.catalog(args)
		if err != nil {
			return err
		}
		return e.add(cmd.Context(), ch, c, opts)
	}
	return cmd
}

// catalog makes the CatalogSource of the command line.
func (o addOptions) catalog(args []string) (*v1beta1.CatalogSource, error) {
	image := ""
	switch {
	case len(args) == 0:
		return nil, usagef("say how the catalog is to be called, and of which image it is: kubectl catalog add NAME IMAGE")
	case len(args) > 2:
		return nil, usagef("say a name and an image only: %q is neither", args[2])
	case len(args) == 2 && local.IsPath(args[1]):
		return nil, usagef("%s is on this machine, and catalogd pulls images: kubectl catalog push %s REGISTRY/NAME:TAG makes one of it", args[1], args[1])
	case len(args) == 2:
		image = args[1]
	case o.spec.imageTemplate == "" && !strings.ContainsAny(args[0], inImages):
		return nil, usagef("say of which image catalog %q is: kubectl catalog add %s IMAGE", args[0], args[0])
	}
	if err := checkName(args[0]); err != nil {
		return nil, err
	}
	c := &v1beta1.CatalogSource{}
	c.Name = args[0]
	c.Spec.Image = image
	if err := o.spec.apply(c); err != nil {
		return nil, err
	}
	if image != "" {
		if _, err := local.ParseImage(image, local.Options{}); err != nil {
			return nil, badReference(err)
		}
	}
	if o.caFile != "" && o.spec.caBundle != "" {
		return nil, usagef("name authorities by --ca-file or by --ca-bundle, not both")
	}
	if o.caFile != "" {
		registryOf(c).CABundle = &v1beta1.BundleReference{Kind: "ConfigMap", Name: c.Name + "-ca", Key: "ca.crt"}
	}
	return c, nil
}

// inImages are characters that references of images have, and names of catalogs do not.
const inImages = "/:@"

// checkName refuses a name that the API server would refuse, in fewer words.
func checkName(name string) error {
	switch {
	case strings.ContainsAny(name, inImages):
		return usagef("the name comes first: kubectl catalog add NAME IMAGE")
	case len(validation.IsDNS1123Label(name)) > 0:
		return usagef("%q cannot be a catalog's name: use at most 63 lower-case letters, digits and '-', a letter or digit first and last", name)
	}
	return nil
}

func (e *env) add(ctx context.Context, ch *change, c *v1beta1.CatalogSource, opts addOptions) error {
	var authorities []byte
	if opts.caFile != "" {
		var err error
		if authorities, err = e.readFile(opts.caFile); err != nil {
			return fmt.Errorf("--ca-file: %w", err)
		}
		if block, _ := pem.Decode(authorities); block == nil {
			return fmt.Errorf("--ca-file: %s holds nothing in PEM form, which begins with -----BEGIN CERTIFICATE-----", opts.caFile)
		}
	}
	if ch.dryRun == cmdutil.DryRunClient {
		return e.tell(ch, c, "created")
	}
	e.warnOfMissing(ctx, c, opts.caFile != "")
	if err := e.create(ctx, ch, c, authorities); err != nil {
		return err
	}
	if !opts.wait || ch.isDry() {
		return e.tell(ch, c, "created")
	}
	if ch.isTold() {
		if err := e.tell(ch, c, "created"); err != nil {
			return err
		}
	}
	added, err := e.wait(ctx, waiter{name: c.Name, uid: c.UID, timeout: opts.timeout, goal: "ready", judge: newMeter().readiness, goesOn: goesOn(c.Name)})
	if err != nil {
		return stays(ctx, c.Name, err)
	}
	if !ch.isTold() {
		return e.tell(ch, added, "created")
	}
	_, err = fmt.Fprintf(e.stdout, "%s\n", isNow(added))
	return err
}

// stays tells whoever learns why a catalog is not ready that it was created all the same. If they gave up waiting, they know already.
func stays(ctx context.Context, name string, err error) error {
	var removed notFoundError
	var another anotherError
	if ctx.Err() != nil || errors.As(err, &removed) || errors.As(err, &another) {
		return err
	}
	return fmt.Errorf("%w\n%s", err, goesOn(name))
}

// goesOn says what becomes of a catalog that is not waited for any more.
func goesOn(name string) string {
	return fmt.Sprintf("it was created, and catalogd goes on with it: kubectl catalog describe %s says how it is, kubectl catalog remove %s removes it", name, name)
}

// create makes the catalog, and what it needs. As the ConfigMap comes first, catalogd finds it; with the catalog as its owner, it goes with it.
func (e *env) create(ctx context.Context, ch *change, c *v1beta1.CatalogSource, authorities []byte) error {
	api, err := e.client()
	if err != nil {
		return err
	}
	opts := []client.CreateOption{client.FieldOwner(fieldManager)}
	if ch.isDry() {
		opts = append(opts, client.DryRunAll)
	}
	var bundle *bundleMap
	if len(authorities) > 0 {
		if bundle, err = e.createBundle(ctx, api, c, authorities, opts); err != nil {
			return err
		}
	}
	if err := api.Create(ctx, c, opts...); err != nil {
		if bundle != nil {
			bundle.remove(ctx, ch)
		}
		switch {
		case apierrors.IsAlreadyExists(err):
			return fmt.Errorf("there is a catalog %q already: choose another name, or change that one with kubectl edit catalogsource %s; "+
				"kubectl catalog refresh %s has it look for a new image", c.Name, c.Name, c.Name)
		case isRefused(err):
			return usagef("%s", asFlags.Replace(refusal(err)))
		}
		return err
	}
	if bundle != nil && !ch.isDry() {
		return bundle.own(ctx, c)
	}
	return nil
}

// isNow says in a sentence what became of a catalog.
func isNow(c *v1beta1.CatalogSource) string {
	is := ready(c)
	switch {
	case is.Status == metav1.ConditionTrue:
		return fmt.Sprintf("catalog %q is ready: %s", c.Name, inOurWords(c, is.Message))
	case c.Spec.Suspend:
		return fmt.Sprintf("catalog %q is suspended: nothing is unpacked before kubectl catalog resume %s", c.Name, c.Name)
	}
	return fmt.Sprintf("catalog %q is not offered: %s", c.Name, is.Message)
}

// registryOf returns spec.registry of a catalog, to set fields of it.
func registryOf(c *v1beta1.CatalogSource) *v1beta1.RegistryAccess {
	if c.Spec.Registry == nil {
		c.Spec.Registry = &v1beta1.RegistryAccess{}
	}
	return c.Spec.Registry
}
