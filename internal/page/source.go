package page

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A Source answers requests for paths of the HTTP API, such as /catalogs/a/api/v1/graphql, with the permissions of one reader.
// The URL of a request has only a path and a query. A response with an error status is no error. The caller closes the body.
type Source interface {
	Do(*http.Request) (*http.Response, error)
}

// Inside returns a Source that calls a handler in this process with the credentials of the reader's request: headers and client
// certificate. Canceling a request, or closing the body of its response, cancels the request of the handler.
func Inside(h http.Handler, reader *http.Request) Source { return inside{h, reader} }

type inside struct {
	handler http.Handler
	reader  *http.Request
}

// credentials lists the headers that authenticate a reader.
var credentials = []string{"Authorization", tokenHeader}

func (s inside) Do(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	r = r.Clone(ctx)
	r.Host, r.TLS, r.RemoteAddr, r.RequestURI = s.reader.Host, s.reader.TLS, s.reader.RemoteAddr, r.URL.RequestURI()
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, 1
	if r.Body == nil {
		r.Body = http.NoBody
	}
	for _, name := range credentials {
		if values := s.reader.Header.Values(name); len(values) > 0 {
			r.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	body, writer := io.Pipe()
	w := &pipeWriter{header: http.Header{}, body: writer, bodyless: r.Method == http.MethodHead, started: make(chan struct{})}
	// Cancellation unblocks both the reader of the body and the writes of the handler.
	stop := context.AfterFunc(ctx, func() { _ = writer.CloseWithError(context.Cause(ctx)) }) // always nil
	go func() {
		defer stop()
		w.serve(s.handler, r)
	}()
	select {
	case <-w.started:
	case <-ctx.Done():
		cancel()
		return nil, context.Cause(ctx)
	}
	if w.err != nil {
		cancel()
		return nil, w.err
	}
	return &http.Response{
		StatusCode: w.status, Status: fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, Body: pipeBody{body, cancel}, ContentLength: -1, Request: r,
	}, nil
}

// pipeBody is the body of a response.
type pipeBody struct {
	*io.PipeReader
	cancel context.CancelFunc // of the handler's request
}

func (b pipeBody) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}

// pipeWriter is a http.ResponseWriter that streams a response through a pipe.
type pipeWriter struct {
	header   http.Header // set by the handler
	sent     http.Header // the copy of header at the first write
	status   int
	err      error // the handler failed before the first write
	body     *io.PipeWriter
	bodyless bool          // drop the body (HEAD)
	started  chan struct{} // closed when the header is sent
}

// serve calls the handler. A panic becomes an error of the request, or of the body after the first write.
func (w *pipeWriter) serve(h http.Handler, r *http.Request) {
	returned := false
	defer func() {
		if returned {
			return
		}
		reason := recover() // nil after runtime.Goexit
		err := fmt.Errorf("answering %s: the handler aborted: %v", r.URL.Path, reason)
		if reason != nil && reason != http.ErrAbortHandler { //nolint:errorlint // the value of a panic
			err = fmt.Errorf("%w\n%s", err, debug.Stack())
		}
		if w.sent == nil {
			w.sent, w.err = w.header, err
			close(w.started)
		}
		_ = w.body.CloseWithError(err) // always nil
	}()
	h.ServeHTTP(w, r)
	returned = true
	w.WriteHeader(http.StatusOK) // if it has not written anything
	_ = w.body.Close()           // always nil
}

func (w *pipeWriter) Header() http.Header { return w.header }

func (w *pipeWriter) WriteHeader(status int) {
	if w.sent == nil && status >= http.StatusOK {
		w.sent, w.status = w.header.Clone(), status
		close(w.started)
	}
}

func (w *pipeWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.bodyless {
		return len(p), nil
	}
	return w.body.Write(p)
}

// Flush implements http.Flusher. Writes are never buffered.
func (w *pipeWriter) Flush() { w.WriteHeader(http.StatusOK) }

// SetWriteDeadline is called by http.ResponseController. Deadlines apply to the connection of the reader instead.
func (w *pipeWriter) SetWriteDeadline(time.Time) error { return nil }

// api reads the API for one page.
type api struct {
	source Source
	memory *memory

	catalogs func() (catalogList, error) // read once, for the header and the page, which must not modify the lists

	ctx context.Context //nolint:containedctx // of the one request that this value belongs to
}

// Limits of memory.
const (
	maxResponse = 64 << 20  // of a response of the API, except a feed
	maxPage     = 16 << 20  // of the HTML of a page
	maxLoaded   = 64 << 20  // of a page and all responses of the API for it
	maxHeld     = 192 << 20 // the same for all requests
)

// errTooLarge is the error for a page that exceeds a limit, whatever its reader does.
var errTooLarge = &apiError{
	Status: http.StatusUnprocessableEntity, Text: "this content is too large for a page; GraphQL and the command line can read parts of it",
}

// errTooSlow is the error for a page that takes too long.
var errTooSlow = &apiError{Status: http.StatusServiceUnavailable, Text: "reading the content takes too long; retry later", RetryAfter: "10"}

// memory is what a request holds: what it has read of the API, and its page.
type memory struct {
	all  *atomic.Int64 // of all requests
	mu   sync.Mutex
	held int64
}

// take adds bytes.
func (m *memory) take(n int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held += int64(n)
	switch all := m.all.Add(int64(n)); {
	case m.held > maxLoaded:
		return errTooLarge
	case all > maxHeld:
		return &apiError{Status: http.StatusServiceUnavailable, Text: "too many large pages are open; retry later", RetryAfter: "1"}
	}
	return nil
}

// release gives back all.
func (m *memory) release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all.Add(-m.held)
	m.held = 0
}

