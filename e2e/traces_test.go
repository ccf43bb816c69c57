package e2e

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// traceReceiver is an OpenTelemetry collector that keeps all spans.
type traceReceiver struct {
	collector.UnimplementedTraceServiceServer
	address string

	mu       sync.Mutex
	spans    []*tracepb.Span
	resource map[string]string
}

func newTraceReceiver(t *testing.T) *traceReceiver {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	r := &traceReceiver{address: listener.Addr().String()}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, r)
	t.Cleanup(server.Stop)
	go func() { _ = server.Serve(listener) }() // ends with the test
	return r
}

// Export implements the collector's service.
func (r *traceReceiver) Export(
	_ context.Context, request *collector.ExportTraceServiceRequest,
) (*collector.ExportTraceServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, of := range request.ResourceSpans {
		r.resource = attributes(of.Resource.Attributes)
		for _, scope := range of.ScopeSpans {
			r.spans = append(r.spans, scope.Spans...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

func attributes(list []*commonpb.KeyValue) map[string]string {
	out := map[string]string{}
	for _, a := range list {
		out[a.Key] = a.Value.GetStringValue()
		if _, ok := a.Value.Value.(*commonpb.AnyValue_IntValue); ok {
			out[a.Key] = fmt.Sprint(a.Value.GetIntValue())
		}
	}
	return out
}

// children returns the names of all spans below a span, with their path: "unpack/commit".
func (r *traceReceiver) children(parent *tracepb.Span) (names []string) {
	for _, span := range r.spans {
		if string(span.ParentSpanId) == string(parent.SpanId) && string(span.TraceId) == string(parent.TraceId) {
			names = append(names, span.Name)
			for _, child := range r.children(span) {
				names = append(names, span.Name+"/"+child)
			}
		}
	}
	return names
}

// find returns the first span that matches.
func (r *traceReceiver) find(is func(*tracepb.Span) bool) *tracepb.Span {
	if i := slices.IndexFunc(r.spans, is); i >= 0 {
		return r.spans[i]
	}
	return nil
}

// TestTraces sends traces of passes and requests to a receiver. On shutdown, catalogd sends the remaining ones.
func TestTraces(t *testing.T) {
	receiver := newTraceReceiver(t)
	w := newWorld(t, shared, "--otlp-endpoint", "http://"+receiver.address)
	ref, digest := w.registry.push(t, "sample", catalogImage(t, sampleCatalog))
	w.createCatalog(t, "sample", ref, nil)
	w.createCatalog(t, "missing", w.registry.address+"/missing:latest", nil)
	w.waitReady(t, "sample", digest)
	const traceID, client = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	asked, err := tryGetWith(w.contentURL("sample", "/api/v1/metas?schema=olm.package&name=secret"), map[string]string{
		"traceparent": "00-" + traceID + "-" + client + "-01", "Authorization": "Bearer secret",
	})
	must.Succeed(t, err)
	if asked.status != http.StatusOK {
		t.Errorf("status %d", asked.status)
	}
	w.signal(t, syscall.SIGTERM)
	w.wait(t, patience)

	receiver.mu.Lock()
	defer receiver.mu.Unlock()
	if got := receiver.resource; got["service.name"] != "catalogd" || got["service.version"] == "" || got["service.instance.id"] == "" {
		t.Errorf("the resource is %v", got)
	}
	checkPasses(t, receiver, digest)
	request := receiver.find(func(s *tracepb.Span) bool { return hex.EncodeToString(s.TraceId) == traceID })
	if request == nil {
		t.Fatal("the request is not in the trace of its client")
	}
	const route = "/catalogs/{catalog}/api/v1/metas"
	got := attributes(request.Attributes)
	want := map[string]string{
		"http.request.method": "GET", "http.route": route, "http.response.status_code": "200", "catalogd.catalog": "sample",
		"catalogd.digest": digest,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || request.Name != "GET "+route || hex.EncodeToString(request.ParentSpanId) != client {
		t.Errorf("the request is %s, child of %x, with %v; want %v", request.Name, request.ParentSpanId, got, want)
	}
	if all := fmt.Sprint(receiver.spans); strings.Contains(all, "secret") {
		t.Errorf("a query string, or a token, is told: %s", all)
	}
	w.start(t) // for the cleanup
}

// checkPasses requires the pass that unpacked the sample, with its parts, and one that failed.
func checkPasses(t *testing.T, receiver *traceReceiver, digest string) {
	t.Helper()
	var passes []string
	unpacked := receiver.find(func(s *tracepb.Span) bool {
		if s.Name != "reconcile" || attributes(s.Attributes)["catalogd.catalog"] != "sample" {
			return false
		}
		parts := receiver.children(s)
		passes = append(passes, strings.Join(parts, " "))
		for _, want := range []string{"resolve", "resolve/poll", "unpack", "unpack/pull", "unpack/commit", "publish"} {
			if !slices.Contains(parts, want) {
				return false
			}
		}
		return true
	})
	if unpacked == nil {
		t.Errorf("no pass over the sample has all parts: %s", strings.Join(passes, "\n"))
	} else if got := attributes(unpacked.Attributes)["catalogd.digest"]; got != digest {
		t.Errorf("the digest of the pass is %s, want %s", got, digest)
	}
	if failed := receiver.find(func(s *tracepb.Span) bool {
		return s.Name == "reconcile" && attributes(s.Attributes)["catalogd.catalog"] == "missing" &&
			s.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR
	}); failed == nil || !strings.Contains(failed.Status.Message, "no such image") {
		t.Errorf("no pass over the missing image failed, or it does not say why: %v", failed)
	}
}
