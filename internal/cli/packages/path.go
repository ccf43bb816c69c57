package packages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
)

// A pathRequest selects the channel.
type pathRequest struct {
	lookup.Scope
	from, to string // versions or names of bundles
}

func newPathCommand(s *session.Session) *cobra.Command {
	var req pathRequest
	cmd := &cobra.Command{
		Use:   "path PACKAGE --from VERSION",
		Short: "Show the upgrade path between two versions of a package",
		Long: `Show the upgrade path between two versions of a package, step by step, with the field of the channel
entry that allows each step: replaces, skips or skipRange. The path that OLM takes comes first, then
the shortest path if it differs.

Without --channel, all channels are tried: the default channel is shown first, then the other
channels with a path, the shortest first. If there is no path, the error names the obstacle, and the
exit code is 1. If the package is up to date already, there is nothing to do.`,
		Example: `  kubectl catalog path skupper-operator --from 1.8.0
  kubectl catalog path skupper-operator --from 1.5.3 --to 1.6.0 --channel stable-1.6
  kubectl catalog path skupper-operator --from skupper-operator.v1.8.0 -o yaml`,
		Args:              onePackage("path PACKAGE --from VERSION", "from", "to"),
		ValidArgsFunction: lookup.FirstArgument(lookup.CompletePackages(s)),
	}
	format := output.NewFormat(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&req.Catalog, "catalog", "c", "", "the package of this `catalog`")
	flags.StringVar(&req.Channel, "channel", "", "only in this `channel`")
	flags.StringVar(&req.from, "from", "", "the installed `version` or bundle")
	flags.StringVar(&req.to, "to", "", "the wanted `version` or bundle (default: the head of the channel)")
	lookup.CompleteFlags(s, cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		req.Package = args[0]
		if req.from == "" {
			return exit.Usagef("specify the installed version: kubectl catalog path %s --from VERSION", req.Package)
		}
		paths, err := findPaths(cmd.Context(), s, req)
		switch {
		case err != nil:
			return err
		case format.IsTable():
			return printPathsText(s.Stdout, paths)
		}
		return printPaths(s.Stdout, format, paths, req.Channel != "")
	}
	return cmd
}

// A channelPath is the result for one channel: paths, or what blocks them.
type channelPath struct {
	*channelDetails
	paths   *channel.Paths
	blocked *channel.BlockedError // if paths is nil
}

// findPaths returns the paths to show. No path is an error.
func findPaths(ctx context.Context, s *session.Session, req pathRequest) ([]channelPath, error) {
	channels, err := readChannels(ctx, s, channelsRequest{Scope: req.Scope, all: true})
	if err != nil {
		return nil, err
	}
	all := make([]channelPath, len(channels))
	for i := range channels {
		all[i].channelDetails = &channels[i]
		all[i].paths, err = channels[i].Graph().Paths(req.from, req.to)
		if err != nil && !errors.As(err, &all[i].blocked) {
			return nil, err
		}
	}
	sortPaths(all, req.Channel)
	shown := all[:1:1]
	for _, p := range all[1:] {
		if p.isOpen() && req.Channel == "" {
			shown = append(shown, p)
		}
	}
	if !slices.ContainsFunc(shown, channelPath.isOpen) && !all[0].isDone() {
		return nil, noPath(all)
	}
	return shown, nil
}

func (p channelPath) isOpen() bool { return p.paths != nil }

// isDone reports whether the upgrade starts at its end.
func (p channelPath) isDone() bool { return p.blocked != nil && p.blocked.Block == channel.Already }

// sortPaths puts the requested or the default channel first, then the others by the length of their paths.
func sortPaths(all []channelPath, first string) {
	order := func(p channelPath) int {
		switch {
		case p.Name == first || (first == "" && p.IsDefault):
			return -1
		case p.isOpen():
			return len(p.paths.AnyShortest())
		}
		return len(p.Entries) + 1
	}
	slices.SortStableFunc(all, func(a, b channelPath) int {
		return cmp.Or(order(a)-order(b), cmp.Compare(a.Name, b.Name))
	})
}

// maxBlocked is how many other channels an error explains.
const maxBlocked = 3

