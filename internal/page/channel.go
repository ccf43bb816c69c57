package page

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/blang/semver/v4"

	"github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/channel/draw"
	"github.com/operator-catalogs/catalogd/internal/version"
)

const (
	// maxNeighbors limits the edges that the page highlights. The largest known channel has 3,320.
	maxNeighbors = 20_000
	// maxRangeWork limits the entries of a channel times the bytes of all its skipRanges, because each range is compared with each
	// entry. The largest known channel has 160,000; the limit takes a tenth of a second.
	maxRangeWork = 50_000_000
	maxLines     = 50_000 // in the gutter; their number can be quadratic in that of the entries
	shownSkips   = 12     // of an entry
)

// Dimensions of the gutter, in pixels.
const (
	laneStep  = 14  // distance of two lanes
	laneWidth = 160 // maximum width of all lanes
	trackAt   = 6   // position of the track of the path, left of the lanes
)

// channelPage is the data of channel.html.
type channelPage struct {
	At          place
	Package     packageFacts
	Catalog     catalogVersion
	Channel     string
	Deprecation *deprecation
	Head        string   // its version
	Others      []choice // the channels of the package
	From, To    string   // the parameters
	OtherTo     string   // To, if no row has that key
	Rows        []channelRow
	Old         bool // whether an entry is deprecated
	Path        *pathResult
	TooLarge    bool // too large for edges and paths
	Broad       bool // too many lanes

	// Over has for each row the rows that can upgrade to it. It is nil if there are too many.
	Over   [][]int
	Gutter int // the width in pixels
}

// catalogVersion is the version of a catalog that a page shows.
type catalogVersion struct {
	Name, Digest string
	Image        string
	Version      string // its name in URLs; later queries for the same page name it, as the catalog may change meanwhile
	LastModified time.Time
}

// channelRow is an entry of a channel with its part of the graph.
type channelRow struct {
	channel.Entry
	Key            string // the version, or the name if the version is not unique; for URLs
	URL            string // of the bundle
	FromURL, ToURL string // of the path that starts or ends at the entry
	IsHead         bool
	IsTarget       bool
	Mark           string   // the step of the path
	Ways           []string // replaces, skips and skipRange as text

	Node  int    // the x position in the gutter
	Class string // of the node
	Lines []gutterLine
}

// gutterLine is a line in the gutter of a row: x in pixels, y in percent of the height of the row.
type gutterLine struct {
	X1, Y1, X2, Y2 int
	Track          bool // of the path
}

// pathResult is the result of a path query.
type pathResult struct {
	From, To  string
	Done      string   // why no upgrade is needed
	Blocked   string   // why there is no path
	Position  string   // of From among the versions, if there is no path and it is outside of them
	Elsewhere []choice // other channels with a path
	Only      bool     // no other channel has a path
	Notes     []string
	OLM       []channel.Step
	OLMNote   string
	Shortest  []channel.Step
	Others    string
}

// Title implements titled.
func (c channelPage) Title() string {
	return "Channel " + shorten(80, c.Channel) + " of " + shorten(80, c.Package.Label())
}

// PinnedURL returns the URL of this state in the shown version of the catalog; "" if the URL is pinned already.
func (c channelPage) PinnedURL() string {
	if c.At.Version != "" {
		return ""
	}
	at := c.At
	at.Version = c.Catalog.Version
	return at.ChannelURL(c.Channel) + stateURL(url.Values{"from": nonEmpty(c.From), "to": nonEmpty(c.To)})
}

// PictureURL returns the URL of a picture of the graph.
func (c channelPage) PictureURL(format string) string {
	return c.At.ChannelURL(c.Channel) + "/graph?format=" + format
}

const channelQuery = `query($p: String!, $channel: String!) { package(name: $p) {
name displayName iconHash catalog { name digest version lastModified } channels { name }
channel(name: $channel) { deprecation { message } head { name }
entries { name version replaces skips skipRange deprecation { message } } } } }`

// channelReply is the reply to channelQuery.
type channelReply struct {
	Package *struct {
		packageFacts
		Catalog  catalogVersion
		Channels []struct{ Name string }
		Channel  *struct {
			Deprecation *deprecation
			Head        struct{ Name string }
			Entries     []channel.Entry
		}
	}
}

func loadChannel(r *request) (any, error) {
	at, name := placeOf(r), r.PathValue("channel")
	var reply channelReply
	if _, err := r.api.query(at.Catalog, at.Version, channelQuery, map[string]any{"p": at.Package, "channel": name}, &reply); err != nil {
		return nil, err
	}
	pkg := reply.Package
	if pkg == nil {
		return nil, r.api.noPackage(at)
	}
	if pkg.Channel == nil {
		return nil, &apiError{Status: http.StatusNotFound, Text: fmt.Sprintf("channel %q not found in package %q", shorten(80, name), pkg.Name)}
	}
	c := channelPage{
		At: at, Package: pkg.packageFacts, Catalog: pkg.Catalog, Channel: name, Deprecation: pkg.Channel.Deprecation,
		From: strings.TrimSpace(r.values.Get("from")), To: strings.TrimSpace(r.values.Get("to")),
	}
	for _, other := range pkg.Channels {
		u := at.ChannelURL(other.Name) + stateURL(url.Values{"from": nonEmpty(c.From)})
		c.Others = append(c.Others, choice{other.Name, u, other.Name == name})
	}
	c.addGraph(channel.New(channel.Channel{
		Catalog: at.Catalog, Package: at.Package, Name: name, Head: pkg.Channel.Head.Name, Entries: pkg.Channel.Entries,
	}))
	return c, r.api.keepOpen(&c)
}

