package registry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote"
)

const (
	// headerTimeout limits the wait for response headers. A silent registry would otherwise block a catalog's
	// worker forever, and soon all of them.
	headerTimeout = 30 * time.Second
	// idleTimeout closes idle connections before load balancers usually do (60 s), which avoids a race between a
	// request and the close.
	idleTimeout = 45 * time.Second
	// stallWindow and stallBytes set the minimum throughput of 1 KiB/s. The total time is not limited, so a slow
	// registry can finish. The window outlasts a pause for garbage collection or failover.
	stallWindow = 60 * time.Second
	stallBytes  = 60 << 10
)

// maxRedirects is the limit of net/http; go-containerregistry follows redirects without one.
const maxRedirects = 10

// newTransport returns go-containerregistry's transport with shorter timeouts. A nil proxy means that of the
// environment.
func newTransport(config *tls.Config, proxy *url.URL, reach *reach) *http.Transport {
	t := remote.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = config
	if reach != nil {
		t.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			return reach.dialer(ctx, addr).DialContext(ctx, network, addr)
		}
	}
	t.ResponseHeaderTimeout = headerTimeout
	t.IdleConnTimeout = idleTimeout
	if proxy != nil {
		t.Proxy = http.ProxyURL(proxy)
	}
	t.OnProxyConnectResponse = func(_ context.Context, proxy *url.URL, _ *http.Request, res *http.Response) error {
		if res.StatusCode != http.StatusOK {
			return &proxyError{host: proxy.Host, status: res.StatusCode}
		}
		return nil
	}
	return t
}

// chain returns the transport for all requests of a catalog, including those to token servers and redirect
// targets. Only the pace is shared with other catalogs on the same route.
func chain(wire *http.Transport, reach *reach, pace *pace, via string, insecure bool) http.RoundTripper {
	paced := pace.wrap(watched(proxied{wire, reach}, stallWindow, stallBytes), via)
	return guarded{bounded(resuming(paced)), pace, via, insecure, &sync.Map{}}
}

// guarded refuses unsafe requests. Plain HTTP is allowed to insecure endpoints and, as in Docker, to loopback
// hosts that do not support HTTPS. go-containerregistry would also use it for private addresses (RFC 1918) and
// names under .localhost, and follow redirects from HTTPS to HTTP. Redirects are limited, and must not lead to
// this machine or its network from elsewhere: services there often trust every client that reaches them.
type guarded struct {
	next     http.RoundTripper
	pace     *pace
	via      string // the route of next, for the pace
	insecure bool
	plain    *sync.Map // loopback hosts that answered HTTPS with plain HTTP
}

func (g guarded) RoundTrip(req *http.Request) (*http.Response, error) {
	err := g.check(req)
	if err == nil {
		return g.send(req)
	}
	if req.Body != nil {
		_ = req.Body.Close() // required of an http.RoundTripper; nothing was sent
	}
	return nil, err
}

func (g guarded) check(req *http.Request) error {
	target, redirects, first := scopeOf(req.URL.Hostname()), 0, req
	for earlier := redirected(req); earlier != nil; earlier = redirected(earlier) {
		if target != anywhere && target != scopeOf(earlier.URL.Hostname()) {
			return &answerError{"redirects to a private address, which is not allowed"}
		}
		redirects++
		first = earlier
	}
	if redirects >= maxRedirects {
		g.pace.failed(newPaceKey(first.URL.Host, g.via), g.pace.now(), 0, 0)
		return &answerError{"redirects too often"}
	}
	if req.URL.Scheme != "https" && !g.insecure && !(isLoopback(req.URL.Hostname()) && g.isPlain(req)) {
		return &plainHTTPError{req.URL.Host}
	}
	return nil
}

// send sends an allowed request and records hosts without HTTPS.
func (g guarded) send(req *http.Request) (*http.Response, error) {
	res, err := g.next.RoundTrip(req)
	if answer, ok := errors.AsType[tls.RecordHeaderError](err); ok && string(answer.RecordHeader[:]) == "HTTP/" {
		g.plain.Store(req.URL.Host, true)
	}
	return res, err
}

// isPlain reports whether the host of a request does not support HTTPS. go-containerregistry tries plain HTTP
// also while the HTTPS response is pending and after a rejected certificate. So an unknown host is probed first.
func (g guarded) isPlain(req *http.Request) bool {
	if _, plain := g.plain.Load(req.URL.Host); plain {
		return true
	}
	asked := &http.Request{
		Method: http.MethodGet,
		URL:    &url.URL{Scheme: "https", Host: req.URL.Host, Path: "/v2/"},
		Header: http.Header{"User-Agent": {req.UserAgent()}},
	}
	if res, err := g.send(asked.WithContext(req.Context())); err == nil {
		_ = res.Body.Close() // a response is proof
	}
	_, plain := g.plain.Load(req.URL.Host)
	return plain
}

// plainHTTPError is the error of a plain HTTP request that was refused.
type plainHTTPError struct{ host string }

func (e *plainHTTPError) Error() string {
	return fmt.Sprintf("plain HTTP to %s is not allowed", e.host)
}

// directly is the context key of a connection to the registry rather than to a proxy.
type directly struct{}

