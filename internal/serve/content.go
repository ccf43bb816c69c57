package serve

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/operator-catalogs/catalogd/internal/store"
)

const (
	typeLines = "application/jsonl"
	typeJSON  = "application/json"
)

// serveAll serves the whole catalog straight from a file: in an encoding once the store has made that, and as it is otherwise. Like
// upstream it ignores parameters.
func serveAll(w http.ResponseWriter, r *http.Request, c store.Catalog) error {
	w.Header()["Content-Type"] = linesHeader
	addVary(w.Header())
	accepted, err := negotiate(r, c.Snapshot.Key())
	if err != nil {
		return err
	}
	for _, e := range accepted {
		file, err := openEncoded(c.Snapshot, e)
		if errors.Is(err, fs.ErrNotExist) && e != identity {
			continue
		}
		if err != nil {
			return err
		}
		defer file.Close()
		info, err := file.Stat()
		if err != nil {
			return err
		}
		serveEncoded(w, r, c.Since, c.Snapshot.Key(), e, info.Size(), file)
		return nil
	}
	return &statusError{code: http.StatusNotAcceptable, text: "the catalog is new and does not come in zstd and gzip yet; come again, or let Accept-Encoding allow identity"}
}

func openEncoded(s *store.Snapshot, e store.Encoding) (*os.File, error) {
	if e != identity {
		return s.OpenEncoded(e)
	}
	if err := s.Check(); err != nil {
		return nil, err
	}
	return s.OpenAll()
}

// serveBlobs serves blobs as they are read, compressed on the way as long as there is an encoder for that.
func (s *server) serveBlobs(w http.ResponseWriter, r *http.Request, c store.Catalog, tag string, blobs *store.Blobs) error {
	if err := blobs.Check(); err != nil {
		return err
	}
	w.Header()["Content-Type"] = linesHeader
	e, err := s.choose(w, r, tag, blobs.Size())
	if err != nil {
		return err
	}
	if e == identity {
		serveEncoded(w, r, c.Since, tag, e, blobs.Size(), blobs)
		return nil
	}
	encoded := &encodingWriter{
		ResponseWriter: w, encoders: s.encoders, encoding: e, head: r.Method == http.MethodHead,
		size: blobs.Size(), plainTag: entityTag(tag, identity), plain: slices.Contains(accept(r.Header.Values("Accept-Encoding")), identity),
	}
	defer encoded.finish()
	serveEncoded(encoded, r, c.Since, tag, e, unknownSize, blobs)
	return nil
}

// serveBytes serves a body that is in memory, of the Content-Type that is set. Without a tag it is tagged by what it is.
func (s *server) serveBytes(w http.ResponseWriter, r *http.Request, modified time.Time, tag string, body []byte) error {
	if tag == "" {
		tag = hashTag(body)
	}
	e, err := s.choose(w, r, tag, int64(len(body)))
	if err != nil {
		return err
	}
	if body, err = s.encoders.encode(e, body); err != nil {
		return err
	}
	serveEncoded(w, r, modified, tag, e, int64(len(body)), bytes.NewReader(body))
	return nil
}

// sendBytes answers with a body that is no content to be kept, or asked for by its tag: of an error, or of a POST.
func (s *server) sendBytes(w http.ResponseWriter, r *http.Request, status int, body []byte) error {
	e, err := s.choose(w, r, "", int64(len(body)))
	if err != nil {
		return err
	}
	if body, err = s.encoders.encode(e, body); err != nil {
		return err
	}
	if e != identity {
		w.Header().Set("Content-Encoding", string(e))
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	writeStatus(w, status)
	_, _ = w.Write(body) // an error here means that the client went away
	return nil
}

// choose is the encoding for what is compressed for this reply alone: the best that the client accepts, and identity, if it accepts
// that, for what is small or would not become smaller.
func (s *server) choose(w http.ResponseWriter, r *http.Request, tag string, size int64) (store.Encoding, error) {
	addVary(w.Header())
	accepted, err := negotiate(r, tag)
	if err != nil {
		return "", err
	}
	worth := size >= minEncoded && isText(w.Header().Get("Content-Type"))
	if size == 0 || !worth && slices.Contains(accepted, identity) {
		return identity, nil
	}
	return accepted[0], nil
}

// isText tells whether content of the type becomes smaller by compression.
func isText(contentType string) bool {
	return contentType == typeSVG || strings.HasPrefix(contentType, typeLines) || strings.Contains(contentType, "json")
}

const unknownSize = -1

// serveEncoded leaves HEAD, ranges and conditional requests to the standard library. The tag is a strong validator (RFC 9110, section
// 8.8.1): with the encoding it names the bytes. Last-Modified is when the digest was first served, so polls that find nothing new do
// not move it; a zero modified leaves it out. Ranges are of identity only.
func serveEncoded(w http.ResponseWriter, r *http.Request, modified time.Time, tag string, e store.Encoding, size int64, content io.ReadSeeker) {
	h := w.Header()
	h["Etag"] = []string{entityTag(tag, e)}
	if e != identity {
		h.Set("Content-Encoding", string(e))
		if size != unknownSize {
			h.Set("Content-Length", strconv.FormatInt(size, 10))
		}
	}
	if asksForAll(r, e) {
		serveWhole(w, modified, e, size, content)
		return
	}
	if e != identity {
		r = r.Clone(r.Context())
		r.Header.Del("Range")
	}
	http.ServeContent(w, r, "", modified, content)
}

// asksForAll tells whether a request is for content as it is, whatever the client has of it.
func asksForAll(r *http.Request, e store.Encoding) bool {
	if r.Method != http.MethodGet {
		return false
	}
	for _, name := range [...]string{"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"} {
		if _, conditional := r.Header[name]; conditional {
			return false
		}
	}
	_, part := r.Header["Range"]
	return !part || e != identity
}

// serveWhole answers as http.ServeContent does to a request for all, and without looking for what is not asked: that, and its ways to the
// content by 512 bytes and then the rest, take half of the time of a small reply.
func serveWhole(w http.ResponseWriter, modified time.Time, e store.Encoding, size int64, content io.Reader) {
	h := w.Header()
	if !modified.IsZero() {
		h["Last-Modified"] = httpDate(modified)
	}
	if e == identity {
		h["Accept-Ranges"] = acceptRanges
		h["Content-Length"] = []string{strconv.FormatInt(size, 10)}
	}
	w.WriteHeader(http.StatusOK)
	if file, ok := content.(*os.File); ok {
		content = io.LimitReader(file, size) // a file alone writes itself, and asks nobody who could have the kernel do it
	}
	_, _ = io.Copy(w, content) // an error here means that the client went away, or the content ended early; then the connection ends, too
}

// date is a time as headers have it.
type date struct {
	at     time.Time
	header []string
}

var lastDate atomic.Pointer[date]

// httpDate is the value of a header with a time. It keeps the last one, for most replies have the same. Nobody changes it.
func httpDate(at time.Time) []string {
	if last := lastDate.Load(); last != nil && last.at.Equal(at) {
		return last.header
	}
	d := &date{at, []string{at.UTC().Format(http.TimeFormat)}}
	lastDate.Store(d)
	return d.header
}

// hashTag names bytes by themselves.
func hashTag(parts ...[]byte) string {
	sum := sha256.New()
	for _, part := range parts {
		sum.Write(part)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:16])
}