// addGraph adds the rows, their neighbors and the path.
func (c *channelPage) addGraph(g *channel.Graph) {
	entries, ranges := g.Entries(), 0
	for _, e := range entries {
		ranges += len(e.SkipRange)
	}
	c.TooLarge = ranges*len(entries) > maxRangeWork
	c.Head = g.Label(g.Channel.Head)
	c.addRows(g, entries)
	if c.TooLarge {
		return
	}
	c.addEdges(g)
	if c.From != "" {
		c.addPath(g)
	}
}

// addRows adds the entries, newest first, with their lanes.
func (c *channelPage) addRows(g *channel.Graph, entries []channel.Entry) {
	versions := map[string]int{}
	for _, e := range entries {
		versions[e.Version]++
	}
	c.OtherTo = c.To
	places, lanes := draw.Lanes(g)
	lines := 0
	for _, p := range places {
		lines += len(p.Through) + len(p.Joins) + 1
	}
	if c.Broad = lines > maxLines; c.Broad {
		places, lanes = make([]draw.Row, len(entries)), 1
	}
	c.Rows = make([]channelRow, len(entries))
	for i, e := range entries {
		named := entry{Name: e.Name, Version: e.Version, Twin: versions[e.Version] > 1}
		row := channelRow{Entry: e, Key: named.key(), URL: c.At.VersionURL(c.Channel, named), IsHead: e.Name == g.Channel.Head}
		row.FromURL = stateURL(url.Values{"from": {row.Key}, "to": nonEmpty(c.To)})
		row.ToURL = stateURL(url.Values{"from": nonEmpty(c.From), "to": {row.Key}})
		if row.IsTarget = c.To != "" && (c.To == row.Key || c.To == e.Name); row.IsTarget {
			c.OtherTo = ""
		}
		row.Ways = waysInto(g, entries, e)
		row.addLanes(places[i], lanes)
		c.Rows[i] = row
		c.Old = c.Old || e.Deprecation != nil
	}
	c.Gutter = laneAt(max(0, lanes-1), lanes) + 10
}

// waysInto returns the fields replaces, skips and skipRange of an entry of entries as text.
func waysInto(g *channel.Graph, entries []channel.Entry, e channel.Entry) []string {
	var ways []string
	if e.Replaces != "" {
		text := "replaces " + g.Label(e.Replaces)
		if i, ok := g.Index(e.Replaces); !ok {
			text += " (not in this channel)"
		} else if isDowngrade(entries[i].Version, e.Version) {
			text += ", which is a downgrade"
		}
		ways = append(ways, text)
	}
	if len(e.Skips) > 0 {
		ways = append(ways, "skips "+g.Labels(g.NewestFirst(e.Skips), shownSkips))
	}
	if e.SkipRange != "" {
		ways = append(ways, "skipRange "+channel.Clean(e.SkipRange))
	}
	return ways
}

// isDowngrade reports whether a version is lower than the version before; false if either is invalid.
func isDowngrade(from, to string) bool {
	a, errA := semver.Parse(from)
	b, errB := semver.Parse(to)
	return errA == nil && errB == nil && channel.IsDowngrade(a, b)
}

// laneAt returns the position of a lane in the gutter.
func laneAt(lane, lanes int) int {
	if lanes*laneStep <= laneWidth {
		return trackAt + 16 + lane*laneStep
	}
	return trackAt + 16 + lane*laneWidth/lanes
}

// addLanes adds the lines of a row: passing lanes, lanes that join its node, and the lane of the node.
func (r *channelRow) addLanes(p draw.Row, lanes int) {
	r.Node = laneAt(p.Lane, lanes)
	for _, lane := range p.Through {
		x := laneAt(lane, lanes)
		r.Lines = append(r.Lines, gutterLine{X1: x, X2: x, Y2: 100})
	}
	for _, lane := range p.Joins {
		r.Lines = append(r.Lines, gutterLine{X1: laneAt(lane, lanes), X2: r.Node, Y2: 50})
	}
	top, bottom := 50, 50
	if p.Above {
		top = 0
	}
	if p.Below {
		bottom = 100
	}
	if top < bottom {
		r.Lines = append(r.Lines, gutterLine{X1: r.Node, Y1: top, X2: r.Node, Y2: bottom})
	}
	switch {
	case r.IsHead:
		r.Class = "head"
	case r.Deprecation != nil:
		r.Class = "old"
	}
}

