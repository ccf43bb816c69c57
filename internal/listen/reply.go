package listen

import (
	"errors"
	"io"
	"net/http"
)

// replyWriter is the reply of a plain HTTP/1.1 request. It makes the header leave with the beginning of the body, where net/http alone
// would make two or three writes of them: as much work for both sides as all the rest of a small reply.
//
// What conn holds back is never the last: bytes that overflow net/http's buffer of 4 KiB come before others that are in it by then, and
// are sent with these. What ReadFrom makes it hold is sent before that returns.
type replyWriter struct {
	http.ResponseWriter
	conn *conn
}

var _ io.ReaderFrom = (*replyWriter)(nil)

func (w *replyWriter) Write(p []byte) (int, error) {
	w.conn.holding = true
	n, err := w.ResponseWriter.Write(p)
	w.conn.holding = false
	return n, err
}

// ReadFrom sends the header first if that is complete, for net/http would read the first bytes of src, and not by sendfile, to find out
// what is missing.
func (w *replyWriter) ReadFrom(src io.Reader) (int64, error) {
	if h := w.Header(); h.Get("Content-Length") != "" && h.Get("Content-Type") != "" {
		w.conn.holding = true
		err := http.NewResponseController(w.ResponseWriter).Flush()
		w.conn.holding = false
		if err != nil {
			return 0, err
		}
	}
	n, err := io.Copy(w.ResponseWriter, src)
	if len(w.conn.held) > 0 {
		_, sendErr := w.conn.sendHeld(0)
		err = errors.Join(err, sendErr)
	}
	return n, err
}

// Flush implements http.Flusher.
func (w *replyWriter) Flush() { _ = w.FlushError() }

// FlushError is what http.ResponseController calls.
func (w *replyWriter) FlushError() error { return http.NewResponseController(w.ResponseWriter).Flush() }

// Unwrap is for http.ResponseController.
func (w *replyWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
