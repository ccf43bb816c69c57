package scan

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"sync"
)

// ReadFile calls fn for each blob of the file, in file order. The JSON of a blob is overwritten once fn returns. A
// maxBlob of zero means DefaultMaxBlobBytes.
//
// Content that is not a stream of blobs is an *Error: a syntax error, a document that is not an object, a blob without
// a schema. ReadFile returns an error of fn unchanged. An error of fsys is not an *Error.
func ReadFile(fsys fs.FS, name string, maxBlob int64, fn func(Blob) error) error {
	return VisitFile(fsys, name, maxBlob, Visitor{Blob: func(b Blob, _ Position) error { return fn(b) }})
}

// VisitFile is ReadFile for callers that need positions, or the faults behind the first one.
func VisitFile(fsys fs.FS, name string, maxBlob int64, v Visitor) error {
	if maxBlob <= 0 {
		maxBlob = DefaultMaxBlobBytes
	}
	f, err := fsys.Open(name)
	if err != nil {
		return err
	}
	defer f.Close() // read only: nothing can be lost

	src := newBoundedReader(f, maxBlob)
	src.read = -sniffSize // sniff may buffer more than one blob
	r := readers.Get().(*reader)
	defer r.release()
	r.Reset(src)
	isJSON, err := sniff(r.Reader)
	if err != nil {
		return locate(fsys, name, src, err)
	}
	if !isJSON {
		return locate(fsys, name, src, readYAML(r.Reader, src, visit{v, fsys, name}))
	}
	src.max = math.MaxInt64 // the splitter enforces the limit
	r.split.reset(r.Reader, maxBlob)
	err = readJSON(r.split, visit{v, fsys, name})
	if errors.Is(err, errNotPlain) {
		return reread(fsys, name, maxBlob, r.split, v)
	}
	return locate(fsys, name, src, err)
}

// reread continues with encoding/json at the object that the splitter refused.
func reread(fsys fs.FS, name string, maxBlob int64, s *splitter, v Visitor) error {
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
	src := newBoundedReader(r, maxBlob)
	err = decodeJSON(src, s.start, s.objects == 0, visit{v, fsys, name})
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
	src := newBoundedReader(f, maxBlob)
	r := bufio.NewReader(src)
	skipBOM(r)
	return locate(fsys, name, src, readYAML(r, src, visit{v, fsys, name}))
}

// reader holds the buffers of one call of ReadFile. They are pooled, as a catalog has many small files.
type reader struct {
	*bufio.Reader
	split *splitter
}

var readers = sync.Pool{New: func() any {
	return &reader{bufio.NewReaderSize(nil, sniffSize), newSplitter(windowSize)}
}}

// maxKeptBytes is the limit of a pooled buffer. The largest known blob has 2.4 MB.
const maxKeptBytes = 4 << 20

func (r *reader) release() {
	r.Reset(nil)
	r.split.reset(nil, 0)
	if cap(r.split.out) > maxKeptBytes {
		r.split.out = nil
	}
	readers.Put(r)
}

// sniffSize is how many bytes of a file sniff examines.
const sniffSize = 64 << 10

const utf8BOM = "\xef\xbb\xbf" // the byte order mark

// sniff skips a UTF-8 byte order mark and reports whether the file is JSON: as for Kubernetes' decoders, JSON begins
// with a brace.
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
