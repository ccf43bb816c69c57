package serve

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/operator-catalogs/catalogd/internal/limit"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// identity is content without encoding.
const identity store.Encoding = "identity"

// encodings are the supported encodings. The first one wins among those that a client weights equally.
var encodings = [...]store.Encoding{store.Zstd, store.Gzip, identity}

// identityOnly is the default without Accept-Encoding. It must not be modified.
var identityOnly = []store.Encoding{identity}

// minEncoded is the minimum size in bytes of compressed content; smaller content fits into one packet.
const minEncoded = 1024

// negotiate returns the encodings that the client accepts, best first, or an error with status 406 if it accepts none.
//
// An encoding whose tag the client names in If-None-Match, If-Match or If-Range goes first, because the client has it. A Range
// alone changes nothing: it is a range of the response that would be sent without it (RFC 9110, section 14.2). Only identity
// has ranges; in other encodings the client gets the whole content.
func negotiate(r *http.Request, tag string) ([]store.Encoding, error) {
	accepted := accept(r.Header.Values("Accept-Encoding"))
	if len(accepted) == 1 {
		return accepted, nil
	}
	if len(accepted) == 0 {
		return nil, &statusError{
			code: http.StatusNotAcceptable, text: "Accept-Encoding allows none of the supported encodings: zstd, gzip and identity",
		}
	}
	named := strings.Join(slices.Concat(r.Header.Values("If-None-Match"), r.Header.Values("If-Match"), r.Header.Values("If-Range")), ",")
	slices.SortStableFunc(accepted, func(a, b store.Encoding) int {
		first := func(e store.Encoding) int {
			if strings.Contains(named, entityTag(tag, e)) {
				return 0
			}
			return 1
		}
		return cmp.Compare(first(a), first(b))
	})
	return accepted, nil
}

// entityTag is the strong validator of content in an encoding; each encoding has its own (RFC 9110, section 8.8.3.3).
func entityTag(tag string, e store.Encoding) string {
	if e != identity {
		tag += "-" + string(e)
	}
	return `"` + tag + `"`
}

// accept parses Accept-Encoding (RFC 9110, section 12.5.3) and returns the accepted encodings, best first. Without the field
// only identity is accepted, because clients that omit it seldom decode anything. Identity need not be listed; it comes last
// then. Malformed elements are ignored.
func accept(fields []string) []store.Encoding {
	if len(fields) == 0 {
		return identityOnly
	}
	weights := make(map[store.Encoding]int)
	for element := range strings.SplitSeq(strings.Join(fields, ","), ",") {
		coding, weight, ok := parseCoding(element)
		if _, twice := weights[coding]; ok && !twice {
			weights[coding] = weight
		}
	}
	var accepted []store.Encoding
	for _, e := range encodings {
		if weight, said := weights[e]; said {
			weights[e] = weight * 2
		} else if weight, all := weights["*"]; all {
			weights[e] = weight * 2
		} else if e == identity {
			weights[e] = 1 // below any given weight, because those are doubled
		}
		if weights[e] > 0 {
			accepted = append(accepted, e)
		}
	}
	slices.SortStableFunc(accepted, func(a, b store.Encoding) int { return cmp.Compare(weights[b], weights[a]) })
	return accepted
}

// parseCoding parses an element of Accept-Encoding. It returns the coding in lower case and its weight in thousandths.
func parseCoding(element string) (coding store.Encoding, weight int, ok bool) {
	name, param, weighted := strings.Cut(element, ";")
	name = strings.ToLower(strings.Trim(name, " \t"))
	if name == "x-gzip" { // an alias (RFC 9110, section 8.4.1.3)
		name = string(store.Gzip)
	}
	if !weighted {
		return store.Encoding(name), 1000, name != ""
	}
	key, value, _ := strings.Cut(strings.Trim(param, " \t"), "=")
	weight, ok = parseWeight(value)
	return store.Encoding(name), weight, ok && name != "" && strings.EqualFold(key, "q")
}

// parseWeight parses a qvalue (RFC 9110, section 12.4.2), 0 to 1 with at most three decimals. It returns thousandths.
func parseWeight(s string) (int, bool) {
	whole, decimals, _ := strings.Cut(s, ".")
	if (whole != "0" && whole != "1") || len(decimals) > 3 || strings.Trim(decimals, "0123456789") != "" {
		return 0, false
	}
	weight, err := strconv.Atoi(whole + (decimals + "000")[:3])
	return weight, err == nil && weight <= 1000
}

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
