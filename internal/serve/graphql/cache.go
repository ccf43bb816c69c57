package graphql

import (
	"context"
	"strings"

	gqlgen "github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"k8s.io/utils/lru"
)

// Limits of the cache: at most 8 MB, because a parsed query takes up to 60 times its text.
const (
	maxCached      = 64
	maxCachedQuery = 2 << 10 // bytes
)

// queryCache holds parsed queries that passed all checks, because parsing takes longer than a small reply. It is safe for
// concurrent use; its documents are immutable.
type queryCache struct{ documents *lru.Cache }

var _ gqlgen.Cache[*ast.QueryDocument] = queryCache{}

func newQueryCache() queryCache { return queryCache{lru.New(maxCached)} }

// Get implements gqlgen's Cache.
func (c queryCache) Get(_ context.Context, query string) (*ast.QueryDocument, bool) {
	document, ok := c.documents.Get(query)
	if !ok {
		return nil, false
	}
	return document.(*ast.QueryDocument), true
}

// Add implements gqlgen's Cache; gqlgen adds valid queries only.
func (c queryCache) Add(_ context.Context, query string, document *ast.QueryDocument) {
	if len(query) <= maxCachedQuery {
		c.documents.Add(strings.Clone(query), document)
	}
}
