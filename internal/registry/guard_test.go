package registry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// The client stops after too many redirects, and counts them as a failure.
func TestRedirectsEnd(t *testing.T) {
	for name, open := range map[string]bool{"manifest": true, "first request": false} {
		t.Run(name, func(t *testing.T) {
			var redirects atomic.Int64
			host := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if open && r.URL.Path == "/v2/" {
					return
				}
				http.Redirect(w, r, fmt.Sprintf("%s?n=%d", r.URL.Path, redirects.Add(1)), http.StatusTemporaryRedirect)
			}))
			clock := newStepClock()
			client, err := newRegistries(t, Config{Now: clock.Now}).Client("test", Access{})
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = head(t, client, host+"/catalogs/foo:v1")
			if want := "finding the digest: registry " + host + " redirects too often"; KindOf(err) != Answered || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
			if n := redirects.Load(); n != maxRedirects {
				t.Errorf("%d requests were redirected, want %d", n, maxRedirects)
			}
			if _, advised := client.NotBefore(parse(t, host+"/catalogs/foo:v1")); open && advised.Sub(clock.Now()) != time.Second {
				t.Errorf("advised to wait %v, want 1s", advised.Sub(clock.Now()))
			}
		})
	}
}

// dialTo directs connections for host:port from to another address.
func dialTo(to, from string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr == from {
			addr = to
		}
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}
}

// No redirect from elsewhere reaches a service of this machine: of any request, by HTTP or HTTPS, insecure or not.
func TestRedirectsInwards(t *testing.T) {
	inner := &requestLog{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	ca := newAuthority(t)
	plain, secure := serve(t, inner), serveTLS(t, ca.server(), inner)
	_, plainPort, _ := net.SplitHostPort(plain)
	_, securePort, _ := net.SplitHostPort(secure)
	for _, target := range []string{
		"http://" + plain, "http://localhost:" + plainPort, "http://0.0.0.0:" + plainPort, "http://[::ffff:127.0.0.1]:" + plainPort,
		"http://127.1:" + plainPort,
		"https://" + secure, "https://localhost:" + securePort, "https://LOCALHOST.:" + securePort, "https://10.0.0.1", "https://169.254.169.254",
	} {
		for _, path := range []string{"/v2/", "/token", "/v2/catalogs/foo/manifests/v1"} {
			for _, insecure := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s from %s, insecure %t", target, path, insecure), func(t *testing.T) {
					registry := bearer("", "", "", bearerToken, answer(http.StatusTeapot))
					host := serveTLS(t, ca.server("registry.example"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if r.URL.Path == path {
							http.Redirect(w, r, target+"/quit", http.StatusTemporaryRedirect)
							return
						}
						registry.ServeHTTP(w, r)
					}))
					client := newTestClient(t, Access{RootCAs: ca.pem(), Insecure: insecure})
					for _, wire := range []*http.Transport{client.secure.wire, client.insecure.wire} {
						wire.Proxy, wire.DialTLSContext, wire.DialContext = nil, nil, dialTo(host, "registry.example:443")
					}
					_, _, err := head(t, client, "registry.example/catalogs/foo:v1")
					if KindOf(err) != Answered || !strings.Contains(err.Error(), "address") {
						t.Errorf("got %v, want an error of kind %s about the address", err, Answered)
					}
					if requests := inner.take(); requests != nil {
						t.Errorf("services of this machine got %v", requests)
					}
				})
			}
		}
	}
}

