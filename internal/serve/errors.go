package serve

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"github.com/operator-catalogs/catalogd/internal/store"
)

// statusError is an error the client is told about: its text is the reply's second line. The text
// of any other error stays in the log, for it may name paths of this machine.
type statusError struct {
	code    int
	text    string
	headers map[string]string // more of the reply; may be nil
}

func (e *statusError) Error() string { return e.text }

func badRequest(format string, args ...any) error {
	return &statusError{code: http.StatusBadRequest, text: fmt.Sprintf(format, args...)}
}

func notFound(format string, args ...any) error {
	return &statusError{code: http.StatusNotFound, text: fmt.Sprintf(format, args...)}
}

// adapt makes an http.Handler of h.
func (s *server) adapt(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			s.fail(w, r, err)
		}
	})
}

// fail is the one place that turns an error into a reply.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	var known *statusError
	damaged := errors.As(err, new(*store.DamagedError))
	switch {
	case errors.As(err, &known):
	case r.Context().Err() != nil && !damaged: // the client went away; nobody reads this
		known = &statusError{code: http.StatusServiceUnavailable, text: "the request was given up"}
	default:
		s.Logger.ErrorContext(r.Context(), "answering a request", slog.String("path", r.URL.Path), slog.Any("error", err))
		text := "catalogd could not read the content; its log has the cause"
		if damaged {
			text = "this content is damaged on catalogd's volume, and will be unpacked again; what else the catalog has can be read"
		}
		known = &statusError{code: http.StatusInternalServerError, text: text}
	}
	writeError(w, known)
}

// contentHeaders describe the content that an error stands in for.
var contentHeaders = []string{
	"Accept-Ranges", "Content-Disposition", "Content-Encoding", "Content-Length", "Content-Location", "Content-Security-Policy",
	"ETag", "Last-Modified", "X-Accel-Buffering", DigestHeader, MissingHeader,
}

func writeError(w http.ResponseWriter, e *statusError) {
	if reply, ok := w.(*replyWriter); ok {
		reply.failed = true
		defer func() { reply.code, reply.bytes = e.code, int64(len(e.body())) }()
		w = reply.ResponseWriter
	}
	h := w.Header()
	for _, name := range contentHeaders {
		h.Del(name)
	}
	for name, value := range e.headers {
		h.Set(name, value)
	}
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(e.code)
	_, _ = io.WriteString(w, e.body())
}

// writeStatus sends a status, an error's too, whose body is not for replyWriter to write.
func writeStatus(w http.ResponseWriter, code int) {
	if reply, ok := w.(*replyWriter); ok {
		reply.code = code
		w = reply.ResponseWriter
	}
	w.WriteHeader(code)
}

func (e *statusError) body() string {
	return fmt.Sprintf("%d %s\n%s\n", e.code, http.StatusText(e.code), e.text)
}

// libraryErrors says, for the statuses that the standard library answers with by itself, what the
// client can do: 404 and 405 come from the mux, 412 and 416 from http.ServeContent.
var libraryErrors = map[int]string{
	http.StatusNotFound: "nothing is served at this path; GET /catalogs lists the catalogs, below each one's url are " +
		"/api/v1/all, metas, packages, channels, bundles, custom, graphql and watch; /openapi.json describes them",
	http.StatusMethodNotAllowed:             "this service is read only; this path answers ",
	http.StatusPreconditionFailed:           "the content is not, or no longer, what the request's precondition names",
	http.StatusRequestedRangeNotSatisfiable: "the content has no such range of bytes; Content-Range gives its size",
}

// replyWriter gives the errors that the standard library writes the form of all others, and counts.
type replyWriter struct {
	http.ResponseWriter
	failed bool  // the error is written; what the library still writes of its own is dropped
	code   int   // 0 before the header is written
	bytes  int64 // of the body, as it is sent
}

var _ io.ReaderFrom = (*replyWriter)(nil)

// Unwrap lets http.ResponseController flush and set deadlines.
func (w *replyWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// status is what the client was told; no word of a handler means that all is well.
func (w *replyWriter) status() int { return cmp.Or(w.code, http.StatusOK) }

func (w *replyWriter) WriteHeader(code int) {
	if code < http.StatusBadRequest {
		if w.Header().Get("Content-Encoding") != "" {
			w.Header().Del("Accept-Ranges") // http.ServeContent sets it always; ranges are of identity only
		}
		w.code = code
		w.ResponseWriter.WriteHeader(code)
		return
	}
	text := libraryErrors[code]
	if code == http.StatusMethodNotAllowed {
		text += w.Header().Get("Allow")
	}
	writeError(w, &statusError{code: code, text: text})
}

func (w *replyWriter) Write(p []byte) (int, error) {
	if w.failed {
		return len(p), nil
	}
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// ReadFrom keeps the way open from a file to the socket (sendfile), which an embedded
// ResponseWriter alone would hide.
func (w *replyWriter) ReadFrom(r io.Reader) (int64, error) {
	n, err := io.Copy(w.ResponseWriter, r)
	w.bytes += n
	return n, err
}
