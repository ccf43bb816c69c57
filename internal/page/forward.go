package page

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// addForwards adds routes that forward to the API: icons, graphs, the change feed, raw content and GraphQL. Browsers send no
// credential headers for images and feeds, so they cannot request them from the API.
func (p *page) addForwards(mux *http.ServeMux) {
	for _, of := range []string{"/catalogs/{catalog}", "/catalogs/{catalog}/digests/{digest}"} {
		p.addForward(mux, of+"/icons/{hash}", "icons/{hash}"+iconSize)
		p.addForward(mux, of+"/raw/{package}", "packages/{package}")
		const graph = "packages/{package}/channels/{channel}/graph"
		p.addForward(mux, of+"/"+graph, graph, "format")
	}
	mux.HandleFunc("GET /watch", p.watch)
	mux.HandleFunc("POST /graphql", p.queryAPI)
}

// addForward forwards requests for a path to a view with the given parameters. The view can name elements of the path.
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

// iconSize is the end of the path of an icon: its size in pixels.
const iconSize = "/80"

// serveNoIcon serves a placeholder for icons that the content service cannot scale. Browsers would report each missing image in their
// console and show nothing.
func serveNoIcon(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", imagePolicy)
	h.Set("Cache-Control", "private, max-age=3600")
	http.ServeFileFS(w, r, assets, "no-icon.svg")
}

// forwarded lists the headers of the API's responses that reach the browser. Others, such as cookies, do not.
var forwarded = []string{"Content-Encoding", "Content-Length", "Cache-Control", "ETag", "Vary", "Retry-After", "Last-Modified"}

// requested lists the headers of the browser that reach the API.
var requested = []string{"Accept", "Accept-Encoding", "If-None-Match", "Last-Event-ID"}

// forward sends the API's response for a path.
func (p *page) forward(w http.ResponseWriter, r *http.Request, path string, query url.Values) {
	inner, err := http.NewRequestWithContext(r.Context(), r.Method, path, nil) //nolint:gosec // G704: a path of the API only
	if err != nil {
		http.Error(w, "400 Bad Request\ninvalid path", http.StatusBadRequest)
		return
	}
	inner.URL.RawQuery = query.Encode()
	p.answer(w, r, inner)
}

// answer sends a request to the API and streams the response to the browser. If the response breaks off or exceeds maxResponse,
// it aborts the connection, so that the browser detects the incomplete response.
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
		http.Error(w, "502 Bad Gateway\nthe content service is unreachable; retry later", http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotFound && strings.HasSuffix(inner.URL.Path, iconSize) {
		serveNoIcon(w, r)
		return
	}
	mediaType := setForwarded(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	body := io.Reader(resp.Body)
	if mediaType != typeEvents {
		body = http.MaxBytesReader(nil, resp.Body, maxResponse)
	}
	if err := stream(w, body); err != nil {
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

// setForwarded sets the headers of a forwarded response. Media types that a browser could render as a page become
// application/octet-stream, and nosniff prevents guesses. Only the browser may cache, because the next reader may have other
// permissions.
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
	data := []string{"application/json", "application/jsonl", "application/graphql-response+json", "text/plain",
		"text/vnd.graphviz", typeEvents}
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

// stream copies a body and flushes after each read. It returns read errors only, not write errors.
func stream(w http.ResponseWriter, body io.Reader) error {
	control := http.NewResponseController(w)
	buffer := make([]byte, 32<<10)
	for {
		n, err := body.Read(buffer)
		if n > 0 {
			if _, failed := w.Write(buffer[:n]); failed != nil {
				return nil
			}
			_ = control.Flush() // writers of tests may not support it
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

// queryAPI forwards a GraphQL query over all catalogs or over one. It accepts only JSON, which a form cannot send.
func (p *page) queryAPI(w http.ResponseWriter, r *http.Request) {
	if !accepts(w, r, "application/json") {
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxQuery))
	if err != nil || !json.Valid(body) {
		http.Error(w, "400 Bad Request\nthe body must be JSON of at most 64 KiB", http.StatusBadRequest)
		return
	}
	path := viewPath(r.URL.Query().Get("catalog"), "", "graphql")
	inner, err := http.NewRequestWithContext(r.Context(), http.MethodPost, path, bytes.NewReader(body)) //nolint:gosec // G704: as above
	if err != nil {
		http.Error(w, "400 Bad Request\ninvalid query", http.StatusBadRequest)
		return
	}
	inner.Header.Set("Content-Type", "application/json")
	p.answer(w, r, inner)
}
