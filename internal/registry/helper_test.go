package registry

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	testregistry "github.com/operator-catalogs/catalogd/internal/testing/registry"
)

// authority signs certificates.
type authority struct {
	t           *testing.T
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.certificate, a.key = a.sign(template)
	return a
}

// sign signs template; self-signed if a has no certificate yet.
func (a *authority) sign(template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	if template.NotAfter.IsZero() {
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	}
	parent, signer := a.certificate, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return certificate, key
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

func (a *authority) issue(template *x509.Certificate) *tls.Certificate {
	certificate, key := a.sign(template)
	return &tls.Certificate{Certificate: [][]byte{certificate.Raw}, PrivateKey: key}
}

// server issues a certificate for hosts; those of this machine if there are none.
func (a *authority) server(hosts ...string) *tls.Certificate {
	template := &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, DNSNames: hosts}
	if len(hosts) == 0 {
		template.DNSNames, template.IPAddresses = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	return a.issue(template)
}

func (a *authority) client() *tls.Certificate {
	return a.issue(&x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

func serve(t *testing.T, handler http.Handler) (host string) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// serveTLS serves with a certificate; configure may change more.
func serveTLS(t *testing.T, certificate *tls.Certificate, handler http.Handler, configure ...func(*tls.Config)) (host string) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{*certificate}}
	for _, change := range configure {
		change(server.TLS)
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// withImage returns an in-process registry with an image at catalogs/foo:v1.
func withImage(t *testing.T) (http.Handler, v1.Hash) {
	t.Helper()
	handler := testregistry.New()
	img, err := random.Image(1000, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(parse(t, serve(t, handler)+"/catalogs/foo:v1"), img); err != nil {
		t.Fatal(err)
	}
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return handler, digest
}

func parse(t *testing.T, ref string) name.Reference {
	t.Helper()
	parsed, err := name.ParseReference(ref)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// requestLog is a handler that notes the requests that reach it.
type requestLog struct {
	http.Handler
	mu       sync.Mutex
	requests []string
}

func (l *requestLog) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	l.requests = append(l.requests, r.Method+" "+r.URL.Path)
	l.mu.Unlock()
	l.Handler.ServeHTTP(w, r)
}

// take returns the requests since the last call.
func (l *requestLog) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() { l.requests = nil }()
	return l.requests
}

// basic requires user and password.
func basic(user, password string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, p, ok := r.BasicAuth(); !ok || u != user || p != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, r.Header.Get("Authorization")) // some servers are that careless
			return
		}
		next.ServeHTTP(w, r)
	})
}

// bearer returns a registry with a token server at /token, which accepts user and password, or the identity token.
func bearer(user, password, identity, token string, next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		u, p, _ := r.BasicAuth()
		if (u != user || p != password) && r.PostFormValue("refresh_token") != identity {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, p+r.PostFormValue("refresh_token"))
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"token": token})
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			w.Header().Set("WWW-Authenticate", `Bearer realm="https://`+r.Host+`/token",service="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
	return mux
}

// forward returns a proxy that sends all requests to one address and records them.
func forward(t *testing.T, to string) (*url.URL, *requestLog) {
	t.Helper()
	requests := &requestLog{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			r.URL.Host, r.RequestURI = to, ""
			res, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			defer res.Body.Close()
			for key, values := range res.Header {
				w.Header()[key] = values
			}
			w.WriteHeader(res.StatusCode)
			_, _ = io.Copy(w, res.Body)
			return
		}
		tunnel(w, to)
	})}
	return &url.URL{Scheme: "http", Host: serve(t, requests)}, requests
}

func tunnel(w http.ResponseWriter, to string) {
	upstream, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", to)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer upstream.Close()
	downstream, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer downstream.Close()
	_, _ = io.WriteString(downstream, "HTTP/1.1 200 OK\r\n\r\n") // only now, or the server could read on into the tunnel
	go func() {
		_, _ = io.Copy(upstream, downstream)
		upstream.Close()
	}()
	_, _ = io.Copy(downstream, upstream)
}

// clock returns a clock that advances an hour with each call, so that requested pauses have passed.
func clock() func() time.Time {
	var mu sync.Mutex
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(time.Hour)
		return now
	}
}

func newRegistries(t *testing.T, config Config) *Registries {
	t.Helper()
	if config.Now == nil {
		config.Now = clock()
	}
	config.Backoff = func(int) time.Duration { return time.Second }
	r := New(config)
	t.Cleanup(func() { r.Forget("test") })
	return r
}

func newTestClient(t *testing.T, access Access) *Client {
	t.Helper()
	c, err := newRegistries(t, Config{}).Client("test", access)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// head requests the digest of an image, as a poll does.
func head(t *testing.T, c *Client, image string) (v1.Hash, Endpoint, error) {
	t.Helper()
	var digest v1.Hash
	endpoint, err := c.Try(t.Context(), parse(t, image), func(ctx context.Context, e Endpoint) error {
		descriptor, err := remote.Head(e.Ref, append(e.Remote, remote.WithContext(ctx))...)
		if err != nil {
			return Explain("finding the digest", e.Ref, err)
		}
		digest = descriptor.Digest
		return nil
	})
	return digest, endpoint, err
}

// get downloads the manifest.
func get(t *testing.T, c *Client, image string) error {
	t.Helper()
	_, err := c.Try(t.Context(), parse(t, image), func(ctx context.Context, e Endpoint) error {
		_, err := remote.Get(e.Ref, append(e.Remote, remote.WithContext(ctx))...)
		return Explain("reading the manifest", e.Ref, err)
	})
	return err
}

func credentials(t *testing.T, files ...string) Credentials {
	t.Helper()
	var parsed []CredentialsFile
	for i, file := range files {
		parsed = append(parsed, CredentialsFile{Name: "Secret " + string(rune('a'+i)), JSON: []byte(file)})
	}
	c, err := ParseCredentials(parsed...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// auths returns a dockerconfigjson with one entry.
func auths(registry, user, password string) string {
	data, _ := json.Marshal(map[string]any{"auths": map[string]any{registry: map[string]string{"username": user, "password": password}}})
	return string(data)
}

func replaceHost(text, host string) string { return strings.ReplaceAll(text, "HOST", host) }
