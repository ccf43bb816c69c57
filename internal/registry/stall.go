package registry

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// errStalled is the error of reading a stalled body.
var errStalled = errors.New("the transfer stalled: throughput fell below the minimum")

// watched returns a transport whose bodies must deliver minBytes in each window of time spent inside Read.
// Otherwise it cancels the request, and Read returns errStalled. Time between calls of Read does not count.
func watched(next http.RoundTripper, window time.Duration, minBytes int64) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		ctx, cancel := context.WithCancelCause(req.Context())
		res, err := next.RoundTrip(req.WithContext(ctx))
		if err != nil {
			cancel(nil)
			return nil, err
		}
		timer := time.AfterFunc(window, func() { cancel(errStalled) })
		timer.Stop()
		res.Body = &watchedBody{
			body: res.Body, ctx: ctx, cancel: cancel, timer: timer,
			window: window, minBytes: minBytes, left: window,
		}
		return res, nil
	})
}

// watchedBody is a body with a timer that runs during Read. It has one reader; Close may be called concurrently.
type watchedBody struct {
	body   io.ReadCloser
	ctx    context.Context // of the request; its cause is errStalled if the timer fired
	cancel context.CancelCauseFunc
	timer  *time.Timer

	window   time.Duration
	minBytes int64
	left     time.Duration // rest of the window
	got      int64         // bytes in the window
}

func (b *watchedBody) Read(p []byte) (int, error) {
	b.timer.Reset(b.left)
	start := time.Now()
	n, err := b.body.Read(p)
	b.timer.Stop()
	b.left -= time.Since(start)
	b.got += int64(n)
	if b.got >= b.minBytes {
		b.left, b.got = b.window, 0
	}
	if err != nil && !errors.Is(err, io.EOF) && errors.Is(context.Cause(b.ctx), errStalled) {
		err = errStalled
	}
	return n, err
}

func (b *watchedBody) Close() error {
	err := b.body.Close()
	b.timer.Stop()
	b.cancel(nil)
	return err
}
