package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

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
