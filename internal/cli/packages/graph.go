package packages

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/channel/draw"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
)

// pictures are the formats for one channel.
var pictures = map[string]func(io.Writer, *channel.Graph) error{"dot": draw.DOT, "mermaid": draw.Mermaid, "svg": draw.SVG}

func newGraphCommand(s *session.Session) *cobra.Command {
	var req channelsRequest
	var ascii bool
	cmd := &cobra.Command{
		Use:   "graph PACKAGE",
		Short: "Draw the upgrade graph of a package",
		Long: `Draw the upgrade graph of a channel of a package. In the terminal, the newest version is on top,
above the version that it replaces. Other replacements are drawn as lanes. Beside each version are
the versions that it skips and the range of versions that it can replace ("from"). The default
channel is drawn, unless --channel selects another.

-o dot is for Graphviz, -o mermaid for Markdown, -o svg for a browser. -o json and -o yaml have the
entries, and the edges with their reasons. --all-channels works with text, json and yaml.`,
		Example: `  kubectl catalog graph skupper-operator
  kubectl catalog graph skupper-operator --channel stable-1.6 -o mermaid
  kubectl catalog graph skupper-operator -o svg > skupper.svg
  kubectl catalog graph skupper-operator --all-channels`,
		Args:              onePackage("graph PACKAGE", "channel"),
		ValidArgsFunction: lookup.FirstArgument(lookup.CompletePackages(s)),
	}
	format := output.NewFormat(cmd, "text", "dot", "mermaid", "svg")
	flags := cmd.Flags()
	flags.StringVarP(&req.Catalog, "catalog", "c", "", "the package of this `catalog`")
	flags.StringVar(&req.Channel, "channel", "", "this `channel` instead of the default channel")
	flags.BoolVar(&req.all, "all-channels", false, "all channels of the package, the default channel first")
	flags.BoolVar(&ascii, "ascii", false, "draw with ASCII characters only")
	lookup.CompleteFlags(s, cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		req.Package = args[0]
		picture := pictures[format.Name()]
		switch {
		case req.all && req.Channel != "":
			return exit.Usagef("specify --channel or --all-channels, not both")
		case req.all && picture != nil:
			return exit.Usagef("-o %s draws one channel: use --channel, or -o text for all channels", format.Name())
		}
		channels, err := readChannels(cmd.Context(), s, req)
		switch {
		case err != nil:
			return err
		case picture != nil:
			return picture(s.Stdout, channels[0].Graph())
		case format.Name() != "text" && !format.IsTable():
			return printGraphs(s.Stdout, format, channels, !req.all)
		}
		return drawGraphs(s.Stdout, channels, ascii)
	}
	return cmd
}

// styles are those of the parts of a drawing.
var styles = map[draw.Role]output.Style{
	draw.RoleLanes: output.Cyan, draw.RoleVersion: output.Bold, draw.RoleHead: output.Green,
	draw.RoleDeprecated: output.Yellow, draw.RoleRemark: output.Faint,
}

func drawGraphs(to *output.Terminal, channels []channelDetails, ascii bool) error {
	lines := output.Lines{Terminal: to}
	options := draw.TextOptions{Width: to.Width, ASCII: ascii, Paint: func(role draw.Role, text string) string {
		return to.Paint(styles[role], text)
	}}
	for i := range channels {
		c := &channels[i]
		if i > 0 {
			lines.Printf("\n")
		}
		lines.Printf("%s\n", to.Paint(output.Bold, c.heading()+": "+output.Counted(len(c.Entries), "version", "versions")))
		lines.Do(func() error { return draw.Text(to, c.Graph(), options) })
	}
	return lines.Err
}

// heading returns where the channel is, as the beginning of a sentence.
func (c *channelDetails) heading() string {
	text := fmt.Sprintf("Channel %s of package %s in catalog %s", c.title(), c.Package.Name, c.Catalog.Name)
	return output.Line(text)
}

func printGraphs(to *output.Terminal, format *output.Format, channels []channelDetails, single bool) error {
	var rows []output.Row
	for i := range channels {
		c := &channels[i]
		graph := channel.UpgradeGraph{Details: &c.Details, Edges: append([]channel.Edge{}, c.Graph().Edges()...)}
		row, err := output.NewRow("UpgradeGraph", c.Name, graph)
		if err != nil {
			return err
		}
		rows = append(rows, row)
	}
	return format.Print(to, nil, rows, single)
}
