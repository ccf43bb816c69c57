package listen

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
)

const patience = 20 * time.Second // how long anything may take that should happen

// port is a running Server with its clients.
type port struct {
	*Server
	url  string
	stop func() error // ends Serve and returns what it returned

	roots *x509.CertPool
}

// protocols are the protocols of a port.
var protocols = []string{"HTTP/1.1", "HTTP/1.1 with TLS", "HTTP/2"}

// serve starts a port. At the end of the test it stops the port and checks that no goroutine is left.
func serve(t *testing.T, protocol string, cfg Config) *port {
	t.Helper()
	before := runtime.NumGoroutine()
	p := &port{}
	scheme := "http"
	if protocol != protocols[0] {
		scheme = "https"
		cfg.TLS, p.roots = certificate()
	}
	cfg.Name, cfg.Flag, cfg.Address, cfg.Logger = "test", "--test", "127.0.0.1:0", slog.New(slog.DiscardHandler)
	server, err := Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p.Server, p.url = server, scheme+"://"+server.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx) }()
	p.stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() {
		if err := p.stop(); err != nil {
			t.Errorf("ending the port: %v", err)
		}
		eventually.Succeeds(t, "its goroutines have ended", func() error {
			if n := runtime.NumGoroutine(); n > before {
				return fmt.Errorf("%d goroutines, %d before", n, before)
			}
			return nil
		})
	})
	return p
}

// certificate returns the certificate of httptest, for 127.0.0.1.
func certificate() (*tls.Config, *x509.CertPool) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return &tls.Config{Certificates: server.TLS.Certificates}, roots
}

// client returns a client with its own connections.
func (p *port) client(t *testing.T, protocol string) *http.Client {
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: p.roots}, Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(protocol != "HTTP/2")
	transport.Protocols.SetHTTP2(protocol == "HTTP/2")
	transport.DialContext = (&net.Dialer{Control: smallWindow}).DialContext
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// dial opens a connection, writes the text, and waits until the port has taken the connection.
func (p *port) dial(t *testing.T, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	eventually.Succeeds(t, "the connection is taken", func() error {
		table := p.listener.table
		table.mu.Lock()
		defer table.mu.Unlock()
		for taken := range table.all() {
			if taken.RemoteAddr().String() == c.LocalAddr().String() {
				return nil
			}
		}
		return errors.New("not there")
	})
	return c
}

// ask sends a GET and returns the body of the response.
func ask(t *testing.T, c net.Conn) string {
	t.Helper()
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// wantClosed waits until the other end closes the connection.
func wantClosed(t *testing.T, c net.Conn) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.Copy(io.Discard, c); err != nil && !errors.Is(err, net.ErrClosed) && strings.Contains(err.Error(), "timeout") {
		t.Errorf("the connection is still open: %v", err)
	}
}

func receive[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("%s did not come", what)
		panic("unreachable")
	}
}

func say(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) })
}

func TestListenNamesTheFlag(t *testing.T) {
	p := serve(t, protocols[0], Config{Handler: say("")})
	_, err := Listen(Config{
		Name: "content", Flag: "--content-bind-address", Address: p.Addr().String(), Logger: slog.New(slog.DiscardHandler),
	})
	if err == nil || !strings.Contains(err.Error(), "content requests on --content-bind-address "+p.Addr().String()) {
		t.Errorf("got error %v", err)
	}
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	p := serve(t, protocols[0], Config{Handler: say(""), MaxConnections: 2, Metrics: registry})
	for range 3 {
		p.dial(t, "GET")
	}
	got := map[string]float64{}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		m := family.GetMetric()[0]
		got[fmt.Sprintf("%s{%s=%q}", family.GetName(), m.GetLabel()[0].GetName(),
			m.GetLabel()[0].GetValue())] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
	}
	want := map[string]float64{
		`catalogd_connections{port="test"}`:               2,
		`catalogd_connections_evicted_total{port="test"}`: 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := Listen(Config{Name: "test", Metrics: registry}); err == nil {
		t.Error("two ports of one name share their metrics")
	}
}

