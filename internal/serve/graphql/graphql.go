// Package graphql answers GraphQL requests about catalogs over HTTP, as https://graphql.github.io/graphql-over-http/draft/ has it: POST
// with a JSON body, or GET with parameters. The schema and what answers it are in package graph.
//
// There are queries only: no mutations, subscriptions, persisted queries or batches.
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

// Config is what the handler is made of.
type Config struct {
	BaseURL  string                     // where clients reach the service: scheme and host, no trailing slash
	Priority func(catalog string) int32 // of a catalog: higher wins. nil: all 0
	Limits   Limits
	Logger   *slog.Logger // for the causes that clients are not shown; nil: the default one
}

// Handler answers GraphQL requests. It is safe for concurrent use.
type Handler struct {
	Config
	executor *executor.Executor
	queries  *queryCache
	kept     *graph.Kept
	large    chan struct{} // holds one for each request that takes more than Limits.Memory
}

// New returns a handler.
func New(cfg Config) *Handler {
	cfg.Limits = cfg.Limits.withDefaults()
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	h := &Handler{Config: cfg, executor: executor.New(graph.NewSchema()), large: make(chan struct{}, cfg.Limits.Large), queries: newQueryCache(), kept: graph.NewKept()}
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

// ServeCatalogs answers one request over the catalogs given, as they are. It sets Content-Type; with an answer that has errors it also
// takes away what the caller set for caches, as an error may be gone the next time. Other headers are the caller's. While w takes a large
// answer other requests may have to wait: it should not be a client at the end of a slow line.
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
		fmt.Errorf("answering took longer than %v, the most for one request: ask for fewer packages, a smaller first or fewer fields", h.Limits.Time))
	defer cancel()
	turn := &turn{slots: h.large}
	defer turn.end() // when w has taken the answer
	response := h.execute(context.WithValue(ctx, failuresKey{}, failures), turn, params, catalogs)
	write(w, mediaType, statusOf(mediaType, response), response)
}

func (h *Handler) execute(ctx context.Context, turn *turn, params *gqlgen.RawParams, catalogs []store.Catalog) (response *gqlgen.Response) {
	defer func() { // gqlgen recovers in resolvers; this is for the rest
		if cause := recover(); cause != nil {
			err := present(ctx, fmt.Errorf("panic: %v\n%s", cause, debug.Stack()))
			response = &gqlgen.Response{Errors: gqlerror.List{err}, Data: null}
		}
	}()
	request := graph.NewRequest(graph.Options{
		BaseURL: h.BaseURL, Priority: h.Priority, Limits: h.Limits.Limits, Kept: h.kept,
		Grow: func() error { return turn.await(ctx) },
	}, catalogs)
	defer context.AfterFunc(ctx, func() { request.Stop(timeOver(ctx)) })()
	response = h.run(graph.WithRequest(gqlgen.StartOperationTrace(ctx), request), params)
	if reason := request.Stopped(); reason != nil {
		// The fields that were not resolved any more have an error each, all for this one reason.
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

// timeOver is why a request whose context has ended ends.
func timeOver(ctx context.Context) *graph.Error {
	return &graph.Error{Code: graph.CodeLimit, Message: context.Cause(ctx).Error()}
}

// turn is that of one request among the large ones.
type turn struct {
	slots chan struct{}
	taken bool
}

// await waits for it until ctx ends.
func (t *turn) await(ctx context.Context) error {
	select {
	case t.slots <- struct{}{}:
		t.taken = true
		return nil
	case <-ctx.Done():
		return fmt.Errorf("catalogd answers %d large queries at a time, and had others until the time for this one was over (%w)", cap(t.slots), context.Cause(ctx))
	}
}

func (t *turn) end() {
	if t.taken {
		<-t.slots
	}
}

// null is the data of an answer that was begun and cannot be given.
var null = []byte("null")

type failuresKey struct{}

// failures logs the first cause of a request's errors that its client is not shown: the others are mostly the same.
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

// present gives an error the form in which clients see it: with a code, and a message only if it is meant for them.
func present(ctx context.Context, err error) *gqlerror.Error {
	shown := gqlgen.DefaultErrorPresenter(ctx, err) // wraps what is none of gqlgen's
	var ours *graph.Error
	switch {
	case errors.As(err, &ours):
		if ours.Code == graph.CodeInternal {
			logCause(ctx, err) // before shown, which err may be, becomes what clients see
		}
		shown.Message = ours.Message
		errcode.Set(shown, ours.Code)
	case len(shown.Path) > 1 && shown.Path[0] == ast.PathName("variable"): // gqlparser's, and says nothing of the variable
		shown.Message = fmt.Sprintf("variable $%v %s", shown.Path[1], shown.Message)
	case shown.Extensions["code"] != nil: // of a query that does not parse or fit the schema
	case shown.Unwrap() == nil: // a message of gqlgen's own, about an argument or a null where none can be
		errcode.Set(shown, graph.CodeInput)
	default:
		logCause(ctx, err)
		shown.Message = "catalogd could not read the content; its log has the cause"
		errcode.Set(shown, graph.CodeInternal)
	}
	return shown
}
