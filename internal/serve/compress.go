package serve

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/operator-catalogs/catalogd/internal/store"
)

// What is compressed for a single reply is compressed at the fastest level, with a small window: about 0.8 MB of memory each. An encoder
// that compresses on the way belongs to a reply for as long as the client reads, so there are at most as many of these as queries; when
// none is left, replies go out as they are. What is in memory is compressed there before it is sent, by as many at a time as there are CPUs.
//
// klauspost's gzhttp would do this as a wrapper around handlers, but sees only what they write: a reply to HEAD then has other headers
// than that to GET, and If-None-Match is compared with the tag of the wrong form. Here the form is chosen first.

// zstdWindow is the window of zstd in bytes, far below the 8 MiB that every decoder is expected to take (RFC 8878, section 3.1.1.1.2): it
// is what an encoder costs.
const zstdWindow = 256 << 10

// encoder is what gzip and zstd have in common.
type encoder interface {
	io.WriteCloser
	Reset(w io.Writer)
}

// encoders are pools of idle encoders, and how many may work at a time.
type encoders struct {
	gzip, zstd sync.Pool
	onTheWay   slots
	inMemory   chan struct{} // waited for, since no client can hold it
}

// newEncoders makes encoders of which so many may compress on the way.
func newEncoders(onTheWay int) *encoders {
	return &encoders{
		onTheWay: make(slots, onTheWay),
		inMemory: make(chan struct{}, runtime.GOMAXPROCS(0)),
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
	if err != nil { // an option is wrong, and so is this program
		panic(fmt.Sprintf("making an encoder: %v", err))
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
	enc.Reset(io.Discard) // lets go of the reply
	p.pool(e).Put(enc)
}

// encode returns body in an encoding.
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
		return nil, fmt.Errorf("encoding a reply: %w", err)
	}
	if err := enc.Close(); err != nil {
		return nil, fmt.Errorf("encoding a reply: %w", err)
	}
	return out.Bytes(), nil
}

// encodingWriter encodes the body that is written to it, if there is one. The reply's headers are those of the encoded form until it is known
// that a body follows: only then an encoder is taken.
type encodingWriter struct {
	http.ResponseWriter
	encoders *encoders
	encoding store.Encoding
	size     int64  // of the body before encoding, in bytes
	plainTag string // the ETag of the body as it is
	plain    bool   // the client takes it as it is
	head     bool   // the request is a HEAD

	code    int
	enc     encoder // nil if the body is sent as it is, or there is none
	release func()  // gives back enc's slot
	written int64   // before encoding
}

func (w *encodingWriter) WriteHeader(code int) {
	if code == http.StatusOK && !w.head {
		release, err := w.encoders.onTheWay.take("compressed replies")
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
			writeError(w.ResponseWriter, &statusError{
				code:    w.code,
				text:    fmt.Sprintf("catalogd compresses %d replies at a time, and has as many; come again, or let Accept-Encoding allow identity", cap(w.encoders.onTheWay)),
				headers: map[string]string{"Retry-After": "1"},
			})
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

// finish ends a body. One that an error cut short, after its status was sent, breaks the connection off: else its end would look like the
// end of all to the client.
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
