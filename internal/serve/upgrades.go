package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"

	"github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/channel/draw"
	"github.com/operator-catalogs/catalogd/internal/diff"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// upgrades serves upgrade graphs and upgrade paths of channels.
type upgrades struct{ *builder }

const (
	// maxEdges limits the edges of a graph, as in GraphQL. The largest known channel has 3,320.
	maxEdges = 10_000
	// maxRangeWork limits the entries of a channel times the bytes of all its skipRanges, because each range is compared with each
	// entry. The largest known channel has 160,000; the limit takes a second.
	maxRangeWork = 500_000_000
)

// picture is an output format of a graph.
type picture struct {
	contentType string
	draw        func(io.Writer, *channel.Graph) error
}

// pictures maps the values of the parameter format, except json.
var pictures = map[string]picture{
	"svg":     {typeSVG, draw.SVG},
	"dot":     {"text/vnd.graphviz; charset=utf-8", draw.DOT},
	"mermaid": {"text/plain; charset=utf-8", draw.Mermaid},
}

// graph serves the entries and the edges of a channel as JSON or as a picture.
func (s *upgrades) graph(w http.ResponseWriter, r *http.Request, c store.Catalog) error {
	values, err := parseParams(r, "format")
	if err != nil {
		return err
	}
	format := values.Get("format")
	form, isPicture := pictures[format]
	if !isPicture && format != "" && format != "json" {
		return badRequest("invalid format %q: must be json, svg, dot or mermaid", format)
	}
	h := w.Header()
	h.Set("Cache-Control", "no-cache") // the next release may change the drawing
	h.Set("Content-Type", typeJSON)
	h.Set("Content-Security-Policy", iconPolicy)
	if isPicture {
		h.Set("Content-Type", form.contentType)
	}
	return s.sendBuilt(w, r, "", func() ([]byte, error) {
		details, graph, err := channelOf(r, c)
		if err != nil {
			return nil, err
		}
		edges, err := edgesOf(r.Context(), graph)
		if err != nil {
			return nil, err
		}
		if !isPicture {
			return marshalLine(channel.UpgradeGraph{Details: details, Edges: edges})
		}
		var b bytes.Buffer
		err = form.draw(&b, graph)
		return b.Bytes(), err
	})
}

// path serves the upgrade path from one version of a channel to another.
func (s *upgrades) path(w http.ResponseWriter, r *http.Request, c store.Catalog) error {
	values, err := parseParams(r, "from", "to")
	if err != nil {
		return err
	}
	from := values.Get("from")
	if from == "" {
		return badRequest("the parameter from is required: the installed version or bundle")
	}
	w.Header().Set("Cache-Control", "no-cache") // the next release may change texts
	w.Header().Set("Content-Type", typeJSON)
	return s.sendBuilt(w, r, "", func() ([]byte, error) {
		details, graph, err := channelOf(r, c)
		if err != nil {
			return nil, err
		}
		paths, err := graph.Paths(from, values.Get("to"))
		blocked, ok := errors.AsType[*channel.BlockedError](err)
		if err != nil && !ok {
			return nil, err
		}
		return marshalLine(details.UpgradePath(paths, blocked))
	})
}

// channelOf returns the channel in the path of r. Entries are newest first.
func channelOf(r *http.Request, c store.Catalog) (*channel.Details, *channel.Graph, error) {
	pkg, name := r.PathValue("package"), r.PathValue("channel")
	all, err := readDetails(r.Context(), c, pkg)
	if err != nil {
		return nil, nil, err
	}
	ch, ok := all.Channels[name]
	if !ok {
		return nil, nil, notFound("channel %q not found in package %q of catalog %q", name, pkg, c.Name)
	}
	d := &channel.Details{
		Name: name, Package: channel.Named{Name: pkg}, Catalog: channel.Named{Name: c.Name}, IsDefault: name == all.DefaultChannel,
		Deprecation: deprecationOf(all, "channel", name), Head: channel.Named{Name: ch.Head},
	}
	ranges := 0
	for _, bundle := range slices.Sorted(maps.Keys(ch.Entries)) {
		e := ch.Entries[bundle]
		e.Version, e.Deprecation = all.Bundles[bundle].Version, deprecationOf(all, "bundle", bundle)
		d.Entries = append(d.Entries, e)
		ranges += len(e.SkipRange)
	}
	if ranges*len(d.Entries) > maxRangeWork {
		return nil, nil, unprocessable("the skipRanges of channel %q of package %q in catalog %q exceed the limit "+
			"of %d comparisons (entries times bytes of skipRanges)",
			name, pkg, c.Name, maxRangeWork)
	}
	graph := d.Graph()
	d.Head.Name, d.Entries = graph.Channel.Head, graph.Entries()
	return d, graph, nil
}

// deprecationOf returns the deprecation of a channel or a bundle; nil if there is none.
func deprecationOf(d *diff.Details, kind, name string) *channel.Deprecation {
	message := d.Deprecations[diff.Reference{Kind: kind, Name: name}]
	if message == "" {
		return nil
	}
	return &channel.Deprecation{Message: message}
}

func edgesOf(ctx context.Context, g *channel.Graph) ([]channel.Edge, error) {
	edges := []channel.Edge{}
	for i := range g.Entries() {
		if edges = append(edges, g.EdgesTo(i)...); len(edges) > maxEdges {
			return nil, unprocessable("the upgrade graph of channel %q in package %q exceeds the limit of %d edges; derive it from the entries",
				g.Channel.Name, g.Channel.Package, maxEdges)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return edges, nil
}

// marshalLine returns a value as JSON with a final newline.
func marshalLine(value any) ([]byte, error) {
	body, err := json.Marshal(value)
	return append(body, '\n'), err
}
