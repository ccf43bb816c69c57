package registry

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A registry that redirects without end is left after so many requests, and counts as one that fails.
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
			if want := "finding the digest: registry " + host + " redirects without end"; KindOf(err) != Answered || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
			if n := redirects.Load(); n != mostRedirects {
				t.Errorf("%d requests were redirected, want %d", n, mostRedirects)
			}
			if _, advised := client.NotBefore(parse(t, host+"/catalogs/foo:v1")); open && advised.Sub(clock.Now()) != time.Second {
				t.Errorf("advised to wait %v, want 1s", advised.Sub(clock.Now()))
			}
		})
	}
}

// dialTo leads all connections to host:port from to another one.
func dialTo(to, from string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr == from {
			addr = to
		}
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}
}

// No redirect leads from elsewhere to a service of this machine: not of the first request, nor of the one for a token or a
// manifest, neither by HTTP nor by HTTPS, insecure or not.
func TestRedirectsInwards(t *testing.T) {
	inner := &requestLog{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	ca := newAuthority(t)
	plain, secure := serve(t, inner), serveTLS(t, ca.server(), inner)
	_, plainPort, _ := net.SplitHostPort(plain)
	_, securePort, _ := net.SplitHostPort(secure)
	for _, target := range []string{
		"http://" + plain, "http://localhost:" + plainPort, "http://0.0.0.0:" + plainPort, "http://[::ffff:127.0.0.1]:" + plainPort, "http://127.1:" + plainPort,
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

// A proxy has to prove who it is, as it is sent a password, whether registries have to or not.
func TestProxyIsVerified(t *testing.T) {
	ca := newAuthority(t)
	image, digest := withImage(t)
	registry := serveTLS(t, newAuthority(t).server(), image) // trusted by nobody
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
			if KindOf(err) != Proxy || !strings.Contains(err.Error(), "signed by an authority that is not known here") {
				t.Errorf("got %v, want an error of kind %s about its certificate", err, Proxy)
			}
			if got.Load() != "" {
				t.Errorf("a proxy that nobody trusts got %v", got.Load())
			}
		})
	}
	digests, _, err := head(t, newTestClient(t, Access{Proxy: proxy, RootCAs: ca.pem(), Insecure: true}), "registry.example/catalogs/foo:v1")
	if err != nil || digests != digest || got.Load() == "" {
		t.Errorf("through a trusted proxy to an insecure registry: %v, %v", digests, err)
	}
}
