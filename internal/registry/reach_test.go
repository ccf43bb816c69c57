package registry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

func TestReachAllows(t *testing.T) {
	r := newReach(Config{}, Access{Confined: true, Only: []string{
		"corp.example", "corp.example:5000", "10.1.2.3", "169.254.169.254", "localhost:5000", "[fe80::1]:5000", "Upper.Example.:443",
	}})
	for _, c := range []struct {
		addr, to string
		want     bool
	}{
		{"other.example:443", "203.0.113.7", true},
		{"other.example:443", "2606:4700::1111", true},
		{"other.example:443", "10.1.2.3", false},
		{"other.example:443", "192.168.0.1", false},
		{"other.example:443", "172.16.0.1", false},
		{"other.example:443", "100.100.100.200", false},
		{"other.example:443", "127.0.0.1", false},
		{"other.example:443", "127.8.8.8", false},
		{"other.example:443", "::1", false},
		{"other.example:443", "::ffff:10.0.0.1", false},
		{"other.example:443", "::127.0.0.1", false},
		{"other.example:443", "0.0.0.0", false},
		{"other.example:443", "0.1.2.3", false},
		{"other.example:443", "169.254.169.254", false},
		{"other.example:443", "fe80::1", false},
		{"other.example:443", "fd00::1", false},
		{"other.example:443", "fec0::1", false},
		{"other.example:443", "224.0.0.1", false},
		{"other.example:443", "255.255.255.255", false},
		{"other.example:443", "240.0.0.1", false},
		{"other.example:443", "64:ff9b::a00:1", false},
		{"other.example:443", "2002:a00:1::", false},
		{"corp.example:443", "10.1.2.3", true},
		{"corp.example:80", "10.1.2.3", true},
		{"corp.example:5000", "fd00::1", true},
		{"corp.example:5000", "100.64.0.1", true},
		{"corp.example:5001", "10.1.2.3", false},
		{"corp.example:5000", "127.0.0.1", false},
		{"corp.example:5000", "169.254.169.254", false},
		{"upper.example:443", "10.1.2.3", true},
		{"10.1.2.3:443", "10.1.2.3", true},
		{"10.1.2.3:22", "10.1.2.3", false},
		{"169.254.169.254:80", "169.254.169.254", true},
		{"localhost:5000", "127.0.0.1", true},
		{"localhost:5000", "::1", true},
		{"localhost:6000", "127.0.0.1", false},
	} {
		if got := r.allows(c.addr, netip.MustParseAddr(c.to)); got != c.want {
			t.Errorf("%s at %s: got %t, want %t", c.addr, c.to, got, c.want)
		}
	}
}

// A proxy resolves names itself, so an address must be public as it is written.
func TestReachAllowsName(t *testing.T) {
	r := newReach(Config{}, Access{Confined: true, Only: []string{"10.1.2.3:5000"}})
	for host, want := range map[string]bool{
		"example.com": true, "203.0.113.7": true, "[2606:4700::1111]:443": true, "10.1.2.3:5000": true,
		"10.1.2.3": false, "localhost": false, "127.0.0.1:80": false, "0.0.0.1": false, "100.100.100.200": false, "169.254.169.254": false,
		"[::ffff:169.254.169.254]": false, "[::ffff:10.0.0.1]:80": false, "[fd00:ec2::254]": false, "[fe80::1]": false,
		"[64:ff9b::a9fe:a9fe]": false, "[::a9fe:a9fe]:443": false,
	} {
		if got := r.allowsName(host); got != want {
			t.Errorf("%s: got %t, want %t", host, got, want)
		}
	}
}

