package page

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// addForwards adds the paths of the API that browsers request for a page: icons, the feed of changes, raw content and GraphQL.
// Images and feeds cannot send credentials in headers, so the page passes them on.
func (p *page) addForwards(mux *http.ServeMux) {
	for _, of := range []string{"/catalogs/{catalog}", "/catalogs/{catalog}/digests/{digest}"} {
		p.addForward(mux, of+"/icons/{hash}", "icons/{hash}/80")
		p.addForward(mux, of+"/raw/{package}", "packages/{package}")
		const graph = "packages/{package}/channels/{channel}/graph"
		p.addForward(mux, of+"/"+graph, graph, "format")
	}
	mux.HandleFunc("GET /watch", p.watch)
	mux.HandleFunc("POST /graphql", p.queryAPI)
}

// addForward passes requests for a path on to a view, which may name elements of the path, with some parameters.
func (p *page) addForward(mux *http.ServeMux, path, view string, parameters ...string) {
	mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
		elements := strings.Split(view, "/")
		for i, element := range elements {
			if name, ok := strings.CutPrefix(element, "{"); ok {
				elements[i] = url.PathEscape(r.PathValue(strings.TrimSuffix(name, "}")))
			}
		}
		query := url.Values{}
		for _, name := range parameters {
			if value := r.URL.Query().Get(name); value != "" {
				query.Set(name, value)
			}
		}
		p.forward(w, r, viewPath(r.PathValue("catalog"), r.PathValue("digest"), strings.Join(elements, "/")), query)
	})
}

// forwarded are the headers of the API's responses that reach the browser. Others, such as cookies or a policy of the API server,
// do not.
var forwarded = []string{"Content-Encoding", "Content-Length", "Cache-Control", "ETag", "Vary", "Retry-After", "Last-Modified"}

// requested are the headers of the browser that reach the API.
var requested = []string{"Accept", "Accept-Encoding", "If-None-Match", "Last-Event-ID"}

// forward answers with the response of the API for a path.
func (p *page) forward(w http.ResponseWriter, r *http.Request, path string, query url.Values) {
	inner, err := http.NewRequestWithContext(r.Context(), r.Method, path, nil) //nolint:gosec // G704: a path of the API only
	if err != nil {
		http.Error(w, "400 Bad Request\ninvalid path", http.StatusBadRequest)
		return
	}
	inner.URL.RawQuery = query.Encode()
	p.answer(w, r, inner)
}

// answer sends a request to the API and its response to the browser, piece by piece: a feed has no end. If the response breaks
// off, or exceeds maxResponse, so does the connection: a browser must not take a part for the whole.
func (p *page) answer(w http.ResponseWriter, r, inner *http.Request) {
	for _, name := range requested {
		if values := r.Header.Values(name); len(values) > 0 {
			inner.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	resp, err := p.Source(r).Do(inner)
	if err != nil {
		p.logUnlessLeft(r, inner, err)
		w.Header().Set("Cache-Control", "no-store")
		http.Error(w, "502 Bad Gateway\nthe content service cannot be reached; retry later", http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	mediaType := setForwarded(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	body := io.Reader(resp.Body)
	if mediaType != typeEvents {
		body = http.MaxBytesReader(nil, resp.Body, maxResponse)
	}
	if err := flow(w, body); err != nil {
		p.logUnlessLeft(r, inner, err)
		panic(http.ErrAbortHandler)
	}
}

func (p *page) logUnlessLeft(r, inner *http.Request, err error) {
	if r.Context().Err() == nil {
		p.Logger.ErrorContext(r.Context(), "forwarding a response", "path", inner.URL.Path, "error", err)
	}
}

const typeEvents = "text/event-stream"

// setForwarded sets the headers of a forwarded response. A media type that a browser could take for a page becomes
// application/octet-stream; with nosniff, none is guessed. Only the browser may cache, as the next reader may have other rights.
func setForwarded(h, from http.Header) (mediaType string) {
	for _, name := range forwarded {
		if values := from.Values(name); len(values) > 0 {
			h[http.CanonicalHeaderKey(name)] = values
		}
	}
	cache := h.Get("Cache-Control")
	for _, scope := range []string{"public, ", "private, "} {
		cache = strings.TrimPrefix(cache, scope)
	}
	if cache != "no-store" {
		h.Set("Cache-Control", "private, "+cmp.Or(cache, "no-cache")) // proxies may keep a response without it
	}
	mediaType, _, _ = strings.Cut(from.Get("Content-Type"), ";")
	mediaType = strings.ToLower(strings.TrimSpace(mediaType))
	data := []string{"application/json", "application/jsonl", "application/graphql-response+json", "text/plain", "text/vnd.graphviz", typeEvents}
	switch {
	case strings.HasPrefix(mediaType, "image/"):
		h.Set("Content-Security-Policy", imagePolicy)
		h.Set("Content-Type", from.Get("Content-Type"))
	case slices.Contains(data, mediaType):
		h.Set("Content-Type", from.Get("Content-Type"))
	default:
		h.Set("Content-Type", "application/octet-stream")
	}
	return mediaType
}

// flow copies a body as it comes. Its error is that of reading, unless the browser has gone.
func flow(w http.ResponseWriter, body io.Reader) error {
	control := http.NewResponseController(w)
	buffer := make([]byte, 32<<10)
	for {
		n, err := body.Read(buffer)
		if n > 0 {
			if _, failed := w.Write(buffer[:n]); failed != nil {
				return nil
			}
			_ = control.Flush() // HTTP writers of tests may not flush
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// maxQuery limits the body of a GraphQL query.
const maxQuery = 64 << 10

// queryAPI passes a GraphQL query on, over all catalogs or over one. Only JSON is accepted, which a form cannot send.
func (p *page) queryAPI(w http.ResponseWriter, r *http.Request) {
	if !accepts(w, r, "application/json") {
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxQuery))
	if err != nil || !json.Valid(body) {
		http.Error(w, "400 Bad Request\nthe query is not JSON of at most 64 KiB", http.StatusBadRequest)
		return
	}
	path := viewPath(r.URL.Query().Get("catalog"), "", "graphql")
	inner, err := http.NewRequestWithContext(r.Context(), http.MethodPost, path, strings.NewReader(string(body))) //nolint:gosec // G704: as above
	if err != nil {
		http.Error(w, "400 Bad Request\ninvalid query", http.StatusBadRequest)
		return
	}
	inner.Header.Set("Content-Type", "application/json")
	p.answer(w, r, inner)
}
