package serve

import (
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
)

// startSpan starts the span of a request within the trace of the client, if that sent one (W3C Trace Context). It returns the
// request with the span and a function that ends it. Spans contain neither query strings nor headers.
func startSpan(tracer trace.Tracer, route string, r *http.Request) (*http.Request, func(*replyWriter)) {
	ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	method := knownMethod(r.Method)
	ctx, span := tracer.Start(ctx, method+" "+route, trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(semconv.HTTPRequestMethodKey.String(method), semconv.HTTPRoute(route)))
	r = r.WithContext(ctx)
	return r, func(reply *replyWriter) {
		status := reply.status()
		span.SetAttributes(semconv.HTTPResponseStatusCode(status))
		if catalog := r.PathValue("catalog"); catalog != "" {
			span.SetAttributes(attribute.String("catalogd.catalog", catalog))
		}
		if digest := reply.Header().Get(DigestHeader); digest != "" {
			span.SetAttributes(attribute.String("catalogd.digest", digest))
		}
		if status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}
