package graph

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
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

type (
	// PackageConnection is a page of packages.
	PackageConnection struct{ Connection[*Package] }
	// ChannelConnection is a page of channels.
	ChannelConnection struct{ Connection[*Channel] }
	// BundleConnection is a page of bundles.
	BundleConnection struct{ Connection[*Bundle] }
	// DeprecationsConnection is a page of olm.deprecations blobs.
	DeprecationsConnection struct{ Connection[*Deprecations] }
	// BlobConnection is a page of blobs.
	BlobConnection struct{ Connection[*Blob] }
)

// Edge is an element of a page with the cursor behind it.
type Edge[T any] struct {
	Cursor string
	Node   T
}

type (
	// PackageEdge is an element of a page of packages.
	PackageEdge = Edge[*Package]
	// ChannelEdge is an element of a page of channels.
	ChannelEdge = Edge[*Channel]
	// BundleEdge is an element of a page of bundles.
	BundleEdge = Edge[*Bundle]
	// DeprecationsEdge is an element of a page of olm.deprecations blobs.
	DeprecationsEdge = Edge[*Deprecations]
	// BlobEdge is an element of a page of blobs.
	BlobEdge = Edge[*Blob]
)

// Edges are the nodes with their cursors.
func (c Connection[T]) Edges() []*Edge[T] {
	edges := make([]*Edge[T], len(c.Nodes))
	for i, n := range c.Nodes {
		edges[i] = &Edge[T]{Cursor: c.page.cursor(i), Node: n}
	}
	return edges
}

// PageInfo tells where a page ends.
type PageInfo struct {
	HasNextPage bool
	EndCursor   *string
}

// PageInfo tells where the page ends.
func (c Connection[T]) PageInfo() *PageInfo {
	info := &PageInfo{HasNextPage: c.page.to < c.TotalCount}
	if n := c.page.to - c.page.from; n > 0 {
		end := c.page.cursor(n - 1)
		info.EndCursor = &end
	}
	return info
}

// list names a list of the answer: that of a field, with its arguments, over some catalogs.
type list struct {
	scope []*source
	what  string // equal for equal elements in equal order, as long as the catalogs are the same
}

func listOf(scope []*source, what ...any) list { return list{scope, fmt.Sprintf("%q", what)} }

// page is the stretch from..to-1 of a list.
type page struct {
	list     cursor // at 0
	from, to int
}

// page finds the stretch that first and after ask for, in a list of total elements.
func (l list) page(first *int, after *string, total int) (page, error) {
	size := DefaultFirst
	if first != nil {
		size = *first
	}
	if size < 1 || size > MaxFirst {
		return page{}, badInput("first is %d: use 1 to %d, and page with after and pageInfo.endCursor", size, MaxFirst)
	}
	p := page{list: l.start()}
	if deref(after) != "" {
		at, err := parseCursor(*after)
		if err != nil {
			return page{}, err
		}
		if err := l.accept(at, p.list); err != nil {
			return page{}, err
		}
		p.from = int(min(at.position, uint64(total)))
	}
	p.to = min(p.from+size, total)
	return p, nil
}

// pageOf is the page that first and after ask for, of a list whose elements stand for blobs: element makes one of each.
func pageOf[T any](b *batch, what list, first *int, after *string, element func(node) T) (Connection[T], error) {
	p, err := what.page(first, after, b.len())
	if err != nil {
		return Connection[T]{}, err
	}
	nodes := []T{}
	for _, n := range b.slice(p.from, p.to).nodes() {
		nodes = append(nodes, element(n))
	}
	return Connection[T]{nodes, b.len(), p}, nil
}

// cursor is the one behind element i of the page.
func (p page) cursor(i int) string {
	c := p.list
	c.position = uint64(p.from + i + 1)
	return c.String()
}

// cursor is a place in a list. To clients it is opaque.
type cursor struct {
	version  [cursorHash]byte // of all catalogs of the list
	what     [cursorHash]byte // the list
	position uint64           // how many elements lie before it
}

const cursorHash = 8

// start is the place before the first element. Priorities are of the version where they decide on the order.
func (l list) start() cursor {
	var c cursor
	version := sha256.New()
	for _, s := range l.scope {
		_, _ = fmt.Fprintf(version, "%q %q", s.at.Name, s.at.Snapshot.Key()) // a hash takes everything
		if len(l.scope) > 1 {
			_, _ = fmt.Fprintf(version, " %d", s.priority)
		}
	}
	what := sha256.Sum256([]byte(l.what))
	copy(c.version[:], version.Sum(nil))
	copy(c.what[:], what[:])
	return c
}

// accept tells whether a client's cursor is one of the list.
func (l list) accept(c, start cursor) error {
	if c.version != start.version {
		names := make([]string, len(l.scope))
		for i, s := range l.scope {
			names[i] = s.at.Name
		}
		return badInput("the cursor is of another version of what is listed (%s), which has changed since: begin again without after, or page "+
			"through one catalog after the other at /catalogs/{catalog}/digests/{digest}/api/v1/graphql, which does not change",
			strings.Join(names, ", "))
	}
	if c.what != start.what {
		return badInput("the cursor belongs to another list or to other arguments: " +
			"repeat the arguments of its request, or start again without after")
	}
	return nil
}

// String gives the cursor as parseCursor reads it.
func (c cursor) String() string {
	raw := append(append([]byte{}, c.version[:]...), c.what[:]...)
	return base64.RawURLEncoding.EncodeToString(binary.AppendUvarint(raw, c.position))
}

func parseCursor(text string) (cursor, error) {
	var c cursor
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) <= 2*cursorHash {
		return c, errCursor()
	}
	copy(c.version[:], raw)
	copy(c.what[:], raw[cursorHash:])
	position, n := binary.Uvarint(raw[2*cursorHash:])
	c.position = position
	if n <= 0 || c.String() != text {
		return c, errCursor()
	}
	return c, nil
}

func errCursor() error {
	return badInput("after is not a cursor: use pageInfo.endCursor or the cursor of an edge")
}
