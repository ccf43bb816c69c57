package registry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// What must appear in no text. Servers of these tests repeat in their answers what they were sent.
const (
	password      = "hunter2-password"
	identityToken = "hunter2-identity"
	bearerToken   = "hunter2-bearer"
	proxyPassword = "hunter2-proxy"
)

func checkNoSecret(t *testing.T, what, text string) {
	t.Helper()
	for _, secret := range []string{"hunter2", base64.StdEncoding.EncodeToString([]byte("user:" + password))} {
		if strings.Contains(text, secret) {
			t.Errorf("%s has a secret: %s", what, text)
		}
	}
}

func answer(status int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v2/" {
			return // the session opens
		}
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, password)
	}
}

func challenge(value string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", value)
		w.WriteHeader(http.StatusUnauthorized)
	}
}

func wantsCertificate(ca *authority, version uint16) func(*tls.Config) {
	return func(config *tls.Config) {
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		config.ClientCAs.AddCert(ca.certificate)
		config.MaxVersion = version
	}
}

// fault is a failing registry and the expected explanation. HOST in texts stands for its address.
type fault struct {
	host   string
	access Access
	kind   Kind
	text   string
}

func httpFaults(t *testing.T) map[string]fault {
	const manifest = "application/vnd.oci.image.manifest.v1+json"
	headless := func(missing string) http.HandlerFunc {
		header := map[string]string{"Content-Type": manifest, "Content-Length": "7", "Docker-Content-Digest": "sha256:12"}
		delete(header, missing)
		var pairs []string
		for key, value := range header {
			pairs = append(pairs, key, value)
		}
		return answer(http.StatusOK, pairs...)
	}
	at := func(handler http.Handler) string { return serve(t, handler) }
	hangUp := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	wrong := func(host string) Access {
		return Access{Credentials: credentials(t, auths(host, "user", password))}
	}
	refuses := at(answer(http.StatusForbidden))
	return map[string]fault{
		"unauthorized": {
			at(answer(401)),
			Access{},
			Unauthorized,
			"registry HOST requires credentials for repository catalogs/foo (401 Unauthorized), and none are configured for it",
		},
		"forbidden": {
			refuses,
			wrong(refuses),
			Unauthorized,
			"registry HOST requires credentials for repository catalogs/foo (403 Forbidden), and rejects those of Secret a",
		},
		"not found":       {at(answer(404)), Access{}, NotFound, "registry HOST has no such image or tag (404 Not Found)"},
		"too many":        {at(answer(429)), Access{}, RateLimited, "registry HOST is rate limiting requests (429 Too Many Requests)"},
		"server error":    {at(answer(503)), Access{}, Answered, "registry HOST answered 503 Service Unavailable"},
		"teapot":          {at(answer(418)), Access{}, Answered, "registry HOST answered 418 I'm a teapot"},
		"nameless status": {at(answer(522)), Access{}, Answered, "registry HOST answered 522"},
		"no digest": {
			at(headless("Docker-Content-Digest")),
			Access{},
			Answered,
			"registry HOST sent no digest of the image (no header Docker-Content-Digest)",
		},
		"no type": {
			at(answer(200, "Content-Type", "")),
			Access{},
			Answered,
			"registry HOST sent no type of the manifest (no header Content-Type)",
		},
		"no size": {
			at(answer(200, "Content-Type", manifest, "Transfer-Encoding", "chunked")),
			Access{},
			Answered,
			"registry HOST sent no size of the manifest (no header Content-Length)",
		},
		"malformed digest": {at(headless("")), Access{}, Answered, "registry HOST sent an invalid response"},
		"connection cut":   {at(hangUp), Access{}, Unreachable, "registry HOST cannot be reached: it closed the connection without a response"},
		"redirect": {
			at(http.RedirectHandler("http://192.0.2.1/x?token="+bearerToken, http.StatusTemporaryRedirect)),
			Access{},
			PlainHTTP,
			"registry HOST redirects to 192.0.2.1 over plain HTTP, which is not allowed for it",
		},
		"redirect inwards": {
			at(answer(307, "Location", "https://10.0.0.1/x?token="+bearerToken)),
			Access{},
			Answered,
			"registry HOST redirects to a private address, which is not allowed",
		},
		"realm inwards": {
			at(challenge(`Bearer realm="https://169.254.169.254/` + bearerToken + `"`)),
			Access{},
			Answered,
			"registry HOST names a token server whose address is private or not HTTPS, which is not allowed",
		},
		"no realm": {
			at(challenge(`Bearer service="` + bearerToken + `"`)),
			Access{},
			Answered,
			"registry HOST requires a token but names no token server",
		},
	}
}

