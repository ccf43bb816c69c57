package upgrade

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// DOT writes the graph for Graphviz, with the head on top.
func (g *Graph) DOT(w io.Writer) error {
	out := bufio.NewWriter(w)
	p := func(format string, args ...any) { fmt.Fprintf(out, format, args...) } // an error stays until Flush
	edges := g.Edges()
	p("digraph %s {\n", dotQuote(g.Channel.Package+"/"+g.Channel.Name))
	p("  rankdir=BT;\n")
	p("  node [shape=box, style=rounded, fontname=\"Helvetica\"];\n")
	p("  edge [fontname=\"Helvetica\", fontsize=10];\n")
	for _, n := range g.nodes {
		var attributes string
		if n.Name == g.Channel.Head {
			attributes += ", penwidth=2"
		}
		if n.Deprecated != "" {
			attributes += ", color=gray, fontcolor=gray"
		}
		p("  %s [label=%s%s];\n", dotQuote(n.Name), dotQuote(g.caption(n.Name)), attributes)
	}
	for _, name := range g.outsiders(edges) {
		p("  %s [label=%s, style=\"rounded,dashed\"];\n", dotQuote(name), dotQuote(g.caption(name)))
	}
	for _, e := range edges {
		p("  %s -> %s [label=%s%s];\n", dotQuote(e.From), dotQuote(e.To), dotQuote(reasonsOf(e)), dotStyle(e))
	}
	p("}\n")
	return out.Flush()
}

// dotStyle keeps the chain of replaces straight and lets all other edges bend.
func dotStyle(e Edge) string {
	switch e.Reasons[0].Kind {
	case Skips:
		return ", style=dashed"
	case SkipRange:
		return ", style=dotted, constraint=false"
	}
	return ""
}

var dotEscaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

func dotQuote(text string) string { return `"` + dotEscaper.Replace(clean(text)) + `"` }

// outsiders are the bundles that edges lead from and that are no entries.
func (g *Graph) outsiders(edges []Edge) []string {
	var out []string
	seen := map[string]bool{}
	for _, e := range edges {
		if _, ok := g.index[e.From]; !ok && !seen[e.From] {
			seen[e.From] = true
			out = append(out, e.From)
		}
	}
	return out
}

// caption says in one line what is known of a bundle.
func (g *Graph) caption(name string) string {
	i, ok := g.index[name]
	if !ok {
		return g.label(name) + " (no entry)"
	}
	row := Row{Entry: g.nodes[i].Entry, IsHead: name == g.Channel.Head}
	if tags := row.tags(); len(tags) > 0 {
		return fmt.Sprintf("%s (%s)", g.label(name), strings.Join(tags, ", "))
	}
	return g.label(name)
}

func reasonsOf(e Edge) string {
	texts := make([]string, len(e.Reasons))
	for i, r := range e.Reasons {
		texts[i] = r.String()
	}
	return strings.Join(texts, ", ")
}
