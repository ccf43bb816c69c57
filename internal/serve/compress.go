package serve

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/operator-catalogs/catalogd/internal/limit"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// A response that is compressed for one client uses the fastest level and a small window, about 0.8 MB of memory. An encoder
// that compresses while sending is in use as long as the client reads, so their number is limited; without a free one the
// response is not compressed. Bodies in memory are compressed before they are sent, as many at a time as there are CPUs.
//
// klauspost's gzhttp wraps handlers and sees only what they write: its response to HEAD has other headers than that to GET,
// and it compares If-None-Match with the tag of the wrong encoding. Here the encoding is chosen first.

// zstdWindow is the zstd window in bytes. It determines the memory of an encoder. Decoders must support 8 MiB (RFC 8878,
// section 3.1.1.1.2).
const zstdWindow = 256 << 10

// encoder is a gzip or zstd encoder.
type encoder interface {
	io.WriteCloser
	Reset(w io.Writer)
}

// encoders are pools of idle encoders and limits of the busy ones.
type encoders struct {
	gzip, zstd sync.Pool
	streaming  limit.Slots   // of responses that are compressed while they are sent
	inMemory   chan struct{} // callers wait for it, since no client can block it
}

func newEncoders(streaming limit.Slots) *encoders {
	return &encoders{
		streaming: streaming,
		inMemory:  make(chan struct{}, runtime.GOMAXPROCS(0)),
		gzip: sync.Pool{New: func() any {
			w, err := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed)
			return newEncoder(w, err)
		}},
		zstd: sync.Pool{New: func() any {
			w, err := zstd.NewWriter(io.Discard, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
				zstd.WithWindowSize(zstdWindow), zstd.WithLowerEncoderMem(true))
			return newEncoder(w, err)
		}},
	}
}

func newEncoder(e encoder, err error) encoder {
	if err != nil { // a wrong option
		panic(fmt.Sprintf("creating an encoder: %v", err))
	}
	return e
}

func (p *encoders) pool(e store.Encoding) *sync.Pool {
	if e == store.Zstd {
		return &p.zstd
	}
	return &p.gzip
}

func (p *encoders) get(e store.Encoding, w io.Writer) encoder {
	enc := p.pool(e).Get().(encoder)
	enc.Reset(w)
	return enc
}

func (p *encoders) put(e store.Encoding, enc encoder) {
	enc.Reset(io.Discard) // drops the response
	p.pool(e).Put(enc)
}

// encode returns the encoded body.
func (p *encoders) encode(e store.Encoding, body []byte) ([]byte, error) {
	if e == identity {
		return body, nil
	}
	p.inMemory <- struct{}{}
	defer func() { <-p.inMemory }()
	var out bytes.Buffer
	enc := p.get(e, &out)
	defer p.put(e, enc)
	if _, err := enc.Write(body); err != nil {
		return nil, fmt.Errorf("encoding a response: %w", err)
	}
	if err := enc.Close(); err != nil {
		return nil, fmt.Errorf("encoding a response: %w", err)
	}
	return out.Bytes(), nil
}

// encodingWriter encodes a body while it is written. It takes an encoder only when the status says that a body follows. Without
// a free encoder it sends identity.
type encodingWriter struct {
	http.ResponseWriter
	encoders *encoders
	encoding store.Encoding
	size     int64  // of the body before encoding, in bytes
	plainTag string // the ETag of identity
	plain    bool   // the client accepts identity
	head     bool   // the request is a HEAD

	code    int
	enc     encoder // nil for identity or without a body
	release func()  // releases the slot of enc
	written int64   // before encoding
}

func (w *encodingWriter) WriteHeader(code int) {
	if code == http.StatusOK && !w.head {
		release, err := w.encoders.streaming.Acquire()
		switch {
		case err == nil:
			w.enc, w.release = w.encoders.get(w.encoding, w.ResponseWriter), release
		case w.plain:
			h := w.Header()
			h.Del("Content-Encoding")
			h.Set("Content-Length", strconv.FormatInt(w.size, 10))
			h.Set("ETag", w.plainTag)
		default:
			w.code = http.StatusTooManyRequests
			exceeded := &limit.ExceededError{}
			errors.As(err, &exceeded) // the only error of Acquire
			refusal := tooManyRequests(exceeded)
			refusal.text += ", or accept identity"
			writeError(w.ResponseWriter, refusal)
			return
		}
	}
	w.code = code
	w.ResponseWriter.WriteHeader(code)
}

func (w *encodingWriter) Write(p []byte) (n int, err error) {
	if w.enc != nil {
		n, err = w.enc.Write(p)
	} else {
		n, err = w.ResponseWriter.Write(p)
	}
	w.written += int64(n)
	return n, err
}

// finish ends a body. It aborts the connection if an error cut the body short, because the client would take the end of the
// compressed data for the end of the content.
func (w *encodingWriter) finish() {
	if w.enc != nil {
		defer w.release()
		defer w.encoders.put(w.encoding, w.enc)
	}
	if w.head || w.code != http.StatusOK {
		return
	}
	if w.written != w.size || w.enc != nil && w.enc.Close() != nil {
		panic(http.ErrAbortHandler)
	}
}
