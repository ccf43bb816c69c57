package listen

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// track counts the requests of a port in the table. It cuts responses of HTTP/2 whose client stalls.
func track(cfg Config, t *table) http.Handler {
	next := cfg.Handler
	if cfg.Hosts != nil {
		next = allowHosts(cfg.Hosts, next)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := connOf(r)
		complete := r.ContentLength == 0 // over HTTP/2 such a request has a Body too
		if !t.begin(c, complete) {
			panic(http.ErrAbortHandler)
		}
		q := &request{conn: c, complete: complete}
		defer q.end()
		if r.ProtoMajor >= 2 {
			c.http2.Store(true)
			stream := newStreamWriter(w, c, cfg.Stall)
			defer stream.end(r)
			w = stream
		} else if len(r.TransferEncoding) > 0 {
			// The request may have had a Content-Length too, which net/http removes. Then the connection must be closed
			// (RFC 9112, section 6.1, golang/go#80942).
			w.Header().Set("Connection", "close")
		}
		if r.ProtoMajor == 1 && r.TLS == nil {
			w = &fileResponse{ResponseWriter: w, conn: c}
		}
		if !complete {
			tracked := *r
			tracked.Body = &body{ReadCloser: r.Body, request: q}
			r = &tracked
		}
		next.ServeHTTP(w, r)
	})
}

// request is a request in flight. Its body may be read by another goroutine, even after the handler has returned.
type request struct {
	conn *conn

	mu       sync.Mutex
	complete bool // read to its end
	ended    bool
}

// completed records that the request was read to its end.
func (q *request) completed() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.complete && !q.ended {
		q.complete = true
		q.conn.table.completed(q.conn)
	}
}

func (q *request) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	q.conn.table.end(q.conn, q.complete)
}

// body is a request body that reports its end.
type body struct {
	io.ReadCloser
	request *request
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.request.completed()
	}
	return n, err
}

// streamWriter is the response of an HTTP/2 request. The client can close the flow control window of the stream (RFC 9113,
// section 5.2) while the connection lives. A stream whose client takes no piece within stall is reset. The timer runs during
// writes only, so an event stream may be silent.
type streamWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	conn    *conn
	stall   time.Duration
	timer   *time.Timer // runs during writes

	mu    sync.Mutex // guards ended; also held by reset, so that it ends before net/http reuses its writer
	ended bool
}

func newStreamWriter(w http.ResponseWriter, c *conn, stall time.Duration) *streamWriter {
	s := &streamWriter{ResponseWriter: w, control: http.NewResponseController(w), conn: c, stall: stall}
	s.timer = time.AfterFunc(stall, s.reset)
	s.timer.Stop()
	return s
}

// reset resets the stream, so that a blocked write fails. It runs concurrently with the handler.
func (s *streamWriter) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		_ = s.control.SetWriteDeadline(time.Unix(1, 0)) // in the past, so at once
	}
}

// end sends what net/http has buffered while the request still counts as in flight: a small response is buffered completely
// and would be held until the client opens its window. Only the end of the stream is left to net/http; it needs no window,
// but gets a deadline too.
func (s *streamWriter) end(r *http.Request) {
	_ = s.FlushError()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	if r.Context().Err() == nil {
		_ = s.control.SetWriteDeadline(time.Now().Add(s.stall)) // fails only if the stream is closed
	}
}

func (s *streamWriter) Write(p []byte) (written int, err error) {
	for {
		piece := p[written:min(len(p), written+pieceSize)]
		var n int
		err = s.timed(func() (_ int, err error) {
			n, err = s.ResponseWriter.Write(piece)
			return n, err
		})
		written += n
		if err != nil || written == len(p) {
			return written, err
		}
	}
}

// timed runs a write that may block on the client.
func (s *streamWriter) timed(write func() (int, error)) error {
	s.timer.Reset(s.stall)
	s.conn.beginWrite(time.Now())
	n, err := write()
	s.timer.Stop()
	if err != nil {
		n = -1
	}
	s.conn.endWrite(int64(n))
	return err
}

// Flush implements http.Flusher.
func (s *streamWriter) Flush() { _ = s.FlushError() }

// FlushError is called by http.ResponseController.
func (s *streamWriter) FlushError() error {
	return s.timed(func() (int, error) { return 0, s.control.Flush() })
}

// Unwrap is called by http.ResponseController.
func (s *streamWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// allowHosts refuses requests whose Host is neither localhost, a loopback address nor one of hosts. Otherwise a web page
// could read a loopback port through a name that it resolves to 127.0.0.1 (DNS rebinding).
func allowHosts(hosts []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := hostname(r.Host)
		address, err := netip.ParseAddr(host)
		if r.Host == "" || host == "localhost" || err == nil && address.IsLoopback() || slices.Contains(hosts, host) {
			next.ServeHTTP(w, r)
			return
		}
		const code = http.StatusMisdirectedRequest
		w.Header().Set("Cache-Control", "no-store")
		http.Error(w, fmt.Sprintf("%d %s\nhost %q is not allowed on a loopback port; use localhost, or allow it with --allowed-hosts",
			code, http.StatusText(code), host), code)
	})
}

// hostname returns the name or address in a Host header, in lower case, without port, brackets and final dot.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}
