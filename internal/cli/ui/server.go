package ui

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/operator-catalogs/catalogd/internal/cli/exit"
)

// server serves a handler to browsers on this machine. A secret in the path protects it from other users of the machine and from
// other pages in the browser. A cookie would not, because browsers send cookies to every port of a host. The server refuses other
// hosts than loopback, to prevent DNS rebinding.
type server struct {
	listener net.Listener
	host     string                 // HOST:PORT of the URL
	hosts    []string               // allowed Host headers
	secret   string                 // the first element of all paths
	once     atomic.Pointer[ticket] // nil: used
}

// ticket is a path that redirects to the first page once.
type ticket struct{ name, start string }

// Limits of requests. Responses have no limit, because a change feed does not end.
const (
	headerTime = 5 * time.Second
	bodyTime   = 30 * time.Second
	idleTime   = 2 * time.Minute
	graceTime  = 2 * time.Second
	maxHeader  = 32 << 10
)

// listenOn binds a loopback port.
func listenOn(address string, port uint16) (*server, error) {
	if address == "localhost" {
		address = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(strings.Trim(address, "[]"))
	if err != nil || !ip.IsLoopback() {
		return nil, exit.Usagef("--address %q: use a loopback address such as 127.0.0.1 or ::1, because the page has your credentials", address)
	}
	listener, err := net.Listen("tcp", netip.AddrPortFrom(ip, port).String())
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w; use another --port", ip, err)
	}
	s := &server{listener: listener, host: listener.Addr().String(), secret: rand.Text()} // at least 128 bits
	_, bound, err := net.SplitHostPort(s.host)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	for _, host := range []string{"127.0.0.1", "localhost", "::1", ip.String()} {
		s.hosts = append(s.hosts, withoutDefault(net.JoinHostPort(host, bound)))
	}
	return s, nil
}

// withoutDefault removes the default port, as browsers do.
func withoutDefault(host string) string { return strings.ToLower(strings.TrimSuffix(host, ":80")) }

func (s *server) close() { _ = s.listener.Close() } // an error means that it is closed

// url returns the URL of a page.
func (s *server) url(page string) string { return "http://" + s.host + "/" + s.secret + "/" + page }

// openOnce returns a URL that works once, because other users of this machine can see the arguments of a browser.
func (s *server) openOnce(page string) string {
	t := &ticket{rand.Text(), page}
	s.once.Store(t)
	return "http://" + s.host + "/" + t.name
}

// serve serves a handler until ctx ends.
func (s *server) serve(ctx context.Context, next http.Handler) error {
	logs := slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug) // broken connections
	h := &http.Server{
		Handler: s.guard(next), ReadHeaderTimeout: headerTime, ReadTimeout: bodyTime, IdleTimeout: idleTime,
		MaxHeaderBytes: maxHeader, ErrorLog: logs,
		BaseContext: func(net.Listener) context.Context { return ctx }, // ends feeds
	}
	failed := make(chan error, 1)
	go func() { failed <- h.Serve(s.listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving the page: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), graceTime)
	defer cancel()
	if h.Shutdown(grace) != nil { // a slow browser
		_ = h.Close()
	}
	return nil
}

// useURL is the remedy for requests without the secret.
const useURL = "use the URL that kubectl catalog ui printed"

// guard refuses requests without an allowed Host, the secret and an allowed method.
func (s *server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		first, rest, below := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		switch {
		case !slices.Contains(s.hosts, withoutDefault(r.Host)):
			refuse(w, http.StatusMisdirectedRequest, useURL)
		case s.redeem(w, first):
		case subtle.ConstantTimeCompare([]byte(first), []byte(s.secret)) != 1:
			refuse(w, http.StatusNotFound, useURL)
		case r.Method != http.MethodGet && r.Method != http.MethodHead && (r.Method != http.MethodPost || rest != "graphql"):
			w.Header().Set("Allow", "GET, HEAD")
			refuse(w, http.StatusMethodNotAllowed, "")
		case !below:
			w.Header().Set("Location", "/"+s.secret+"/")
			w.WriteHeader(http.StatusSeeOther)
		default:
			http.StripPrefix("/"+s.secret, next).ServeHTTP(w, r)
		}
	})
}

// redeem redirects to the first page if name is that of the unused ticket.
func (s *server) redeem(w http.ResponseWriter, name string) bool {
	t := s.once.Load()
	if t == nil || subtle.ConstantTimeCompare([]byte(t.name), []byte(name)) != 1 || !s.once.CompareAndSwap(t, nil) {
		return false
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Location", "/"+s.secret+"/"+t.start)
	w.WriteHeader(http.StatusSeeOther)
	return true
}

func refuse(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, strings.TrimSpace(strconv.Itoa(code)+" "+http.StatusText(code)+"\n"+text), code)
}