// dialInsecurely makes t, which verifies no certificate, verify proxies, which receive the password of
// Access.Proxy: net/http has one setting for both. Requests that bypass proxied are verified too.
func dialInsecurely(t *http.Transport, verify *tls.Config, reach *reach) {
	toProxy, toRegistry := verify.Clone(), t.TLSClientConfig.Clone()
	toRegistry.NextProtos = []string{"h2", "http/1.1"} // net/http adds them only when it dials itself
	t.DialTLSContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		dialer := tls.Dialer{NetDialer: reach.dialer(ctx, addr), Config: toProxy}
		if ctx.Value(directly{}) != nil {
			dialer.Config = toRegistry
		}
		return dialer.DialContext(ctx, network, addr)
	}
}

// proxied turns failures of proxies into proxyErrors. It sends no request through a proxy that reach does not allow.
type proxied struct {
	next  *http.Transport
	reach *reach
}

func (p proxied) RoundTrip(req *http.Request) (*http.Response, error) {
	if p.proxy(req) == "" {
		req = req.WithContext(context.WithValue(req.Context(), directly{}, true))
	} else if !p.reach.allowsName(req.URL.Host) {
		return nil, errForbidden
	}
	res, err := p.next.RoundTrip(req)
	for attempts := 1; attempts < maxAttempts && hungUp(req, err); attempts++ {
		res, err = p.next.RoundTrip(req)
	}
	if err != nil {
		if op, ok := errors.AsType[*net.OpError](err); ok && (op.Op == "proxyconnect" || strings.HasPrefix(op.Op, "socks ")) {
			return nil, &proxyError{host: p.proxy(req), err: err}
		}
		return nil, err
	}
	if res.StatusCode == http.StatusProxyAuthRequired { // response to a plain HTTP request
		if host := p.proxy(req); host != "" {
			_ = res.Body.Close()
			return nil, &proxyError{host: host, status: res.StatusCode}
		}
	}
	return res, nil
}

// maxAttempts limits the attempts of a request whose connection ends before it is written.
const maxAttempts = 4

// hungUp reports whether a connection ended while writing a request that can be repeated. A registry that
// rejects a client certificate sends its alert after the client's part of the handshake and closes the
// connection (RFC 8446, section 4.4.2.4). The alert is lost if we are writing by then, as HTTP/2 does at once.
func hungUp(req *http.Request, err error) bool {
	if err == nil || req.URL.Scheme != "https" || req.Body != nil || req.Context().Err() != nil {
		return false
	}
	op, ok := errors.AsType[*net.OpError](err)
	// net/http closes the connection after a failed write; its reader may report that first.
	return (ok && op.Op == "write") || errors.Is(err, net.ErrClosed) || strings.Contains(err.Error(), "http2: client conn could not be established") // an untyped error
}

// proxy returns host[:port] of the proxy for req, or "".
func (p proxied) proxy(req *http.Request) string {
	if p.next.Proxy == nil {
		return ""
	}
	proxy, err := p.next.Proxy(req)
	if err != nil || proxy == nil {
		return ""
	}
	return proxy.Host
}

// proxyError is the failure to reach a proxy (err), or its error response (status). Its text contains no user
// information.
type proxyError struct {
	host   string
	status int
	err    error
}

func (e *proxyError) Error() string {
	if e.err != nil {
		return fmt.Sprintf("proxy %s: %v", e.host, e.err)
	}
	return fmt.Sprintf("proxy %s answered %s", e.host, statusText(e.status))
}

func (e *proxyError) Unwrap() error { return e.err }

// canonicalHost returns the canonical form of host[:port]: lower case, without a trailing dot (RFC 1034, section
// 3.1), port 443 or leading zeros of the port.
func canonicalHost(host string) string {
	host = strings.ToLower(host)
	port := ""
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host, port = host[:i], strings.TrimLeft(host[i+1:], "0")
	}
	host = strings.TrimSuffix(host, ".")
	if port == "" || port == "443" {
		return host
	}
	return host + ":" + port
}

// splitPort splits host[:port].
func splitPort(registry string) (host, port string) {
	if host, port, err := net.SplitHostPort(registry); err == nil {
		return host, port
	}
	return registry, ""
}

// isLoopback reports whether host, which has no port, is this machine regardless of DNS.
func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.Unmap().IsLoopback()
}

// scope is the network from which a host is reachable.
type scope string

const (
	anywhere    scope = ""
	network     scope = "network" // private and link-local addresses (RFC 1918, 4193, 3927, 4291), such as a cloud's metadata service
	thisMachine scope = "machine"
)

// scopeOf classifies by the name only, without a DNS lookup. Names that only some resolvers take for addresses
// ("127.1", "0x7f000001"), or that change on the way (non-ASCII; a Location has Punycode), belong to the
// network.
func scopeOf(host string) scope {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if isLoopback(host) || strings.HasSuffix(host, ".localhost") {
		return thisMachine
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		_, notNumber := strconv.ParseUint(host[strings.LastIndexByte(host, '.')+1:], 0, 64)
		if notNumber == nil || !isASCII(host) {
			return network
		}
		return anywhere
	}
	switch addr = addr.Unmap(); {
	case addr.IsUnspecified(): // it connects to this machine
		return thisMachine
	case addr.IsPrivate(), addr.IsLinkLocalUnicast(), addr.IsMulticast():
		return network
	default:
		return anywhere
	}
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= 0x80 }) < 0
}
