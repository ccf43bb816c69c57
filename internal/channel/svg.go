package upgrade

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strings"
)

// The measures of the picture, in pixels.
const (
	svgMaxWidth   = 1600
	svgMinWidth   = 720
	svgMargin     = 28
	svgHeader     = 96
	svgRow        = 24
	svgLane       = 22  // between two lanes, unless they are many
	svgAllLanes   = 440 // of all lanes together
	svgArcs       = 240 // how far arcs reach out at most
	svgVersionPx  = 8.5 // of a column of the version, at most
	svgRemarkPx   = 6.6 // of a column of the remarks, on average
	svgTitlePx    = 15
	svgSubtitlePx = 7.5
	svgLegend     = 300
)

// maxHighlights bounds the names that elements get so that a row highlights what belongs to it: they are one for each end of each edge.
const maxHighlights = 50_000

// SVG draws the graph as a picture of at most 1600 pixels width that stands for itself: it has no script and fetches nothing. Lanes are drawn
// as in text; skips and skipRange are arcs beside them.
func (l *Layout) SVG(w io.Writer) error {
	s := newSVG(l)
	s.open()
	s.guides()
	for i := range l.Rows {
		s.lane(i)
	}
	for i := range l.Rows {
		s.arcs(i)
	}
	for i := range l.Rows {
		s.row(i)
	}
	s.p("</svg>\n")
	_, err := w.Write(s.b.Bytes())
	return err
}

type svg struct {
	*Layout
	b bytes.Buffer

	// Where things are, from left to right.
	arcs0                    float64 // where arcs begin and end
	lane0, laneStep          float64
	version, tags, remarksAt float64
	width                    float64

	arcList [][]arc // of each row those that end at it
	longest int     // the rows that the longest arc spans
	reach   float64 // how far it reaches out

	neighbours []strings.Builder // of each row the classes that name the rows at the other ends of its edges
	highlights bool
}

func newSVG(l *Layout) *svg {
	s := &svg{Layout: l, laneStep: math.Min(svgLane, svgAllLanes/math.Max(1, float64(l.Lanes)))}
	s.findArcs()
	label, tags, remark := 0, 0.0, 0
	for i := range l.Rows {
		r := &l.Rows[i]
		label = max(label, displayWidth(r.Label))
		tags = math.Max(tags, tagsWidth(r.tags()))
		remark = max(remark, displayWidth(strings.Join(l.remarks(r), "; ")))
	}
	label = min(label, 40)
	s.arcs0 = svgMargin + s.reach
	s.lane0 = s.arcs0 + 14
	s.version = s.lane0 + float64(max(0, l.Lanes-1))*s.laneStep + 24
	s.tags = s.version + float64(label)*svgVersionPx + 14
	s.remarksAt = s.tags + tags
	title := svgLegend + math.Max(float64(displayWidth(clean(l.graph.Channel.Package)))*svgTitlePx, float64(displayWidth(clean(s.subtitle())))*svgSubtitlePx)
	text := s.remarksAt + float64(remark)*svgRemarkPx
	s.width = math.Ceil(math.Min(svgMaxWidth, math.Max(svgMinWidth, math.Max(text, title)+svgMargin)))
	return s
}

func (s *svg) p(format string, args ...any) { fmt.Fprintf(&s.b, format, args...) }

// px writes a length without needless digits.
func px(f float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", f), ".0") }

// esc makes a text safe to stand in XML, in elements and in attributes.
func esc(text string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(clean(text))) // a buffer takes everything
	return b.String()
}

func (s *svg) x(lane int) float64 { return s.lane0 + float64(lane)*s.laneStep }

func (s *svg) y(row int) float64 { return svgHeader + (float64(row)+0.5)*svgRow }

func (s *svg) open() {
	height := svgHeader + float64(len(s.Rows))*svgRow + svgMargin
	name := s.graph.Channel
	s.p(`<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" viewBox="0 0 %[1]s %[2]s" role="img">`+"\n", px(s.width), px(height))
	s.p("<title>Upgrade graph of package %s, channel %s%s</title>\n", esc(name.Package), esc(name.Name), esc(s.inCatalog()))
	s.p("<style>\n%s%s</style>\n", svgStyle, s.highlightStyle())
	s.p(`<rect class="bg" width="100%%" height="100%%"/>` + "\n")
	most := int((s.width - svgLegend - svgMargin) / svgTitlePx)
	s.p(`<text class="h1" x="%d" y="42">%s</text>`+"\n", svgMargin, esc(truncate(clean(name.Package), most, "…")))
	most = int((s.width - svgLegend - svgMargin) / svgSubtitlePx)
	s.p(`<text class="h2" x="%d" y="68">%s</text>`+"\n", svgMargin, esc(truncate(clean(s.subtitle()), most, "…")))
	s.legend()
}

func (s *svg) subtitle() string {
	bundles := fmt.Sprintf("%d bundles", len(s.Rows))
	if len(s.Rows) == 1 {
		bundles = "1 bundle"
	}
	text := fmt.Sprintf("channel %s, %s", s.graph.Channel.Name, bundles)
	if len(s.Rows) > 0 && s.Rows[0].IsHead {
		text += ", head " + s.Rows[0].Label
	}
	return text + s.inCatalog()
}

