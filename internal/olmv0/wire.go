package olmv0

import (
	"cmp"
	"context"
	"runtime/debug"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// encoded is a message in its wire format.
type encoded []byte

// codec is gRPC's codec of protocol buffers, which also sends encoded messages.
type codec struct{}

func (codec) Name() string { return protocodec.Name }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	if message, ok := v.(encoded); ok {
		return mem.BufferSlice{mem.SliceBuffer(message)}, nil
	}
	return encoding.GetCodecV2(protocodec.Name).Marshal(v)
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	return encoding.GetCodecV2(protocodec.Name).Unmarshal(data, v)
}

// metrics counts requests.
type metrics struct{ requests *prometheus.CounterVec }

func newMetrics(registry prometheus.Registerer) *metrics {
	m := &metrics{requests: prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "catalogd", Name: "grpc_requests_total", Help: "Answered requests of OLM v0's registry API.",
	}, []string{"method", "code"})}
	if registry != nil {
		registry.MustRegister(m.requests)
	}
	return m
}

func (s *Server) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (reply any, err error) {
	defer func() { s.finish(info.FullMethod, recover(), &err) }()
	return handle(ctx, request)
}

func (s *Server) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
	defer func() { s.finish(info.FullMethod, recover(), &err) }()
	return handle(srv, stream)
}

// finish counts a request. A panic, such as one of a library about hostile content, becomes an error.
func (s *Server) finish(fullMethod string, panicked any, err *error) {
	if panicked != nil {
		s.cfg.Logger.Error("answering a request failed", "method", fullMethod, "error", panicked, "stack", string(debug.Stack()))
		*err = status.Error(codes.Internal, "answering the request failed")
	}
	method := fullMethod[strings.LastIndex(fullMethod, "/")+1:]
	s.metrics.requests.WithLabelValues(cmp.Or(method, "unknown"), status.Code(*err).String()).Inc()
}
