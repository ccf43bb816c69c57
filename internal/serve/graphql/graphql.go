// Package graphql serves GraphQL over HTTP (https://graphql.github.io/graphql-over-http/draft/): POST with a JSON body, or GET with
// parameters. Package graph has the schema and the resolvers.
//
// It supports queries only: no mutations, subscriptions, persisted queries or batches.
package graphql

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"

	gqlgen "github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/errcode"
	"github.com/99designs/gqlgen/graphql/executor"
	"github.com/99designs/gqlgen/graphql/handler/extension"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"golang.org/x/sync/semaphore"

	"github.com/operator-catalogs/catalogd/internal/bundle"
	"github.com/operator-catalogs/catalogd/internal/serve/graphql/graph"
	"github.com/operator-catalogs/catalogd/internal/serve/listing"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// Config configures a Handler.
type Config struct {
	BaseURL  string                     // the external URL: scheme and host, no trailing slash
	Priority func(catalog string) int32 // of a catalog; higher wins
	Limits   Limits
	Listings *listing.Cache
	Logger   *slog.Logger // for the causes of internal errors
}

// Handler answers GraphQL requests. It is safe for concurrent use.
type Handler struct {
	Config
	executor *executor.Executor
	queries  *queryCache
	cache    *graph.Cache
	large    *semaphore.Weighted // requests beyond Limits.Memory
}

// New returns a handler.
func New(cfg Config) *Handler {
	h := &Handler{
		Config:   cfg,
		executor: executor.New(graph.NewSchema()),
		large:    semaphore.NewWeighted(int64(cfg.Limits.Large)),
		queries:  newQueryCache(),
		cache:    graph.NewCache(),
	}
	h.executor.SetQueryCache(h.queries)
	h.executor.Use(&guard{Limits: cfg.Limits, known: h.queries})
	h.executor.Use(extension.Introspection{})
	h.executor.AroundFields(func(ctx context.Context, next gqlgen.Resolver) (any, error) { return graph.Meter(ctx, next) })
	h.executor.SetParserTokenLimit(cfg.Limits.Tokens)
	h.executor.SetRecoverFunc(func(_ context.Context, cause any) error {
		return fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
	})
	h.executor.SetErrorPresenter(present)
	return h
}

// Content opens the content of a bundle of a catalog. Its errors are an *graph.Error, or are only logged.
type Content func(catalog string, of bundle.Blob) (*bundle.Archive, error)

// Answer answers a request over the given catalogs. The caller limits the request body.
func (h *Handler) Answer(r *http.Request, catalogs []store.Catalog, content Content) *Reply {
	mediaType, bad := negotiate(r)
	var params *gqlgen.RawParams
	if bad == nil {
		params, bad = readParams(r)
	}
	if bad != nil {
		return bad.reply(mediaType)
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), h.Limits.Time,
		fmt.Errorf("the request took longer than %v (limit of one request): select fewer packages or fields, or use a smaller first",
			h.Limits.Time))
	defer cancel()
	var slots int64
	defer func() { h.large.Release(slots) }()
	grow := func() error {
		if h.large.Acquire(ctx, 1) != nil {
			return fmt.Errorf("too many concurrent large queries (limit %d): %w", h.Limits.Large, context.Cause(ctx))
		}
		slots = 1
		return nil
	}
	var failed sync.Once
	logFirst := func(err error) {
		failed.Do(func() { h.Logger.ErrorContext(ctx, "answering a GraphQL query", slog.Any("error", err)) })
	}
	response := h.execute(context.WithValue(ctx, logKey{}, logFirst), params, catalogs, graph.Options{
		BaseURL: h.BaseURL, Priority: h.Priority, Limits: h.Limits.Limits, Cache: h.cache, Listings: h.Listings, Grow: grow, Content: content,
	})
	status := http.StatusOK
	if mediaType == typeResponse && response.Data == nil { // a rejected query
		status = http.StatusBadRequest
	}
	return newReply(mediaType, status, response)
}

func (h *Handler) execute(
	ctx context.Context, params *gqlgen.RawParams, catalogs []store.Catalog, opts graph.Options,
) (response *gqlgen.Response) {
	defer func() { // gqlgen recovers only in resolvers
		if cause := recover(); cause != nil {
			err := present(ctx, fmt.Errorf("panic: %v\n%s", cause, debug.Stack()))
			response = &gqlgen.Response{Errors: gqlerror.List{err}, Data: null}
		}
	}()
	request := graph.NewRequest(opts, catalogs)
	defer context.AfterFunc(ctx, func() { request.Stop(&graph.Error{Code: graph.CodeLimit, Message: context.Cause(ctx).Error()}) })()
	response = h.run(graph.WithRequest(gqlgen.StartOperationTrace(ctx), request), params)
	if reason := request.Stopped(); reason != nil {
		// Each field that was not resolved has an error with this reason.
		return &gqlgen.Response{Errors: gqlerror.List{present(ctx, reason)}, Data: null}
	}
	return response
}

func (h *Handler) run(ctx context.Context, params *gqlgen.RawParams) *gqlgen.Response {
	operation, errs := h.executor.CreateOperationContext(ctx, params)
	if errs != nil {
		return h.executor.DispatchError(gqlgen.WithOperationContext(ctx, operation), errs)
	}
	respond, ctx := h.executor.DispatchOperation(ctx, operation)
	return respond(ctx)
}

// null is the data of an aborted reply.
var null = []byte("null")

type logKey struct{}

// logCause logs the first internal error of a request; the others mostly have the same cause.
func logCause(ctx context.Context, err error) {
	if logFirst, ok := ctx.Value(logKey{}).(func(error)); ok {
		logFirst(err)
	}
}

// present converts an error for clients: it adds a code, and hides the message of an internal error.
func present(ctx context.Context, err error) *gqlerror.Error {
	shown := gqlgen.DefaultErrorPresenter(ctx, err) // wraps errors of other packages
	var ours *graph.Error
	switch {
	case errors.As(err, &ours):
		if ours.Code == graph.CodeInternal {
			logCause(ctx, err) // before the message changes: shown may be err
		}
		shown.Message = ours.Message
		errcode.Set(shown, ours.Code)
	case len(shown.Path) > 1 && shown.Path[0] == ast.PathName("variable"): // gqlparser's message lacks the variable
		shown.Message = fmt.Sprintf("variable $%v %s", shown.Path[1], shown.Message)
	case shown.Extensions["code"] != nil: // parse and validation errors
	case shown.Unwrap() == nil: // gqlgen's own error about an argument or a null
		errcode.Set(shown, graph.CodeInput)
	default:
		logCause(ctx, err)
		shown.Message = "catalogd could not read the content; see its log"
		errcode.Set(shown, graph.CodeInternal)
	}
	return shown
}

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