// The certificate of a proxy is always verified, since the proxy receives a password.
func TestProxyIsVerified(t *testing.T) {
	ca := newAuthority(t)
	image, digest := withImage(t)
	registry := serveTLS(t, newAuthority(t).server(), image) // not trusted
	var got atomic.Value
	host := serveTLS(t, ca.server(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got.Store(r.Header.Get("Proxy-Authorization"))
		tunnel(w, registry)
	}), func(config *tls.Config) { config.NextProtos = nil })
	proxy := &url.URL{Scheme: "https", Host: host, User: url.UserPassword("user", proxyPassword)}
	mirrors := []Mirror{{Location: "mirror.example:5000", Insecure: true}}
	for name, access := range map[string]Access{
		"secure":          {Proxy: proxy},
		"insecure":        {Proxy: proxy, Insecure: true},
		"insecure mirror": {Proxy: proxy, Mirrors: mirrors},
	} {
		t.Run(name, func(t *testing.T) {
			got.Store("")
			_, _, err := head(t, newTestClient(t, access), "registry.example/catalogs/foo:v1")
			if KindOf(err) != Proxy || !strings.Contains(err.Error(), "signed by an unknown authority") {
				t.Errorf("got %v, want an error of kind %s about its certificate", err, Proxy)
			}
			if got.Load() != "" {
				t.Errorf("an untrusted proxy got %v", got.Load())
			}
		})
	}
	digests, _, err := head(t, newTestClient(t, Access{Proxy: proxy, RootCAs: ca.pem(), Insecure: true}), "registry.example/catalogs/foo:v1")
	if err != nil || digests != digest || got.Load() == "" {
		t.Errorf("through a trusted proxy to an insecure registry: %v, %v", digests, err)
	}
}

// sniffed tells of each connection whether it begins as TLS does, and is open to both.
type sniffed struct {
	net.Listener
	tell func(secure bool)
}

func (l sniffed) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return &sniffedConn{Conn: conn, tell: l.tell}, err
}

type sniffedConn struct {
	net.Conn
	once sync.Once
	tell func(secure bool)
}

func (c *sniffedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.once.Do(func() { c.tell(p[0] == 22) }) // a handshake (RFC 8446, section 5.1)
	}
	return n, err
}

// Plain HTTP is not used for a registry on loopback with a certificate, even if its handshake is slow.
func TestLoopbackIsNotDowngraded(t *testing.T) {
	ca := newAuthority(t)
	handler, digest := withImage(t)
	server := httptest.NewUnstartedServer(handler)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{*ca.server()}}
	var connections, plain atomic.Int32
	second := make(chan struct{})
	server.Listener = sniffed{server.Listener, func(secure bool) {
		if !secure {
			plain.Add(1)
		}
		if connections.Add(1) == 2 {
			close(second)
		}
	}}
	server.TLS.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		<-second // until the client gives up
		return nil, nil
	}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	got, _, err := head(t, newTestClient(t, Access{RootCAs: ca.pem()}), server.Listener.Addr().String()+"/catalogs/foo:v1")
	if err != nil || got != digest {
		t.Errorf("got %s, %v, want %s", got, err, digest)
	}
	if n := plain.Load(); n != 0 {
		t.Errorf("%d connections began in plain HTTP", n)
	}
}

// hangingUp is a connection over which nothing can be written.
type hangingUp struct{ net.Conn }

func (hangingUp) Write([]byte) (int, error) {
	return 0, &net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE}
}

func (c hangingUp) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if errors.Is(err, io.ErrClosedPipe) {
		err = &net.OpError{Op: "read", Net: "tcp", Err: net.ErrClosed} // as a TCP connection has it
	}
	return n, err
}

// The TLS alert about a client certificate is reported, even if the first attempts lose it.
func TestHungUp(t *testing.T) {
	alert := &net.OpError{Op: "remote error", Err: errors.New("tls: unknown certificate authority")}
	for name, test := range map[string]struct {
		lost int // connections over which nothing is heard
		want Kind
	}{
		"heard at last": {maxAttempts - 1, ClientCertificate},
		"never heard":   {1000, Unreachable},
	} {
		t.Run(name, func(t *testing.T) {
			client := newTestClient(t, Access{})
			var dials atomic.Int32
			client.secure.wire.DialTLSContext = func(context.Context, string, string) (net.Conn, error) {
				if dials.Add(1) > int32(test.lost) {
					return nil, alert
				}
				ours, theirs := net.Pipe()
				t.Cleanup(func() { theirs.Close() })
				return hangingUp{ours}, nil
			}
			_, _, err := head(t, client, "registry.example/catalogs/foo:v1")
			if KindOf(err) != test.want {
				t.Errorf("got %v, want an error of kind %s", err, test.want)
			}
			if n := int(dials.Load()); n != maxAttempts {
				t.Errorf("%d connections, want %d", n, maxAttempts)
			}
		})
	}
}