// nameServer answers queries for addresses of IPv4 with address.
func nameServer(t *testing.T, address func(name string) netip.Addr) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil || len(m.Questions) == 0 {
				continue
			}
			q := m.Questions[0]
			m.Response, m.Additionals = true, nil
			if q.Type == dnsmessage.TypeA {
				m.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class},
					Body:   &dnsmessage.AResource{A: address(q.Name.String()).As4()},
				}}
			}
			if out, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(out, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// No image reference, redirect, token server or name leads to an address that is not listed.
func TestOnlyListedAddresses(t *testing.T) {
	inner := &requestLog{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	plain := serve(t, inner)
	_, port, _ := net.SplitHostPort(plain)
	ca := newAuthority(t)
	secure := serveTLS(t, ca.server("inner.example", "rebinding.example"), inner)
	_, securePort, _ := net.SplitHostPort(secure)
	var queries atomic.Int64
	resolver := nameServer(t, func(name string) netip.Addr {
		if strings.HasPrefix(name, "rebinding.") && queries.Add(1)%2 == 1 {
			return netip.MustParseAddr("203.0.113.1")
		}
		return netip.MustParseAddr("127.0.0.1")
	})
	targets := []string{
		plain, "localhost:" + port, "127.1:" + port, "[::ffff:127.0.0.1]:" + port, "169.254.169.254", "10.0.0.1", "100.100.100.200",
		"inner.example:" + securePort, "rebinding.example:" + securePort,
	}
	newClient := func(only ...string) *Client {
		client, err := newRegistries(t, Config{resolver: resolver}).Client("test", Access{RootCAs: ca.pem(), Confined: true, Only: only})
		if err != nil {
			t.Fatal(err)
		}
		return client
	}
	image, _ := withImage(t)
	for _, target := range targets {
		t.Run("reference to "+target, func(t *testing.T) {
			for _, client := range []*Client{newClient(), newClient("other.example")} {
				if _, _, err := head(t, client, target+"/catalogs/foo:v1"); KindOf(err) != Forbidden {
					t.Errorf("got %v, want an error of kind %s", err, Forbidden)
				}
			}
		})
		for _, path := range []string{"/v2/", "/v2/catalogs/foo/manifests/v1"} {
			t.Run(fmt.Sprintf("redirect of %s to %s", path, target), func(t *testing.T) {
				host := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == path {
						http.Redirect(w, r, "https://"+target+"/quit", http.StatusTemporaryRedirect)
						return
					}
					image.ServeHTTP(w, r)
				}))
				if _, _, err := head(t, newClient(host), host+"/catalogs/foo:v1"); err == nil {
					t.Error("got no error")
				}
			})
		}
		t.Run("token server at "+target, func(t *testing.T) {
			host := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="https://%s/token",service="test"`, target))
				w.WriteHeader(http.StatusUnauthorized)
			}))
			if _, _, err := head(t, newClient(host), host+"/catalogs/foo:v1"); err == nil {
				t.Error("got no error")
			}
		})
	}
	t.Run("listed names", func(t *testing.T) {
		for _, name := range []string{"inner.example:" + securePort, "rebinding.example:" + securePort} {
			_, err := newReach(Config{resolver: resolver}, Access{Confined: true, Only: []string{name}}).dialer(
				context.WithValue(t.Context(), directly{}, true), name).DialContext(t.Context(), "tcp4", name)
			if strings.HasPrefix(name, "inner.") && !errors.Is(err, errForbidden) {
				t.Errorf("%s: got %v, want %v", name, err, errForbidden)
			}
			if err == nil {
				t.Errorf("%s: connected", name)
			}
		}
	})
	t.Run("through a proxy", func(t *testing.T) {
		client := newClient("other.example")
		client.secure.wire.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: plain})
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:1/", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := proxied{client.secure.wire, client.reach}.RoundTrip(req)
		if err == nil {
			_ = res.Body.Close()
		}
		if !errors.Is(err, errForbidden) {
			t.Errorf("got %v, want %v", err, errForbidden)
		}
	})
	if requests := inner.take(); requests != nil {
		t.Errorf("services of this machine got %v", requests)
	}
}

// A listed registry is reached at loopback, and so is a mirror, which nobody lists.
func TestListedRegistries(t *testing.T) {
	image, _ := withImage(t)
	host := serve(t, image)
	for name, access := range map[string]Access{
		"listed": {Confined: true, Only: []string{host}},
		"mirror": {Confined: true, Mirrors: []Mirror{{Source: host, Location: "localhost" + host[strings.LastIndexByte(host, ':'):]}}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := head(t, newTestClient(t, access), host+"/catalogs/foo:v1"); err != nil {
				t.Error(err)
			}
		})
	}
}
