package listen

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// allowHosts refuses requests whose Host is neither localhost, a loopback address nor one of hosts. Otherwise a web page
// could read a loopback port through a name that it resolves to 127.0.0.1 (DNS rebinding).
func allowHosts(hosts []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := hostname(r.Host)
		address, err := netip.ParseAddr(host)
		if r.Host == "" || host == "localhost" || err == nil && address.IsLoopback() || slices.Contains(hosts, host) {
			next.ServeHTTP(w, r)
			return
		}
		const code = http.StatusMisdirectedRequest
		w.Header().Set("Cache-Control", "no-store")
		http.Error(w, fmt.Sprintf("%d %s\nhost %q is not allowed on a loopback port; use localhost, or allow it with --allowed-hosts",
			code, http.StatusText(code), host), code)
	})
}

// hostname returns the name or address in a Host header, in lower case, without port, brackets and final dot.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}