// Shutdown waits for a request in flight.
func TestShutdownWaits(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			begun, finish := make(chan struct{}), make(chan struct{})
			p := serve(t, protocol, Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				close(begun)
				<-finish
				io.WriteString(w, "done")
			})})
			got := make(chan string, 1)
			client := p.client(t, protocol)
			go func() { got <- fetch(client, p.url) }()
			receive(t, "the request", begun)
			stopped := make(chan error, 1)
			go func() { stopped <- p.stop() }()
			eventually.Succeeds(t, "the port is given up", func() error {
				c, err := net.Dial("tcp", p.Addr().String())
				if err != nil {
					return nil
				}
				c.Close()
				return errors.New("it takes connections")
			})
			close(finish)
			if got := receive(t, "the answer", got); got != "done" {
				t.Errorf("the request in flight got %s", got)
			}
			if err := receive(t, "the end", stopped); err != nil {
				t.Error(err)
			}
		})
	}
}

// fetch returns the body, or the error as text.
func fetch(client *http.Client, url string) string {
	response, err := client.Get(url)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return string(body)
}

// Requests that take longer than Grace are cut off, and Serve returns an error.
func TestShutdownEnds(t *testing.T) {
	begun := make(chan struct{})
	server, err := Listen(Config{Name: "test", Address: "127.0.0.1:0", Grace: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(begun)
			<-r.Context().Done()
		})})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx) }()
	got := make(chan string, 1)
	go func() {
		got <- fetch(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, "http://"+server.Addr().String())
	}()
	receive(t, "the request", begun)
	cancel()
	if err := receive(t, "the end", ended); err == nil ||
		!strings.Contains(err.Error(), "shutting down the test port: requests in flight were cut off") {
		t.Errorf("got error %v", err)
	}
	receive(t, "the client's error", got)
}

// A port that is shut down before it accepts closes its socket.
func TestShutdownAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 { // either of Serve's two goroutines may be first
		server, err := Listen(Config{Name: "test", Address: "127.0.0.1:0", Handler: say(""), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if err := server.Serve(ctx); err != nil {
			t.Error(err)
		}
		if c, err := net.Dial("tcp", server.Addr().String()); err == nil {
			c.Close()
			t.Fatal("the port is still open")
		}
	}
}

// net/http answers plain HTTP on a TLS port.
func TestPlainRequestToTLS(t *testing.T) {
	p := serve(t, "HTTP/2", Config{Handler: say("")})
	if got := fetch(p.client(t, protocols[0]),
		strings.Replace(p.url, "https", "http", 1)); got != "Client sent an HTTP request to an HTTPS server.\n" {
		t.Errorf("got %q", got)
	}
}

// A request of HTTP/1.1 in chunks may have had a Content-Length too, which net/http hides; then the connection must close.
func TestChunkedRequestClosesConnection(t *testing.T) {
	p := serve(t, protocols[0], Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })})
	c, err := net.Dial("tcp", p.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const request = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(c)
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if string(body) != "body" || err != nil || !response.Close {
		t.Errorf("got %q, %v; Connection: close is %t", body, err, response.Close)
	}
	if _, err := reader.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("after the response: %v, want the end of the connection", err)
	}
}

func TestHosts(t *testing.T) {
	p := serve(t, protocols[0], Config{Handler: say("hello"), Hosts: []string{"catalogs.example"}})
	for host, allowed := range map[string]bool{
		"localhost": true, "LOCALHOST:8080": true, "localhost.": true, "127.0.0.1:80": true, "127.9.9.9": true, "[::1]:80": true, "[::1]": true,
		"catalogs.example": true, "Catalogs.Example:444": true,
		"evil.example": false, "evil.example:80": false, "10.0.0.1": false, "localhost.evil.example": false, "127.0.0.1.evil.example": false,
		"0.0.0.0": false, "[::]": false, "x.catalogs.example": false,
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		response, err := p.client(t, protocols[0]).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if allowed && (response.StatusCode != http.StatusOK || string(body) != "hello" || err != nil) {
			t.Errorf("%s: got %s, %q, %v", host, response.Status, body, err)
		}
		if !allowed && (response.StatusCode != http.StatusMisdirectedRequest ||
			!strings.Contains(string(body), "--allowed-hosts") || err != nil) {
			t.Errorf("%s: got %s, %q, %v", host, response.Status, body, err)
		}
	}
}
