package page

import (
	"io"
	"net/http"
	"path"
	"strings"
)

// policy is the Content-Security-Policy of every response but images. Nothing is inline and nothing is from another origin, so
// content of a catalog that got into a page as markup could neither run nor load anything.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types catalogd"

// imagePolicy is that of images: an SVG is a document of its own when a browser opens it.
const imagePolicy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox"

// safe sets the headers that protect readers, and refuses requests that a page of another origin made: state changes
// (http.CrossOriginProtection) and everything that is no link, such as images, scripts and frames (Fetch Metadata Request
// Headers, section 2). An origin of the same site is another origin. Requests without these headers are not of a browser, or
// over plain HTTP.
//
// It also refuses paths with elements like "..", however they are encoded, so that no request to the API leaves its path.
func safe(next http.Handler) http.Handler {
	cross := http.NewCrossOriginProtection()
	cross.SetDenyHandler(http.HandlerFunc(refuse))
	protected := cross.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		switch clean := path.Clean(r.URL.Path); {
		case isForeign(r):
			refuse(w, r)
		case len(r.URL.EscapedPath())+len(r.URL.RawQuery) > longest(r):
			h.Set("Cache-Control", "no-store")
			http.Error(w, "414 URI Too Long\nthe address is longer than any of this page", http.StatusRequestURITooLong)
		case clean != r.URL.Path && clean+"/" != r.URL.Path:
			h.Set("Cache-Control", "no-store")
			http.Error(w, "404 Not Found\nthe path has empty or relative elements", http.StatusNotFound)
		default:
			protected.ServeHTTP(w, r)
		}
	})
}

// maxURL limits the path and the query of a page in bytes: a page can repeat them in each of thousands of links.
const maxURL = 4 << 10

// longest returns the limit for a request. The query of the login has the escaped URL of a page.
func longest(r *http.Request) int {
	if r.URL.Path == "/login" {
		return 4 * maxURL
	}
	return maxURL
}

// isForeign reports whether a page of another origin made the request, unless a reader follows a link.
func isForeign(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return false
	}
	return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document" // a frame has another
}

func refuse(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, "403 Forbidden\nrequests from pages of other sites are refused", http.StatusForbidden)
}

// confined refuses requests to the API whose paths have empty or relative elements, however they are encoded: names of a catalog
// and parameters of a page can be "..", and a server or a proxy on the way would take the request for one of another path.
type confined struct{ Source }

func (s confined) Do(r *http.Request) (*http.Response, error) {
	if path.Clean(r.URL.Path) == r.URL.Path {
		return s.Source.Do(r)
	}
	return &http.Response{
		StatusCode: http.StatusNotFound, Request: r,
		Header: http.Header{"Content-Type": {"text/plain; charset=utf-8"}, "Cache-Control": {"no-store"}},
		Body:   io.NopCloser(strings.NewReader("404 Not Found\na name has empty or relative elements, so it has no path\n")),
	}, nil
}

// accepts answers with status 415 if the body of a request has another media type.
func accepts(w http.ResponseWriter, r *http.Request, mediaType string) bool {
	got, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if strings.EqualFold(strings.TrimSpace(got), mediaType) {
		return true
	}
	http.Error(w, "415 Unsupported Media Type\nthe Content-Type must be "+mediaType, http.StatusUnsupportedMediaType)
	return false
}
