package e2e

import (
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/operator-catalogs/catalogd/e2e/internal/system"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// forwardProxy is an HTTP proxy on loopback, for https (CONNECT) and http, that logs the requested hosts. It can be
// stopped and restarted on the same port.
type forwardProxy struct {
	address        string
	user, password string            // required, unless password is empty
	names          map[string]string // hosts that only the proxy resolves, and their host:port

	server *http.Server

	mu      sync.Mutex
	hosts   map[string]int        // forwarded requests, by host:port
	tunnels map[net.Conn]struct{} // open CONNECTs
}

// newProxy returns a proxy that has an address but is not started yet.
func newProxy(t *testing.T, user, password string) *forwardProxy {
	t.Helper()
	p := &forwardProxy{
		address: system.FreeAddress(t), user: user, password: password, hosts: map[string]int{}, tunnels: map[net.Conn]struct{}{},
	}
	t.Cleanup(p.stop)
	return p
}

func (p *forwardProxy) start(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", p.address)
	if err != nil {
		t.Fatalf("starting the proxy: %v", err)
	}
	server := &http.Server{Handler: p, ReadHeaderTimeout: time.Minute}
	p.server = server
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			panic(err)
		}
	}()
}

// stop also ends requests in flight.
func (p *forwardProxy) stop() {
	if p.server != nil {
		_ = p.server.Close()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.tunnels {
		_ = conn.Close()
	}
}

// seen returns the number of forwarded requests to host:port; a CONNECT counts as one.
func (p *forwardProxy) seen(host string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hosts[host]
}

func (p *forwardProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if want := "Basic " + base64.StdEncoding.EncodeToString([]byte(p.user+":"+p.password)); p.password != "" &&
		r.Header.Get("Proxy-Authorization") != want {
		w.Header().Set("Proxy-Authenticate", `Basic realm="e2e proxy"`)
		http.Error(w, "proxy authentication required", http.StatusProxyAuthRequired)
		return
	}
	p.mu.Lock()
	p.hosts[r.Host]++
	p.mu.Unlock()
	if r.Method == http.MethodConnect {
		p.tunnel(w, r.Host)
		return
	}
	if !r.URL.IsAbs() {
		http.Error(w, "this is a proxy", http.StatusBadRequest)
		return
	}
	forward := httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.Header.Del("Proxy-Authorization")
		r.Out.URL.Host = p.target(r.In.URL.Host)
	}}
	forward.ServeHTTP(w, r)
}

func (p *forwardProxy) target(host string) string {
	if known, ok := p.names[host]; ok {
		return known
	}
	return host
}

func (p *forwardProxy) tunnel(w http.ResponseWriter, host string) {
	server, err := net.Dial("tcp", p.target(host))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer server.Close()
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer client.Close()
	p.mu.Lock()
	p.tunnels[client] = struct{}{}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.tunnels, client)
	}()
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	go func() {
		defer server.Close() // ends the copy below
		_, _ = io.Copy(server, buffered)
	}()
	_, _ = io.Copy(client, server)
}

// TestProxyOfEnvironment uses a registry whose name only the proxy resolves, and one that NO_PROXY names.
func TestProxyOfEnvironment(t *testing.T) {
	const host, unproxied = "registry.e2e.test", "127.0.0.1"
	authority := newAuthority(t, "e2e authority")
	registry := newDistribution(t, distributionConfig{auth: noAuth, tls: ownCA, authority: authority, hosts: []string{host}})
	ref, digest := registry.push(t, "ns/catalog", catalogImage(t, soundDir))
	_, port, err := net.SplitHostPort(registry.address)
	must.Succeed(t, err)
	named := net.JoinHostPort(host, port)
	proxy := newProxy(t, "", "")
	proxy.names = map[string]string{named: registry.address}
	proxy.start(t)
	t.Setenv("HTTPS_PROXY", "http://"+proxy.address)
	t.Setenv("NO_PROXY", unproxied)
	dir := t.TempDir()
	writeFile(t, dir, "ca.pem", authority.pem)
	w := newWorld(t, shared, "--registry-ca-dir", dir)
	w.createCatalog(t, "proxied", strings.Replace(ref, registry.address, named, 1), nil)
	w.createCatalog(t, "direct", ref, nil)
	w.waitReady(t, "proxied", digest)
	w.waitReady(t, "direct", digest)
	if proxy.seen(named) == 0 || proxy.seen(registry.address) > 0 {
		t.Errorf("the proxy saw %d requests for %s and %d for %s, want some and none", proxy.seen(named), named, proxy.seen(registry.address),
			registry.address)
	}
}
