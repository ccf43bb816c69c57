package serve

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
)

// statusError is an error the client is told about: its text is the reply's second line. The text
// of any other error stays in the log, for it may name paths of this machine.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string { return e.text }

func badRequest(format string, args ...any) error {
	return &statusError{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

func notFound(format string, args ...any) error {
	return &statusError{http.StatusNotFound, fmt.Sprintf(format, args...)}
}

// adapt makes an http.Handler of h; the one place that turns an error into a reply.
func (s *server) adapt(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := h(w, r)
		if err == nil {
			return
		}
		var known *statusError
		if !errors.As(err, &known) {
			s.Logger.ErrorContext(r.Context(), "answering a request",
				slog.String("path", r.URL.Path), slog.Any("error", err))
			known = &statusError{http.StatusInternalServerError, "catalogd could not read the content; its log has the cause"}
		}
		writeError(w, known)
	})
}

// contentHeaders describe the content that an error stands in for.
var contentHeaders = []string{
	"Accept-Ranges", "Content-Disposition", "Content-Encoding", "Content-Length", "Content-Security-Policy",
	"ETag", "Last-Modified", DigestHeader,
}

func writeError(w http.ResponseWriter, e *statusError) {
	if reply, ok := w.(*replyWriter); ok {
		reply.failed = true
		w = reply.ResponseWriter
	}
	h := w.Header()
	for _, name := range contentHeaders {
		h.Del(name)
	}
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(e.code)
	_, _ = fmt.Fprintf(w, "%d %s\n%s\n", e.code, http.StatusText(e.code), e.text)
}

// libraryErrors says, for the statuses that the standard library answers with by itself, what the
// client can do: 404 and 405 come from the mux, 412 and 416 from http.ServeContent.
var libraryErrors = map[int]string{
	http.StatusNotFound: "nothing is served at this path; GET /catalogs lists the catalogs, and below each one's url are " +
		"/api/v1/all, metas, packages, channels, bundles and custom",
	http.StatusMethodNotAllowed:             "this service is read only: GET and HEAD",
	http.StatusPreconditionFailed:           "the content is not, or no longer, what the request's precondition names",
	http.StatusRequestedRangeNotSatisfiable: "the content has no such range of bytes; Content-Range gives its size",
}

// replyWriter gives the errors that the standard library writes the form of all others.
type replyWriter struct {
	http.ResponseWriter
	failed bool // the error is written; what the library still writes of its own is dropped
}

var _ io.ReaderFrom = (*replyWriter)(nil)

func (w *replyWriter) WriteHeader(code int) {
	if code < http.StatusBadRequest {
		w.ResponseWriter.WriteHeader(code)
		return
	}
	writeError(w, &statusError{code, libraryErrors[code]})
}

func (w *replyWriter) Write(p []byte) (int, error) {
	if w.failed {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

// ReadFrom keeps the way open from a file to the socket (sendfile), which an embedded
// ResponseWriter alone would hide.
func (w *replyWriter) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(w.ResponseWriter, r)
}
