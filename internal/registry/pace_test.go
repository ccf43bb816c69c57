package registry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// stepClock is a clock that stands still until it is stepped.
type stepClock struct {
	mu  sync.Mutex
	now time.Time
}

func newStepClock() *stepClock {
	return &stepClock{now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
}

func (c *stepClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *stepClock) step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// minutes is a backoff of one minute for each failure.
func minutes(failures int) time.Duration { return time.Duration(failures) * time.Minute }

// answers is a server that gives the answers of a script, the last one ever again, and counts the requests.
type answers struct {
	host     string
	requests atomic.Int64
	script   []http.HandlerFunc
}

func serveAnswers(t *testing.T, script ...http.HandlerFunc) *answers {
	t.Helper()
	a := &answers{script: script}
	a.host = serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := int(a.requests.Add(1))
		a.script[min(n, len(a.script))-1](w, r)
	}))
	return a
}

func status(code int, retryAfter string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		w.WriteHeader(code)
	}
}

func ask(t *testing.T, transport http.RoundTripper, host string) error {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+"/v2/", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

func newTestTransport(t *testing.T) *http.Transport {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

func TestPaceNeverSoonerThanAsked(t *testing.T) {
	clock := newStepClock()
	p := newPace(clock.Now, minutes)
	transport := p.wrap(newTestTransport(t), "")
	other := p.wrap(newTestTransport(t), "") // that of another catalog
	limited := serveAnswers(t, status(http.StatusTooManyRequests, "30"), status(http.StatusOK, ""))
	free := serveAnswers(t, status(http.StatusOK, ""))

	if err := ask(t, transport, limited.host); err != nil {
		t.Fatal(err)
	}
	for second := range 30 {
		for _, transport := range []http.RoundTripper{transport, other} {
			err := ask(t, transport, limited.host)
			if paused, ok := errors.AsType[*pausedError](err); !ok || paused.host != limited.host {
				t.Fatalf("after %d s: got %v, want a pause of %s", second, err, limited.host)
			}
		}
		if err := ask(t, transport, free.host); err != nil {
			t.Fatalf("another host is held up: %v", err)
		}
		clock.step(time.Second)
	}
	if n := limited.requests.Load(); n != 1 {
		t.Errorf("%d requests within 30 s", n)
	}
	if n := free.requests.Load(); n != 30 {
		t.Errorf("another host got %d requests of 30", n)
	}
	if err := ask(t, transport, limited.host); err != nil || limited.requests.Load() != 2 {
		t.Errorf("after 30 s: %v, and %d requests", err, limited.requests.Load())
	}
	if len(p.hosts) != 0 {
		t.Errorf("%v is remembered of hosts that answer", p.hosts)
	}
}

func TestPace(t *testing.T) {
	const (
		tooMany, unavailable = http.StatusTooManyRequests, http.StatusServiceUnavailable
		s, m                 = time.Second, time.Minute
	)
	for _, test := range []struct {
		name           string
		script         []http.HandlerFunc // of answers one right after the other
		asked, advised time.Duration      // from then
	}{
		{"success", []http.HandlerFunc{status(200, "")}, 0, 0},
		{"success that mentions a time", []http.HandlerFunc{status(200, "30")}, 0, 0},
		{"not found", []http.HandlerFunc{status(404, "")}, 0, 0},
		{"429 in seconds", []http.HandlerFunc{status(tooMany, "30")}, 30 * s, 0},
		{"429 by date", []http.HandlerFunc{status(tooMany, "Fri, 20 Nov 2026 12:00:45 GMT")}, 45 * s, 0},
		{"429 without", []http.HandlerFunc{status(tooMany, "")}, m, 0},
		{"429 with garbage", []http.HandlerFunc{status(tooMany, "soon")}, m, 0},
		{"503 in seconds", []http.HandlerFunc{status(unavailable, "90")}, 90 * s, m},
		{"503 by date", []http.HandlerFunc{status(unavailable, "Fri, 20 Nov 2026 12:00:45 GMT")}, 45 * s, m},
		{"503 without", []http.HandlerFunc{status(unavailable, "")}, 0, m},
		{"500 that mentions a time", []http.HandlerFunc{status(500, "90")}, 0, m},
		{"failures in a row", []http.HandlerFunc{status(500, ""), status(502, ""), status(504, "")}, 0, 3 * m},
		{"failures and a success", []http.HandlerFunc{status(500, ""), status(500, ""), status(200, "")}, 0, 0},
		{"failures and an answer", []http.HandlerFunc{status(500, ""), status(500, ""), status(401, "")}, 0, 0},
		{"failures after a success", []http.HandlerFunc{status(500, ""), status(200, ""), status(500, "")}, 0, m},
		{"failures, then 429 without", []http.HandlerFunc{status(500, ""), status(500, ""), status(tooMany, "")}, 3 * m, 2 * m},
	} {
		t.Run(test.name, func(t *testing.T) {
			clock := newStepClock()
			p := newPace(clock.Now, minutes)
			server := serveAnswers(t, test.script...)
			transport := p.wrap(newTestTransport(t), "")
			for range test.script {
				if err := ask(t, transport, server.host); err != nil {
					t.Fatal(err)
				}
			}
			asked, advised := p.notBefore(newPaceKey(server.host, ""))
			if got := max(0, asked.Sub(clock.Now())); got != test.asked {
				t.Errorf("asked for %v, want %v", got, test.asked)
			}
			if got := max(0, advised.Sub(clock.Now())); got != test.advised {
				t.Errorf("advised %v, want %v", got, test.advised)
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	now := newStepClock().Now()
	for _, test := range []struct {
		value string
		want  time.Duration // 0: does not say
	}{
		{"", 0},
		{"30", 30 * time.Second},
		{" 30 ", 30 * time.Second},
		{"0", 0},
		{"-30", 0},
		{"30s", 0},
		{"1.5", 0},
		{"soon", 0},
		{"86400", 24 * time.Hour},
		{"86401", 24 * time.Hour},
		{"99999999999999999999999999", 24 * time.Hour},
		{"Fri, 20 Nov 2026 12:01:00 GMT", time.Minute},
		{"Friday, 20-Nov-26 12:01:00 GMT", time.Minute}, // obsolete forms, which RFC 9110, section 5.6.7, wants read
		{"Fri Nov 20 12:01:00 2026", time.Minute},
		{"Fri, 20 Nov 2026 12:00:00 GMT", 0},
		{"Fri, 20 Nov 2020 12:01:00 GMT", 0},
		{"Sat, 20 Nov 2027 12:01:00 GMT", 24 * time.Hour},
		{"Fri, 31 Feb 2026 12:01:00 GMT", 0},
	} {
		if got := retryAfter(http.Header{"Retry-After": {test.value}}, now); got != test.want {
			t.Errorf("Retry-After: %q: got %v, want %v", test.value, got, test.want)
		}
	}
	if got := retryAfter(http.Header{}, now); got != 0 {
		t.Errorf("without a header: got %v, want 0", got)
	}
}

// A request sent before the host requested a pause may be answered later.
func TestPaceOvertaken(t *testing.T) {
	clock := newStepClock()
	p := newPace(clock.Now, minutes)
	arrived, release := make(chan struct{}), make(chan struct{})
	server := serveAnswers(t,
		func(http.ResponseWriter, *http.Request) { close(arrived); <-release },
		status(http.StatusTooManyRequests, "60"))
	transport := p.wrap(newTestTransport(t), "")
	slow := make(chan error)
	go func() { slow <- ask(t, transport, server.host) }()
	<-arrived
	if err := ask(t, transport, server.host); err != nil {
		t.Fatal(err)
	}
	close(release)
	if err := <-slow; err != nil {
		t.Fatal(err)
	}
	if asked, _ := p.notBefore(newPaceKey(server.host, "")); asked.Sub(clock.Now()) != time.Minute {
		t.Errorf("asked for %v, want 1m", asked.Sub(clock.Now()))
	}
}

// No response shortens a requested pause.
func TestPaceKeepsTheLatest(t *testing.T) {
	clock := newStepClock()
	p := newPace(clock.Now, minutes)
	for _, value := range []string{"60", "5", "soon"} {
		p.answered(
			newPaceKey("a.example", ""),
			clock.Now(),
			&http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {value}}},
		)
	}
	if asked, _ := p.notBefore(newPaceKey("a.example", "")); asked.Sub(clock.Now()) != 3*time.Minute { // the third without a time
		t.Errorf("asked for %v", asked.Sub(clock.Now()))
	}
	p.answered(
		newPaceKey("a.example", ""),
		clock.Now(),
		&http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"5"}}},
	)
	if asked, _ := p.notBefore(newPaceKey("a.example", "")); asked.Sub(clock.Now()) != 3*time.Minute {
		t.Errorf("asked for %v after a shorter time", asked.Sub(clock.Now()))
	}
}

// Concurrent failed requests, such as those for the blobs of an image, count as one failure.
func TestPaceCountsTogether(t *testing.T) {
	clock := newStepClock()
	p := newPace(clock.Now, minutes)
	sent := clock.Now()
	clock.step(time.Second)
	for range 4 {
		p.answered(newPaceKey("a.example", ""), sent, &http.Response{StatusCode: http.StatusBadGateway})
	}
	if _, advised := p.notBefore(newPaceKey("a.example", "")); advised.Sub(clock.Now()) != time.Minute {
		t.Errorf("advised %v, want 1m", advised.Sub(clock.Now()))
	}
}

func TestPaceOfUnreachable(t *testing.T) {
	clock := newStepClock()
	p := newPace(clock.Now, minutes)
	const host = "down.example:5000"
	wire := newTestTransport(t)
	wire.DialContext = func(_ context.Context, network, _ string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	transport := p.wrap(wire, "")
	for range 2 {
		if err := ask(t, transport, host); err == nil {
			t.Fatal("a response without a request")
		}
	}
	asked, advised := p.notBefore(newPaceKey(host, ""))
	if asked.After(clock.Now()) || advised.Sub(clock.Now()) != 2*time.Minute {
		t.Errorf("asked until %v, advised %v, want none and 2m", asked, advised.Sub(clock.Now()))
	}
}

func TestIsHostFault(t *testing.T) {
	for _, test := range []struct {
		err  error
		want bool
	}{
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, true},
		{&net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true}}, true},
		{fmt.Errorf("reading: %w", &net.OpError{Op: "read", Err: syscall.ECONNRESET}), true},
		{&net.OpError{Op: "write", Err: syscall.EPIPE}, true},
		{&net.DNSError{IsTimeout: true}, true},
		{context.DeadlineExceeded, true},
		{io.EOF, true},
		{io.ErrUnexpectedEOF, true},
		{context.Canceled, false},
		{&url.Error{Err: context.Canceled}, false},
		{&net.OpError{Op: "dial", Err: context.Canceled}, false},
		{&net.OpError{Op: "proxyconnect", Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}, false},
		{&net.OpError{Op: "socks connect", Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}, false},
		{&net.OpError{Op: "remote error", Err: tls.AlertError(116)}, false},
		{&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, false},
		{x509.HostnameError{}, false},
		{tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, false},
		{http.ErrSchemeMismatch, false},
	} {
		if got := isHostFault(test.err); got != test.want {
			t.Errorf("isHostFault(%T %v) = %v", test.err, test.err, got)
		}
	}
}

