package fbc

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// ReadFile calls fn for every blob of the file at name, in the order in which they stand there. A blob is fn's until
// it returns; its JSON is overwritten afterwards. A maxBlob of zero means DefaultMaxBlobBytes.
//
// What no client's reader could take as a stream of blobs is an *Error: a syntax error, a document that is no object,
// a blob without a schema, or with one that is no string. An error of fn is returned as it is, and one of fsys is no
// *Error, since the bytes are not to blame.
func ReadFile(fsys fs.FS, name string, maxBlob int64, fn func(Blob) error) error {
	return ScanFile(fsys, name, maxBlob, Visitor{Blob: func(b Blob, _ Position) error { return fn(b) }})
}

// ScanFile is ReadFile for those who want to know where blobs stand, or what else is wrong with a file behind its first fault.
func ScanFile(fsys fs.FS, name string, maxBlob int64, v Visitor) error {
	if maxBlob <= 0 {
		maxBlob = DefaultMaxBlobBytes
	}
	f, err := fsys.Open(name)
	if err != nil {
		return err
	}
	defer f.Close() // read only: nothing can be lost

	src := &boundedReader{r: f, max: maxBlob, read: -sniffSize, remedy: "limit: --max-blob-bytes"} // what sniff looks at is more than one blob
	r := readers.Get().(*reader)
	defer r.release()
	r.Reset(src)
	isJSON, err := sniff(r.Reader)
	if err != nil {
		return locate(fsys, name, src, err)
	}
	if !isJSON {
		return locate(fsys, name, src, readYAML(r.Reader, src, v.in(fsys, name)))
	}
	src.max = math.MaxInt64 // the splitter bounds objects itself
	r.split.reset(r.Reader, maxBlob)
	err = readJSON(r.split, v.in(fsys, name))
	if errors.Is(err, errNotPlain) {
		return judgeFile(fsys, name, maxBlob, r.split, v)
	}
	return locate(fsys, name, src, err)
}

// judgeFile reads on with encoding/json where the splitter gave up.
func judgeFile(fsys fs.FS, name string, maxBlob int64, s *splitter, v Visitor) error {
	f, err := fsys.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReader(f)
	skipBOM(r)
	if _, err := io.CopyN(io.Discard, r, s.start); err != nil {
		return fmt.Errorf("reading %s again: %w", name, err)
	}
	src := &boundedReader{r: r, max: maxBlob, remedy: "limit: --max-blob-bytes"}
	err = judgeJSON(src, s.start, s.objects == 0, v.in(fsys, name))
	if path.Ext(name) != ".json" && isFirstSyntaxError(err) {
		return readAsYAML(fsys, name, maxBlob, v) // a YAML file may begin with a flow mapping
	}
	return locate(fsys, name, src, err)
}

func readAsYAML(fsys fs.FS, name string, maxBlob int64, v Visitor) error {
	f, err := fsys.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	src := &boundedReader{r: f, max: maxBlob, remedy: "limit: --max-blob-bytes"}
	return locate(fsys, name, src, readYAML(src, src, v.in(fsys, name)))
}

// reader is what one call of ReadFile reads with. A pool has it afterwards, as a catalog has many small files.
type reader struct {
	*bufio.Reader
	split *splitter
}

var readers = sync.Pool{New: func() any {
	return &reader{bufio.NewReaderSize(nil, sniffSize), newSplitter(windowSize)}
}}

// release gives the reader back, without memory that only large blobs need.
func (r *reader) release() {
	r.Reset(nil)
	r.split.reset(nil, 0)
	if cap(r.split.out) > maxKeptBytes {
		r.split.out = nil
	}
	readers.Put(r)
}

// maxKeptBytes bounds what is kept from file to file. The largest known blob has 2.4 MB.
const maxKeptBytes = 4 << 20

// sniffSize is how far into a file sniff looks.
const sniffSize = 64 << 10

const utf8BOM = "\xef\xbb\xbf" // the byte order mark

// sniff skips a UTF-8 byte order mark and tells JSON from YAML as Kubernetes' decoders do: JSON begins with a brace.
func sniff(r *bufio.Reader) (isJSON bool, err error) {
	head, err := r.Peek(len(utf8BOM))
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	if bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")) {
		return false, errors.New("the file is UTF-16; a catalog is UTF-8: convert the file")
	}
	skipBOM(r)
	head, err = r.Peek(sniffSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return bytes.HasPrefix(bytes.TrimLeft(head, " \t\r\n"), []byte("{")), nil
}

func skipBOM(r *bufio.Reader) {
	if head, _ := r.Peek(len(utf8BOM)); string(head) == utf8BOM {
		_, _ = r.Discard(len(utf8BOM)) // just peeked: they are there
	}
}

// readJSON reads a stream of JSON objects; errNotPlain says that judgeJSON is to read on at s.start.
func readJSON(s *splitter, v visit) error {
	for {
		if err := s.next(); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		b, err := s.blob()
		if err := v.next(b, err, Position{Offset: s.start}); err != nil {
			return err
		}
	}
}

