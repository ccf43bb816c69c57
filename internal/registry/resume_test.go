package registry

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

const blobPath = "/v2/ns/repo/blobs/sha256:0"

// blob returns 100,000 incompressible bytes.
func blob() []byte {
	content := make([]byte, 100_000)
	rand.NewChaCha8([32]byte{}).Read(content)
	return content
}

// whole answers with the whole blob.
func whole(w http.ResponseWriter, r *http.Request) { serveBlob(w, r, "", 100_000) }

// serveBlob answers with support for ranges and cuts the connection after a number of bytes.
func serveBlob(w http.ResponseWriter, r *http.Request, etag string, most int) {
	if etag != "" {
		w.Header().Set("ETag", etag)
	}
	http.ServeContent(&cutter{w, most}, r, "", time.Time{}, bytes.NewReader(blob()))
}

// cutAfter answers with n bytes of the blob from the requested offset.
func cutAfter(n int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { serveBlob(w, r, "", n) }
}

func cutTagged(n int, etag string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { serveBlob(w, r, etag, n) }
}

// unasked ignores the requested range.
func unasked(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Range")
		next(w, r)
	}
}

// with adds headers to a response.
func with(next http.HandlerFunc, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		next(&headerWriter{w, header}, r)
	}
}

// part answers 206 with a Content-Range and the content of the requested range.
func part(contentRange string, from, to int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Range", contentRange)
		w.WriteHeader(http.StatusPartialContent)
		w.Write(blob()[from:to])
	}
}

func abort(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// cutter cuts the connection after so many bytes of the body.
type cutter struct {
	http.ResponseWriter
	left int
}

func (c *cutter) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p[:min(len(p), c.left)])
	if c.left -= n; c.left == 0 && err == nil && n < len(p) {
		c.ResponseWriter.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	return n, err
}

// headerWriter sets headers at the last moment.
type headerWriter struct {
	http.ResponseWriter
	header []string // name, value, name, value
}

func (w *headerWriter) WriteHeader(status int) {
	for i := 0; i < len(w.header); i += 2 {
		w.Header().Set(w.header[i], w.header[i+1])
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *headerWriter) Flush() { w.ResponseWriter.(http.Flusher).Flush() }

// serveScript answers with the handlers of script in order, then with the last one, and records the requested ranges.
func serveScript(script ...http.HandlerFunc) (http.Handler, func() []string) {
	var mu sync.Mutex
	var ranges []string
	handler := func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked := r.Header.Get("Range")
		if tag := r.Header.Get("If-Range"); tag != "" {
			asked += " if " + tag
		}
		if r.Header.Get("Authorization") != "Bearer token" {
			asked += " without token"
		}
		ranges = append(ranges, asked)
		next := script[min(len(ranges), len(script))-1]
		mu.Unlock()
		next(w, r)
	}
	return http.HandlerFunc(handler), func() []string {
		mu.Lock()
		defer mu.Unlock()
		return ranges
	}
}

// fetch requests a URL and reads the body.
func fetch(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer token")
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	return io.ReadAll(res.Body)
}

