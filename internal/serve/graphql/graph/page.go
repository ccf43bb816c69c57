package graph

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"

	"github.com/99designs/gqlgen/graphql"
)

// The sizes of a page.
const (
	DefaultFirst = 50
	MaxFirst     = 100
)

// Connection is a page of a list.
type Connection[T any] struct {
	Nodes      []T
	TotalCount int
	page       page
}

// Edge is an element of a page with the cursor after it.
type Edge[T any] struct {
	Cursor string
	Node   T
}

type (
	// ChannelConnection is a page of channels.
	ChannelConnection = Connection[*Channel]
	// ChannelEdge is an element of a page of channels.
	ChannelEdge = Edge[*Channel]
	// BundleConnection is a page of bundles.
	BundleConnection = Connection[*Bundle]
	// BundleEdge is an element of a page of bundles.
	BundleEdge = Edge[*Bundle]
	// DeprecationsConnection is a page of olm.deprecations blobs.
	DeprecationsConnection = Connection[*Deprecations]
	// DeprecationsEdge is an element of a page of olm.deprecations blobs.
	DeprecationsEdge = Edge[*Deprecations]
	// BlobConnection is a page of blobs.
	BlobConnection = Connection[*Blob]
	// BlobEdge is an element of a page of blobs.
	BlobEdge = Edge[*Blob]
)

// Edges returns the nodes with their cursors.
func (c Connection[T]) Edges() []*Edge[T] {
	edges, cursor := make([]*Edge[T], len(c.Nodes)), c.page.list.cursors()
	for i, n := range c.Nodes {
		edges[i] = &Edge[T]{Cursor: cursor(c.page.from + i + 1), Node: n}
	}
	return edges
}

// PageInfo returns the end of the page.
func (c Connection[T]) PageInfo() *PageInfo {
	info := &PageInfo{HasNextPage: c.page.to < c.TotalCount}
	if c.page.to > c.page.from {
		end := c.page.list.cursors()(c.page.to)
		info.EndCursor = &end
	}
	return info
}

// list identifies a list. Its cursors have the form VERSION-WHAT-POSITION. Most queries select no cursor, so their parts are
// computed on demand.
type list struct {
	scope []*source
	what  []any // the field and its arguments
}

// listOf returns the list of a field and its arguments.
func listOf(scope []*source, what ...any) list { return list{scope, what} }

// parts returns the hash of the catalogs, and that of the field and its arguments. Priorities belong to the version if they
// affect the order.
func (l list) parts() (version, what string) {
	var catalogs strings.Builder
	for _, s := range l.scope {
		fmt.Fprintf(&catalogs, "%q %q", s.catalog.Name, s.snapshot.Key())
		if len(l.scope) > 1 {
			fmt.Fprintf(&catalogs, " %d", s.catalog.Priority)
		}
	}
	return shortHash(catalogs.String()), shortHash(fmt.Sprintf("%q", l.what))
}

func shortHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("%x", sum[:8])
}

// cursors returns a function for the cursor after the first elements of the list.
func (l list) cursors() func(elements int) string {
	version, what := l.parts()
	return func(elements int) string { return fmt.Sprintf("%s-%s-%d", version, what, elements) }
}

// position returns the number of elements before a client's cursor.
func (l list) position(cursor string) (int, error) {
	version, rest, _ := strings.Cut(cursor, "-")
	what, number, _ := strings.Cut(rest, "-")
	position, err := strconv.Atoi(number)
	isVersion, isWhat := l.parts()
	switch {
	case err != nil || position < 0 || strconv.Itoa(position) != number:
		return 0, badInput("after is not a cursor: use pageInfo.endCursor or the cursor of an edge")
	case version != isVersion:
		names := make([]string, len(l.scope))
		for i, s := range l.scope {
			names[i] = s.catalog.Name
		}
		return 0, badInput("the listed catalogs (%s) have changed since the cursor was returned: start again without after, or page "+
			"through a single catalog at /catalogs/{catalog}/digests/{digest}/api/v1/graphql, which never changes", strings.Join(names, ", "))
	case what != isWhat:
		return 0, badInput("the cursor belongs to another list or to other arguments: " +
			"repeat the arguments of its request, or start again without after")
	}
	return position, nil
}

// page is the range from..to-1 of a list.
type page struct {
	list     list
	from, to int
}

// page returns the page that first, and after or offset, select from a list of total elements.
func (l list) page(first *int, after *string, offset *int, total int) (page, error) {
	size := DefaultFirst
	if first != nil {
		size = *first
	}
	if size < 1 || size > MaxFirst {
		return page{}, badInput("first is %d: use 1 to %d, and page with after and pageInfo.endCursor", size, MaxFirst)
	}
	p := page{list: l}
	switch {
	case offset != nil && (*offset < 0 || deref(after) != ""):
		return page{}, badInput("offset is %d: use a number from 0, without after", *offset)
	case offset != nil:
		p.from = min(*offset, total)
	case deref(after) != "":
		position, err := l.position(*after)
		if err != nil {
			return page{}, err
		}
		p.from = min(position, total)
	}
	p.to = min(p.from+size, total)
	return p, nil
}

// pageOf returns the page that first and after select from a list of blobs. element converts each blob of the page.
func pageOf[T any](b *batch, l list, first *int, after *string, element func(node) T) (*Connection[T], error) {
	p, err := l.page(first, after, nil, b.len())
	if err != nil {
		return nil, err
	}
	nodes := []T{}
	for _, n := range b.slice(p.from, p.to).nodes() {
		nodes = append(nodes, element(n))
	}
	return &Connection[T]{nodes, b.len(), p}, nil
}

// listings has the assumed cost, in fields, of evaluating the list of each connection.
var listings = map[string]int{
	"Query.packages":     50,
	"Query.channels":     20,
	"Query.bundles":      20,
	"Query.deprecations": 20,
	"Query.blobs":        20,
	"Package.bundles":    1,
	"Package.blobs":      1,
}

// NewSchema returns the schema with its resolvers, which get the request from WithRequest. The complexity of a query is the
// number of its fields, multiplied by first below a connection. A list without pages counts once: Limits.Values bounds it.
func NewSchema() graphql.ExecutableSchema {
	return schema{NewExecutableSchema(Config{Resolvers: resolver{}})}
}

// schema adds the complexity of connections to the generated schema. gqlgen's way needs a generated function for each field.
type schema struct{ graphql.ExecutableSchema }

// Complexity implements graphql.ExecutableSchema; false is the default complexity. A resolver rejects an invalid first.
func (schema) Complexity(_ context.Context, typeName, field string, child int, args map[string]any) (int, bool) {
	listing, ok := listings[typeName+"."+field]
	if !ok {
		return 0, false
	}
	n := DefaultFirst
	if first := args["first"]; first != nil {
		given, err := graphql.UnmarshalInt(first)
		if err != nil {
			return 0, false
		}
		n = min(max(given, 1), MaxFirst)
	}
	const limit = 1 << 40 // prevents an overflow
	return listing + n*min(child, limit), true
}