// judgeJSON reads a stream of JSON values with encoding/json, for the sake of its errors; base is where in the file src
// begins, and first tells that no blob was read before.
func judgeJSON(src *boundedReader, base int64, first bool, v visit) error {
	dec := json.NewDecoder(src)
	var raw json.RawMessage
	var compact bytes.Buffer
	for ; ; first = false {
		src.reset()
		start := base + dec.InputOffset()
		if err := dec.Decode(&raw); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return jsonError(err, base, start, first)
		}
		if int64(len(raw)) > src.max {
			return &offsetError{offset: start, err: src.errTooLarge()}
		}
		compact.Reset()
		if err := json.Compact(&compact, raw); err != nil {
			return &offsetError{offset: start, err: err}
		}
		if err := v.object(compact.Bytes(), Position{Offset: start}); err != nil {
			return err
		}
	}
}

// jsonError puts a decoder's error in its place: a syntax error has one of its own, an early end lies in the blob
// that began at start. The decoder's input began at base.
func jsonError(err error, base, start int64, first bool) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return &offsetError{offset: base + syntax.Offset - 1, err: err, firstSyntax: first} // Offset counts the byte that is wrong
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return &offsetError{offset: start, err: errors.New("the file ends in the middle of this blob")}
	}
	return &offsetError{offset: start, err: err}
}

// ErrNoSchema is in the chain of the error about a blob without a schema.
var ErrNoSchema = errors.New("no schema")

// blobOf makes a blob of a compact JSON object.
func blobOf(object []byte) (Blob, error) {
	k, err := keysOf(object)
	if err != nil {
		return Blob{}, err
	}
	if k.schema == "" {
		return Blob{}, fmt.Errorf("the blob %s has %w", excerpt(object), ErrNoSchema)
	}
	b := Blob{Schema: k.schema, Package: k.pkg, Name: k.name, JSON: object}
	if b.Schema == SchemaBundle {
		b.Bundle = factsOf(k.properties)
	}
	return b, nil
}

// toValidUTF8 replaces each byte that is no UTF-8 by U+FFFD, as encoding/json does when it decodes a string.
func toValidUTF8(b []byte) []byte {
	if utf8.Valid(b) {
		return b
	}
	out := make([]byte, 0, len(b)+64)
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		out = utf8.AppendRune(out, r)
		b = b[size:]
	}
	return out
}

// excerpt is the beginning of a blob, short enough for a message.
func excerpt(b []byte) string {
	const most = 60
	return shorten(string(b[:min(len(b), most+1)]), most)
}

// shorten keeps so many bytes of a text at most, and says so.
func shorten(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// boundedReader fails when more than max bytes (and what its readers buffer) are read for one blob, so that a blob
// without end cannot fill the memory.
type boundedReader struct {
	r      io.Reader
	max    int64
	remedy string // what a person can do about a blob of more
	read   int64
	err    error // of r, but for its end; the YAML library passes on no more than its text, nor does it of the bound
	over   bool  // whether a read failed at the bound
}

func (b *boundedReader) reset() { b.read = 0 }

func (b *boundedReader) errTooLarge() error {
	return fmt.Errorf("%w: it has more than %d bytes (%s)", ErrBlobTooLarge, b.max, b.remedy)
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.read > b.max {
		b.over = true
		return 0, b.errTooLarge()
	}
	n, err := b.r.Read(p)
	b.read += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}

// offsetError is an error at a byte offset of a file; locate turns it into an *Error with a line.
type offsetError struct {
	offset      int64
	err         error
	firstSyntax bool // no blob was read before it, so that the file may be of another syntax
}

func (e *offsetError) Error() string { return e.err.Error() }
func (e *offsetError) Unwrap() error { return e.err }

// callbackError carries an error of the caller's fn through unchanged.
type callbackError struct{ err error }

func (e *callbackError) Error() string { return e.err.Error() }

func isFirstSyntaxError(err error) bool {
	var at *offsetError
	return errors.As(err, &at) && at.firstSyntax
}

// locate makes an *Error of what went wrong in a file, with the line where only the offset is known; the file is read
// again for that, as lines are not counted while all is well.
func locate(fsys fs.FS, name string, src *boundedReader, err error) error {
	if err == nil {
		return nil
	}
	var callback *callbackError
	if errors.As(err, &callback) {
		return callback.err
	}
	if src.err != nil {
		return fmt.Errorf("reading %s: %w", name, src.err)
	}
	where := &Error{Err: err}
	var at *offsetError
	switch {
	case errors.As(err, &at):
		where = &Error{Line: lineAt(fsys, name, at.offset), Err: at.err}
	case errors.As(err, &where): // it has the line
	case src.over:
		where.Err = src.errTooLarge()
	}
	where.Path = name
	if errors.Is(where.Err, ErrNoSchema) || !hasCatalogName(name) {
		where.Err = fmt.Errorf("%w; if the file is no part of the catalog, name it in a file %s", where.Err, indexIgnore)
	}
	return where
}

// hasCatalogName tells whether a file is named as those of catalogs are. All others are read as well, as operator-registry
// does, but what is wrong with them may be that they are there.
func hasCatalogName(name string) bool {
	return slices.Contains([]string{".json", ".yaml", ".yml"}, path.Ext(name))
}

// lineAt counts the lines of a file up to the first byte at or behind offset that is no white space; 0 if it cannot.
// A byte order mark does not count, as the decoder does not see it.
func lineAt(fsys fs.FS, name string, offset int64) int {
	f, err := fsys.Open(name)
	if err != nil {
		return 0
	}
	defer f.Close()
	r := bufio.NewReader(f)
	skipBOM(r)
	line := 1
	for i := int64(0); ; i++ {
		c, err := r.ReadByte()
		if err != nil {
			return line
		}
		if i >= offset && c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return line
		}
		if c == '\n' {
			line++
		}
	}
}