func tokenFaults(t *testing.T, ca *authority) map[string]fault {
	image, _ := withImage(t)
	server := func(handler http.Handler) string { return serveTLS(t, ca.server(), handler) }
	trusting := func(file string) Access { return Access{RootCAs: ca.pem(), Credentials: credentials(t, file)} }
	identity := func(host string) string {
		return `{"auths":{"` + host + `":{"identitytoken":"` + identityToken + `"}}}`
	}
	wantsBasic, wantsBearer := server(basic("user", "other", image)), server(bearer("user", "other", "other", bearerToken, image))
	tokenless := server(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			_, _ = io.WriteString(w, `{"refresh_token":"`+identityToken+`"}`)
			return
		}
		challenge(`Bearer realm="https://`+r.Host+`/token"`)(w, r)
	}))
	const refused = "registry HOST requires credentials for repository catalogs/foo (401 Unauthorized), and rejects those of Secret a"
	return map[string]fault{
		"basic, wrong password":        {wantsBasic, trusting(auths(wantsBasic, "user", password)), Unauthorized, refused},
		"bearer, wrong password":       {wantsBearer, trusting(auths(wantsBearer, "user", password)), Unauthorized, refused},
		"bearer, wrong identity token": {wantsBearer, trusting(identity(wantsBearer)), Unauthorized, refused},
		"bearer, wrong token": {
			wantsBearer,
			trusting(`{"auths":{"` + wantsBearer + `":{"registrytoken":"` + bearerToken + `x"}}}`),
			Unauthorized,
			refused,
		},
		"bearer, anonymous": {
			wantsBearer,
			Access{RootCAs: ca.pem()},
			Unauthorized,
			"registry HOST requires credentials for repository catalogs/foo (401 Unauthorized), and none are configured for it",
		},
		"no token": {tokenless, Access{RootCAs: ca.pem()}, Answered, "the token server of registry HOST returned no token"},
	}
}

func tlsFaults(t *testing.T, ca *authority) map[string]fault {
	image, _ := withImage(t)
	trusting := Access{RootCAs: ca.pem()}
	between := func(after, before time.Duration) *tls.Certificate {
		return ca.issue(&x509.Certificate{
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(after), NotAfter: time.Now().Add(before),
		})
	}
	server := func(certificate *tls.Certificate, configure ...func(*tls.Config)) string {
		return serveTLS(t, certificate, image, configure...)
	}
	for13, for12 := wantsCertificate(ca, tls.VersionTLS13), wantsCertificate(ca, tls.VersionTLS12)
	stranger := Access{RootCAs: ca.pem(), Certificate: newAuthority(t).client()}
	forServers := Access{RootCAs: ca.pem(), Certificate: ca.server()}
	const distrusted = "the certificate of registry HOST is not trusted: "
	return map[string]fault{
		"unknown authority": {server(ca.server()), Access{}, Untrusted, distrusted + "it is signed by an unknown authority"},
		"expired":           {server(between(-2*time.Hour, -time.Hour)), trusting, Untrusted, distrusted + "it has expired"},
		"not valid yet": {
			server(between(time.Hour, 2*time.Hour)),
			trusting,
			Untrusted,
			distrusted + "it is not valid yet, or the clock of catalogd is wrong",
		},
		"another's name": {
			server(ca.server("b.example", "a.example")),
			trusting,
			Untrusted,
			distrusted + "it is not valid for 127.0.0.1, only for a.example, b.example",
		},
		"others' names": {
			server(ca.server("d.example", "c.example", "b.example", "a.example", "e.example")),
			trusting,
			Untrusted,
			distrusted + "it is not valid for 127.0.0.1, only for a.example, b.example, c.example and 2 more",
		},
		"nobody's name": {
			server(ca.issue(&x509.Certificate{})),
			trusting,
			Untrusted,
			distrusted + "it is not valid for 127.0.0.1, only for no name (the common name is ignored)",
		},
		"a client's certificate": {
			server(
				ca.issue(&x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}),
			),
			trusting,
			Untrusted,
			distrusted + "it is not a server certificate",
		},
		"no client certificate": {server(ca.server(), for13), trusting, ClientCertificate, "registry HOST requires a client certificate"},
		"no client certificate, 1.2": {
			server(ca.server(), for12),
			trusting,
			ClientCertificate,
			"registry HOST aborted the TLS handshake (handshake failure); it may require a client certificate",
		},
		"stranger's certificate": {
			server(ca.server(), for13),
			stranger,
			ClientCertificate,
			"registry HOST rejected the client certificate (unknown certificate authority)",
		},
		"a server's certificate": {
			server(ca.server(), for13),
			forServers,
			ClientCertificate,
			"registry HOST requires a client certificate, or rejected the one presented (bad certificate)",
		},
		"old protocol": {
			server(ca.server(), func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }),
			trusting,
			Unreachable,
			"registry HOST cannot be reached: it aborted the TLS handshake (protocol version not supported)",
		},
	}
}

