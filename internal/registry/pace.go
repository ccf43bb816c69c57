package registry

import (
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
	// mostAsked is the longest wait a registry can ask for: a mistake of its shall not last longer than a day.
	mostAsked = 24 * time.Hour

	// failuresKept is for how long the failures of a host count that nobody asks any more.
	failuresKept = 24 * time.Hour
)

// pace is how soon each host may be asked again. A host is a registry, and just as well a token server or a store of blobs
// that a registry sends to; all catalogs that reach it the same way share what is known of it. Only memory: after a restart each host is asked once.
type pace struct {
	now     func() time.Time
	backoff func(failures int) time.Duration

	mu    sync.Mutex
	hosts map[paceKey]*hostPace
}

// paceKey is a host as some catalogs reach it. What one hears through a proxy of its own, or from whoever need not prove to
// be that host, is not held against the host where others reach it.
type paceKey struct {
	host string // canonicalHost
	via  string // "" for what all trust: the host itself, or the proxy of the environment
}

func newPaceKey(host, via string) paceKey { return paceKey{canonicalHost(host), via} }

// hostPace is what is known of one host. A zero time is past.
type hostPace struct {
	failures int       // in a row
	failed   time.Time // when the last of them was counted
	asked    time.Time // no request before this: the host said so
	status   int       // of the answer that did
	advised  time.Time // better none before this: it failed
}

func newPace(now func() time.Time, backoff func(int) time.Duration) *pace {
	return &pace{now: now, backoff: backoff, hosts: map[paceKey]*hostPace{}}
}

// pausedError is the error of a request that was not sent, because its host asked to be spared for a while.
type pausedError struct {
	host   string // as the pace knows it
	status int    // of the answer by which it asked
}

func (e *pausedError) Error() string {
	return fmt.Sprintf("%s asked for no more requests for now; the next one waits until then", e.host)
}

// notBefore says when a host may be asked again: asked holds for every request, advised for those that can wait.
func (p *pace) notBefore(key paceKey) (asked, advised time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.hosts[key]; known != nil {
		return known.asked, known.advised
	}
	return time.Time{}, time.Time{}
}

// paused returns a *pausedError if the host is not to be asked now.
func (p *pace) paused(key paceKey, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.hosts[key]; known != nil && known.asked.After(now) {
		return &pausedError{key.host, known.status}
	}
	return nil
}

// wrap returns a transport that keeps to the pace of hosts that next reaches via, and sets it by the answers.
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
			p.faulted(key, sent)
		}
		return res, err
	})
}

// faulted counts a failure of a request that was sent at a time, to which there was no answer that could be used.
func (p *pace) faulted(key paceKey, sent time.Time) {
	p.failed(key, sent, 0, func(backoff time.Duration) (asked, advised time.Duration) { return 0, backoff })
}

// answered takes note of an answer to a request that was sent at a time.
func (p *pace) answered(key paceKey, sent time.Time, res *http.Response) {
	wait, told := retryAfter(res.Header, p.now())
	switch status := res.StatusCode; {
	case status == http.StatusTooManyRequests && told:
		p.failed(key, sent, status, func(time.Duration) (asked, advised time.Duration) { return wait, 0 })
	case status == http.StatusTooManyRequests:
		p.failed(key, sent, status, func(backoff time.Duration) (asked, advised time.Duration) { return backoff, 0 })
	case status == http.StatusServiceUnavailable && told:
		p.failed(key, sent, status, func(backoff time.Duration) (asked, advised time.Duration) { return wait, backoff })
	case status >= http.StatusInternalServerError:
		p.failed(key, sent, status, func(backoff time.Duration) (asked, advised time.Duration) { return 0, backoff })
	case status != http.StatusProxyAuthRequired: // which is no answer of the host
		p.succeeded(key)
	}
}

// failed counts a failure of a request that was sent at a time, and keeps the waits that follow from the backoff. Requests
// that were under way together and failed together count as one. No wait becomes shorter by it. The status is that of the
// answer, if there was one.
func (p *pace) failed(key paceKey, sent time.Time, status int, waits func(backoff time.Duration) (asked, advised time.Duration)) {
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
	asked, advised := waits(p.backoff(known.failures))
	if asked > 0 {
		known.asked, known.status = later(known.asked, now.Add(asked)), status
	}
	known.advised = later(known.advised, now.Add(advised))
}

// succeeded forgets the failures. What the host asked for stays: the answer may be to a request sent before it did.
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

// prune forgets the hosts of which nothing is known that matters, so that those a registry sends to cannot fill the memory.
func (p *pace) prune() {
	now := p.now()
	for key, known := range p.hosts {
		matters := known.asked.After(now) || known.advised.After(now) || known.failures > 0 && now.Before(known.failed.Add(failuresKept))
		if !matters {
			delete(p.hosts, key)
		}
	}
}

// retryAfter is how long a host asks to wait (RFC 9110, section 10.2.3), mostAsked at most; false if it does not say.
func retryAfter(header http.Header, now time.Time) (time.Duration, bool) {
	value := strings.TrimSpace(header.Get("Retry-After"))
	var wait time.Duration
	seconds, err := strconv.ParseUint(value, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) {
		wait = time.Duration(min(seconds, uint64(mostAsked/time.Second))) * time.Second
	} else if date, err := http.ParseTime(value); err == nil {
		wait = min(date.Sub(now), mostAsked)
	}
	return wait, wait > 0
}

// isHostFault says whether a request failed because its host cannot be reached or breaks off. What lies in the settings of a
// catalog does not count for the others: certificates that are not trusted, a proxy that is down, a request that was given up.
func isHostFault(err error) bool {
	if errors.Is(err, context.Canceled) {
		return false
	}
	if op, ok := errors.AsType[*net.OpError](err); ok { // the outermost: a proxy's has a dial within
		return op.Op == "dial" || op.Op == "read" || op.Op == "write" // and not: proxyconnect, socks connect, remote error (of TLS)
	}
	_, isNet := errors.AsType[net.Error](err) // names that are not found, time that ran out
	return isNet || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// roundTripper makes a function a http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