// loading counts what is read of a body.
type loading struct {
	body   io.Reader
	memory *memory
}

func (l loading) Read(p []byte) (int, error) {
	n, err := l.body.Read(p)
	return n, cmp.Or(l.memory.take(n), err)
}

// writing is a page in the making.
type writing struct {
	content bytes.Buffer
	memory  *memory // nil: it does not count
}

func (w *writing) Write(p []byte) (int, error) {
	if w.content.Len()+len(p) > maxPage {
		return 0, errTooLarge
	}
	if w.memory != nil {
		if err := w.memory.take(len(p)); err != nil {
			return 0, err
		}
	}
	return w.content.Write(p)
}

// apiError is a response of the API with an error status.
type apiError struct {
	Status     int
	Text       string      // cause and remedy
	RetryAfter string      // seconds; may be empty
	Also       []elsewhere // other catalogs with the package
}

func (e *apiError) Error() string {
	return fmt.Sprintf("%d %s: %s", e.Status, http.StatusText(e.Status), e.Text)
}

// do sends a GET request for an escaped path. An error status becomes an apiError.
func (a api) do(path string, query url.Values) (*http.Response, error) {
	r, err := http.NewRequestWithContext(a.ctx, http.MethodGet, path, nil) //nolint:gosec // G704: a path of the API only
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	r.URL.RawQuery = query.Encode()
	resp, err := a.source.Do(r)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	if resp.StatusCode < http.StatusBadRequest {
		return nil, fmt.Errorf("reading %s: unexpected status %d", path, resp.StatusCode)
	}
	return nil, readError(resp)
}

// readError reads an error of the API: text with the status in the first line, or a GraphQL response.
func readError(resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 16<<10)) // a partial text is enough
	e := &apiError{Status: resp.StatusCode, RetryAfter: resp.Header.Get("Retry-After")}
	var reply graphReply
	if json.Unmarshal(text, &reply) == nil && len(reply.Errors) > 0 {
		e.Text = reply.Errors[0].Message
		return e
	}
	_, explanation, ok := strings.Cut(string(text), "\n")
	if !ok {
		explanation = string(text)
	}
	e.Text = strings.TrimSpace(explanation)
	return e
}

