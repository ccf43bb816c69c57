package scan

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
	"sync"

	"github.com/joelanford/ignore"
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
		return locate(fsys, name, src, readYAML(r.Reader, src, visit{Visitor: v, fsys: fsys, name: name}))
	}
	src.max = math.MaxInt64 // the splitter enforces the limit
	r.split.reset(r.Reader, maxBlob)
	err = readJSON(r.split, visit{Visitor: v, fsys: fsys, name: name})
	if errors.Is(err, errNotPlain) {
		return reread(fsys, name, maxBlob, r.split, v)
	}
	return locate(fsys, name, src, err)
}

// Objects calls fn for each value of a file that need not be one of a catalog: a stream of YAML documents or of JSON values,
// such as a manifest of Kubernetes. A value is compact JSON, of at most maxBytes, and is overwritten once fn returns. Documents
// without content are skipped. An error of fn is returned unchanged; others name a line.
func Objects(data []byte, maxBytes int64, fn func(object []byte) error) error {
	data = bytes.TrimPrefix(data, []byte(utf8BOM))
	src := newBoundedReader(bytes.NewReader(data), maxBytes)
	src.remedy = "limit of an object"
	read := readYAML
	if isJSONStream(data) {
		read = func(_ io.Reader, src *boundedReader, v visit) error { return decodeJSON(src, 0, true, v) }
	}
	err := read(src, src, visit{any: fn})
	if callback, ok := errors.AsType[*callbackError](err); ok {
		return callback.err
	}
	if src.over {
		return src.errTooLarge()
	}
	line := 0
	if at, ok := errors.AsType[*offsetError](err); ok {
		line, err = 1+bytes.Count(data[:at.offset], newline), at.err
	} else if where, ok := errors.AsType[*Error](err); ok {
		line, err = where.Line, where.Err
	}
	if line > 0 {
		return fmt.Errorf("line %d: %w", line, err)
	}
	return err
}

// isJSONStream reports whether all of a file is JSON.
func isJSONStream(data []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(data))
	for {
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
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
	err = decodeJSON(src, s.start, s.objects == 0, visit{Visitor: v, fsys: fsys, name: name})
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
	return locate(fsys, name, src, readYAML(r, src, visit{Visitor: v, fsys: fsys, name: name}))
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

// indexIgnore is the name of files with patterns (in the syntax of .gitignore) for files that are not part of the
// catalog.
const indexIgnore = ".indexignore"

// maxIgnoreBytes is the limit of all .indexignore files together: each pattern is matched against each file. Known
// ones have a few lines.
const maxIgnoreBytes = 16 << 10

// Files returns the files of the catalog in fsys in the order in which their blobs are streamed: lexical, directories
// at the position of their name. It omits .indexignore files and the files that they exclude. Too many patterns are an
// *Error.
func Files(fsys fs.FS) ([]string, error) {
	if err := checkIgnores(fsys); err != nil {
		return nil, err
	}
	ignored, err := ignore.NewMatcher(fsys, indexIgnore)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", indexIgnore, err)
	}
	var files []string
	err = fs.WalkDir(fsys, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() || d.Name() == indexIgnore || ignored.Match(path, false) {
			return nil
		}
		files = append(files, path)
		return nil
	})
	return files, err
}

func checkIgnores(fsys fs.FS) error {
	total := int64(0)
	return fs.WalkDir(fsys, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() != indexIgnore {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if total += info.Size(); total > maxIgnoreBytes {
			return &Error{Path: path, Err: fmt.Errorf("the %s files exceed the limit of %d bytes in total", indexIgnore, maxIgnoreBytes)}
		}
		return nil
	})
}

// hasCatalogName reports whether a file has a usual extension of catalog files. Other files are read as well, as
// operator-registry does, but a fault in one suggests that it is not part of the catalog.
func hasCatalogName(name string) bool {
	return slices.Contains([]string{".json", ".yaml", ".yml"}, path.Ext(name))
}

// Visitor receives the content of a file in file order. An error of one of its functions ends the reading and is
// returned unchanged.
type Visitor struct {
	// Blob receives each blob. The JSON is overwritten once Blob returns.
	Blob func(Blob, Position) error

	// Fault receives values that are not blobs: a value that is not an object, or whose schema, package or name cannot
	// be determined. Reading continues behind them. If Fault is nil, the first one ends the reading.
	Fault func(*Error) error
}

// Position is where a blob begins in its file: a line in YAML, an offset in JSON, where lines are not counted.
type Position struct {
	Line   int   // in YAML, starting at 1; 0 in JSON
	Offset int64 // in JSON, without a byte order mark; possibly of white space before the blob
}

func (p Position) fault(err error) error {
	if p.Line > 0 {
		return &Error{Line: p.Line, Err: err}
	}
	return &offsetError{offset: p.Offset, err: err}
}

// visit is a Visitor of one file.
type visit struct {
	Visitor
	fsys fs.FS
	name string
	any  func(object []byte) error // replaces the Visitor: receives every value
}

// object passes a compact JSON object to the visitor, as a blob or as a fault.
func (v visit) object(text []byte, at Position) error {
	text = toValidUTF8(text)
	if v.any != nil {
		if err := v.any(text); err != nil {
			return &callbackError{err}
		}
		return nil
	}
	b, err := ParseBlob(text)
	switch {
	case err == nil:
		err = v.Blob(b, at)
	case v.Fault == nil:
		return at.fault(err)
	default:
		where, _ := errors.AsType[*Error](locate(v.fsys, v.name, &boundedReader{}, at.fault(err)))
		err = v.Fault(where)
	}
	if err != nil {
		return &callbackError{err}
	}
	return nil
}
