package page

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// addForwards adds the paths of the API that browsers request for a page: icons, the feed of changes, raw content and GraphQL.
// Images and feeds cannot send credentials in headers, so the page passes them on.
func (p *page) addForwards(mux *http.ServeMux) {
	mux.HandleFunc("GET /catalogs/{catalog}/icons/{hash}", func(w http.ResponseWriter, r *http.Request) {
		p.forward(w, r, viewPath(r.PathValue("catalog"), "", "icons/"+url.PathEscape(r.PathValue("hash"))+"/80"), nil)
	})
	mux.HandleFunc("GET /watch", p.watch)
	mux.HandleFunc("GET /catalogs/{catalog}/raw/{package}", func(w http.ResponseWriter, r *http.Request) {
		p.forward(w, r, viewPath(r.PathValue("catalog"), "", "packages/"+url.PathEscape(r.PathValue("package"))), nil)
	})
	mux.HandleFunc("GET /catalogs/{catalog}/packages/{package}/channels/{channel}/graph", func(w http.ResponseWriter, r *http.Request) {
		path := "packages/" + url.PathEscape(r.PathValue("package")) + "/channels/" + url.PathEscape(r.PathValue("channel")) + "/graph"
		p.forward(w, r, viewPath(r.PathValue("catalog"), "", path), url.Values{"format": {r.URL.Query().Get("format")}})
	})
	mux.HandleFunc("POST /graphql", p.queryAPI)
}

// forwarded are the headers of the API's responses that reach the browser. Others, such as cookies or a policy of the API server,
// do not.
var forwarded = []string{"Content-Type", "Content-Encoding", "Content-Length", "Cache-Control", "ETag", "Vary", "Retry-After", "Last-Modified"}

// requested are the headers of the browser that reach the API.
var requested = []string{"Accept", "Accept-Encoding", "If-None-Match", "Last-Event-ID"}

// forward answers with the response of the API for a path.
func (p *page) forward(w http.ResponseWriter, r *http.Request, path string, query url.Values) {
	inner, err := http.NewRequestWithContext(r.Context(), r.Method, path, nil)
	if err != nil {
		http.Error(w, "400 Bad Request\ninvalid path", http.StatusBadRequest)
		return
	}
	inner.URL.RawQuery = query.Encode()
	p.answer(w, r, inner)
}

// answer sends a request to the API and its response to the browser, piece by piece: a feed has no end.
func (p *page) answer(w http.ResponseWriter, r, inner *http.Request) {
	for _, name := range requested {
		if values := r.Header.Values(name); len(values) > 0 {
			inner.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	resp, err := p.Source(r).Do(inner)
	if err != nil {
		if r.Context().Err() == nil {
			p.Logger.ErrorContext(r.Context(), "forwarding a request", "path", inner.URL.Path, "error", err)
		}
		http.Error(w, "502 Bad Gateway\nthe content service cannot be reached; retry later", http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	for _, name := range forwarded {
		if values := resp.Header.Values(name); len(values) > 0 {
			w.Header()[http.CanonicalHeaderKey(name)] = values
		}
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "image/") { // an SVG is a document of its own when it is opened
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
	}
	w.WriteHeader(resp.StatusCode)
	control := http.NewResponseController(w)
	buffer := make([]byte, 32<<10)
	for {
		n, err := resp.Body.Read(buffer)
		if n > 0 {
			if _, failed := w.Write(buffer[:n]); failed != nil {
				return
			}
			_ = control.Flush() // HTTP writers of tests may not flush
		}
		if err != nil {
			return
		}
	}
}

// maxQuery limits the body of a GraphQL query.
const maxQuery = 64 << 10

// queryAPI passes a GraphQL query on. Only JSON is accepted, which a form of another site cannot send.
func (p *page) queryAPI(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxQuery))
	if err != nil || !json.Valid(body) {
		http.Error(w, "400 Bad Request\nthe query is not JSON of at most 64 KiB", http.StatusBadRequest)
		return
	}
	inner, err := http.NewRequestWithContext(r.Context(), http.MethodPost, "/api/v1/graphql", strings.NewReader(string(body)))
	if err != nil {
		http.Error(w, "400 Bad Request\ninvalid query", http.StatusBadRequest)
		return
	}
	inner.Header.Set("Content-Type", "application/json")
	p.answer(w, r, inner)
}
