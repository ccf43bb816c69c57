package serve

import (
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
)

// trace begins the span of a request, which goes on the trace of the client if that sent one (W3C Trace Context), and returns the request with
// it; the function ends it, with the reply. Nothing of a query string or a header is told.
func (s *server) trace(route string, r *http.Request) (*http.Request, func(*replyWriter)) {
	ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	method := knownMethod(r.Method)
	ctx, span := s.Tracer.Start(ctx, method+" "+route, trace.WithSpanKind(trace.SpanKindServer),
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
