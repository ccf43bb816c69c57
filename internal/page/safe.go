package page

import (
	"io"
	"net/http"
	"path"
	"strings"
)

// policy is the Content-Security-Policy of every response except images. It allows nothing inline and nothing from other origins.
// Markup that a catalog injects into a page can neither run scripts nor load anything.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types catalogd"

// imagePolicy is the policy of images, because browsers can open an SVG as a document.
const imagePolicy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox"

// protect sets security headers and refuses cross-origin requests: state changes (http.CrossOriginProtection), and all requests
// except links, such as images, scripts and frames (Fetch Metadata Request Headers, section 2). Another origin of the same site
// counts as cross-origin. Requests without Fetch Metadata come from other clients, or from browsers over plain HTTP.
//
// It also refuses paths with elements like "..", in any encoding, so that requests cannot reach other paths of the API.
func protect(next http.Handler) http.Handler {
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
		case isCrossOrigin(r):
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

// maxURL limits the path and the query of a page in bytes, because a page can repeat them in thousands of links.
const maxURL = 4 << 10

// longest returns the limit for a request. It is higher for the login, whose query contains the escaped URL of a page.
func longest(r *http.Request) int {
	if r.URL.Path == "/login" {
		return 4 * maxURL
	}
	return maxURL
}

// isCrossOrigin reports whether a page of another origin made the request. Links to the page do not count.
func isCrossOrigin(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return false
	}
	return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document" // frames have another destination
}

func refuse(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, "403 Forbidden\nrequests from pages of other sites are refused", http.StatusForbidden)
}

// confined refuses requests to the API whose paths have empty or relative elements, in any encoding. Names in a catalog and parameters
// of a page can be "..", and a server or a proxy would resolve such a path to another one.
type confined struct{ Source }

func (s confined) Do(r *http.Request) (*http.Response, error) {
	if path.Clean(r.URL.Path) == r.URL.Path {
		return s.Source.Do(r)
	}
	return &http.Response{
		StatusCode: http.StatusNotFound, Request: r,
		Header: http.Header{"Content-Type": {"text/plain; charset=utf-8"}, "Cache-Control": {"no-store"}},
		Body:   io.NopCloser(strings.NewReader("404 Not Found\ninvalid name: it must not be empty or a relative path element\n")),
	}, nil
}

// accepts reports whether the body of a request has a media type. If not, it answers with status 415.
func accepts(w http.ResponseWriter, r *http.Request, mediaType string) bool {
	got, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if strings.EqualFold(strings.TrimSpace(got), mediaType) {
		return true
	}
	http.Error(w, "415 Unsupported Media Type\nthe Content-Type must be "+mediaType, http.StatusUnsupportedMediaType)
	return false
}
