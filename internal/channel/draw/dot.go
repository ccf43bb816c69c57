package draw

import (
	"bufio"
	"fmt"
	"io"
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
