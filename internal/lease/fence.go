package lease

import (
	"context"
	"errors"
	"io"
	"net/http"
)

// ErrNotHeld is the error of a write that was not made, or given up, as this replica does not lead.
var ErrNotHeld = errors.New("this replica does not lead")

// Fence returns a transport that lets writes to the API server through only as long as the lease is this replica's: a process that was
// stopped for a while, or cut off, finds at its next write that others lead by now. Between that look and the write itself it can be
// stopped as well; so writers also name the version that they replace, and the leader watches what it wrote.
func (l *Lease) Fence(next http.RoundTripper) http.RoundTripper { return &fence{l, next} }

type fence struct {
	lease *Lease
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (f *fence) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		return f.next.RoundTrip(r)
	}
	left, term := f.lease.hold()
	if left <= 0 {
		if r.Body != nil {
			_ = r.Body.Close() // as a RoundTripper has to
		}
		return nil, ErrNotHeld
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), left, ErrNotHeld)
	defer context.AfterFunc(term, cancel)()
	response, err := f.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	response.Body = &body{response.Body, cancel}
	return response, nil
}

// body is that of an answer, which ends the request when it is closed.
type body struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Close implements io.Closer.
func (b *body) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
