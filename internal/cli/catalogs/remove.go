package catalogs

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
	"github.com/operator-catalogs/catalogd/internal/cli/status"
)

// A removeRequest names the catalogs to remove.
type removeRequest struct {
	names                     []string
	yes, wait, ignoreNotFound bool
	timeout                   time.Duration
}

func newRemoveCommand(s *session.Session) *cobra.Command {
	var req removeRequest
	cmd := &cobra.Command{
		Use:     "remove NAME...",
		Aliases: []string{"rm", "delete"},
		Short:   "Remove catalogs with their packages and their content",
		Long: `Remove catalogs: delete their CatalogSources or ClusterCatalogs, and with them their
OperatorPackages and their content. Installed operators stay.

To stop serving a catalog and keep its settings, set spec.availability of a CatalogSource, or
spec.availabilityMode of a ClusterCatalog, to Unavailable.`,
		Example: `  kubectl catalog remove sample --dry-run=server
  kubectl catalog remove old older --yes`,
	}
	flags := cmd.Flags()
	flags.BoolVarP(&req.yes, "yes", "y", false, "do not ask for confirmation")
	flags.BoolVar(&req.wait, "wait", true, "wait until they are deleted")
	flags.BoolVar(&req.ignoreNotFound, "ignore-not-found", false, "treat a catalog that does not exist as removed")
	flags.DurationVar(&req.timeout, "timeout", 5*time.Minute, "how long to wait for each catalog")
	cmd.ValidArgsFunction = lookup.CompleteCatalogs(s)
	ch := newChange(cmd)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		req.names = names
		if len(names) == 0 {
			return exit.Usagef("specify a catalog to remove; kubectl catalog list shows all catalogs")
		}
		return remove(cmd.Context(), s, ch, req)
	}
	return cmd
}

func remove(ctx context.Context, s *session.Session, ch *change, req removeRequest) error {
	catalogs, missing, err := s.Find(ctx, req.names)
	if err == nil && !req.ignoreNotFound {
		err = lookup.NoCatalogs(ctx, s, missing)
	}
	if err != nil || len(catalogs) == 0 {
		return err
	}
	if !req.yes && !ch.isDry() {
		if err := confirm(ctx, s, question(catalogs)); err != nil {
			return err
		}
	}
	for i := range catalogs {
		if err := removeOne(ctx, s, ch, &catalogs[i], req.ignoreNotFound); err != nil {
			return err
		}
	}
	for i := range catalogs {
		if !req.wait || ch.isDry() {
			break
		}
		if err := waitDeleted(ctx, s, ch, &catalogs[i], req.timeout); err != nil {
			return err
		}
	}
	return nil
}

func removeOne(ctx context.Context, s *session.Session, ch *change, c *status.Catalog, ignoreNotFound bool) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	if ch.dryRun != dryRunClient {
		same := &metav1.Preconditions{UID: ptr.To(c.UID)} // not one that was recreated during the confirmation
		err = api.Delete(ctx, c.Object, metav1.DeleteOptions{Preconditions: same, DryRun: ch.dryRunOption()})
	}
	switch {
	case apierrors.IsConflict(err):
		return session.Recreated(c.Name)
	case apierrors.IsNotFound(err) && ignoreNotFound: // it was deleted just now
		return nil
	}
	if err := session.CatalogError(err, c.Name); err != nil {
		return err
	}
	return ch.print(s.Stdout, c, "removed")
}

func waitDeleted(ctx context.Context, s *session.Session, ch *change, was *status.Catalog, timeout time.Duration) error {
	check := func(c *status.Catalog) progress {
		if c == nil || c.UID != was.UID {
			return progress{done: true}
		}
		return progress{
			stage: fmt.Sprintf("Waiting for catalogd to delete the packages and the content of %q", was.Name),
			hint: "the object waits for its finalizer " + strings.Join(c.Finalizers, ", ") +
				"; if catalogd is uninstalled, remove the finalizer",
		}
	}
	_, err := wait(ctx, s, waitRequest{
		kind: was.Kind, name: was.Name, timeout: timeout, goal: "deleted", check: check, continues: "catalogd continues the deletion",
	})
	if err == nil && ch.isText() {
		fmt.Fprintf(s.Stdout, "catalog %q deleted\n", was.Name)
	}
	return err
}

// question returns the question whether to remove catalogs.
func question(catalogs []status.Catalog) string {
	names, packages, noun := make([]string, len(catalogs)), 0, "catalog"
	text := ""
	for i, c := range catalogs {
		names[i] = fmt.Sprintf("%q", c.Arg())
		if c.Status.Content != nil {
			packages += int(c.Status.Content.Packages)
		} else if c.Status.URLs != nil {
			text = "all of their packages" // a ClusterCatalog has no number
		}
		if i > 0 {
			noun = "catalogs"
		}
	}
	return fmt.Sprintf("Remove %s %s with %s?", noun, strings.Join(names, ", "),
		cmp.Or(text, output.Counted(packages, "package", "packages")))
}
