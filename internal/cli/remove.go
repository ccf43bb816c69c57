package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
)

// removeOptions say how to remove catalogs.
type removeOptions struct {
	yes, wait, ignoreNotFound bool
	timeout                   time.Duration
}

func newRemoveCmd(e *env) *cobra.Command {
	var opts removeOptions
	cmd := &cobra.Command{
		Use:     "remove NAME...",
		Aliases: []string{"rm", "delete"},
		Short:   "Remove catalogs with their packages and their content",
		Long: `Remove catalogs: their CatalogSources, and with these their OperatorPackages and what catalogd keeps of their content. Operators that were
installed from them stay.

To stop offering a catalog and to keep its settings, set its spec.availability to Unavailable.`,
		Example: `  kubectl catalog remove sample --dry-run=server
  kubectl catalog remove old older --yes`,
	}
	flags := cmd.Flags()
	flags.BoolVarP(&opts.yes, "yes", "y", false, "do not ask")
	flags.BoolVar(&opts.wait, "wait", true, "wait until they are gone")
	flags.BoolVar(&opts.ignoreNotFound, "ignore-not-found", false, "take a catalog that does not exist for removed")
	flags.DurationVar(&opts.timeout, "timeout", 5*time.Minute, "how long to wait for each")
	cmd.ValidArgsFunction = e.completeCatalogs
	ch := newChange(cmd)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		if err := ch.begin(cmd); err != nil {
			return err
		}
		return e.remove(cmd.Context(), ch, names, opts)
	}
	return cmd
}

func (e *env) remove(ctx context.Context, ch *change, names []string, opts removeOptions) error {
	if len(names) == 0 {
		return usagef("name a catalog to remove: kubectl catalog list shows those there are")
	}
	catalogs, err := e.toRemove(ctx, names, opts.ignoreNotFound)
	if err != nil || len(catalogs) == 0 {
		return err
	}
	if !opts.yes && !ch.isDry() {
		if err := e.confirm(ctx, whatGoes(catalogs)); err != nil {
			return err
		}
	}
	for i := range catalogs {
		err := e.removeOne(ctx, ch, &catalogs[i])
		var notFound notFoundError
		if err != nil && (!opts.ignoreNotFound || !errors.As(err, &notFound)) { // somebody else may have removed it just now
			return err
		}
	}
	for i := range catalogs {
		if opts.wait && !ch.isDry() {
			if err := e.waitGone(ctx, ch, &catalogs[i], opts.timeout); err != nil {
				return err
			}
		}
	}
	return nil
}

// toRemove returns the catalogs of these names. One that does not exist is an error, or left out.
func (e *env) toRemove(ctx context.Context, names []string, leaveOut bool) ([]v1beta1.CatalogSource, error) {
	catalogs, missing, err := e.existing(ctx, names)
	if err == nil && !leaveOut {
		err = e.noCatalogs(ctx, missing)
	}
	return catalogs, err
}

func (e *env) removeOne(ctx context.Context, ch *change, c *v1beta1.CatalogSource) error {
	api, err := e.client()
	if err != nil {
		return err
	}
	same := client.Preconditions{UID: ptr.To(c.UID)} // not one that was made in its place while somebody thought about it
	switch ch.dryRun {
	case cmdutil.DryRunNone:
		err = api.Delete(ctx, c, same)
	case cmdutil.DryRunServer:
		err = api.Delete(ctx, c, same, client.DryRunAll)
	}
	if apierrors.IsConflict(err) {
		return madeAnew(c.Name)
	}
	if err := missing(err, c.Name); err != nil {
		return err
	}
	return e.tell(ch, c, "removed")
}

func (e *env) waitGone(ctx context.Context, ch *change, was *v1beta1.CatalogSource, timeout time.Duration) error {
	_, err := e.wait(ctx, waiter{name: was.Name, timeout: timeout, goal: "gone", goesOn: "catalogd goes on with it", judge: func(c *v1beta1.CatalogSource) finding {
		if c == nil || c.UID != was.UID {
			return finding{done: true}
		}
		return finding{stage: fmt.Sprintf("Waiting for catalogd to take away packages and content of %q", was.Name),
			hint: "the object waits for its finalizer " + strings.Join(c.Finalizers, ", ") + "; if catalogd runs no more, remove that by hand"}
	}})
	if err == nil && ch.isTold() {
		_, err = fmt.Fprintf(e.stdout, "catalog %q is gone.\n", was.Name)
	}
	return err
}

// whatGoes asks whether catalogs are to be removed, and says what goes with them.
func whatGoes(catalogs []v1beta1.CatalogSource) string {
	names, packages := make([]string, len(catalogs)), 0
	for i, c := range catalogs {
		names[i] = fmt.Sprintf("%q", c.Name)
		if c.Status.Content != nil {
			packages += int(c.Status.Content.Packages)
		}
	}
	what := "catalog "
	if len(catalogs) > 1 {
		what = "catalogs "
	}
	return fmt.Sprintf("Remove %s%s with %s?", what, strings.Join(names, ", "), counted(packages, "package", "packages"))
}

// counted says how many there are of something.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
