package catalogs

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
)

func newSuspendCommand(s *session.Session) *cobra.Command {
	return addSuspension(s, true, &cobra.Command{
		Use:   "suspend NAME...",
		Short: "Stop polling catalogs",
		Long: `Stop polling catalogs by setting spec.suspend. Served content stays served. A replica that lacks the
current digest still unpacks it.`,
		Example: `  kubectl catalog suspend sample
  kubectl catalog suspend --all`,
	})
}

func newResumeCommand(s *session.Session) *cobra.Command {
	return addSuspension(s, false, &cobra.Command{
		Use:   "resume NAME...",
		Short: "Poll suspended catalogs again",
		Example: `  kubectl catalog resume sample
  kubectl catalog resume --all`,
	})
}

func addSuspension(s *session.Session, suspend bool, cmd *cobra.Command) *cobra.Command {
	var sel selection
	cmd.Flags().BoolVar(&sel.all, "all", false, "all catalogs")
	cmd.ValidArgsFunction = lookup.CompleteCatalogs(s)
	ch := newChange(cmd)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		sel.names = names
		catalogs, err := sel.find(cmd.Context(), s)
		if err != nil {
			return err
		}
		for i := range catalogs {
			done, err := setSuspend(cmd.Context(), s, ch, &catalogs[i], suspend)
			if err == nil {
				err = ch.print(s.Stdout, &catalogs[i], done)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}

// setSuspend sets spec.suspend and returns what was done.
func setSuspend(ctx context.Context, s *session.Session, ch *change, c *v1beta1.CatalogSource, suspend bool) (string, error) {
	done, field := "suspended", any(true)
	if !suspend {
		done, field = "resumed", nil // false is the default and needs no owner
	}
	if c.Spec.Suspend == suspend {
		return "already " + done, nil
	}
	return done, ch.patch(ctx, s, c, map[string]any{
		"metadata": map[string]any{"uid": c.UID}, "spec": map[string]any{"suspend": field},
	})
}
