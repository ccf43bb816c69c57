// Package catalogs has the commands on the catalogs of a cluster: list, describe, add, refresh, suspend, resume, remove and watch.
package catalogs

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
)

// Commands returns the commands of the package.
func Commands(s *session.Session) []*cobra.Command {
	return []*cobra.Command{
		newListCommand(s), newDescribeCommand(s), newAddCommand(s), newRefreshCommand(s), newSuspendCommand(s),
		newResumeCommand(s), newRemoveCommand(s), newWatchCommand(s),
	}
}

// A selection is the catalogs that a command changes: those named, or all.
type selection struct {
	names []string
	all   bool
}

func (sel selection) validate() error {
	switch {
	case sel.all && len(sel.names) > 0:
		return exit.Usagef("specify catalogs or --all, not both")
	case !sel.all && len(sel.names) == 0:
		return exit.Usagef("specify a catalog or --all; kubectl catalog list shows all catalogs")
	}
	return nil
}

// find reads all catalogs of the selection before the first is changed.
func (sel selection) find(ctx context.Context, s *session.Session) ([]v1beta1.CatalogSource, error) {
	if !sel.all {
		return lookup.Catalogs(ctx, s, sel.names)
	}
	catalogs, err := s.Catalogs(ctx)
	if err == nil && len(catalogs) == 0 {
		fmt.Fprintln(s.Stderr, lookup.EmptyCluster)
	}
	return catalogs, err
}
