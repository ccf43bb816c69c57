package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
)

// flushTime is how long sending the last spans may take at the end.
const flushTime = 3 * time.Second

// newTracer returns what makes spans and sends them to a collector, and a function that sends the last of them; without an endpoint, no
// tracer. It does not wait for the collector: spans that cannot be sent are dropped after a while. Sampling, headers, certificates and more
// attributes are as OpenTelemetry's environment variables (OTEL_*) say.
func newTracer(ctx context.Context, endpoint string, logger *slog.Logger) (trace.Tracer, func(), error) {
	if endpoint == "" {
		return nil, func() {}, nil
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { logger.Warn("traces are lost", "error", err) }))
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(endpoint))
	if err != nil {
		return nil, nil, fmt.Errorf("preparing to send traces to --otlp-endpoint %s: %w", endpoint, err)
	}
	host, _ := os.Hostname() // an instance without a name is no reason not to trace
	described, err := resource.New(ctx, resource.WithAttributes(
		semconv.ServiceName("catalogd"), semconv.ServiceVersion(version), semconv.ServiceInstanceID(cmp.Or(os.Getenv("POD_NAME"), host)),
	), resource.WithFromEnv())
	if err != nil {
		return nil, nil, fmt.Errorf("describing this process for traces: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(described))
	flush := func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			logger.Warn("the last traces are lost", "error", err)
		}
	}
	return provider.Tracer("github.com/operator-catalogs/catalogd"), flush, nil
}
