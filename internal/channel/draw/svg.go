package draw

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/textwidth"
)

// Measures of the picture, in pixels.
const (
	svgMaxWidth   = 1600
	svgMinWidth   = 720
	svgMargin     = 28
	svgHeader     = 96
	svgRow        = 24
	svgLane       = 22  // between two lanes, unless there are many
	svgAllLanes   = 440 // of all lanes
	svgArcs       = 240 // the maximum extent of arcs
	svgVersionPx  = 8.5 // of a character of the version, at most
	svgRemarkPx   = 6.6 // of a character of the remarks, on average
	svgTitlePx    = 15
	svgSubtitlePx = 7.5
	svgLegend     = 300
)

// maxHighlights limits the classes that highlight the edges of a row: one for each end of each edge.
const maxHighlights = 50_000

// SVG draws the graph as a self-contained picture, at most 1600 pixels wide, without scripts. Lanes are as in Text; skips and skipRange are
// arcs beside them.
func SVG(w io.Writer, g *channel.Graph) error {
	l := newLayout(g)
	s := newSVG(l)
	s.open()
	s.guides()
	for i := range l.rows {
		s.lane(i)
	}
	for i := range l.rows {
		s.arcs(i)
	}
	for i := range l.rows {
		s.row(i)
	}
	s.p("</svg>\n")
	_, err := w.Write(s.b.Bytes())
	return err
}

type svg struct {
	*layout
	b bytes.Buffer

	// Positions from left to right.
	arcs0                    float64 // the ends of arcs
	lane0, laneStep          float64
	version, tags, remarksAt float64
	width                    float64

	arcList [][]arc // of each row, the arcs that end at it
	longest int     // rows that the longest arc spans
	reach   float64 // extent of the longest arc

	neighbors  []strings.Builder // of each row, classes for the rows at the other ends of its edges
	highlights bool
}

func newSVG(l *layout) *svg {
	s := &svg{layout: l, laneStep: math.Min(svgLane, svgAllLanes/math.Max(1, float64(l.lanes)))}
	s.findArcs()
	label, tags, remark := 0, 0.0, 0
	for i := range l.rows {
		r := &l.rows[i]
		label = max(label, textwidth.Of(r.label))
		tags = math.Max(tags, tagsWidth(r.tags()))
		remark = max(remark, textwidth.Of(strings.Join(l.remarks(r), "; ")))
	}
	label = min(label, 40)
	s.arcs0 = svgMargin + s.reach
	s.lane0 = s.arcs0 + 14
	s.version = s.lane0 + float64(max(0, l.lanes-1))*s.laneStep + 24
	s.tags = s.version + float64(label)*svgVersionPx + 14
	s.remarksAt = s.tags + tags
	title := svgLegend + math.Max(float64(textwidth.Of(channel.Clean(l.graph.Channel.Package)))*svgTitlePx,
		float64(textwidth.Of(channel.Clean(s.subtitle())))*svgSubtitlePx)
	text := s.remarksAt + float64(remark)*svgRemarkPx
	s.width = math.Ceil(math.Min(svgMaxWidth, math.Max(svgMinWidth, math.Max(text, title)+svgMargin)))
	return s
}

func (s *svg) p(format string, args ...any) { fmt.Fprintf(&s.b, format, args...) }

// px formats a length.
func px(f float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", f), ".0") }

// esc escapes a text for XML elements and attributes.
func esc(text string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(channel.Clean(text))) // a buffer does not fail
	return b.String()
}

func (s *svg) x(lane int) float64 { return s.lane0 + float64(lane)*s.laneStep }

func (s *svg) y(row int) float64 { return svgHeader + (float64(row)+0.5)*svgRow }

func (s *svg) open() {
	height := svgHeader + float64(len(s.rows))*svgRow + svgMargin
	name := s.graph.Channel
	s.p(`<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" viewBox="0 0 %[1]s %[2]s" role="img">`+"\n", px(s.width), px(height))
	s.p("<title>Upgrade graph of package %s, channel %s%s</title>\n", esc(name.Package), esc(name.Name), esc(s.inCatalog()))
	s.p("<style>\n%s%s</style>\n", svgStyle, s.highlightStyle())
	s.p(`<rect class="bg" width="100%%" height="100%%"/>` + "\n")
	most := int((s.width - svgLegend - svgMargin) / svgTitlePx)
	s.p(`<text class="h1" x="%d" y="42">%s</text>`+"\n", svgMargin, esc(textwidth.Truncate(channel.Clean(name.Package), most, "…")))
	most = int((s.width - svgLegend - svgMargin) / svgSubtitlePx)
	s.p(`<text class="h2" x="%d" y="68">%s</text>`+"\n", svgMargin, esc(textwidth.Truncate(channel.Clean(s.subtitle()), most, "…")))
	s.legend()
}

func (s *svg) subtitle() string {
	bundles := fmt.Sprintf("%d bundles", len(s.rows))
	if len(s.rows) == 1 {
		bundles = "1 bundle"
	}
	text := fmt.Sprintf("channel %s, %s", s.graph.Channel.Name, bundles)
	if len(s.rows) > 0 && s.rows[0].isHead {
		text += ", head " + s.rows[0].label
	}
	return text + s.inCatalog()
}

// inCatalog returns the catalog as a suffix, if it is known.
func (s *svg) inCatalog() string {
	if s.graph.Channel.Catalog == "" {
		return ""
	}
	return ", catalog " + s.graph.Channel.Catalog
}

