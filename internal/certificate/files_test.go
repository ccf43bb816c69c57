package certificate

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// mount is a directory like the mount of a Secret: its files are links through ..data to a directory that is replaced atomically.
type mount struct {
	t   *testing.T
	dir string
	n   int
}

func newMount(t *testing.T, cert, key []byte) *mount {
	t.Helper()
	m := &mount{t: t, dir: t.TempDir()}
	m.swap(cert, key)
	for _, name := range []string{"tls.crt", "tls.key"} {
		must.Succeed(t, os.Symlink(filepath.Join("..data", name), filepath.Join(m.dir, name)))
	}
	return m
}

func (m *mount) cert() string { return filepath.Join(m.dir, "tls.crt") }
func (m *mount) key() string  { return filepath.Join(m.dir, "tls.key") }

func (m *mount) swap(cert, key []byte) {
	m.t.Helper()
	data, next := filepath.Join(m.dir, "..data"), filepath.Join(m.dir, "..data_tmp")
	old, _ := os.Readlink(data)
	m.n++
	name := "..2026_11_20_" + string(rune('a'+m.n))
	must.Succeed(m.t, os.Mkdir(filepath.Join(m.dir, name), 0o755))
	must.Succeed(m.t, os.WriteFile(filepath.Join(m.dir, name, "tls.crt"), cert, 0o644))
	must.Succeed(m.t, os.WriteFile(filepath.Join(m.dir, name, "tls.key"), key, 0o600))
	must.Succeed(m.t, os.Symlink(name, next))
	must.Succeed(m.t, os.Rename(next, data)) //nolint:forbidigo // as kubelet does
	if old != "" {
		must.Succeed(m.t, os.RemoveAll(filepath.Join(m.dir, old)))
	}
}

// pair returns a certificate for name and its key in PEM form.
func pair(t *testing.T, name string) (cert, key []byte) {
	t.Helper()
	a, err := newAuthority(time.Now())
	must.Succeed(t, err)
	serving, err := a.issue([]string{name}, time.Now())
	must.Succeed(t, err)
	cert, key, err = (&authority{cert: serving.Leaf, key: serving.PrivateKey.(crypto.Signer)}).encode()
	must.Succeed(t, err)
	return cert, key
}

// served returns the name in the certificate of a server.
func served(t *testing.T, f *Files) string {
	t.Helper()
	state, err := handshake(t, TLSConfig(f.GetCertificate, false), &tls.Config{InsecureSkipVerify: true})
	must.Succeed(t, err)
	return state.PeerCertificates[0].DNSNames[0]
}

func TestFilesAreReloaded(t *testing.T) {
	m := newMount(t, nil, nil)
	m.swap(pair(t, "one.example"))
	var log lockedBuffer
	f, err := NewFiles(m.cert(), m.key(), slog.New(slog.NewTextHandler(&log, nil)))
	must.Succeed(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	if got := served(t, f); got != "one.example" {
		t.Errorf("at first: %s", got)
	}
	for _, name := range []string{"two.example", "three.example"} {
		m.swap(pair(t, name))
		eventually.Holds(t, name+" is served", func() bool { return served(t, f) == name })
	}
	eventually.Holds(t, "it is logged", func() bool { return strings.Contains(log.String(), "three.example") })

	cert, _ := pair(t, "broken.example")
	m.swap(cert, []byte("garbage"))
	if err := f.ReadCertificate(); err == nil {
		t.Error("a broken pair is read")
	}
	if got := served(t, f); got != "three.example" {
		t.Errorf("with a broken pair: %s", got)
	}
	m.swap(pair(t, "four.example"))
	eventually.Holds(t, "the pair after the broken one is served", func() bool { return served(t, f) == "four.example" })
	cancel()
	must.Succeed(t, <-ended)
}

func TestFilesAtStart(t *testing.T) {
	cert, key := pair(t, "one.example")
	_, otherKey := pair(t, "two.example")
	for _, test := range []struct {
		name      string
		cert, key []byte
		want      string
	}{
		{"no certificate", nil, key, "failed to find any PEM data in certificate input"},
		{"broken key", cert, []byte("garbage"), "failed to find any PEM data in key input"},
		{"key of another", cert, otherKey, "private key does not match public key"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := newMount(t, test.cert, test.key)
			_, err := NewFiles(m.cert(), m.key(), slog.New(slog.DiscardHandler))
			if err == nil || !strings.Contains(err.Error(), test.want) ||
				!strings.Contains(err.Error(), m.cert()) || !strings.Contains(err.Error(), m.key()) {
				t.Errorf("got error %v, want %q and the names of the files", err, test.want)
			}
		})
	}
	t.Run("missing", func(t *testing.T) {
		dir := t.TempDir()
		_, err := NewFiles(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), slog.New(slog.DiscardHandler))
		if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), filepath.Join(dir, "tls.crt")) {
			t.Errorf("got error %v", err)
		}
	})
}

