package serve

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"

	"github.com/operator-catalogs/catalogd/internal/auth/principal"
	"github.com/operator-catalogs/catalogd/internal/limit"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// statusError is an error for the client: its text is the second line of the response. The text of any other error is only
// logged, because it may contain local paths.
type statusError struct {
	code    int
	text    string
	headers map[string]string // additional ones; may be nil
}

func (e *statusError) Error() string { return e.text }

func (e *statusError) body() string {
	return fmt.Sprintf("%d %s\n%s\n", e.code, http.StatusText(e.code), e.text)
}

func badRequest(format string, args ...any) error {
	return &statusError{code: http.StatusBadRequest, text: fmt.Sprintf(format, args...)}
}

func notFound(format string, args ...any) error {
	return &statusError{code: http.StatusNotFound, text: fmt.Sprintf(format, args...)}
}

func unavailable(retryAfterSeconds int, format string, args ...any) error {
	return &statusError{
		code: http.StatusServiceUnavailable, text: fmt.Sprintf(format, args...),
		headers: map[string]string{"Retry-After": strconv.Itoa(retryAfterSeconds)},
	}
}

// tooManyRequests returns the response for an error of a limit.
func tooManyRequests(err *limit.ExceededError) *statusError {
	return &statusError{
		code: http.StatusTooManyRequests, text: err.Message,
		headers: map[string]string{"Retry-After": "1"},
	}
}

// responder turns errors into responses.
type responder struct{ logger *slog.Logger }

// handle makes an http.Handler of h.
func (p responder) handle(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			p.fail(w, r, err)
		}
	})
}

// fail sends the response for an error.
func (p responder) fail(w http.ResponseWriter, r *http.Request, err error) {
	var known *statusError
	var exceeded *limit.ExceededError
	damaged := errors.As(err, new(*store.DamagedError))
	switch {
	case errors.As(err, &known):
	case errors.As(err, &exceeded):
		known = tooManyRequests(exceeded)
	case r.Context().Err() != nil && !damaged: // the client has gone
		known = &statusError{code: http.StatusServiceUnavailable, text: "the request was canceled"}
	default:
		p.logger.ErrorContext(r.Context(), "request failed", slog.String("path", r.URL.Path), slog.Any("error", err))
		text := "reading the content failed; the log of catalogd has the cause"
		if damaged {
			text = "this content is damaged on the volume of catalogd and will be unpacked again; other content of the catalog can be read"
		}
		known = &statusError{code: http.StatusInternalServerError, text: text}
	}
	writeError(w, known)
}

// contentHeaders belong to content and are removed from an error response.
var contentHeaders = []string{
	"Accept-Ranges", "Content-Disposition", "Content-Encoding", "Content-Length", "Content-Location", "Content-Security-Policy",
	"ETag", "Last-Modified", "X-Accel-Buffering", DigestHeader, FaultsHeader, MissingHeader,
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

// writeStatus sends a status whose body the handler writes, even if it is an error.
func writeStatus(w http.ResponseWriter, code int) {
	if reply, ok := w.(*replyWriter); ok {
		reply.code = code
		w = reply.ResponseWriter
	}
	w.WriteHeader(code)
}

// libraryErrors are the texts for the errors of the standard library: 404 and 405 of the mux, 412 and 416 of
// http.ServeContent.
var libraryErrors = map[int]string{
	http.StatusNotFound: "path not found; GET /catalogs lists the catalogs; below the url of each are " +
		"/api/v1/all, metas, packages, channels, bundles, custom, graphql and watch; /openapi.json documents them",
	http.StatusMethodNotAllowed:             "method not allowed; this path accepts ",
	http.StatusPreconditionFailed:           "the precondition of the request does not match the current content",
	http.StatusRequestedRangeNotSatisfiable: "range not satisfiable; Content-Range has the size of the content",
}

// replyWriter gives the errors of the standard library the form of all others. It counts the bytes of the body.
type replyWriter struct {
	http.ResponseWriter
	user   principal.User // who sent the request; nil if everybody may read
	failed bool           // an error was sent; further writes are dropped
	code   int            // 0 before the header is written
	bytes  int64          // of the body as it is sent
}

var _ io.ReaderFrom = (*replyWriter)(nil)

// Unwrap gives http.ResponseController access to flushing and deadlines.
func (w *replyWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// status returns the status that the client got.
func (w *replyWriter) status() int { return cmp.Or(w.code, http.StatusOK) }

func (w *replyWriter) WriteHeader(code int) {
	if code < http.StatusBadRequest {
		if w.Header().Get("Content-Encoding") != "" {
			w.Header().Del("Accept-Ranges") // http.ServeContent always sets it, but only identity has ranges
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

// ReadFrom lets the connection send files with sendfile.
func (w *replyWriter) ReadFrom(r io.Reader) (int64, error) {
	n, err := io.Copy(w.ResponseWriter, ofFile(r))
	w.bytes += n
	return n, err
}

// ownSection is a section of a file that only this response reads, so its position may change.
type ownSection struct{ *io.SectionReader }

// ofFile returns a limited ownSection as the limited file, which sendfile needs.
func ofFile(r io.Reader) io.Reader {
	limited, ok := r.(*io.LimitedReader)
	if !ok {
		return r
	}
	section, ok := limited.R.(ownSection)
	if !ok {
		return r
	}
	outer, start, size := section.Outer()
	file, ok := outer.(*os.File)
	at, err := section.Seek(0, io.SeekCurrent)
	if !ok || err != nil {
		return r
	}
	if _, err := file.Seek(start+at, io.SeekStart); err != nil {
		return r
	}
	return &io.LimitedReader{R: file, N: min(limited.N, size-at)}
}
