package registry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote"
)

const (
	// headerPatience is how long a registry may take to begin an answer. One that never begins would hold a catalog's
	// worker, and soon all of them, for good.
	headerPatience = 30 * time.Second
	// idlePatience closes idle connections well before the usual load balancers do (60 s), which spares us the race of a
	// request with their closing.
	idlePatience = 45 * time.Second
	// stallWindow and stallBytes are the least throughput, 1 KiB/s. How long a whole transfer takes is not bounded: a slow
	// registry that goes on is worth waiting for. The window outlasts a pause for a garbage collection or a failover.
	stallWindow = 60 * time.Second
	stallBytes  = 60 << 10
)

// mostRedirects is as many as net/http follows by itself; go-containerregistry follows them without an end.
const mostRedirects = 10

// newTransport returns the transport of go-containerregistry, less its patience. A nil proxy is that of the environment.
func newTransport(config *tls.Config, proxy *url.URL) *http.Transport {
	base, ok := remote.DefaultTransport.(*http.Transport)
	if !ok { // a test of go-containerregistry may replace it
		base = &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}
	}
	t := base.Clone()
	t.TLSClientConfig = config
	t.ResponseHeaderTimeout = headerPatience
	t.IdleConnTimeout = idlePatience
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

// chain is what go-containerregistry sends its requests through. It is the same for all requests of a catalog, to token
// servers and to where registries redirect as well; only the pace is that of all catalogs, as far as via is the same.
func chain(wire *http.Transport, pace *pace, via string, insecure bool) http.RoundTripper {
	paced := pace.wrap(watched(proxied{wire}, stallWindow, stallBytes), via)
	return guarded{bounded(resuming(paced)), pace, via, insecure, &sync.Map{}}
}

// guarded lets pass what may be asked. Plain HTTP may be spoken on loopback, as Docker does, with what knows nothing else, and to insecure endpoints:
// go-containerregistry would fall back to it for private addresses (RFC 1918) and names under .localhost, and follow redirects
// from HTTPS to HTTP. A redirect must come to an end, and must not lead to this machine or its network from elsewhere, whose
// services trust whoever can reach them.
type guarded struct {
	next     http.RoundTripper
	pace     *pace
	via      string // by which the pace knows where next leads
	insecure bool
	plain    *sync.Map // hosts on loopback that answered HTTPS in plain HTTP
}

func (g guarded) RoundTrip(req *http.Request) (*http.Response, error) {
	err := g.check(req)
	if err == nil {
		return g.send(req)
	}
	if req.Body != nil {
		_ = req.Body.Close() // as an http.RoundTripper must; nothing was sent
	}
	return nil, err
}

func (g guarded) check(req *http.Request) error {
	target, redirects, first := scopeOf(req.URL.Hostname()), 0, req
	for earlier := redirected(req); earlier != nil; earlier = redirected(earlier) {
		if target != anywhere && target != scopeOf(earlier.URL.Hostname()) {
			return &answerError{"sends us to a private address, which is not asked"}
		}
		redirects++
		first = earlier
	}
	if redirects >= mostRedirects {
		g.pace.faulted(newPaceKey(first.URL.Host, g.via), g.pace.now())
		return &answerError{"redirects without end"}
	}
	if req.URL.Scheme != "https" && !g.insecure && !(isLoopback(req.URL.Hostname()) && g.isPlain(req)) {
		return &plainHTTPError{req.URL.Host}
	}
	return nil
}

// send sends a request that may be sent, and notes who does not know HTTPS.
func (g guarded) send(req *http.Request) (*http.Response, error) {
	res, err := g.next.RoundTrip(req)
	if answer, ok := errors.AsType[tls.RecordHeaderError](err); ok && string(answer.RecordHeader[:]) == "HTTP/" {
		g.plain.Store(req.URL.Host, true)
	}
	return res, err
}

// isPlain tells whether the host of a request knows no HTTPS. go-containerregistry tries plain HTTP also while the answer to HTTPS is not there
// yet, or when a certificate was refused; so unless it is known, the host is asked.
func (g guarded) isPlain(req *http.Request) bool {
	if _, plain := g.plain.Load(req.URL.Host); plain {
		return true
	}
	asked := &http.Request{
		Method: http.MethodGet, URL: &url.URL{Scheme: "https", Host: req.URL.Host, Path: "/v2/"}, Header: http.Header{"User-Agent": {req.UserAgent()}},
	}
	if res, err := g.send(asked.WithContext(req.Context())); err == nil {
		_ = res.Body.Close() // that it came says enough
	}
	_, plain := g.plain.Load(req.URL.Host)
	return plain
}

// plainHTTPError says that host was not asked, since only plain HTTP would do.
type plainHTTPError struct{ host string }

func (e *plainHTTPError) Error() string {
	return fmt.Sprintf("plain HTTP to %s is not allowed", e.host)
}

// directly is the key of a context in which a connection is made to the registry, and not to a proxy.
type directly struct{}

// dialInsecurely makes t, which verifies nobody, verify proxies, which are sent the password of Access.Proxy: net/http has
// one setting for both. Whatever does not come through proxied is verified too.
func dialInsecurely(t *http.Transport, verify *tls.Config) {
	toProxy, toRegistry := verify.Clone(), t.TLSClientConfig.Clone()
	toRegistry.NextProtos = []string{"h2", "http/1.1"} // net/http adds them only where it dials itself
	t.DialTLSContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: headerPatience}, Config: toProxy} // Timeout includes the handshake
		if ctx.Value(directly{}) != nil {
			dialer.Config = toRegistry
		}
		return dialer.DialContext(ctx, network, addr)
	}
}

// proxied makes the faults of proxies proxyErrors.
type proxied struct{ next *http.Transport }

func (p proxied) RoundTrip(req *http.Request) (*http.Response, error) {
	if p.proxy(req) == "" {
		req = req.WithContext(context.WithValue(req.Context(), directly{}, true))
	}
	res, err := p.next.RoundTrip(req)
	for attempts := 1; attempts < mostHungUp && hungUp(req, err); attempts++ {
		res, err = p.next.RoundTrip(req)
	}
	if err != nil {
		if op, ok := errors.AsType[*net.OpError](err); ok && (op.Op == "proxyconnect" || strings.HasPrefix(op.Op, "socks ")) {
			return nil, &proxyError{host: p.proxy(req), err: err}
		}
		return nil, err
	}
	if res.StatusCode == http.StatusProxyAuthRequired { // to a request by plain HTTP
		if host := p.proxy(req); host != "" {
			_ = res.Body.Close()
			return nil, &proxyError{host: host, status: res.StatusCode}
		}
	}
	return res, nil
}

// mostHungUp is how often a request is begun whose connection ends before it is written.
const mostHungUp = 4

// hungUp tells whether a connection ended while a request was written that can be made again. A registry that refuses a client certificate says
// why after the client's part of the handshake, and closes the connection (RFC 8446, section 4.4.2.4): what it said is lost if we are writing
// by then, as HTTP/2 does at once.
func hungUp(req *http.Request, err error) bool {
	if err == nil || req.URL.Scheme != "https" || req.Body != nil || req.Context().Err() != nil {
		return false
	}
	op, ok := errors.AsType[*net.OpError](err)
	return (ok && op.Op == "write") || strings.Contains(err.Error(), "http2: client conn could not be established") // which has no type
}

// proxy returns host[:port] of the proxy that req goes through; "" if through none.
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

// proxyError says that a proxy is out of reach (err), or answered with an error of its own (status). Its text has nothing
// of the proxy's user information.
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
