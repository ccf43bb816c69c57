package graphql

import (
	"context"
	"strings"
	"sync"

	gqlgen "github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
)

// What is kept of queries that are asked again: 8 MB at most, as measured, since parsed a query takes up to 60 times its text.
const (
	maxCached      = 64
	maxCachedQuery = 2 << 10 // bytes
)

// queryCache keeps some queries that passed all checks, parsed: reading and checking a query takes longer than a small answer. It is safe
// for concurrent use; nobody changes what is in it.
type queryCache struct {
	mu        sync.RWMutex
	documents map[string]*ast.QueryDocument
}

var _ gqlgen.Cache[*ast.QueryDocument] = (*queryCache)(nil)

func newQueryCache() *queryCache { return &queryCache{documents: map[string]*ast.QueryDocument{}} }

// Get implements gqlgen's Cache.
func (c *queryCache) Get(_ context.Context, query string) (*ast.QueryDocument, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	document, ok := c.documents[query]
	return document, ok
}

// Add implements gqlgen's Cache; gqlgen adds a query once it is valid. Any other gives way: one that is asked for often is soon back, and
// one that is not had no use of its place.
func (c *queryCache) Add(_ context.Context, query string, document *ast.QueryDocument) {
	if len(query) > maxCachedQuery {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for other := range c.documents {
		if len(c.documents) < maxCached {
			break
		}
		delete(c.documents, other)
	}
	c.documents[strings.Clone(query)] = document
}
