package sync

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// step is a part of a pass over a catalog, with the name that it has in traces. Its error is one of the API server or the store, or errDone; what
// goes wrong with an image is a result, which the steps behind it take into account.
type step struct {
	name string
	do   func(context.Context, *reconciliation) error
}

// run does the step, as a span of the pass.
func (s step) run(ctx context.Context, rec *reconciliation) error {
	ctx, end := span(ctx, s.name)
	err := s.do(ctx, rec)
	if errors.Is(err, errDone) {
		end(nil)
	} else {
		end(err)
	}
	return err
}

// tracePass begins the span of a pass; the function that it returns ends it, with what came of the pass.
func (r *CatalogReconciler) tracePass(ctx context.Context, catalog string) (context.Context, func(*reconciliation, error)) {
	if r.Tracer == nil {
		return ctx, func(*reconciliation, error) {}
	}
	ctx, pass := r.Tracer.Start(ctx, "reconcile", trace.WithAttributes(attribute.String("catalogd.catalog", catalog)))
	return ctx, func(rec *reconciliation, err error) {
		if rec != nil {
			pass.SetAttributes(attribute.String("catalogd.image", rec.image), attribute.String("catalogd.digest", rec.catalog.Status.Digest))
			err = errors.Join(err, rec.fetchErr)
		}
		endSpan(pass, err)
	}
}

// span begins a part of what ctx is about; the function that it returns ends it. Where nothing is traced, neither does anything.
func span(ctx context.Context, name string) (context.Context, func(error)) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, func(error) {}
	}
	ctx, part := parent.TracerProvider().Tracer("github.com/operator-catalogs/catalogd").Start(ctx, name)
	return ctx, func(err error) { endSpan(part, err) }
}

// endSpan ends a span with what went wrong, in words that are made for people and hold no secret.
func endSpan(s trace.Span, err error) {
	if err != nil {
		s.SetStatus(codes.Error, err.Error())
	}
	s.End()
}