// get decodes the JSON at a path.
func (a api) get(path string, query url.Values, out any) error {
	resp, err := a.do(path, query)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(loading{io.LimitReader(resp.Body, maxResponse), a.memory}).Decode(out); err != nil {
		return fmt.Errorf("decoding the response for %s: %w", path, err)
	}
	return nil
}

// graphReply is a response of GraphQL.
type graphReply struct {
	Data   json.RawMessage `json:"data"`
	Errors []struct {
		Message string `json:"message"`
	} `json:"errors"`
}

// query runs a GraphQL query over all catalogs, over one catalog, or over one version. If the reply is partial, it returns the
// errors of the missing fields.
func (a api) query(catalog, version, query string, variables map[string]any, out any) (partial []string, err error) {
	encoded, err := json.Marshal(variables)
	if err != nil {
		return nil, fmt.Errorf("encoding the variables of a query: %w", err)
	}
	var reply graphReply
	path := viewPath(catalog, version, "graphql")
	if err := a.get(path, url.Values{"query": {query}, "variables": {string(encoded)}}, &reply); err != nil {
		return nil, err
	}
	for _, e := range reply.Errors {
		partial = append(partial, e.Message)
	}
	noData := len(reply.Data) == 0 || string(reply.Data) == "null"
	if noData && len(partial) > 0 { // the content exceeds a limit of the API, or is damaged
		return nil, &apiError{Status: http.StatusUnprocessableEntity, Text: partial[0]}
	}
	if noData {
		return nil, fmt.Errorf("querying %s: no data", path)
	}
	if err := json.Unmarshal(reply.Data, out); err != nil {
		return nil, fmt.Errorf("decoding the response for %s: %w", path, err)
	}
	return partial, nil
}

// viewPath returns the escaped path of a view of all catalogs, of one catalog, or of one version.
func viewPath(catalog, version, view string) string {
	path := ""
	if catalog != "" {
		path = "/catalogs/" + url.PathEscape(catalog)
	}
	if version != "" {
		path += "/digests/" + url.PathEscape(version)
	}
	return path + "/api/v1/" + view
}

// catalogList is the response of GET /catalogs.
type catalogList struct {
	Catalogs  []catalog `json:"catalogs"`
	NotServed []catalog `json:"notServed"`
}

// catalog is an entry of catalogList.
type catalog struct {
	Name            string      `json:"name"`
	DisplayName     string      `json:"displayName"`
	Publisher       string      `json:"publisher"`
	Description     string      `json:"description"`
	Priority        int         `json:"priority"`
	Image           string      `json:"image"`
	Digest          string      `json:"digest"`
	Packages        int         `json:"packages"`
	Channels        int         `json:"channels"`
	Bundles         int         `json:"bundles"`
	Blobs           int         `json:"blobs"`
	Bytes           int64       `json:"bytes"`
	InvalidPackages int         `json:"invalidPackages"`
	Subset          *subset     `json:"subset"` // nil: the whole catalog
	LastModified    time.Time   `json:"lastModified"`
	LastPoll        time.Time   `json:"lastPoll"`
	NextPoll        time.Time   `json:"nextPoll"`
	Conditions      []condition `json:"conditions"`
}

// subset has the numbers of packages, channels and bundles that the CatalogSource leaves out.
type subset struct {
	LeftOut struct{ Packages, Channels, Bundles int }
}

// condition is a condition of a catalog's object.
type condition struct {
	Type               string    `json:"type"`
	Status             string    `json:"status"`
	Reason             string    `json:"reason"`
	Message            string    `json:"message"`
	LastTransitionTime time.Time `json:"lastTransitionTime"`
}

func (a api) readCatalogs() (list catalogList, err error) {
	err = a.get("/catalogs", nil, &list)
	return list, err
}

// Remedy returns a remedy for the reader, in addition to the text; may be empty.
func (e *apiError) Remedy() string {
	switch e.Status {
	case http.StatusForbidden:
		return "If you may read a single catalog, open its page: catalogs/NAME below the start page."
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusBadGateway:
		return "Reload the page to retry."
	}
	return ""
}
