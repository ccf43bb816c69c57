// Package author has the commands for authors of catalogs: diff, export, lint, push and migrate.
package author

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/operator-catalogs/catalogd/internal/authoring"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
)

// ContentCommands returns the commands that also work on catalogs of a cluster.
func ContentCommands(s *session.Session) []*cobra.Command {
	return []*cobra.Command{newDiffCommand(s), newExportCommand(s)}
}

// Commands returns the commands that work without a cluster.
func Commands(s *session.Session) []*cobra.Command {
	return []*cobra.Command{
		newInitCommand(s), newRenderCommand(s), newTemplateCommand(s), newLintCommand(s), newPushCommand(s), newMirrorCommand(s),
		newPackageCommand(s), newDeprecateCommand(s),
	}
}

// completePath completes a path as the first argument. Images cannot be listed.
var completePath = lookup.FirstArgument(cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault))

func tooMany(extra []string, instead string) error {
	return exit.Usagef("unexpected argument %s: %s", strings.Join(extra, " "), instead)
}

// openSource opens a directory or pulls an image.
func openSource(ctx context.Context, s *session.Session, ref string, insecure bool) (*authoring.Source, error) {
	progress := s.Stderr.Progress()
	defer progress.End()
	source, err := authoring.Open(ctx, ref, authoring.Options{
		Insecure: insecure, UserAgent: s.UserAgent(), Progress: transferProgress(progress, "Downloading "+ref),
	})
	if authoring.IsNotFound(err) {
		err = exit.AsNotFound(err)
	}
	return source, referenceError(err)
}

// transferProgress returns a function that shows the bytes of a transfer.
func transferProgress(progress *output.Progress, stage string) func(done, total int64) {
	rate := output.NewRate()
	return func(done, total int64) {
		detail := rate.Progress(done, total)
		if done == 0 {
			detail = ""
		}
		progress.Show(stage, detail)
	}
}

// showStage shows a short stage, but not in logs.
func showStage(s *session.Session, progress *output.Progress, stage string) {
	if s.Stderr.Live {
		progress.Show(stage, "")
	}
}

// referenceError makes the error of an invalid image reference a usage error.
func referenceError(err error) error {
	if _, ok := errors.AsType[*authoring.ReferenceError](err); ok {
		return exit.AsUsage(err)
	}
	return err
}
