package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
)

func newSuspendCmd(e *env) *cobra.Command {
	return newSuspensionCmd(e, true, &cobra.Command{
		Use:   "suspend NAME...",
		Short: "Stop polling catalogs",
		Long: `Stop polling catalogs, by their field spec.suspend. What is served stays served, and a digest that was found before is still unpacked where it
is missing.`,
		Example: `  kubectl catalog suspend sample
  kubectl catalog suspend --all`,
	})
}

func newResumeCmd(e *env) *cobra.Command {
	return newSuspensionCmd(e, false, &cobra.Command{
		Use:   "resume NAME...",
		Short: "Poll suspended catalogs again",
		Example: `  kubectl catalog resume sample
  kubectl catalog resume --all`,
	})
}

func newSuspensionCmd(e *env, suspend bool, cmd *cobra.Command) *cobra.Command {
	var all bool
	cmd.Flags().BoolVar(&all, "all", false, "all catalogs")
	cmd.ValidArgsFunction = e.completeCatalogs
	ch := newChange(cmd)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		if err := ch.begin(cmd); err != nil {
			return err
		}
		return e.setSuspend(cmd.Context(), ch, names, all, suspend)
	}
	return cmd
}

func (e *env) setSuspend(ctx context.Context, ch *change, names []string, all, suspend bool) error {
	catalogs, err := e.chosen(ctx, names, all)
	if err != nil {
		return err
	}
	done, field := "suspended", any(true)
	if !suspend {
		done, field = "resumed", nil // nobody is to own a field that says nothing
	}
	for i := range catalogs {
		c := &catalogs[i]
		if c.Spec.Suspend == suspend {
			if err := e.tell(ch, c, done+" already"); err != nil {
				return err
			}
			continue
		}
		if err := e.patch(ctx, ch, c, map[string]any{"metadata": map[string]any{"uid": c.UID}, "spec": map[string]any{"suspend": field}}); err != nil {
			return err
		}
		if err := e.tell(ch, c, done); err != nil {
			return err
		}
	}
	return nil
}

// chosen returns the catalogs that a command is to do something to: those named, or all. They are looked at before anything is done to
// the first.
func (e *env) chosen(ctx context.Context, names []string, all bool) ([]v1beta1.CatalogSource, error) {
	switch {
	case all && len(names) > 0:
		return nil, usagef("name catalogs, or say --all, not both")
	case !all && len(names) == 0:
		return nil, usagef("name a catalog, or say --all: kubectl catalog list shows those there are")
	}
	if !all {
		return e.catalogsNamed(ctx, names)
	}
	catalogs, err := e.catalogs(ctx)
	if err == nil && len(catalogs) == 0 {
		fmt.Fprintln(e.stderr, noCatalogs)
	}
	return catalogs, err
}
