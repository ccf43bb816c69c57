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
	"sync"

	gqlgen "github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/errcode"
	"github.com/99designs/gqlgen/graphql/executor"
	"github.com/99designs/gqlgen/graphql/handler/extension"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/operator-catalogs/catalogd/internal/serve/graphql/graph"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// Config configures a Handler.
type Config struct {
	BaseURL  string                     // the external URL: scheme and host, no trailing slash
	Priority func(catalog string) int32 // of a catalog: higher wins. nil: all 0
	Limits   Limits
	Logger   *slog.Logger // for the causes of internal errors; nil: the default logger
}

// Handler answers GraphQL requests. It is safe for concurrent use.
type Handler struct {
	Config
	executor *executor.Executor
	queries  *queryCache
	cache    *graph.Cache
	large    chan struct{} // one slot for each request beyond Limits.Memory
}

// New returns a handler.
func New(cfg Config) *Handler {
	cfg.Limits = cfg.Limits.withDefaults()
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	h := &Handler{
		Config:   cfg,
		executor: executor.New(graph.NewSchema()),
		large:    make(chan struct{}, cfg.Limits.Large),
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

// ServeCatalogs answers a request over the given catalogs. It sets Content-Type. For a reply with errors it removes
// the cache headers that the
// caller set. Other large requests may wait until w has taken the reply, so w should buffer it for slow clients.
func (h *Handler) ServeCatalogs(w http.ResponseWriter, r *http.Request, catalogs []store.Catalog) {
	mediaType, bad := negotiate(r)
	var params *gqlgen.RawParams
	if bad == nil {
		params, bad = h.readParams(w, r)
	}
	if bad != nil {
		bad.write(w, mediaType)
		return
	}
	failures := &failures{logger: h.Logger}
	ctx, cancel := context.WithTimeoutCause(r.Context(), h.Limits.Time,
		fmt.Errorf("the request took longer than %v (limit of one request): select fewer packages or fields, or use a smaller first",
			h.Limits.Time))
	defer cancel()
	turn := &turn{slots: h.large}
	defer turn.end() // after w has taken the reply
	response := h.execute(context.WithValue(ctx, failuresKey{}, failures), turn, params, catalogs)
	write(w, mediaType, statusOf(mediaType, response), response)
}

func (h *Handler) execute(ctx context.Context, turn *turn, params *gqlgen.RawParams, catalogs []store.Catalog) (response *gqlgen.Response) {
	defer func() { // gqlgen recovers only in resolvers
		if cause := recover(); cause != nil {
			err := present(ctx, fmt.Errorf("panic: %v\n%s", cause, debug.Stack()))
			response = &gqlgen.Response{Errors: gqlerror.List{err}, Data: null}
		}
	}()
	request := graph.NewRequest(graph.Options{
		BaseURL: h.BaseURL, Priority: h.Priority, Limits: h.Limits.Limits, Cache: h.cache,
		Grow: func() error { return turn.await(ctx) },
	}, catalogs)
	defer context.AfterFunc(ctx, func() { request.Stop(timeOver(ctx)) })()
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

// timeOver returns the reason of a context's end.
func timeOver(ctx context.Context) *graph.Error {
	return &graph.Error{Code: graph.CodeLimit, Message: context.Cause(ctx).Error()}
}

// turn is the slot of a large request.
type turn struct {
	slots chan struct{}
	taken bool
}

// await waits for a slot until ctx ends.
func (t *turn) await(ctx context.Context) error {
	select {
	case t.slots <- struct{}{}:
		t.taken = true
		return nil
	case <-ctx.Done():
		return fmt.Errorf("too many concurrent large queries (limit %d): %w", cap(t.slots), context.Cause(ctx))
	}
}

func (t *turn) end() {
	if t.taken {
		<-t.slots
	}
}

// null is the data of an aborted reply.
var null = []byte("null")

type failuresKey struct{}

// failures logs the first internal error of a request; the others mostly have the same cause.
type failures struct {
	logger *slog.Logger
	once   sync.Once
}

func (f *failures) log(ctx context.Context, err error) {
	f.once.Do(func() { f.logger.ErrorContext(ctx, "answering a GraphQL query", slog.Any("error", err)) })
}

func logCause(ctx context.Context, err error) {
	if f, ok := ctx.Value(failuresKey{}).(*failures); ok {
		f.log(ctx, err)
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