// inCatalog names the catalog behind the channel; empty if it is not known.
func (s *svg) inCatalog() string {
	if s.graph.Channel.Catalog == "" {
		return ""
	}
	return ", catalog " + s.graph.Channel.Catalog
}

// legend says at the right what the lines mean, of those there are.
func (s *svg) legend() {
	kinds := map[Kind]bool{}
	for i := range s.Rows {
		kinds[Replaces] = kinds[Replaces] || s.Rows[i].Below
		for _, a := range s.arcList[i] {
			kinds[a.kind] = true
		}
	}
	y := 36.0
	for _, k := range []Kind{Replaces, Skips, SkipRange} {
		if !kinds[k] {
			continue
		}
		x := s.width - svgLegend + svgMargin/2
		s.p(`<path class="e %s" d="M%s %sh30"/><text class="note" x="%s" y="%s">%s</text>`+"\n",
			k, px(x), px(y), px(x+40), px(y+4), esc(legendTexts[k]))
		y += 20
	}
}

var legendTexts = map[Kind]string{
	Replaces:  "the upper replaces the lower",
	Skips:     "the upper skips the lower",
	SkipRange: "skipRange, as far as it reaches",
}

// guides lead the eye along each row, past the lanes of others. One lane needs none.
func (s *svg) guides() {
	if s.Lanes < 2 {
		return
	}
	for i := range s.Rows {
		s.p(`<path class="guide" d="M%s %sH%s"/>`+"\n", px(s.arcs0+2), px(s.y(i)), px(s.version-6))
	}
}

// lane draws the edge to a row's replaced entry: down its lane, and over to that of the other.
func (s *svg) lane(i int) {
	r := &s.Rows[i]
	if !r.Below {
		return
	}
	j := s.graph.index[r.Replaces]
	x, y, toX, toY := s.x(r.Lane), s.y(i), s.x(s.Rows[j].Lane), s.y(j)
	d := fmt.Sprintf("M%s %sV%s", px(x), px(y), px(toY))
	if x != toX {
		bend := toY - svgRow
		d = fmt.Sprintf("M%s %sV%sC%[1]s %[4]s %[5]s %[6]s %[5]s %[7]s", px(x), px(y), px(bend), px(toY-svgRow/4), px(toX), px(bend+svgRow/4), px(toY))
	}
	s.p(`<path class="e replaces%s" d="%s"/>`+"\n", s.ends(i, []int{j}), d)
}

// ends names the rows at the ends of an edge, for the style that highlights it.
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

// row draws what is said of an entry.
func (s *svg) row(i int) {
	r := &s.Rows[i]
	y := s.y(i)
	s.p(`<g id="r%d" class="row">`+"\n<title>%s</title>\n", i, s.tooltip(r))
	s.p(`<rect class="hit%s" x="0" y="%s" width="%s" height="%d"/>`+"\n", s.neighbours[i].String(), px(y-svgRow/2), px(s.width), svgRow)
	class := "node"
	if r.IsHead {
		class += " top"
	}
	if r.Deprecated != "" {
		class += " old"
	}
	s.p(`<circle class="%s" cx="%s" cy="%s" r="5"/>`+"\n", class, px(s.x(r.Lane)), px(y))
	class = "v"
	if r.Deprecated != "" {
		class += " gone"
	}
	s.p(`<text class="%s" x="%s" y="%s">%s</text>`+"\n", class, px(s.version), px(y+4.5), esc(truncate(r.Label, 40, "…")))
	x := s.tags
	for _, tag := range r.tags() {
		w := tagWidth(tag)
		s.p(`<rect class="tag %s" x="%s" y="%s" width="%s" height="17" rx="8.5"/><text class="tagtext %[1]s" x="%[5]s" y="%[6]s">%[1]s</text>`+"\n",
			tag, px(x), px(y-8.5), px(w-8), px(x+(w-8)/2), px(y+4))
		x += w
	}
	if text := strings.Join(s.remarks(r), "; "); text != "" {
		most := int((s.width - svgMargin - s.remarksAt) / svgRemarkPx)
		s.p(`<text class="note" x="%s" y="%s">%s</text>`+"\n", px(s.remarksAt), px(y+4), esc(truncate(text, most, "…")))
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

// tooltip says everything of a row, a line each.
func (s *svg) tooltip(r *Row) string {
	lines := []string{esc(r.Name)}
	if r.Version != "" {
		lines = append(lines, esc("version "+r.Version))
	}
	if r.IsHead {
		lines = append(lines, "head of the channel")
	}
	if r.Deprecated != "" {
		lines = append(lines, esc("deprecated: "+r.Deprecated))
	}
	if r.Replaces != "" {
		lines = append(lines, esc("replaces "+r.Replaces))
	}
	for _, name := range r.Skips {
		lines = append(lines, esc("skips "+name))
	}
	if r.SkipRange != "" {
		lines = append(lines, esc("skipRange "+r.SkipRange))
	}
	return strings.Join(lines, "\n")
}
