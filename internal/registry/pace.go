package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// maxRetryAfter limits the wait that a registry can request, so that its mistake lasts a day at most.
	maxRetryAfter = 24 * time.Hour

	// failuresKept is how long the failures of an unused host are remembered.
	failuresKept = 24 * time.Hour
)

// pace limits when each host may be asked again. A host is a registry, token server or blob store; all catalogs
// that reach it over the same route share its state. The state is in memory only: after a restart each host is
// asked once.
type pace struct {
	now     func() time.Time
	backoff func(failures int) time.Duration

	mu    sync.Mutex
	hosts map[paceKey]*hostPace
}

// paceKey is a host reached over a route. Failures through a catalog's own proxy, or from an unverified host, do
// not count for other routes.
type paceKey struct {
	host string // canonicalHost
	via  string // "" for the default route: directly, or through the proxy of the environment
}

func newPaceKey(host, via string) paceKey { return paceKey{canonicalHost(host), via} }

// hostPace is the state of one host. A zero time is past.
type hostPace struct {
	failures int       // in a row
	failed   time.Time // time of the last failure
	asked    time.Time // no request before this; requested by the host
	status   int       // status of that response
	advised  time.Time // no scheduled request before this, after failures
}

func newPace(now func() time.Time, backoff func(int) time.Duration) *pace {
	return &pace{now: now, backoff: backoff, hosts: map[paceKey]*hostPace{}}
}

// pausedError is the error of a request that was not sent, because its host requested a pause.
type pausedError struct {
	host   string // canonicalHost
	status int    // status of its response
}

func (e *pausedError) Error() string {
	return fmt.Sprintf("%s requested a pause; the request was not sent", e.host)
}

// notBefore returns when a host may be asked again: asked applies to every request, advised to scheduled ones.
func (p *pace) notBefore(key paceKey) (asked, advised time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.hosts[key]; known != nil {
		return known.asked, known.advised
	}
	return time.Time{}, time.Time{}
}

// paused returns a *pausedError if the host requested a pause that has not ended.
func (p *pace) paused(key paceKey, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.hosts[key]; known != nil && known.asked.After(now) {
		return &pausedError{key.host, known.status}
	}
	return nil
}

// wrap returns a transport that obeys the pace of hosts over the route via, and updates it from responses.
func (p *pace) wrap(next http.RoundTripper, via string) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		key, sent := newPaceKey(req.URL.Host, via), p.now()
		if err := p.paused(key, sent); err != nil {
			if req.Body != nil {
				req.Body.Close()
			}
			return nil, err
		}
		res, err := next.RoundTrip(req)
		switch {
		case err == nil:
			p.answered(key, sent, res)
		case isHostFault(err):
			p.failed(key, sent, 0, 0)
		}
		return res, err
	})
}

// answered records the response to a request sent at a time.
func (p *pace) answered(key paceKey, sent time.Time, res *http.Response) {
	switch status := res.StatusCode; {
	case status == http.StatusTooManyRequests, status >= http.StatusInternalServerError:
		p.failed(key, sent, status, retryAfter(res.Header, p.now()))
	case status != http.StatusProxyAuthRequired: // the proxy's response
		p.succeeded(key)
	}
}

// failed counts a failed request, sent at a time. The response had a status and requested a wait; both are 0 without
// one. Concurrent failures count as one. It never shortens a wait.
func (p *pace) failed(key paceKey, sent time.Time, status int, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.hosts[key]
	if known == nil {
		p.prune()
		known = &hostPace{}
		p.hosts[key] = known
	}
	now := p.now()
	if !sent.Before(known.failed) {
		known.failures++
		known.failed = now
	}
	asked, advised := time.Duration(0), p.backoff(known.failures)
	switch status {
	case http.StatusTooManyRequests:
		asked, advised = cmp.Or(wait, advised), 0
	case http.StatusServiceUnavailable:
		asked = wait
	}
	if asked > 0 {
		known.asked, known.status = later(known.asked, now.Add(asked)), status
	}
	known.advised = later(known.advised, now.Add(advised))
}

// succeeded resets the failures. A requested pause stays: the response may belong to a request sent earlier.
func (p *pace) succeeded(key paceKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.hosts[key]
	if known == nil {
		return
	}
	known.failures, known.advised = 0, time.Time{}
	if !known.asked.After(p.now()) {
		delete(p.hosts, key)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// prune drops hosts without relevant state, so that redirects cannot fill the memory.
func (p *pace) prune() {
	now := p.now()
	for key, known := range p.hosts {
		relevant := known.asked.After(now) || known.advised.After(now) || known.failures > 0 && now.Before(known.failed.Add(failuresKept))
		if !relevant {
			delete(p.hosts, key)
		}
	}
}

// retryAfter returns the wait that a host requests (RFC 9110, section 10.2.3), at most maxRetryAfter; 0 if there is
// none.
func retryAfter(header http.Header, now time.Time) time.Duration {
	value := strings.TrimSpace(header.Get("Retry-After"))
	seconds, err := strconv.ParseUint(value, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(seconds, uint64(maxRetryAfter/time.Second))) * time.Second
	}
	if date, err := http.ParseTime(value); err == nil {
		return min(max(date.Sub(now), 0), maxRetryAfter)
	}
	return 0
}

// isHostFault reports whether a request failed because its host is unreachable or hangs up. Failures caused by a
// catalog's settings do not count for other catalogs: untrusted certificates, a proxy that is down, a canceled
// request.
func isHostFault(err error) bool {
	if errors.Is(err, context.Canceled) {
		return false
	}
	if op, ok := errors.AsType[*net.OpError](err); ok { // the outermost: a proxy's error wraps a dial error
		return op.Op == "dial" || op.Op == "read" || op.Op == "write" // not: proxyconnect, socks connect, remote error (TLS)
	}
	_, isNet := errors.AsType[net.Error](err) // DNS errors and timeouts
	return isNet || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// roundTripper adapts a function to http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