func TestTLSConfig(t *testing.T) {
	a, err := newAuthority(time.Now())
	must.Succeed(t, err)
	serving, err := a.issue([]string{"localhost"}, time.Now())
	must.Succeed(t, err)
	get := func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return serving, nil }
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	for _, test := range []struct {
		name   string
		client *tls.Config
		want   uint16 // version; 0: refused
	}{
		{"newest", &tls.Config{}, tls.VersionTLS13},
		{"TLS 1.2", &tls.Config{MaxVersion: tls.VersionTLS12}, tls.VersionTLS12},
		{"TLS 1.1", &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, 0},
		{
			"TLS 1.2, not authenticated encryption",
			&tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA}},
			0,
		},
		{
			"TLS 1.2, ChaCha20",
			&tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256}},
			tls.VersionTLS12,
		},
		{"P-256 only", &tls.Config{CurvePreferences: []tls.CurveID{tls.CurveP256}}, tls.VersionTLS13},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.client.RootCAs, test.client.ServerName = pool, "localhost"
			state, err := handshake(t, TLSConfig(get, false), test.client)
			if (err == nil) != (test.want != 0) || err == nil && state.Version != test.want {
				t.Errorf("version %s, error %v; want %s", tls.VersionName(state.Version), err, tls.VersionName(test.want))
			}
		})
	}
}

func TestClientCertificates(t *testing.T) {
	a, err := newAuthority(time.Now())
	must.Succeed(t, err)
	serving, err := a.issue([]string{"localhost"}, time.Now())
	must.Succeed(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	for _, test := range []struct {
		name string
		look bool
		send []tls.Certificate
		want string
	}{
		{"looked at, sent", true, []tls.Certificate{*serving}, "localhost"},
		{"looked at, none", true, nil, ""},
		{"not looked at", false, []tls.Certificate{*serving}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Proto", r.Proto)
				if len(r.TLS.PeerCertificates) > 0 {
					w.Header().Set("Client", r.TLS.PeerCertificates[0].DNSNames[0])
				}
			}))
			server.TLS = TLSConfig(func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return serving, nil }, test.look)
			server.StartTLS()
			defer server.Close()
			transport := &http.Transport{
				ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "localhost", Certificates: test.send},
			}
			defer transport.CloseIdleConnections()
			response, err := (&http.Client{Transport: transport}).Get(server.URL)
			must.Succeed(t, err)
			response.Body.Close()
			if proto, client := response.Header.Get("Proto"), response.Header.Get("Client"); proto != "HTTP/2.0" || client != test.want {
				t.Errorf("by %s of %q, want HTTP/2.0 of %q", proto, client, test.want)
			}
		})
	}
}

// An overlong client certificate chain fails the handshake, in TLS 1.2 and 1.3.
func TestLongChains(t *testing.T) {
	a, err := newAuthority(time.Now())
	must.Succeed(t, err)
	serving, err := a.issue([]string{"localhost"}, time.Now())
	must.Succeed(t, err)
	big, err := a.issue([]string{strings.Repeat("a", 20<<10) + ".example"}, time.Now())
	must.Succeed(t, err)
	chain := func(n int, more ...[]byte) tls.Certificate {
		pair := *serving
		pair.Certificate = slices.Concat(slices.Repeat(serving.Certificate, n), more)
		return pair
	}
	for _, test := range []struct {
		name string
		send tls.Certificate
		good bool
	}{
		{"10 certificates", chain(10), true},
		{"11 certificates", chain(11), false},
		{"20 KiB", chain(1, big.Certificate[0]), true},
		{"40 KiB", chain(1, big.Certificate[0], big.Certificate[0]), false},
	} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			t.Run(test.name+" "+tls.VersionName(version), func(t *testing.T) {
				server := TLSConfig(func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return serving, nil }, true)
				near, far := net.Pipe()
				defer near.Close()
				accepted := make(chan error, 1)
				go func() {
					accepted <- tls.Server(far, server).HandshakeContext(t.Context())
					far.Close()
				}()
				client := tls.Client(near, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{test.send}, MaxVersion: version})
				go io.Copy(io.Discard, client) // the handshake, and what comes after it
				err := <-accepted
				if (err == nil) != test.good || err != nil && !strings.Contains(err.Error(), "exceeds the limits of 10 and 32768") {
					t.Errorf("got error %v, want good %t", err, test.good)
				}
			})
		}
	}
}