// noPath returns the error if the first channel has no path. It explains other channels that know both versions, and
// lists those with a path.
func noPath(all []channelPath) error {
	first := all[0].blocked
	text := "no upgrade path: " + first.Message
	var open []string
	explained := 0
	for _, p := range all[1:] {
		if p.isOpen() {
			open = append(open, output.Line(p.Name))
			continue
		}
		block := p.blocked.Block
		if block != first.Block && block != channel.UnknownFrom && block != channel.UnknownTo && explained < maxBlocked {
			explained++
			text += fmt.Sprintf("\nchannel %s: %s", output.Line(p.Name), p.blocked.Message)
		}
	}
	if len(open) > 0 {
		text += "\nthese channels have a path (see --channel): " + strings.Join(open, ", ")
	}
	return errors.New(text)
}

// printPathsText prints paths in words. Channels with the same paths are printed together.
func printPathsText(to *output.Terminal, all []channelPath) error {
	var texts []string
	channels := map[string][]channelPath{} // by text
	for _, p := range all {
		text := p.text(to)
		if channels[text] == nil {
			texts = append(texts, text)
		}
		channels[text] = append(channels[text], p)
	}
	lines := output.Lines{Terminal: to}
	for i, text := range texts {
		if i > 0 {
			lines.Printf("\n")
		}
		same := channels[text]
		lines.Printf("%s\n%s", to.Paint(output.Bold, same[0].heading()), text)
		if len(same) == 1 {
			continue
		}
		var names []string
		for _, p := range same[1:] {
			names = append(names, p.title())
		}
		lines.Printf("Same in: %s\n", strings.Join(names, ", "))
	}
	return lines.Err
}

func (p channelPath) text(to *output.Terminal) string {
	if p.isDone() {
		return fmt.Sprintf("Nothing to do: %s.\n", p.blocked.Message)
	}
	if !p.isOpen() {
		return fmt.Sprintf("No upgrade path: %s.\n", p.blocked.Message)
	}
	var b strings.Builder
	for _, note := range p.paths.Notes {
		fmt.Fprintf(&b, "Note: %s\n", note)
	}
	if p.paths.OLM == nil {
		fmt.Fprintf(&b, "%s.\n", p.paths.OLMNote)
	} else {
		b.WriteString(stepsText(to, "OLM takes", p.paths.OLM))
	}
	if p.paths.Shortest != nil {
		b.WriteString(stepsText(to, "The shortest path takes", p.paths.Shortest))
	}
	if n := p.paths.Others; p.paths.MayBeMore {
		fmt.Fprintf(&b, "Other paths: at least %d.\n", n)
	} else if n > 0 {
		fmt.Fprintf(&b, "Other paths: %d.\n", n)
	}
	return b.String()
}

func stepsText(to *output.Terminal, subject string, steps []channel.Step) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s from %s to %s:\n", subject, output.Counted(len(steps), "step", "steps"),
		bundleLabel(steps[0].From), bundleLabel(steps[len(steps)-1].To))
	digits := len(fmt.Sprint(len(steps)))
	remark := func(style output.Style, text string) {
		fmt.Fprintf(&b, "%*s%s\n", digits+4, "", to.Paint(style, text))
	}
	for i, step := range steps {
		end := bundleLabel(step.To)
		fmt.Fprintf(&b, "  %*d. %s -> %s\n", digits, i+1, bundleLabel(step.From), to.Paint(output.Bold, end))
		for _, reason := range step.Explanations {
			remark(output.Faint, reason)
		}
		if step.IsDowngrade {
			remark(output.Yellow, "this is a downgrade: "+end+" is lower than "+bundleLabel(step.From))
		}
		if step.To.Deprecation != nil {
			remark(output.Yellow, end+" is deprecated: "+output.Line(step.To.Deprecation.Message))
		}
	}
	return b.String()
}

// bundleLabel returns the short name of a bundle of a known package.
func bundleLabel(b channel.Bundle) string { return output.Line(cmp.Or(b.Version, b.Name)) }

func printPaths(to *output.Terminal, format *output.Format, all []channelPath, single bool) error {
	var rows []output.Row
	for _, p := range all {
		row, err := output.NewRow("UpgradePath", p.Name, p.UpgradePath(p.paths, p.blocked))
		if err != nil {
			return err
		}
		rows = append(rows, row)
	}
	return format.Print(to, nil, rows, single)
}