func wayFaults(t *testing.T, ca *authority) map[string]fault {
	const down = "127.0.0.1:1" // nothing listens there, and no later server of the tests is given it
	silent := func(status int) *url.URL {
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, r.Header.Get("Proxy-Authorization"))
		})
		return &url.URL{Scheme: "http", Host: serve(t, handler), User: url.UserPassword("user", proxyPassword)}
	}
	image, _ := withImage(t)
	plain, _ := forward(t, serve(t, image))
	tlsOnly := serveTLS(t, ca.server("registry.example"), image)
	throughTLS, _ := forward(t, tlsOnly)
	proxyDown := &url.URL{Scheme: "http", Host: down, User: url.UserPassword("user", proxyPassword)}
	untrusted := &url.URL{Scheme: "https", Host: tlsOnly, User: url.UserPassword("user", proxyPassword)}
	wants, refuses := silent(http.StatusProxyAuthRequired), silent(http.StatusBadGateway)
	wants407 := "proxy " + wants.Host + " requires credentials, or rejected those given (407 Proxy Authentication Required)"
	return map[string]fault{
		"refused": {down, Access{}, Unreachable, "registry HOST cannot be reached: connect: connection refused"},
		"proxy down": {
			"registry.example",
			Access{Proxy: proxyDown},
			Proxy,
			"proxy " + proxyDown.Host + " cannot be used: connect: connection refused",
		},
		"proxy wants password":   {"registry.example", Access{Proxy: wants}, Proxy, wants407},
		"the same by plain HTTP": {"localhost:1", Access{Proxy: wants}, Proxy, wants407},
		"proxy refuses": {
			"registry.example",
			Access{Proxy: refuses},
			Proxy,
			"proxy " + refuses.Host + " refused to connect to registry HOST (502 Bad Gateway)",
		},
		"proxy untrusted": {
			"registry.example",
			Access{Proxy: untrusted},
			Proxy,
			"proxy " + untrusted.Host + " cannot be used: its certificate is not trusted: it is not valid for 127.0.0.1, only for registry.example",
		},
		"through a proxy": {
			"other.example",
			Access{Proxy: throughTLS, RootCAs: ca.pem()},
			Untrusted,
			"the certificate of registry HOST is not trusted: it is not valid for other.example, only for registry.example",
		},
		"plain HTTP only": {
			"registry.example",
			Access{Proxy: plain},
			PlainHTTP,
			"registry HOST supports only plain HTTP, which is not allowed for it",
		},
		"private address": {
			"10.1.2.3:5000",
			Access{Proxy: plain},
			PlainHTTP,
			"registry HOST supports only plain HTTP, which is not allowed for it",
		},
	}
}

