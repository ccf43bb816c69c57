package registry

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// dripping is a body of so many chunks of 10 bytes, each after a pause, that ends with the context of its request.
type dripping struct {
	ctx    context.Context
	pause  time.Duration
	chunks int
	closed bool
}

func (d *dripping) Read(p []byte) (int, error) {
	select {
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	case <-time.After(d.pause):
	}
	if d.chunks == 0 {
		return 0, io.EOF
	}
	d.chunks--
	return min(len(p), 10), nil
}

func (d *dripping) Close() error {
	d.closed = true
	return nil
}

// watchDripping returns a watched body with a minimum of 30 bytes a minute.
func watchDripping(ctx context.Context, t *testing.T, source *dripping) io.ReadCloser {
	t.Helper()
	transport := watched(roundTripper(func(req *http.Request) (*http.Response, error) {
		source.ctx = req.Context()
		return &http.Response{StatusCode: http.StatusOK, Body: source}, nil
	}), time.Minute, 30)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://a.example/", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	return res.Body
}

func TestWatched(t *testing.T) {
	for _, test := range []struct {
		name   string
		source dripping
		rest   time.Duration // of the reader, before each call of Read
		want   error
		read   int
		after  time.Duration
	}{
		{"fast enough", dripping{pause: 19 * time.Second, chunks: 20}, 0, nil, 200, 21 * 19 * time.Second},
		{"too slow", dripping{pause: 21 * time.Second, chunks: 20}, 0, errStalled, 20, time.Minute},
		{"nothing comes", dripping{pause: time.Hour, chunks: 20}, 0, errStalled, 0, time.Minute},
		{"the end does not come", dripping{pause: 50 * time.Second, chunks: 0}, 0, nil, 0, 50 * time.Second},
		{"a slow reader", dripping{pause: time.Second, chunks: 20}, time.Hour, nil, 200, 21 * (time.Hour + time.Second)},
		{
			"a slow reader of what is too slow",
			dripping{pause: 21 * time.Second, chunks: 20},
			time.Hour,
			errStalled,
			20,
			3*time.Hour + time.Minute,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				body := watchDripping(t.Context(), t, &test.source)
				var read int
				var err error
				for err == nil {
					time.Sleep(test.rest)
					var n int
					n, err = body.Read(make([]byte, 100))
					read += n
				}
				if errors.Is(err, io.EOF) {
					err = nil
				}
				if !errors.Is(err, test.want) || read != test.read || time.Since(start) != test.after {
					t.Errorf("got %d bytes and %v after %v, want %d, %v, %v", read, err, time.Since(start), test.read, test.want, test.after)
				}
				if err := body.Close(); err != nil || !test.source.closed || test.source.ctx.Err() == nil {
					t.Errorf("closing: %v, closed %v, context %v", err, test.source.closed, test.source.ctx.Err())
				}
			})
		})
	}
}

// A canceled context is not reported as a stall.
func TestWatchedCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		body := watchDripping(ctx, t, &dripping{pause: time.Hour})
		defer body.Close()
		if _, err := body.Read(make([]byte, 1)); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errStalled) {
			t.Errorf("got %v", err)
		}
	})
}

// A stalled transfer is resumed like a broken one.
func TestWatchedIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var requests []string
		transport := resuming(watched(roundTripper(func(req *http.Request) (*http.Response, error) {
			requests = append(requests, req.Header.Get("Range"))
			res := &http.Response{StatusCode: http.StatusOK, ContentLength: 40, Header: http.Header{}, Request: req}
			source := &dripping{ctx: req.Context(), pause: 25 * time.Second, chunks: 4}
			if len(requests) > 1 {
				res.StatusCode = http.StatusPartialContent
				res.Header.Set("Content-Range", "bytes 20-39/40")
				source.pause, source.chunks = time.Second, 2
			}
			res.Body = source
			return res, nil
		}), time.Minute, 30))
		got, err := fetch(t.Context(), &http.Client{Transport: transport}, "http://a.example"+blobPath)
		if err != nil || len(got) != 40 || len(requests) != 2 || requests[1] != "bytes=20-" {
			t.Errorf("got %d bytes by %q, and %v", len(got), requests, err)
		}
		if after := time.Since(start); after > 64*time.Second {
			t.Errorf("it took %v", after)
		}
	})
}