// legend explains the kinds of lines in use, at the right.
func (s *svg) legend() {
	kinds := map[channel.Kind]bool{}
	for i := range s.rows {
		kinds[channel.Replaces] = kinds[channel.Replaces] || s.rows[i].Below
		for _, a := range s.arcList[i] {
			kinds[a.kind] = true
		}
	}
	y := 36.0
	for _, k := range []channel.Kind{channel.Replaces, channel.Skips, channel.SkipRange} {
		if !kinds[k] {
			continue
		}
		x := s.width - svgLegend + svgMargin/2
		s.p(`<path class="e %s" d="M%s %sh30"/><text class="note" x="%s" y="%s">%s</text>`+"\n",
			k, px(x), px(y), px(x+40), px(y+4), esc(legendTexts[k]))
		y += 20
	}
}

var legendTexts = map[channel.Kind]string{
	channel.Replaces:  "the upper replaces the lower",
	channel.Skips:     "the upper skips the lower",
	channel.SkipRange: "the upper's skipRange reaches the lower",
}

// guides draws a line along each row, unless there is only one lane.
func (s *svg) guides() {
	if s.lanes < 2 {
		return
	}
	for i := range s.rows {
		s.p(`<path class="guide" d="M%s %sH%s"/>`+"\n", px(s.arcs0+2), px(s.y(i)), px(s.version-6))
	}
}

// lane draws the edge from row i to its replaced entry: down its lane, then over to the other lane.
func (s *svg) lane(i int) {
	r := &s.rows[i]
	if !r.Below {
		return
	}
	j, _ := s.graph.Index(r.Replaces)
	x, y, toX, toY := s.x(r.Lane), s.y(i), s.x(s.rows[j].Lane), s.y(j)
	d := fmt.Sprintf("M%s %sV%s", px(x), px(y), px(toY))
	if x != toX {
		bend := toY - svgRow
		d = fmt.Sprintf("M%s %sV%sC%[1]s %[4]s %[5]s %[6]s %[5]s %[7]s", px(x), px(y), px(bend), px(toY-svgRow/4), px(toX), px(bend+svgRow/4),
			px(toY))
	}
	s.p(`<path class="e replaces%s" d="%s"/>`+"\n", s.ends(i, []int{j}), d)
}

// ends returns classes for the rows at the ends of an edge, for highlightStyle.
func (s *svg) ends(to int, from []int) string {
	var b strings.Builder
	fmt.Fprintf(&b, " e%d", to)
	if s.highlights {
		for _, i := range from {
			fmt.Fprintf(&b, " e%d", i)
		}
	}
	return b.String()
}

// row draws the node and the texts of an entry.
func (s *svg) row(i int) {
	r := &s.rows[i]
	y := s.y(i)
	s.p(`<g id="r%d" class="row">`+"\n<title>%s</title>\n", i, s.tooltip(r))
	s.p(`<rect class="hit%s" x="0" y="%s" width="%s" height="%d"/>`+"\n", s.neighbors[i].String(), px(y-svgRow/2), px(s.width), svgRow)
	class := "node"
	if r.isHead {
		class += " top"
	}
	if r.Deprecation != nil {
		class += " old"
	}
	s.p(`<circle class="%s" cx="%s" cy="%s" r="5"/>`+"\n", class, px(s.x(r.Lane)), px(y))
	class = "v"
	if r.Deprecation != nil {
		class += " gone"
	}
	s.p(`<text class="%s" x="%s" y="%s">%s</text>`+"\n", class, px(s.version), px(y+4.5), esc(textwidth.Truncate(r.label, 40, "…")))
	x := s.tags
	for _, tag := range r.tags() {
		w := tagWidth(tag)
		s.p(`<rect class="tag %s" x="%s" y="%s" width="%s" height="17" rx="8.5"/><text class="tagtext %[1]s" x="%[5]s" `+
			`y="%[6]s">%[1]s</text>`+"\n",
			tag, px(x), px(y-8.5), px(w-8), px(x+(w-8)/2), px(y+4))
		x += w
	}
	if text := strings.Join(s.remarks(r), "; "); text != "" {
		most := int((s.width - svgMargin - s.remarksAt) / svgRemarkPx)
		s.p(`<text class="note" x="%s" y="%s">%s</text>`+"\n", px(s.remarksAt), px(y+4), esc(textwidth.Truncate(text, most, "…")))
	}
	s.p("</g>\n")
}

func tagWidth(tag string) float64 { return float64(len(tag))*6.5 + 24 }

func tagsWidth(tags []string) float64 {
	sum := 0.0
	for _, t := range tags {
		sum += tagWidth(t)
	}
	return sum + 8
}

// tooltip returns all fields of an entry, one line each.
func (s *svg) tooltip(r *row) string {
	lines := []string{esc(r.Name)}
	add := func(label, value string) {
		if value != "" {
			lines = append(lines, esc(label+value))
		}
	}
	add("version ", r.Version)
	if r.isHead {
		lines = append(lines, "head of the channel")
	}
	if r.Deprecation != nil {
		add("deprecated: ", r.Deprecation.Message)
	}
	add("replaces ", r.Replaces)
	for _, name := range r.Skips {
		add("skips ", name)
	}
	add("skipRange ", r.SkipRange)
	return strings.Join(lines, "\n")
}
