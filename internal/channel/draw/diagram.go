package draw

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/operator-catalogs/catalogd/internal/channel"
)

// DOT draws the graph for Graphviz, the head on top.
func DOT(w io.Writer, g *channel.Graph) error {
	out := bufio.NewWriter(w)
	p := func(format string, args ...any) { fmt.Fprintf(out, format, args...) } // Flush returns the error
	entries, edges := g.Entries(), g.Edges()
	p("digraph %s {\n", dotQuote(g.Channel.Package+"/"+g.Channel.Name))
	p("  rankdir=BT;\n")
	p("  node [shape=box, style=rounded, fontname=\"Helvetica\"];\n")
	p("  edge [fontname=\"Helvetica\", fontsize=10];\n")
	for _, n := range entries {
		var attributes string
		if n.Name == g.Channel.Head {
			attributes += ", penwidth=2"
		}
		if n.Deprecation != nil {
			attributes += ", color=gray, fontcolor=gray"
		}
		p("  %s [label=%s%s];\n", dotQuote(n.Name), dotQuote(caption(g, entries, n.Name)), attributes)
	}
	for _, name := range outsiders(g, edges) {
		p("  %s [label=%s, style=\"rounded,dashed\"];\n", dotQuote(name), dotQuote(caption(g, entries, name)))
	}
	for _, e := range edges {
		p("  %s -> %s [label=%s%s];\n", dotQuote(e.From), dotQuote(e.To), dotQuote(reasons(e)), dotStyle(e))
	}
	p("}\n")
	return out.Flush()
}

// dotStyle keeps the replaces chain straight; other edges bend.
func dotStyle(e channel.Edge) string {
	switch e.Reasons[0].Kind {
	case channel.Skips:
		return ", style=dashed"
	case channel.SkipRange:
		return ", style=dotted, constraint=false"
	}
	return ""
}

var dotEscaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

func dotQuote(text string) string { return `"` + dotEscaper.Replace(channel.Clean(text)) + `"` }

// maxMermaidEdges is Mermaid's default limit (maxEdges), which a diagram cannot change. Mermaid draws nothing beyond it.
const maxMermaidEdges = 500

// Mermaid draws the graph as a flowchart, the head on top. To stay within Mermaid's limit of edges it omits the edges
// of a skipRange only, then those of skips only, and shows the range or the skips in the entry.
func Mermaid(w io.Writer, g *channel.Graph) error {
	out := bufio.NewWriter(w)
	p := func(format string, args ...any) { fmt.Fprintf(out, format, args...) } // Flush returns the error
	entries := g.Entries()
	edges, ranges, skips := mermaidEdges(g)
	p("flowchart BT\n")
	ids := map[string]string{}
	for i, n := range entries {
		text := caption(g, entries, n.Name)
		if skips && len(n.Skips) > 0 {
			text += ", skips " + g.Labels(n.Skips, 3)
		}
		if ranges && n.SkipRange != "" {
			text += ", from " + n.SkipRange
		}
		ids[n.Name] = fmt.Sprintf("b%d", i)
		p("  b%d[%s]\n", i, mermaidQuote(text))
	}
	for i, name := range outsiders(g, edges) {
		ids[name] = fmt.Sprintf("o%d", i)
		p("  o%d([%s])\n", i, mermaidQuote(caption(g, entries, name)))
	}
	for _, e := range edges {
		arrow := "-->"
		if e.Reasons[0].Kind != channel.Replaces {
			arrow = "-.->"
		}
		p("  %s %s|%s| %s\n", ids[e.From], arrow, mermaidQuote(reasons(e)), ids[e.To])
	}
	if i, ok := g.Index(g.Channel.Head); ok {
		p("  style b%d stroke-width:3px\n", i)
	}
	return out.Flush()
}

// mermaidEdges returns the edges to draw, and whether ranges and skips are shown in the entries instead.
func mermaidEdges(g *channel.Graph) (edges []channel.Edge, ranges, skips bool) {
	edges = g.Edges()
	for _, omitted := range []channel.Kind{channel.SkipRange, channel.Skips} {
		if len(edges) <= maxMermaidEdges {
			break
		}
		edges = slices.DeleteFunc(edges, func(e channel.Edge) bool { return e.Reasons[0].Kind == omitted })
		ranges, skips = true, omitted == channel.Skips
	}
	return edges, ranges, skips
}

// mermaidEscaper escapes the syntax of Mermaid and HTML.
var mermaidEscaper = strings.NewReplacer("#", "#35;", `"`, "#quot;", "<", "#lt;", ">", "#gt;", "&", "#amp;", "`", "#96;", `\`, "#92;")

func mermaidQuote(text string) string { return `"` + mermaidEscaper.Replace(channel.Clean(text)) + `"` }
