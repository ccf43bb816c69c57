package sync

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// tracePass begins the span of a pass. The returned function ends it.
func (e *Engine) tracePass(ctx context.Context, catalog string) (context.Context, func(outcome, error)) {
	if e.Tracer == nil {
		return ctx, func(outcome, error) {}
	}
	ctx, pass := e.Tracer.Start(ctx, "reconcile", trace.WithAttributes(attribute.String("catalogd.catalog", catalog)))
	return ctx, func(out outcome, err error) {
		pass.SetAttributes(attribute.String("catalogd.image", out.image), attribute.String("catalogd.digest", out.digest()))
		endSpan(pass, errors.Join(err, out.fault))
	}
}

// span begins the span of a part of a pass. The returned function ends it with the error at err. Without a trace, both do
// nothing.
func span(ctx context.Context, name string, err *error) (context.Context, func()) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, func() {}
	}
	ctx, part := parent.TracerProvider().Tracer("github.com/operator-catalogs/catalogd").Start(ctx, name)
	return ctx, func() { endSpan(part, *err) }
}

// endSpan ends a span with an error, whose text contains no secret.
func endSpan(s trace.Span, err error) {
	if err != nil {
		s.SetStatus(codes.Error, err.Error())
	}
	s.End()
}