// addEdges sets Over.
func (c *channelPage) addEdges(g *channel.Graph) {
	over, count := make([][]int, len(c.Rows)), 0
	for i := range c.Rows {
		over[i] = []int{}
		for _, e := range g.EdgesTo(i) {
			if from, ok := g.Index(e.From); ok && from != i {
				over[i] = append(over[i], from)
			}
		}
		if count += len(over[i]); count > maxNeighbors {
			return
		}
	}
	c.Over = over
}

// keepOpen removes the channels from c.Path.Elsewhere that have no path either.
func (a api) keepOpen(c *channelPage) error {
	if c.Path == nil || len(c.Path.Elsewhere) == 0 {
		return nil
	}
	var reply struct {
		Package *struct {
			Channels []struct {
				Name    string
				Head    struct{ Name string }
				Entries []channel.Entry
			}
		}
	}
	const query = `query($p: String!) { package(name: $p) {
		channels { name head { name } entries { name version replaces skips skipRange } } } }`
	_, err := a.query(c.At.Catalog, c.Catalog.Version, query, map[string]any{"p": c.At.Package}, &reply)
	if err != nil || reply.Package == nil {
		return err
	}
	open, work := map[string]bool{}, 0
	for _, ch := range reply.Package.Channels {
		for _, e := range ch.Entries {
			work += len(e.SkipRange) * len(ch.Entries)
		}
		if work > maxRangeWork {
			return nil // all channels stay
		}
		g := channel.New(channel.Channel{Package: c.At.Package, Name: ch.Name, Head: ch.Head.Name, Entries: ch.Entries})
		_, err := g.Paths(c.Path.From, "")
		open[ch.Name] = err == nil
	}
	c.Path.Elsewhere = slices.DeleteFunc(c.Path.Elsewhere, func(other choice) bool { return !open[other.Label] })
	c.Path.Only = len(c.Path.Elsewhere) == 0
	return nil
}

// addPath computes the path from From to To and marks its rows.
func (c *channelPage) addPath(g *channel.Graph) {
	r := &pathResult{From: c.From, To: cmp.Or(c.To, c.Head)}
	c.Path = r
	paths, err := g.Paths(c.From, c.To)
	blocked, _ := errors.AsType[*channel.BlockedError](err)
	switch {
	case blocked != nil && blocked.Block == channel.Already:
		r.Done = blocked.Message
	case err != nil:
		r.Blocked, r.Position = err.Error(), c.position()
		for _, other := range c.Others {
			if !other.Current {
				r.Elsewhere = append(r.Elsewhere, other)
			}
		}
	default:
		r.Notes, r.OLM, r.OLMNote, r.Shortest = paths.Notes, paths.OLM, paths.OLMNote, paths.Shortest
		if paths.MayBeMore {
			r.Others = fmt.Sprintf("at least %d", paths.Others)
		} else if paths.Others > 0 {
			r.Others = fmt.Sprint(paths.Others)
		}
		c.markPath(g, r)
	}
}

// position returns that From is newer than the head or older than all versions; "" if it is neither or unknown.
func (c *channelPage) position() string {
	from, head, oldest := strings.TrimPrefix(c.From, "v"), "", ""
	if _, version, ok := strings.Cut(c.From, ".v"); ok {
		from = version
	}
	for _, row := range c.Rows {
		if row.Name == c.From {
			from = row.Version
		}
		if row.IsHead {
			head = row.Version
		}
		if oldest == "" || version.Compare(row.Version, oldest) < 0 {
			oldest = row.Version
		}
	}
	_, err := semver.Parse(from)
	switch {
	case err != nil || head == "":
		return ""
	case version.Compare(from, head) > 0:
		return fmt.Sprintf("The installed version is newer than the head of this channel, %s.", head)
	case version.Compare(from, oldest) < 0:
		return fmt.Sprintf("The installed version is older than all versions of this channel. The oldest is %s.", oldest)
	}
	return ""
}

// markPath marks the rows of the path and draws its track. The path is that of OLM, or the shortest if OLM takes none.
func (c *channelPage) markPath(g *channel.Graph, r *pathResult) {
	steps := r.OLM
	if steps == nil {
		steps = r.Shortest
	}
	first, last := len(c.Rows), 0
	mark := func(name, text string) {
		if i, ok := g.Index(name); ok {
			first, last = min(first, i), max(last, i)
			c.Rows[i].Mark = text
		}
	}
	for i, step := range steps {
		if i == 0 {
			mark(step.From.Name, "start")
		}
		mark(step.To.Name, fmt.Sprintf("step %d", i+1))
	}
	for i := first; i <= last; i++ {
		top, bottom := 0, 100
		if i == first {
			top = 50
		}
		if i == last {
			bottom = 50
		}
		c.Rows[i].Lines = append(c.Rows[i].Lines, gutterLine{trackAt, top, trackAt, bottom, true})
	}
}
