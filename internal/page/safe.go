package page

import (
	"net/http"
	"strings"
)

// policy is the Content-Security-Policy of every response. Nothing is inline and nothing is from another origin, so content of a
// catalog that got into a page as markup could neither run nor load anything.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types catalogd"

// safe sets the headers that protect readers, and refuses requests that a page of another origin made: state changes
// (http.CrossOriginProtection) and subresources such as images and scripts (Fetch Metadata Request Headers, section 2).
// Links from other sites to a page work.
func safe(next http.Handler) http.Handler {
	protected := http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" && !isNavigation(r) {
			h.Set("Cache-Control", "no-store")
			http.Error(w, "403 Forbidden\nrequests from pages of other sites are refused", http.StatusForbidden)
			return
		}
		protected.ServeHTTP(w, r)
	})
}

// isNavigation reports whether a browser opens the response as a page of its own window, not in a frame.
func isNavigation(r *http.Request) bool {
	dest := r.Header.Get("Sec-Fetch-Dest")
	return r.Header.Get("Sec-Fetch-Mode") == "navigate" && (dest == "" || strings.EqualFold(dest, "document"))
}
