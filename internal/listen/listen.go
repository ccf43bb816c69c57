// Package listen is an HTTP port that withstands slow and greedy clients. The number of connections is bounded; a connection
// whose client sends no request, or does not read the response, is evicted when another client connects.
//
//   - table.go: evicts the connection that has waited longest for a complete request when a new one needs its place. Clients
//     that send a header byte by byte (slow loris) evict each other, not a client that sends its request at once. Requests in
//     flight are bounded too, because an HTTP/2 connection carries many.
//   - conn.go: each piece of a response has a deadline, so a slow reader may take any time and a stalled one is cut.
//   - request.go: the same for a stream of HTTP/2, which flow control can stall while its connection lives. It also refuses
//     requests with a foreign Host.
//
// A handler should read the body of a request to its end: until then the connection counts as waiting.
package listen

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	maxHeaderBytes = 32 << 10 // of a request: enough for any token and any GraphQL query in a URL
	maxStreams     = 100      // of an HTTP/2 connection: the recommended minimum (RFC 9113, section 6.5.2)
	requestsPer    = 2        // requests in flight for each allowed connection, over all connections; see table.begin
	modest         = 16       // requests in flight of a connection that are not greedy; see table.greediest

	// Buffers for a body that no handler has read yet and for a frame of HTTP/2: the minimum of net/http.
	maxUnread = 64 << 10
	maxFrame  = 16 << 10
)

// Config configures a port. A zero number or duration means the default.
type Config struct {
	Name    string // "content", in errors, logs and metrics
	Flag    string // "--content-bind-address", in errors
	Address string // host:port, as net.Listen takes it
	Handler http.Handler
	TLS     *tls.Config // nil: plain HTTP/1.1; otherwise HTTP/2 too
	HTTP2   bool        // nothing but HTTP/2, also without TLS (RFC 9113, section 3.3), as gRPC needs it
	Hosts   []string    // Host headers that are allowed beside loopback names; nil: any

	MaxConnections int           // 1000
	Header         time.Duration // 5 s: of a TLS handshake and of reading the header of a request
	Request        time.Duration // 30 s: of reading a complete request
	Stall          time.Duration // 30 s: of a client reading a piece (32 KiB) of a response; up to an eighth more
	Idle           time.Duration // 2 min: between requests
	Grace          time.Duration // 20 s: of requests in flight at shutdown; less than the terminationGracePeriodSeconds of a pod

	Metrics prometheus.Registerer // nil: no metrics
	Logger  *slog.Logger

	// prompt is the minimum time before a waiting connection is evicted. It limits the rate of new connections to
	// MaxConnections in prompt.
	prompt time.Duration // 100 ms
}

// Server is a port. Between Listen and Serve clients wait in the queue of the kernel.
type Server struct {
	cfg      Config
	listener *listener
	http     *http.Server
}

// Listen binds the port, so that a port in use is an error before anything starts.
func Listen(cfg Config) (*Server, error) {
	cfg.MaxConnections = cmp.Or(cfg.MaxConnections, 1000)
	cfg.Header = cmp.Or(cfg.Header, 5*time.Second)
	cfg.Request = cmp.Or(cfg.Request, 30*time.Second)
	cfg.Stall = cmp.Or(cfg.Stall, 30*time.Second)
	cfg.Idle = cmp.Or(cfg.Idle, 2*time.Minute)
	cfg.Grace = cmp.Or(cfg.Grace, 20*time.Second)
	cfg.prompt = cmp.Or(cfg.prompt, 100*time.Millisecond)

	table := newTable(cfg)
	if err := table.register(cfg.Metrics, cfg.Name); err != nil {
		return nil, fmt.Errorf("registering the metrics of the %s port: %w", cfg.Name, err)
	}
	tcp, err := net.Listen("tcp", cfg.Address)
	if err != nil {
		return nil, fmt.Errorf("listening for %s requests on %s %s: %w", cfg.Name, cfg.Flag, cfg.Address, err)
	}
	return &Server{cfg: cfg, listener: newListener(tcp, table, cfg.Stall), http: newHTTPServer(cfg, table)}, nil
}

func newHTTPServer(cfg Config, table *table) *http.Server {
	handler := track(cfg, table)
	var protocols *http.Protocols // nil: the default
	if cfg.HTTP2 {
		protocols = new(http.Protocols)
		protocols.SetHTTP2(true)
		protocols.SetUnencryptedHTTP2(true)
	}
	return &http.Server{
		Handler:           handler,
		Protocols:         protocols,
		TLSConfig:         cfg.TLS,
		ReadHeaderTimeout: cfg.Header,
		ReadTimeout:       cfg.Request,
		IdleTimeout:       cfg.Idle, // no WriteTimeout: it would limit the duration of a response, not its progress
		MaxHeaderBytes:    maxHeaderBytes,
		ConnContext:       withConn,
		ErrorLog:          slog.NewLogLogger(cfg.Logger.With("port", cfg.Name).Handler(), slog.LevelDebug), // port scanners cause many errors
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          maxStreams,
			MaxReadFrameSize:              maxFrame,
			MaxReceiveBufferPerConnection: maxUnread,
			MaxReceiveBufferPerStream:     maxUnread,
			SendPingTimeout:               cfg.Stall, // cuts a vanished client as soon as a stalled one
			PingTimeout:                   cfg.Stall,
		},
	}
}

// Addr returns the bound address, with the port that the kernel chose for port 0.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Tag gives the connection of a request a tag, in place of any other.
func Tag(r *http.Request, tag string) {
	c := connOf(r)
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	c.tag = tag
}

// Drain closes each connection that has a tag now, as soon as no request is in flight on it. The client connects again.
func (s *Server) Drain(tag string) { s.listener.table.drain(tag) }

// Serve answers requests until ctx ends, waits up to Grace for those in flight and closes the port. It returns an error if
// the port fails or requests are cut off after Grace.
func (s *Server) Serve(ctx context.Context) error {
	defer s.listener.Close() // Shutdown closes it only if accept has begun
	failed := make(chan error, 1)
	go func() { failed <- s.accept() }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving %s requests: %w", s.cfg.Name, err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Grace)
	defer cancel()
	if err := s.http.Shutdown(grace); err != nil {
		return errors.Join(fmt.Errorf("shutting down the %s port: requests in flight were cut off: %w", s.cfg.Name, err), s.http.Close())
	}
	return nil
}

func (s *Server) accept() error {
	if s.cfg.TLS != nil {
		return s.http.ServeTLS(s.listener, "", "")
	}
	return s.http.Serve(s.listener)
}