func TestFaults(t *testing.T) {
	ca := newAuthority(t)
	for _, faults := range []map[string]fault{httpFaults(t), tokenFaults(t, ca), tlsFaults(t, ca), wayFaults(t, ca)} {
		for name, test := range faults {
			t.Run(name, func(t *testing.T) {
				client := newTestClient(t, test.access)
				for range 2 { // a message stays the same while the cause does
					_, _, err := head(t, client, test.host+"/catalogs/foo:v1")
					want := "finding the digest: " + replaceHost(test.text, test.host)
					if err == nil || err.Error() != want {
						t.Fatalf("got error\n %v, want\n %s", err, want)
					}
					failed, ok := errors.AsType[*Error](err)
					if !ok || failed.Kind != test.kind || failed.Host != test.host || failed.Repository != "catalogs/foo" {
						t.Errorf("got %+v, want one of kind %s about %s, catalogs/foo", failed, test.kind, test.host)
					}
					checkNoSecret(t, "the error", fmt.Sprintf("%v %+v %#v %#v", err, err, err, *failed))
				}
			})
		}
	}
}

func TestDamaged(t *testing.T) {
	const digest = "@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		text    string
	}{
		"truncated": {answer(200, "Content-Length", "1000"), "registry HOST closed the connection early"},
		"another":   {answer(200), "content from registry HOST does not match its digest"},
	} {
		t.Run(name, func(t *testing.T) {
			host := serve(t, test.handler)
			err := get(t, newTestClient(t, Access{}), host+"/foo"+digest)
			if want := "reading the manifest: " + replaceHost(test.text, host); err == nil || err.Error() != want || KindOf(err) != Damaged {
				t.Errorf("got %s error\n %v, want\n %s", KindOf(err), err, want)
			}
		})
	}
}

// TestExplain has errors that servers on loopback cannot cause.
func TestExplain(t *testing.T) {
	ref := parse(t, "registry.example/foo")
	dns := func(err net.DNSError) error { return &net.OpError{Op: "dial", Err: &err} }
	for want, err := range map[string]error{
		"Unreachable: registry registry.example cannot be reached: connection reset by peer": &net.OpError{
			Op: "read", Net: "tcp", Source: &net.TCPAddr{Port: 43210}, Err: errors.New("connection reset by peer"),
		},
		"Unreachable: registry registry.example cannot be reached: host auth.example not found": dns(net.DNSError{
			Name: "auth.example", Server: "10.0.0.10:53", IsNotFound: true,
		}),
		"Unreachable: registry registry.example cannot be reached: looking up host auth.example timed out": dns(net.DNSError{
			Err: "read udp 10.1.1.1:40001->10.0.0.10:53: i/o timeout", Name: "auth.example", IsTimeout: true,
		}),
		"Unreachable: registry registry.example cannot be reached: looking up host auth.example failed": dns(net.DNSError{
			Err: "server misbehaving", Name: "auth.example", Server: "10.0.0.10:53",
		}),
		"Unreachable: registry registry.example cannot be reached: timed " +
			"out": &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded},
		"Unreachable: registry registry.example cannot be reached: the TLS handshake failed: no renegotiation": &url.Error{
			Op: "Get", URL: "https://registry.example?token=hunter2", Err: errors.New("tls: no renegotiation"),
		},
		"Untrusted: the certificate of registry registry.example is not trusted: it is not " +
			"valid": x509.CertificateInvalidError{Reason: x509.TooManyIntermediates},
		"Stalled: registry registry.example stalled, and the transfer was canceled": &url.Error{
			Op: "Get", URL: "https://cdn.example?token=hunter2", Err: errStalled,
		},
		"RateLimited: registry registry.example is rate limiting requests (429 Too Many " +
			"Requests)": &pausedError{"registry.example", 429},
		"Answered: registry registry.example answered 503 Service " +
			"Unavailable": &pausedError{"registry.example", 503},
		"RateLimited: registry registry.example is rate limiting requests (Retry-After of auth.example)": &url.Error{
			Op: "Get", URL: "https://auth.example?token=hunter2", Err: &pausedError{host: "auth.example"},
		},
		"Damaged: content from registry registry.example does not match its " +
			"digest": errors.New("error verifying size; got 3, want 5"),
		"Answered: registry registry.example sent an invalid response": &url.Error{
			Op: "Get", URL: "https://registry.example?token=hunter2", Err: errors.New("malformed HTTP response hunter2"),
		},
		"Unauthorized: registry registry.example requires credentials for repository foo (401 Unauthorized)": &transport.Error{StatusCode: 401},
	} {
		want = strings.Replace(want, ": ", ": finding the digest: ", 1)
		explained := Explain("finding the digest", ref, err)
		if got := string(KindOf(explained)) + ": " + explained.Error(); got != want {
			t.Errorf("got\n %s, want\n %s", got, want)
		}
		if !errors.Is(explained, err) {
			t.Errorf("%v: the cause is lost", explained)
		}
		if again := Explain("doing more", ref, fmt.Errorf("layer 1: %w", explained)); again.Error() != "layer 1: "+explained.Error() {
			t.Errorf("explained again: %v", again)
		}
	}
	if err := Explain("finding the digest", ref, nil); err != nil {
		t.Errorf("nothing became %v", err)
	}
	cancelled := Explain("finding the digest", ref, &url.Error{Op: "Get", URL: "https://x?token=hunter2", Err: context.Canceled})
	if !errors.Is(cancelled, context.Canceled) || KindOf(cancelled) != "" || cancelled.Error() != "finding the digest: context canceled" {
		t.Errorf("a cancelled request is %v of kind %q", cancelled, KindOf(cancelled))
	}
}

