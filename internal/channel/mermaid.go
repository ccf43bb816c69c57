package upgrade

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// maxMermaidEdges is how many edges Mermaid draws; of more it draws nothing. The reader's configuration says so (maxEdges), and a diagram must not
// change it.
const maxMermaidEdges = 500

// Mermaid writes the graph as a flowchart, with the head on top. If it has more edges than Mermaid draws, those that are of a skipRange alone are
// left out, and the entry tells its range instead; if it still has too many, so are those that only skip.
func (g *Graph) Mermaid(w io.Writer) error {
	out := bufio.NewWriter(w)
	p := func(format string, args ...any) { fmt.Fprintf(out, format, args...) } // an error stays until Flush
	edges, ranges, skips := g.mermaidEdges()
	p("flowchart BT\n")
	ids := map[string]string{}
	for i, n := range g.nodes {
		text := g.caption(n.Name)
		if skips && len(n.Entry.Skips) > 0 {
			text += ", skips " + g.labels(n.Entry.Skips, 3)
		}
		if ranges && n.SkipRange != "" {
			text += ", from " + n.SkipRange
		}
		ids[n.Name] = fmt.Sprintf("b%d", i)
		p("  b%d[%s]\n", i, mermaidQuote(text))
	}
	for i, name := range g.outsiders(edges) {
		ids[name] = fmt.Sprintf("o%d", i)
		p("  o%d([%s])\n", i, mermaidQuote(g.caption(name)))
	}
	for _, e := range edges {
		arrow := "-->"
		if e.Reasons[0].Kind != Replaces {
			arrow = "-.->"
		}
		p("  %s %s|%s| %s\n", ids[e.From], arrow, mermaidQuote(reasonsOf(e)), ids[e.To])
	}
	if i, ok := g.index[g.Channel.Head]; ok {
		p("  style b%d stroke-width:3px\n", i)
	}
	return out.Flush()
}

// mermaidEdges are those that are drawn, and whether ranges and skips are told instead.
func (g *Graph) mermaidEdges() (edges []Edge, ranges, skips bool) {
	all := g.Edges()
	for _, drawn := range [][]Kind{{Replaces, Skips, SkipRange}, {Replaces, Skips}, {Replaces}} {
		edges = nil
		for _, e := range all {
			for _, kind := range drawn {
				if e.Reasons[0].Kind == kind {
					edges = append(edges, e)
				}
			}
		}
		ranges, skips = len(drawn) < 3, len(drawn) < 2
		if len(edges) <= maxMermaidEdges {
			break
		}
	}
	return edges, ranges, skips
}

// mermaidEscaper writes what means something in Mermaid or its HTML as Mermaid's entities.
var mermaidEscaper = strings.NewReplacer("#", "#35;", `"`, "#quot;", "<", "#lt;", ">", "#gt;", "&", "#amp;", "`", "#96;", `\`, "#92;")

func mermaidQuote(text string) string { return `"` + mermaidEscaper.Replace(clean(text)) + `"` }
