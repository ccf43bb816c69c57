package listen

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// track is cfg.Handler, with its requests counted in the table, and its HTTP/2 replies cut when their client takes no more.
func track(cfg Config, t *table) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := connOf(r)
		whole := r.ContentLength == 0 // an HTTP/2 request has a Body even then
		if !t.begin(c, whole) {
			panic(http.ErrAbortHandler)
		}
		q := &request{conn: c, answered: whole}
		if r.ProtoMajor >= 2 {
			c.http2.Store(true)
			stream := newStreamWriter(w, c, cfg.Stall)
			defer stream.end(r, q.end)
			w = stream
		} else {
			defer q.end()
			if r.TLS == nil {
				w = &replyWriter{w, c}
			}
		}
		if !whole {
			bodied := *r
			bodied.Body = &body{ReadCloser: r.Body, request: q}
			r = &bodied
		}
		cfg.Handler.ServeHTTP(w, r)
	})
}

// request is one that a handler has. Its body may be read by another goroutine than the handler's, even after the handler's end.
type request struct {
	conn *conn

	mu       sync.Mutex
	answered bool // read whole
	ended    bool
}

// whole notes that the request was read to its end.
func (q *request) whole() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.answered && !q.ended {
		q.answered = true
		q.conn.table.answer(q.conn)
	}
}

func (q *request) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	q.conn.table.end(q.conn, q.answered)
}

// body is a request's, and tells when it was read to its end.
type body struct {
	io.ReadCloser
	request *request
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.request.whole()
	}
	return n, err
}

// streamWriter is the reply of an HTTP/2 request. Its client may give the stream no room (RFC 9113, section 5.2) while the connection
// lives; a stream whose client takes no piece within stall is reset. The time runs during writes only, not between them: an event
// stream may be silent for as long as it likes.
type streamWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	conn    *conn
	stall   time.Duration
	timer   *time.Timer // runs during writes

	mu    sync.Mutex // guards ended, and that cut is over before net/http has its writer back
	ended bool
}

func newStreamWriter(w http.ResponseWriter, c *conn, stall time.Duration) *streamWriter {
	s := &streamWriter{ResponseWriter: w, control: http.NewResponseController(w), conn: c, stall: stall}
	s.timer = time.AfterFunc(stall, s.cut)
	s.timer.Stop()
	return s
}

// cut resets the stream; so the write that waits for room fails. It runs beside the handler.
func (s *streamWriter) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		_ = s.control.SetWriteDeadline(time.Unix(1, 0)) // the past: at once
	}
}

// end is called when the handler has returned. What is left of the reply, all of a small one, is with net/http, and so is all that it keeps for
// the request, until the client gives room for it. So it is sent here, while the request is in hand. What net/http then sends is the
// stream's end: that needs no room but must be written to the connection, and has a deadline of the same length. The request is out of
// hand, and ended called, when the stream is closed. Only CloseNotify tells that: the request's context ends with the handler.
func (s *streamWriter) end(r *http.Request, ended func()) {
	_ = s.FlushError()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	if r.Context().Err() == nil {
		_ = s.control.SetWriteDeadline(time.Now().Add(s.stall)) // fails only if the stream is gone
	}
	stream, ok := s.ResponseWriter.(http.CloseNotifier) //nolint:staticcheck // see above
	if !ok {
		ended()
		return
	}
	closed := stream.CloseNotify()
	s.conn.beginWrite(time.Now())
	go func() {
		<-closed
		s.conn.endWrite(0)
		ended()
	}()
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

// timed makes a write that may have to wait for the client.
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

// FlushError is what http.ResponseController calls.
func (s *streamWriter) FlushError() error {
	return s.timed(func() (int, error) { return 0, s.control.Flush() })
}

// Unwrap is for http.ResponseController.
func (s *streamWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }
