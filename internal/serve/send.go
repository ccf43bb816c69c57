package serve

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/operator-catalogs/catalogd/internal/limit"
	"github.com/operator-catalogs/catalogd/internal/store"
)

const (
	typeLines = "application/jsonl"
	typeJSON  = "application/json"
)

// sender sends responses in the encoding that suits the client.
type sender struct {
	encoders   *encoders
	selections limit.Budget
	now        func() time.Time
}

// Last-Modified of current content advances by modifiedStep while the content stays, see lastModified.
const (
	modifiedStep  = 8 * time.Hour
	modifiedDelay = time.Hour
)

// lastModified returns the Last-Modified of a view. Below a version it is the time when the version was first served.
//
// For the current content it advances from there in steps, each modifiedDelay after the date that it announces. So a client that
// sends only If-Modified-Since gets 304 within a step and the content again in the next; the console of OpenShift forgets content
// that it last got a day ago, whatever was 304 since (docs/design/018). ETags do not change, and clients that send them get 304.
// The step depends on the time only, so all replicas send the same. The delay is for replicas that still serve older content:
// its dates must not pass the time of the newer content.
func (s *sender) lastModified(r *http.Request, c store.Catalog) time.Time {
	since := c.Since
	if age := s.now().Sub(since) - modifiedDelay; age > 0 && r.PathValue("digest") == "" {
		since = since.Add(age.Truncate(modifiedStep))
	}
	return since
}

// sendAll sends the whole catalog from a file: in an encoding once the store has made that form, in identity before. Like
// upstream it ignores parameters.
func (s *sender) sendAll(w http.ResponseWriter, r *http.Request, c store.Catalog) error {
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
		serveContent(w, r, s.lastModified(r, c), c.Snapshot.Key(), e, info.Size(), file)
		return nil
	}
	return &statusError{code: http.StatusNotAcceptable, text: "the catalog is new and not compressed yet; retry later, or accept identity"}
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

// sendBlobs sends blobs as JSON lines. It compresses them while it sends them, as long as an encoder is free.
func (s *sender) sendBlobs(w http.ResponseWriter, r *http.Request, c store.Catalog, tag string, blobs *store.Blobs) error {
	if err := blobs.Check(); err != nil {
		return err
	}
	w.Header()["Content-Type"] = linesHeader
	e, err := s.choose(w, r, tag, blobs.Size())
	if err != nil {
		return err
	}
	if e == identity {
		serveContent(w, r, s.lastModified(r, c), tag, e, blobs.Size(), blobs.Content())
		return nil
	}
	encoded := &encodingWriter{
		ResponseWriter: w, encoders: s.encoders, encoding: e, head: r.Method == http.MethodHead,
		size: blobs.Size(), plainTag: entityTag(tag, identity),
		plain: slices.Contains(accept(r.Header.Values("Accept-Encoding")), identity),
	}
	defer encoded.finish()
	serveContent(encoded, r, s.lastModified(r, c), tag, e, unknownSize, blobs)
	return nil
}

// sendContent sends a body in memory with the Content-Type that is set. An empty tag is replaced by a hash of the body.
func (s *sender) sendContent(w http.ResponseWriter, r *http.Request, modified time.Time, tag string, body []byte) error {
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
	serveContent(w, r, modified, tag, e, int64(len(body)), bytes.NewReader(body))
	return nil
}

// builder sends computed responses.
type builder struct {
	*sender
	queries limit.Slots
	memory  limit.Budget // of the responses
}

// sendBuilt sends the body that build returns. The caller sets the Content-Type. It holds a query slot only during build, so slow
// clients do not block others. If tag is empty, the ETag is a hash of the body.
func (s *builder) sendBuilt(w http.ResponseWriter, r *http.Request, tag string, build func() ([]byte, error)) error {
	body, err := func() ([]byte, error) {
		release, err := s.queries.Acquire()
		if err != nil {
			return nil, err
		}
		defer release()
		return build()
	}()
	if err != nil {
		return err
	}
	release, err := s.memory.Acquire(int64(cap(body)))
	if err != nil {
		return err
	}
	defer release()
	return s.sendContent(w, r, time.Time{}, tag, body)
}

// sendReply sends a body that caches must not keep, without an ETag.
func (s *sender) sendReply(w http.ResponseWriter, r *http.Request, status int, body []byte) error {
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
	_, _ = w.Write(body) // an error means that the client has gone
	return nil
}

// sendJSON sends a value that may change at any time, so caches must not keep it.
func (s *sender) sendJSON(w http.ResponseWriter, r *http.Request, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encoding a response: %w", err)
	}
	w.Header().Set("Content-Type", typeJSON)
	w.Header().Set("Cache-Control", "no-store")
	return s.sendReply(w, r, http.StatusOK, append(body, '\n'))
}

// choose returns the encoding of a response that is compressed for this client alone: the best one that the client accepts,
// or identity for a body that is too small or would not shrink.
func (s *sender) choose(w http.ResponseWriter, r *http.Request, tag string, size int64) (store.Encoding, error) {
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

// isText reports whether compression makes content of the type smaller.
func isText(contentType string) bool {
	return contentType == typeSVG || strings.HasPrefix(contentType, typeLines) || strings.Contains(contentType, "json")
}

const unknownSize = -1

// serveContent is http.ServeContent for content in an encoding. With the encoding, tag is a strong validator (RFC 9110,
// section 8.8.1). A zero modified leaves out Last-Modified. Only identity has ranges.
func serveContent(
	w http.ResponseWriter, r *http.Request, modified time.Time, tag string, e store.Encoding, size int64, content io.ReadSeeker,
) {
	h := w.Header()
	h["Etag"] = []string{entityTag(tag, e)}
	if e != identity {
		h.Set("Content-Encoding", string(e))
		if size != unknownSize {
			h.Set("Content-Length", strconv.FormatInt(size, 10))
		}
	}
	http.ServeContent(w, correct(r, e), "", modified, content)
}

// correct returns r as http.ServeContent must see it to follow RFC 9110: lists in several lines are joined (section 5.3),
// only identity has ranges, and a suffix range of length 0 is unsatisfiable (section 14.1.2, golang/go#81262).
func correct(r *http.Request, e store.Encoding) *http.Request {
	changed := http.Header{}
	for _, name := range [...]string{"If-Match", "If-None-Match"} {
		if lines := r.Header[name]; len(lines) > 1 {
			changed.Set(name, strings.Join(lines, ", "))
		}
	}
	if value := r.Header.Get("Range"); value != "" && e != identity {
		changed["Range"] = nil
	} else if strings.Contains(value, "-0") {
		changed.Set("Range", withoutEmptySuffixes(value))
	}
	if len(changed) == 0 {
		return r
	}
	r = r.Clone(r.Context())
	for name, values := range changed {
		r.Header[name] = values
	}
	return r
}

// withoutEmptySuffixes replaces each suffix range of length 0 in a Range header with a range that begins after any content.
func withoutEmptySuffixes(value string) string {
	unit, set, _ := strings.Cut(value, "=")
	specs := strings.Split(set, ",")
	for i, spec := range specs {
		if spec = strings.Trim(spec, " \t"); len(spec) > 1 && strings.TrimRight(spec, "0") == "-" {
			specs[i] = "9223372036854775807-"
		}
	}
	return unit + "=" + strings.Join(specs, ",")
}

// hashTag returns a tag that identifies bytes.
func hashTag(parts ...[]byte) string {
	sum := sha256.New()
	for _, part := range parts {
		sum.Write(part)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:16])
}