func TestPaceForgets(t *testing.T) {
	clock := newStepClock()
	p := newPace(clock.Now, minutes)
	fail := func(host string, code int, retryAfter string) {
		p.answered(newPaceKey(host, ""), clock.Now(), &http.Response{StatusCode: code, Header: http.Header{"Retry-After": {retryAfter}}})
	}
	for i := range 100 {
		fail(fmt.Sprintf("blobs-%d.example", i), http.StatusBadGateway, "")
	}
	fail("limited.example", http.StatusTooManyRequests, "86400")
	clock.step(failuresKept - time.Second)
	fail("last.example", http.StatusBadGateway, "")
	if len(p.hosts) != 102 {
		t.Errorf("%d hosts, want all 102 whose failures count", len(p.hosts))
	}
	clock.step(time.Second)
	fail("new.example", http.StatusBadGateway, "")
	var hosts []string
	for _, host := range []string{"blobs-0.example", "limited.example", "last.example", "new.example"} {
		if p.hosts[newPaceKey(host, "")] != nil {
			hosts = append(hosts, host)
		}
	}
	if diff := cmp.Diff([]string{"last.example", "new.example"}, hosts); diff != "" || len(p.hosts) != 2 {
		t.Errorf("%d hosts (-want +got):\n%s", len(p.hosts), diff)
	}
}

// All spellings of a host share one pace.
func TestPaceByAnyName(t *testing.T) {
	clock := newStepClock()
	p := newPace(clock.Now, minutes)
	var sent int
	transport := p.wrap(roundTripper(func(*http.Request) (*http.Response, error) {
		sent++
		return &http.Response{StatusCode: http.StatusTooManyRequests, Body: http.NoBody}, nil
	}), "")
	if err := ask(t, transport, "Quay.example:443"); err != nil {
		t.Fatal(err)
	}
	if _, ok := errors.AsType[*pausedError](ask(t, transport, "quay.example")); !ok || sent != 1 {
		t.Errorf("%d requests", sent)
	}
	if asked, _ := p.notBefore(newPaceKey("quay.example:443", "")); !asked.After(clock.Now()) {
		t.Errorf("asked until %v", asked)
	}
}
