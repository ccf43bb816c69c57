package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	upgrade "github.com/operator-catalogs/catalogd/internal/channel"
	term "github.com/operator-catalogs/catalogd/internal/cli/output"
)

// graphOptions say what to draw, and how.
type graphOptions struct {
	upgradesOptions
	ascii bool
}

// pictures are the formats that draw one channel.
var pictures = map[string]func(*upgrade.Graph, io.Writer) error{
	"dot": (*upgrade.Graph).DOT, "mermaid": (*upgrade.Graph).Mermaid,
	"svg": func(g *upgrade.Graph, w io.Writer) error { return g.Layout().SVG(w) },
}

func newGraphCmd(e *env) *cobra.Command {
	var opts graphOptions
	cmd := &cobra.Command{
		Use:   "graph PACKAGE",
		Short: "Draw how the versions of a package upgrade",
		Long: `Draw the upgrade graph of a channel of a package: in the terminal, newest on top, each above the one it replaces, with lanes where that is not the
next, and beside it what else it upgrades: the versions it skips, and the range of versions it may be installed over ("from"). The channel is the default one, unless
--channel says another.

-o dot is for Graphviz, -o mermaid for Markdown, -o svg for a browser; -o json and yaml have the entries, and the edges with the reasons of each.
--all-channels is for text, json and yaml.`,
		Example: `  kubectl catalog graph skupper-operator
  kubectl catalog graph skupper-operator --channel stable-1.6 -o mermaid
  kubectl catalog graph skupper-operator -o svg > skupper.svg
  kubectl catalog graph skupper-operator --all-channels`,
		Args:              onePackage("graph PACKAGE", "channel"),
		ValidArgsFunction: firstArgument(e.completePackages),
	}
	out := newOutput(cmd, "text", "dot", "mermaid", "svg")
	flags := cmd.Flags()
	flags.StringVarP(&opts.catalog, "catalog", "c", "", "the package of this `catalog`")
	flags.StringVar(&opts.channel, "channel", "", "this `channel` instead of the default one")
	flags.BoolVar(&opts.all, "all-channels", false, "all channels of the package, one below the other, the default one first")
	flags.BoolVar(&opts.ascii, "ascii", false, "draw text with the characters of ASCII only")
	e.completeFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		opts.pkg = args[0]
		return e.graph(cmd.Context(), out, opts)
	}
	return cmd
}

// onePackage checks that a command is told which package, and that alone. What is more is likely to be meant for the flags.
func onePackage(use string, flags ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 1:
			if kind, name, ok := strings.Cut(args[0], "/"); ok && kinds[strings.TrimSuffix(kind, "."+viewGroup)].ofPackages {
				args[0] = name // as -o name prints it
			}
			return nil
		case len(args) == 0:
			return usagef("say which package, one of those that kubectl catalog get packages lists: kubectl catalog %s", use)
		}
		hint := ""
		if extra := args[1:]; len(extra) <= len(flags) {
			hint = fmt.Sprintf("; did you mean kubectl catalog %s %s", cmd.Name(), args[0])
			for i, value := range extra {
				hint += fmt.Sprintf(" --%s %s", flags[i], value)
			}
			hint += "?"
		}
		return tooMuch(args[1:], "one package at a time"+hint)
	}
}

// tooMuch is the error of arguments that a command cannot use, and what it can.
func tooMuch(extra []string, instead string) error {
	return usagef("%s is too much: %s", strings.Join(extra, " "), instead)
}

func (e *env) graph(ctx context.Context, out *output, opts graphOptions) error {
	format := *out.flags.OutputFormat
	draw := pictures[format]
	switch {
	case opts.all && opts.channel != "":
		return usagef("give --channel or --all-channels, not both")
	case opts.all && draw != nil:
		return usagef("-o %s is a picture of one channel: say which by --channel, or have all as text", format)
	}
	channels, err := e.upgrades(ctx, opts.upgradesOptions)
	if err != nil {
		return err
	}
	switch {
	case draw != nil:
		return draw(channels[0].graph(), e.stdout)
	case format != "text" && !out.isTable():
		return e.printGraphs(out, channels, !opts.all)
	}
	for i := range channels {
		if i > 0 {
			fmt.Fprintln(e.stdout)
		}
		if err := e.drawGraph(&channels[i], opts.ascii); err != nil {
			return err
		}
	}
	return nil
}

// rolePaint are the styles of what is drawn.
var rolePaint = map[upgrade.Role]term.Style{
	upgrade.RoleLanes: term.Cyan, upgrade.RoleVersion: term.Bold, upgrade.RoleHead: term.Green, upgrade.RoleDeprecated: term.Yellow, upgrade.RoleRemark: term.Faint,
}

func (e *env) drawGraph(c *channelUpgrades, ascii bool) error {
	title := fmt.Sprintf("%s: %s", c.where(), counted(len(c.Entries), "version", "versions"))
	if _, err := fmt.Fprintln(e.stdout, e.stdout.Paint(term.Bold, strings.ToUpper(title[:1])+title[1:])); err != nil {
		return err
	}
	paint := func(role upgrade.Role, text string) string { return e.stdout.Paint(rolePaint[role], text) }
	return c.graph().Layout().Text(e.stdout, upgrade.TextOptions{Width: e.stdout.Width, ASCII: ascii, Paint: paint})
}

// graphView is what -o json prints of a graph.
type graphView struct {
	*channelUpgrades
	Edges []edgeView `json:"edges"`
}

type edgeView struct {
	From    string       `json:"from"`
	To      string       `json:"to"`
	Reasons []reasonView `json:"reasons"`
}

type reasonView struct {
	Kind  upgrade.Kind `json:"kind"`
	Range string       `json:"range,omitempty"`
}

func reasonViews(reasons []upgrade.Reason) []reasonView {
	views := make([]reasonView, len(reasons))
	for i, r := range reasons {
		views[i] = reasonView{r.Kind, r.Range}
	}
	return views
}

func (e *env) printGraphs(out *output, channels []channelUpgrades, single bool) error {
	var rows []row
	for i := range channels {
		g := graphView{channelUpgrades: &channels[i], Edges: []edgeView{}}
		for _, edge := range channels[i].graph().Edges() {
			g.Edges = append(g.Edges, edgeView{edge.From, edge.To, reasonViews(edge.Reasons)})
		}
		object, err := view("UpgradeGraph", g.Name, g)
		if err != nil {
			return err
		}
		rows = append(rows, row{object: object})
	}
	return out.print(e.stdout, nil, rows, single)
}
