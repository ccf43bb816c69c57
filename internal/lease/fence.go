package lease

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// ErrNotHeld is the error of a write that was refused or canceled because this replica is not the leader.
var ErrNotHeld = errors.New("this replica is not the leader")

// Refused reports whether a write was refused or canceled because this replica does not hold the lease.
func (l *Lease) Refused(err error) bool { return errors.Is(err, ErrNotHeld) }

// Fence returns a transport that allows writes to the API server only while this replica holds the lease. A
// process that was paused or disconnected is refused at its next write if it lost the lease. Since it can also
// be paused between that check and the write, writers name the version that they replace, and the leader watches
// its objects.
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
			_ = r.Body.Close() // required of a RoundTripper
		}
		return nil, ErrNotHeld
	}
	ctx, cancel := context.WithTimeout(r.Context(), left)
	w := &write{asked: r.Context(), ctx: ctx, cancel: cancel}
	defer context.AfterFunc(term, cancel)()
	response, err := f.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		err = w.explain(err)
		cancel()
		return nil, err
	}
	w.ReadCloser, response.Body = response.Body, w
	return response, nil
}

// write is a request that is canceled when the lease ends, and the body of its response.
type write struct {
	io.ReadCloser                 // nil before the response
	asked         context.Context // of the caller
	ctx           context.Context // of the caller, canceled when the lease ends
	cancel        context.CancelFunc
}

// explain wraps the error of a request that the end of the lease canceled. Whether the API server made such a
// write is unknown.
func (w *write) explain(err error) error {
	if w.ctx.Err() == nil || w.asked.Err() != nil {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNotHeld, err)
}

// Read implements io.Reader.
func (w *write) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // io.Reader returns io.EOF unwrapped
		err = w.explain(err)
	}
	return n, err
}

// Close ends the request.
func (w *write) Close() error {
	defer w.cancel()
	return w.ReadCloser.Close()
}
