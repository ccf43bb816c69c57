package author

import (
	"context"
	"fmt"

	"github.com/operator-catalogs/catalogd/internal/authoring/mirror"
	"github.com/operator-catalogs/catalogd/internal/catalogimage"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
)

// mirroring is a running mirror.
type mirroring struct {
	s        *session.Session
	req      mirrorRequest
	copier   *mirror.Copier
	progress *output.Progress
	images   []*mirror.Image
}

// copy copies the images. done reports whether the command ends with them.
func (m *mirroring) copy(ctx context.Context) (done bool, err error) {
	defer m.progress.End()
	if err := m.copier.Plan(ctx, m.images); err != nil {
		return true, err
	}
	if m.req.dryRun {
		m.progress.End()
		return true, m.printPlan()
	}
	result, err := m.copier.Copy(ctx, m.images)
	m.progress.End()
	fmt.Fprintf(m.s.Stderr, "%s: %d copied, %d already there, %d failed; %s; %s\n",
		output.Counted(len(m.images), "image", "images"), result.Copied, result.Present, len(result.Failed),
		output.Counted(result.Attached, "signature or other artifact", "signatures and other artifacts"), output.Bytes(result.Bytes))
	if err != nil || len(result.Failed) == 0 {
		return false, err
	}
	for _, line := range result.Describe() {
		fmt.Fprintf(m.s.Stderr, "  %s\n", output.Line(line))
	}
	if m.req.allowMiss {
		m.s.Stderr.Warnf("the catalog names images that the mirror does not have")
		return false, nil
	}
	return true, fmt.Errorf("%d of %s could not be copied, so the catalog was not pushed: repeat the command to copy the rest; "+
		"select other packages, or use --allow-missing, if an image no longer exists",
		len(result.Failed), output.Counted(len(m.images), "image", "images"))
}

// printPlan lists the images with their sizes.
func (m *mirroring) printPlan() error {
	table := output.Table{Columns: []output.Column{{Name: "SIZE", Right: true}, {Name: "STATE"}, {Name: "IMAGE"}}}
	total, failed := int64(0), 0
	for _, image := range m.images {
		state, size := "missing", output.Bytes(image.Bytes)
		switch {
		case image.Err != nil:
			state, size = "error", ""
			failed++
		case image.Present:
			state, size = "present", ""
		case m.req.destination == nil:
			state = ""
		}
		total += image.Bytes
		table.Rows = append(table.Rows, []string{size, state, image.Ref})
	}
	if err := m.s.Stdout.Print(table, output.Options{}); err != nil {
		return err
	}
	for _, image := range m.images {
		if image.Err != nil {
			fmt.Fprintf(m.s.Stderr, "  %s: %s\n", image.Ref, output.Line(image.Err.Error()))
		}
	}
	fmt.Fprintf(m.s.Stderr, "%s; %s to copy, less what images share\n", output.Counted(len(m.images), "image", "images"), output.Bytes(total))
	if failed > 0 {
		return fmt.Errorf("%s cannot be read", output.Counted(failed, "image", "images"))
	}
	return nil
}

// putCatalog builds and copies the image of the catalog.
func (m *mirroring) putCatalog(ctx context.Context, dir string) error {
	defer m.progress.End()
	showStage(m.s, m.progress, "Copying the catalog")
	index, err := catalogimage.Build(dir)
	if err != nil {
		return err
	}
	return m.copier.PutCatalog(ctx, m.req.as, m.req.tag, index)
}
