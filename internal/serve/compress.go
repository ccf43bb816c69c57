package serve

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/operator-catalogs/catalogd/internal/store"
)

// What is compressed for a single reply is compressed at the fastest level, with a small window: about 0.8 MB of memory each. There are
// at most as many at a time as queries, plus what is compressed in memory before it is sent.
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

// encoders are pools of idle encoders.
type encoders struct{ gzip, zstd sync.Pool }

func newEncoders() *encoders {
	return &encoders{
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

// encodingWriter encodes the body that is written to it, if there is one.
type encodingWriter struct {
	http.ResponseWriter
	encoders *encoders
	encoding store.Encoding
	head     bool // the request is a HEAD
	code     int
	enc      encoder // nil before the first byte
	written  int64   // before encoding
}

func (w *encodingWriter) WriteHeader(code int) {
	w.code = code
	w.ResponseWriter.WriteHeader(code)
}

func (w *encodingWriter) Write(p []byte) (int, error) {
	if w.enc == nil {
		w.enc = w.encoders.get(w.encoding, w.ResponseWriter)
	}
	n, err := w.enc.Write(p)
	w.written += int64(n)
	return n, err
}

// finish ends a body that has size bytes before encoding. One that an error cut short, after its status was sent, breaks the
// connection off: else its end would look like the end of all to the client.
func (w *encodingWriter) finish(size int64) {
	if w.enc != nil {
		defer w.encoders.put(w.encoding, w.enc)
	}
	if !w.head && w.code == http.StatusOK && (w.written != size || w.enc.Close() != nil) {
		panic(http.ErrAbortHandler)
	}
}
