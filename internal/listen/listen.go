// Package listen is an HTTP port that holds under load: it takes a bounded number of connections, and whoever keeps one
// without asking for anything, or without taking the answer, loses it to whoever comes next.
//
// Three rules do that, each in a file of its own:
//
//   - table.go: of the connections, the one that has waited longest without a whole request gives way when one more comes.
//     Ten thousand clients that send a header a byte a second (slow loris) push each other out, not the client that
//     sends its request at once. The requests in hand are bounded as well, for an HTTP/2 connection carries many.
//   - conn.go: a write must be accepted piece by piece, so a reply of any size may take as long as its reader needs,
//     and a reader that has stopped is cut.
//   - request.go: the same for one HTTP/2 stream, which flow control can stall while its connection lives.
//
// A handler need not know of any of this, but for one thing: it should read a request's body to its end, for a request that
// is not read whole is not counted as being answered.
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
	maxStreams     = 100      // of an HTTP/2 connection at a time, as RFC 9113, section 6.5.2, recommends at least
	requestsPer    = 2        // requests in hand for each connection allowed, over all connections; see table.begin
	modest         = 16       // requests in hand of one connection that are no greed; see table.greediest

	// What an HTTP/2 client may make the server hold of a body that no handler has read yet, and of one frame: the least
	// that net/http takes. Nobody uploads here.
	maxUnread = 64 << 10
	maxFrame  = 16 << 10
)

// Config is what a port is made of. The zero value of a number or duration means its default.
type Config struct {
	Name    string // "content", in errors, logs and metrics
	Flag    string // "--content-bind-address", in errors
	Address string // host:port, as net.Listen takes it
	Handler http.Handler
	TLS     *tls.Config // nil: plain HTTP/1.1. Else HTTP/2 as well

	MaxConnections int           // 1000
	Header         time.Duration // 5 s: how long a TLS handshake, and the header of a request, may take
	Request        time.Duration // 30 s: how long a request may take to be read whole
	Stall          time.Duration // 30 s: how long a client may take over a piece (32 KiB) of a reply, and up to an eighth more: at the least, about 1 KiB/s
	Idle           time.Duration // 2 min: how long a connection may be idle between requests
	Grace          time.Duration // 20 s: how long requests in flight may take to end at shutdown; with what else ends, within a pod's 30 s (terminationGracePeriodSeconds)

	Metrics prometheus.Registerer // nil: none
	Logger  *slog.Logger

	// prompt is how long every connection may wait, whatever comes: a client that sends its request within it is never cut. It
	// bounds how fast connections are taken when there are MaxConnections, with the default to 10 times as many a second.
	prompt time.Duration // 100 ms
}

// Server is one port. It has its socket from Listen on; clients wait in the kernel's queue until Serve.
type Server struct {
	cfg      Config
	listener *listener
	http     *http.Server
}

// Listen takes the port, so that one that is taken is an error before anything starts.
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
	return &http.Server{
		Handler:           track(cfg, table),
		TLSConfig:         cfg.TLS,
		ReadHeaderTimeout: cfg.Header,
		ReadTimeout:       cfg.Request,
		IdleTimeout:       cfg.Idle, // and no WriteTimeout: it would bound a reply, not its progress
		MaxHeaderBytes:    maxHeaderBytes,
		ConnContext:       withConn,
		ErrorLog:          slog.NewLogLogger(cfg.Logger.With("port", cfg.Name).Handler(), slog.LevelDebug), // scanners make noise
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          maxStreams,
			MaxReadFrameSize:              maxFrame,
			MaxReceiveBufferPerConnection: maxUnread,
			MaxReceiveBufferPerStream:     maxUnread,
			SendPingTimeout:               cfg.Stall, // a client that is gone holds streams no longer than one that reads no reply
			PingTimeout:                   cfg.Stall,
		},
	}
}

// Addr returns the address that was taken: with the port that the kernel chose, if it was asked for port 0.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Serve answers requests until ctx ends, and then lets those in flight end. It closes the port. An error is a port that broke, or
// requests that were cut off when Grace had passed.
func (s *Server) Serve(ctx context.Context) error {
	defer s.listener.Close() // Shutdown does that too, if accept was quicker
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
		return errors.Join(fmt.Errorf("%s requests were cut off: %w", s.cfg.Name, err), s.http.Close())
	}
	return nil
}

func (s *Server) accept() error {
	if s.cfg.TLS != nil {
		return s.http.ServeTLS(s.listener, "", "")
	}
	return s.http.Serve(s.listener)
}