func TestResume(t *testing.T) {
	for _, test := range []struct {
		name    string
		path    string // blobPath if ""
		script  []http.HandlerFunc
		ranges  []string // of the requests
		damaged bool     // the transfer ends with the error of the first break
	}{
		{name: "whole at once", script: []http.HandlerFunc{whole}, ranges: []string{""}},
		{name: "a break", script: []http.HandlerFunc{cutAfter(60_000), whole}, ranges: []string{"", "bytes=60000-"}},
		{name: "before the first byte", script: []http.HandlerFunc{cutAfter(0), whole}, ranges: []string{"", "bytes=0-"}},
		{name: "before the last byte", script: []http.HandlerFunc{cutAfter(99_999), whole}, ranges: []string{"", "bytes=99999-"}},
		{
			name:   "several breaks",
			script: []http.HandlerFunc{cutAfter(50_000), cutAfter(1), cutAfter(7_000), whole},
			ranges: []string{"", "bytes=50000-", "bytes=50001-", "bytes=57001-"},
		},
		{
			name:    "no headway",
			script:  []http.HandlerFunc{cutAfter(50_000), cutAfter(1), cutAfter(0), whole},
			ranges:  []string{"", "bytes=50000-", "bytes=50001-"},
			damaged: true,
		},
		{
			name:   "a strong tag",
			script: []http.HandlerFunc{cutTagged(50_000, `"a"`), cutTagged(100_000, `"a"`)},
			ranges: []string{"", `bytes=50000- if "a"`},
		},
		{name: "a weak tag", script: []http.HandlerFunc{cutTagged(50_000, `W/"a"`), whole}, ranges: []string{"", "bytes=50000-"}},
		{
			name:    "another tag, thus the whole",
			script:  []http.HandlerFunc{cutTagged(50_000, `"a"`), cutTagged(100_000, `"b"`)},
			ranges:  []string{"", `bytes=50000- if "a"`},
			damaged: true,
		},
		{
			name:    "a part with another tag",
			script:  []http.HandlerFunc{cutTagged(50_000, `"a"`), with(part("bytes 50000-99999/100000", 50_000, 100_000), "ETag", `"b"`)},
			ranges:  []string{"", `bytes=50000- if "a"`},
			damaged: true,
		},
		{name: "a range ignored", script: []http.HandlerFunc{cutAfter(50_000), unasked(whole)}, ranges: []string{"", "bytes=50000-"}},
		{
			name:   "a range ignored, and a break later",
			script: []http.HandlerFunc{cutAfter(50_000), unasked(cutAfter(50_001)), whole},
			ranges: []string{"", "bytes=50000-", "bytes=50001-"},
		},
		{
			name:    "a range ignored, and the same break",
			script:  []http.HandlerFunc{unasked(cutAfter(50_000))},
			ranges:  []string{"", "bytes=50000-"},
			damaged: true,
		},
		{
			name:    "a range ignored, and an earlier break",
			script:  []http.HandlerFunc{cutAfter(50_000), unasked(cutAfter(40_000))},
			ranges:  []string{"", "bytes=50000-"},
			damaged: true,
		},
		{
			name:    "ranges not accepted",
			script:  []http.HandlerFunc{with(cutAfter(50_000), "Accept-Ranges", "none")},
			ranges:  []string{""},
			damaged: true,
		},
		{
			name:   "ranges not spoken of",
			script: []http.HandlerFunc{with(cutAfter(50_000), "Accept-Ranges", ""), whole},
			ranges: []string{"", "bytes=50000-"},
		},
		{
			name:   "a part of the part",
			script: []http.HandlerFunc{cutAfter(50_000), part("bytes 50000-59999/100000", 50_000, 60_000), whole},
			ranges: []string{"", "bytes=50000-", "bytes=60000-"},
		},
		{
			name:   "a total that is not told",
			script: []http.HandlerFunc{cutAfter(50_000), part("bytes 50000-99999/*", 50_000, 100_000)},
			ranges: []string{"", "bytes=50000-"},
		},
		{
			name:    "another part",
			script:  []http.HandlerFunc{cutAfter(50_000), part("bytes 40000-89999/100000", 40_000, 90_000)},
			ranges:  []string{"", "bytes=50000-"},
			damaged: true,
		},
		{
			name:    "of another length",
			script:  []http.HandlerFunc{cutAfter(50_000), part("bytes 50000-99999/200000", 50_000, 100_000)},
			ranges:  []string{"", "bytes=50000-"},
			damaged: true,
		},
		{
			name:    "beyond the end",
			script:  []http.HandlerFunc{cutAfter(50_000), part("bytes 50000-100000/100000", 50_000, 100_000)},
			ranges:  []string{"", "bytes=50000-"},
			damaged: true,
		},
		{
			name:    "backwards",
			script:  []http.HandlerFunc{cutAfter(50_000), part("bytes 50000-49999/100000", 50_000, 100_000)},
			ranges:  []string{"", "bytes=50000-"},
			damaged: true,
		},
		{
			name:    "a part without a place",
			script:  []http.HandlerFunc{cutAfter(50_000), part("", 50_000, 100_000)},
			ranges:  []string{"", "bytes=50000-"},
			damaged: true,
		},
		{
			name:    "a part in other units",
			script:  []http.HandlerFunc{cutAfter(50_000), part("lines 50000-99999/100000", 50_000, 100_000)},
			ranges:  []string{"", "bytes=50000-"},
			damaged: true,
		},
		{
			name:    "an encoded part",
			script:  []http.HandlerFunc{cutAfter(50_000), with(part("bytes 50000-99999/100000", 50_000, 100_000), "Content-Encoding", "gzip")},
			ranges:  []string{"", "bytes=50000-"},
			damaged: true,
		},
		{
			name:    "refused",
			script:  []http.HandlerFunc{cutAfter(50_000), status(http.StatusForbidden, "")},
			ranges:  []string{"", "bytes=50000-"},
			damaged: true,
		},
		{
			name:    "out of range",
			script:  []http.HandlerFunc{cutAfter(50_000), status(http.StatusRequestedRangeNotSatisfiable, "")},
			ranges:  []string{"", "bytes=50000-"},
			damaged: true,
		},
		{name: "no answer", script: []http.HandlerFunc{cutAfter(50_000), abort}, ranges: []string{"", "bytes=50000-"}, damaged: true},
		{
			name:    "no blob",
			path:    "/v2/ns/repo/manifests/v1",
			script:  []http.HandlerFunc{cutAfter(50_000), whole},
			ranges:  []string{""},
			damaged: true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			handler, ranges := serveScript(test.script...)
			server := httptest.NewServer(handler)
			defer server.Close()
			path := test.path
			if path == "" {
				path = blobPath
			}
			got, err := fetch(t.Context(), &http.Client{Transport: resuming(newTestTransport(t))}, server.URL+path)
			if diff := cmp.Diff(test.ranges, ranges()); diff != "" {
				t.Errorf("ranges (-want +got):\n%s", diff)
			}
			switch {
			case test.damaged && !errors.Is(err, io.ErrUnexpectedEOF):
				t.Errorf("got error %v, want that of the break", err)
			case !test.damaged && err != nil:
				t.Error(err)
			case !test.damaged && !bytes.Equal(got, blob()):
				t.Error("what came is not the blob")
			case test.damaged && !bytes.HasPrefix(blob(), got):
				t.Error("what came before the error is not of the blob")
			}
		})
	}
}

