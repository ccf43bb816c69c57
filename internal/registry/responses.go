package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"
)

const (
	// maxResponse limits responses other than blobs, in bytes. Registries should accept manifests of this size
	// (OCI distribution-spec 1.1, "Pushing Manifests").
	maxResponse = 4 << 20
	// maxElements limits the elements of a manifest. go-containerregistry allocates some 140 bytes for each,
	// so a manifest costs 10 MB at most, not 300 MB. Some 8,000 descriptors have that many elements.
	maxElements = 50_000
)

// answerError is an unacceptable response.
type answerError struct{ says string } // continues a sentence that begins with the registry

func (e *answerError) Error() string { return "the registry " + e.says }

// bounded returns a transport that limits the decompressed size of error responses and of API responses (OCI
// distribution-spec 1.1) other than blobs. Reading a longer response fails with an http.MaxBytesError. The reader of
// a blob knows its size.
func bounded(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		res, err := next.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		switch resource := resourceOf(req); {
		case resource == "manifests" && req.Method == http.MethodGet && res.StatusCode == http.StatusOK:
			return wholeManifest(res)
		case res.StatusCode >= http.StatusMultipleChoices, resource != "" && resource != "blobs":
			res.Body = http.MaxBytesReader(nil, res.Body, maxResponse)
		}
		return res, nil
	})
}

// wholeManifest reads the body of res into memory and checks its size and number of elements before it is
// parsed.
func wholeManifest(res *http.Response) (*http.Response, error) {
	defer res.Body.Close()
	manifest, err := io.ReadAll(http.MaxBytesReader(nil, res.Body, maxResponse))
	if err != nil {
		return nil, err
	}
	if bytes.Count(manifest, []byte("{"))+bytes.Count(manifest, []byte(",")) > maxElements {
		return nil, &answerError{"sent a manifest with too many elements for an image"}
	}
	res.Body = io.NopCloser(bytes.NewReader(manifest))
	return res, nil
}

// resourceOf returns the API resource of the original request before redirects: "manifests" or "blobs" for
// /v2/<name>/manifests/<reference> and /v2/<name>/blobs/<digest>, another word for other API paths, "" outside
// of the API.
func resourceOf(req *http.Request) string {
	for earlier := req; earlier != nil; earlier = redirected(earlier) {
		req = earlier
	}
	if !strings.HasPrefix(req.URL.Path, "/v2/") {
		return ""
	}
	return path.Base(path.Dir(req.URL.Path))
}

// redirected returns the request that was redirected to req; nil if there was none.
func redirected(req *http.Request) *http.Request {
	if req.Response == nil {
		return nil
	}
	return req.Response.Request
}

// maxResumes limits the resumptions of one body.
const maxResumes = 10

// resuming returns a transport that resumes broken transfers of blobs. A body that ends before its
// Content-Length is requested again from the break (RFC 9110, section 14.2), as long as that makes progress. The
// reader sees one stream, or the error of the first break, and must verify the digest.
func resuming(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		res, err := next.RoundTrip(req)
		if err != nil || req.Method != http.MethodGet || resourceOf(req) != "blobs" || !isResumable(res) {
			return res, err
		}
		ctx, cancel := context.WithCancel(req.Context())
		res.Body = &resumingBody{
			next: next, req: req.WithContext(ctx), cancel: cancel,
			etag: strongTag(res.Header), total: res.ContentLength, body: res.Body,
		}
		return res, nil
	})
}

// isResumable reports whether res is a complete response that supports ranges.
func isResumable(res *http.Response) bool {
	return res.StatusCode == http.StatusOK && res.ContentLength > 0 && isIdentity(res) &&
		!strings.EqualFold(res.Header.Get("Accept-Ranges"), "none")
}

// isIdentity reports whether the body of res is not encoded, so that offsets are offsets in the blob.
func isIdentity(res *http.Response) bool {
	return !res.Uncompressed && res.Header.Get("Content-Encoding") == ""
}

// strongTag returns the strong ETag, or "".
func strongTag(header http.Header) string {
	if tag := header.Get("ETag"); strings.HasPrefix(tag, `"`) {
		return tag
	}
	return ""
}

// resumingBody is a body joined from several responses.
type resumingBody struct {
	next   http.RoundTripper
	req    *http.Request // without Range; canceled by cancel
	cancel context.CancelFunc
	etag   string
	total  int64

	// Owned by the reader.
	read    int64 // so far
	resumes int   // so far
	since   int64 // value of read at the last resumption
	fault   error // returned by every further Read

	mu     sync.Mutex // guards body and closed: Close may run during Read
	body   io.ReadCloser
	closed bool
}

func (b *resumingBody) Read(p []byte) (int, error) {
	for b.fault == nil {
		n, err := b.current().Read(p)
		b.read += int64(n)
		switch {
		case err == nil:
		case b.read >= b.total:
			b.fault = io.EOF
		case errors.Is(err, io.EOF):
			b.fault = b.resume(io.ErrUnexpectedEOF)
		default:
			b.fault = b.resume(err)
		}
		if n > 0 || err == nil {
			return n, nil
		}
	}
	return 0, b.fault
}

// resume replaces the body, broken by cause, with one that continues it. It returns cause if there is none.
func (b *resumingBody) resume(cause error) error {
	stuck := b.resumes > 0 && b.read == b.since
	if stuck || b.resumes == maxResumes || b.req.Context().Err() != nil {
		return cause
	}
	b.resumes++
	b.since = b.read
	req := b.req.Clone(b.req.Context())
	req.Header.Set("Range", fmt.Sprintf("bytes=%d-", b.read))
	if b.etag != "" {
		req.Header.Set("If-Range", b.etag)
	}
	b.current().Close()
	res, err := b.next.RoundTrip(req)
	if err != nil {
		return cause
	}
	if !b.replace(res.Body) || !b.continues(res) {
		res.Body.Close()
		return cause
	}
	return nil
}

// continues reports whether the body of res continues at the break. If res is complete, it skips what was read
// before.
func (b *resumingBody) continues(res *http.Response) bool {
	if !isIdentity(res) || b.etag != "" && strongTag(res.Header) != "" && strongTag(res.Header) != b.etag {
		return false
	}
	switch res.StatusCode {
	case http.StatusPartialContent:
		return isFrom(res.Header.Get("Content-Range"), b.read, b.total)
	case http.StatusOK:
		if res.ContentLength != b.total {
			return false
		}
		_, err := io.CopyN(io.Discard, res.Body, b.read)
		return err == nil
	default:
		return false
	}
}

// isFrom reports whether a Content-Range is a part from start of a resource of total bytes, or of unknown
// length.
func isFrom(contentRange string, start, total int64) bool {
	part, length, _ := strings.Cut(contentRange, "/")
	if length != fmt.Sprint(total) && length != "*" {
		return false
	}
	var first, last int64
	if n, err := fmt.Sscanf(part, "bytes %d-%d", &first, &last); err != nil || n != 2 {
		return false
	}
	return first == start && start <= last && last < total
}

func (b *resumingBody) current() io.ReadCloser {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.body
}

// replace sets the body to read next. It returns false if the reader has closed already.
func (b *resumingBody) replace(body io.ReadCloser) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.body = body
	}
	return !b.closed
}

func (b *resumingBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.cancel()
	return b.body.Close()
}

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
