package lease

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// ErrNotHeld is the error of a write that was not made, or given up, as this replica does not lead.
var ErrNotHeld = errors.New("this replica does not lead")

// Refused tells whether an error is of a write that was not made, or given up, as the lease was not this replica's.
func (l *Lease) Refused(err error) bool { return errors.Is(err, ErrNotHeld) }

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
	ctx, cancel := context.WithTimeout(r.Context(), left)
	w := &write{asked: r.Context(), ctx: ctx, cancel: cancel}
	defer context.AfterFunc(term, cancel)()
	response, err := f.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		err = w.explain(err)
		cancel()
		return nil, err
	}
	response.Body = &body{response.Body, w}
	return response, nil
}

// write is a request that is to end with the lease.
type write struct {
	asked  context.Context // of whoever made it
	ctx    context.Context // the same, until the lease ends
	cancel context.CancelFunc
}

// explain says of the error of a request so if it was the end of the lease that ended it. Whether such a write was made, nobody knows.
func (w *write) explain(err error) error {
	if w.ctx.Err() == nil || w.asked.Err() != nil {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNotHeld, err)
}

// body is that of an answer, which ends the request when it is closed.
type body struct {
	io.ReadCloser
	write *write
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // io.Reader promises that very value
		err = b.write.explain(err)
	}
	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error {
	defer b.write.cancel()
	return b.ReadCloser.Close()
}