func TestResumeHasAnEnd(t *testing.T) {
	handler, ranges := serveScript(cutAfter(1))
	server := httptest.NewServer(handler)
	defer server.Close()
	got, err := fetch(t.Context(), &http.Client{Transport: resuming(newTestTransport(t))}, server.URL+blobPath)
	if !errors.Is(err, io.ErrUnexpectedEOF) || len(got) != maxResumes+1 || len(ranges()) != maxResumes+1 {
		t.Errorf("got %d bytes by %d requests, and %v", len(got), len(ranges()), err)
	}
}

func TestResumeAfterRedirect(t *testing.T) {
	handler, ranges := serveScript(cutAfter(50_000), whole)
	mux := http.NewServeMux()
	mux.Handle("/storage/", handler)
	mux.HandleFunc("/v2/", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/storage/0?signature=s", http.StatusTemporaryRedirect)
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	client := &http.Client{Transport: resuming(newTestTransport(t))}
	if got, err := fetch(t.Context(), client, server.URL+blobPath); err != nil || !bytes.Equal(got, blob()) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	if diff := cmp.Diff([]string{"", "bytes=50000-"}, ranges()); diff != "" {
		t.Errorf("ranges (-want +got):\n%s", diff)
	}
	if _, err := fetch(t.Context(), client, server.URL+"/storage/0"); err != nil || len(ranges()) != 3 {
		t.Errorf("what is no blob: %v after %d requests", err, len(ranges()))
	}
}

func TestResumeHTTP2(t *testing.T) {
	handler, ranges := serveScript(cutAfter(50_000), whole)
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	client := &http.Client{Transport: resuming(server.Client().Transport)}
	if got, err := fetch(t.Context(), client, server.URL+blobPath); err != nil || !bytes.Equal(got, blob()) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	// The reset of a stream may overtake the last of its frames.
	if got := ranges(); len(got) != 2 || !strings.HasPrefix(got[1], "bytes=") {
		t.Errorf("ranges %q", got)
	}
}

// go-containerregistry verifies a resumed stream as a whole.
func TestResumeIsVerified(t *testing.T) {
	const wrong = 50_000
	for _, test := range []struct {
		name string
		tail http.HandlerFunc
		want Kind
	}{
		{"the right tail", whole, ""},
		{"a wrong tail", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-99999/100000", wrong))
			w.WriteHeader(http.StatusPartialContent)
			w.Write(make([]byte, wrong))
		}, Damaged},
		{"a wrong tail of the whole", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100000")
			w.Write(make([]byte, 100_000))
		}, Damaged},
		{"too long a tail", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-99999/100000", wrong))
			w.WriteHeader(http.StatusPartialContent)
			w.Write(append(blob()[wrong:], "and more"...))
		}, ""}, // the length of the blob is known to the reader, who looks no further
	} {
		t.Run(test.name, func(t *testing.T) {
			handler, _ := serveScript(cutAfter(wrong), test.tail)
			mux := http.NewServeMux()
			mux.HandleFunc("/v2/", func(http.ResponseWriter, *http.Request) {})
			mux.Handle("/v2/ns/repo/blobs/", handler)
			server := httptest.NewServer(mux)
			defer server.Close()
			ref := parse(t, strings.TrimPrefix(server.URL, "http://")+"/ns/repo@sha256:"+fmt.Sprintf("%x", sha256.Sum256(blob())))
			layer, err := remote.Layer(ref.Context().Digest(ref.Identifier()), remote.WithTransport(resuming(newTestTransport(t))))
			if err != nil {
				t.Fatal(err)
			}
			body, err := layer.Compressed()
			if err != nil {
				t.Fatal(err)
			}
			defer body.Close()
			got, err := io.ReadAll(body)
			if kind := KindOf(Explain("fetching", ref, err)); kind != test.want {
				t.Errorf("got %v, want kind %q", err, test.want)
			}
			if test.want == "" && !bytes.HasPrefix(got, blob()) {
				t.Error("what came is not the blob")
			}
		})
	}
}