func TestCheck(t *testing.T) {
	ref := parse(t, "registry.example/foo")
	dial := func(err error) error {
		return &url.Error{Op: "Get", URL: "https://registry.example", Err: &net.OpError{Op: "dial", Err: err}}
	}
	for _, test := range []struct {
		err  error
		want string
	}{
		{
			dial(&net.DNSError{Name: "auth.example", IsNotFound: true}),
			"Check the spelling of auth.example, and whether catalogd's DNS server resolves it",
		},
		{dial(&net.DNSError{Name: "auth.example", IsTimeout: true}), "Check catalogd's DNS server"},
		{dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)), "Check the port, and whether registry.example is running"},
		{
			dial(os.NewSyscallError("connect", syscall.EHOSTUNREACH)),
			"Check the network between catalogd and registry.example, and whether it requires a proxy (spec.registry.proxy)",
		},
		{
			dial(os.NewSyscallError("connect", syscall.ENETUNREACH)),
			"Check the network between catalogd and registry.example, and whether it requires a proxy (spec.registry.proxy)",
		},
		{dial(os.ErrDeadlineExceeded), "Check the firewalls and network policies between catalogd and registry.example, and whether it " +
			"requires a proxy (spec.registry.proxy)"},
		{io.EOF, ""},
		{&transport.Error{StatusCode: 404}, ""},
	} {
		explained, _ := errors.AsType[*Error](Explain("finding the digest", ref, test.err))
		if got := explained.Check("spec.registry.proxy"); got != test.want {
			t.Errorf("%v: got %q, want %q", explained, got, test.want)
		}
	}
}

func TestPrintsNoSecret(t *testing.T) {
	access := Access{
		Credentials: credentials(
			t,
			auths("quay.io", "user", password),
			`{"auths":{"a.example":{"identitytoken":"`+identityToken+`"},"b.example":{"registrytoken":"`+bearerToken+`"}}}`,
		),
		Proxy:       &url.URL{Scheme: "http", Host: "proxy.example", User: url.UserPassword("user", proxyPassword)},
		Certificate: newAuthority(t).client(),
	}
	client := newTestClient(t, access)
	var log strings.Builder
	for _, value := range []any{
		access, &access, access.Credentials, &access.Credentials, client, struct{ A Access }{access}, struct{ a Access }{access},
		[]Credentials{access.Credentials}, struct{ c Credentials }{access.Credentials}, map[string]*Client{"c": client},
		struct{ c *Client }{client},
	} {
		slog.New(slog.NewTextHandler(&log, nil)).Info("m", "v", value)
		slog.New(slog.NewJSONHandler(&log, nil)).Info("m", "v", access)
		checkNoSecret(t, fmt.Sprintf("%T", value), fmt.Sprintf("%v\n%+v\n%#v\n%s\n%q", value, value, value, value, value))
	}
	checkNoSecret(t, "the log", log.String())
}
