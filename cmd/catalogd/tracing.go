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

// flushTime limits the time to send the last spans at shutdown.
const flushTime = 3 * time.Second

// newTracer returns a tracer that sends spans to a collector, and a function that sends the last spans; without
// an endpoint the tracer is nil. It does not wait for the collector, and drops spans that cannot be sent.
// OpenTelemetry's environment variables (OTEL_*) set sampling, headers, certificates and further attributes.
func newTracer(ctx context.Context, endpoint string, logger *slog.Logger) (trace.Tracer, func(), error) {
	if endpoint == "" {
		return nil, func() {}, nil
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { logger.Warn("sending traces failed", "error", err) }))
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(endpoint))
	if err != nil {
		return nil, nil, fmt.Errorf("configuring --otlp-endpoint %s: %w", endpoint, err)
	}
	host, _ := os.Hostname() // the name is optional
	described, err := resource.New(ctx, resource.WithAttributes(
		semconv.ServiceName("catalogd"), semconv.ServiceVersion(version), semconv.ServiceInstanceID(cmp.Or(os.Getenv("POD_NAME"), host)),
	), resource.WithFromEnv())
	if err != nil {
		return nil, nil, fmt.Errorf("setting trace attributes: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(described))
	flush := func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			logger.Warn("sending the last traces failed", "error", err)
		}
	}
	return provider.Tracer("github.com/operator-catalogs/catalogd"), flush, nil
}