// A canceled transfer is not resumed.
func TestResumeCancelled(t *testing.T) {
	handler, ranges := serveScript(cutAfter(50_000), whole)
	server := httptest.NewServer(handler)
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+blobPath, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := resuming(newTestTransport(t)).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.ReadFull(res.Body, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.ReadAll(res.Body); err == nil {
		t.Error("the transfer went on")
	}
	if n := len(ranges()); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// closeNoter notes that a body was closed.
type closeNoter struct {
	io.Reader
	closed bool
}

func (c *closeNoter) Close() error {
	c.closed = true
	return nil
}

// All bodies of a resumed transfer are closed, including one whose request is in flight.
func TestResumeCloses(t *testing.T) {
	var bodies []*closeNoter
	asked := make(chan struct{})
	transport := resuming(roundTripper(func(req *http.Request) (*http.Response, error) {
		if len(bodies) == 2 {
			close(asked)
			<-req.Context().Done()
		}
		first, _ := strconv.Atoi(strings.Trim(req.Header.Get("Range"), "bytes=-"))
		body := &closeNoter{Reader: bytes.NewReader(blob()[first : first+10])}
		bodies = append(bodies, body)
		res := &http.Response{StatusCode: http.StatusOK, ContentLength: 100_000, Body: body, Header: http.Header{}, Request: req}
		if first > 0 {
			res.StatusCode = http.StatusPartialContent
			res.Header.Set("Content-Range", fmt.Sprintf("bytes %d-99999/100000", first))
		}
		return res, nil
	}))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://a.example"+blobPath, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan error)
	go func() {
		_, err := io.ReadAll(res.Body)
		read <- err
	}()
	<-asked
	res.Body.Close()
	if err := <-read; !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got error %v, want that of the break", err)
	}
	for i, body := range bodies {
		if !body.closed {
			t.Errorf("body %d of %d is open", i, len(bodies))
		}
	}
	if len(bodies) != 3 {
		t.Errorf("%d bodies, want 3", len(bodies))
	}
}

// A response with a content encoding is not resumed: its offsets are not those of the blob.
func TestResumeNotCompressed(t *testing.T) {
	var requests int
	transport := resuming(roundTripper(func(req *http.Request) (*http.Response, error) {
		requests++
		body := io.NopCloser(strings.NewReader("ten bytes."))
		return &http.Response{
			StatusCode:    http.StatusOK,
			ContentLength: 100,
			Uncompressed:  true,
			Body:          body,
			Header:        http.Header{},
			Request:       req,
		}, nil
	}))
	if _, err := fetch(t.Context(), &http.Client{Transport: transport}, "http://a.example"+blobPath); err != nil || requests != 1 {
		t.Errorf("got %v after %d requests", err, requests)
	}
}
