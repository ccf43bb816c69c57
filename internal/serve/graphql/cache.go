package graphql

import (
	"context"
	"strings"
	"sync"

	gqlgen "github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
)

// Limits of the cache: at most 8 MB, because a parsed query takes up to 60 times its text.
const (
	maxCached      = 64
	maxCachedQuery = 2 << 10 // bytes
)

// queryCache holds parsed queries that passed all checks, because parsing takes longer than a small reply. It is safe for
// concurrent use; its documents are immutable.
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

// Add implements gqlgen's Cache; gqlgen adds valid queries only. A full cache evicts any query; a frequent one soon returns.
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
