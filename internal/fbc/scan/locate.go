package scan

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// boundedReader fails once more than max bytes (plus the buffers of its readers) are read for one blob, so that an
// endless blob cannot exhaust the memory.
type boundedReader struct {
	r      io.Reader
	max    int64
	remedy string // what the user can do about a larger blob
	read   int64  // bytes of the present blob
	err    error  // of r except io.EOF; the YAML library only keeps its text
	over   bool   // a read failed at the limit
}

func newBoundedReader(r io.Reader, maxBlob int64) *boundedReader {
	return &boundedReader{r: r, max: maxBlob, remedy: "limit: --max-blob-bytes"}
}

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

// offsetError is an error at a byte offset of a file, which locate replaces by an *Error with a line.
type offsetError struct {
	offset      int64
	err         error
	firstSyntax bool // a syntax error before the first blob: the file may have another syntax
}

func (e *offsetError) Error() string { return e.err.Error() }
func (e *offsetError) Unwrap() error { return e.err }

// callbackError carries an error of the caller's function, to be returned unchanged.
type callbackError struct{ err error }

func (e *callbackError) Error() string { return e.err.Error() }

func isFirstSyntaxError(err error) bool {
	at, ok := errors.AsType[*offsetError](err)
	return ok && at.firstSyntax
}

// locate returns the *Error for an error in a file. It reads the file again to find the line of an offset; lines are
// not counted before that.
func locate(fsys fs.FS, name string, src *boundedReader, err error) error {
	if err == nil {
		return nil
	}
	if callback, ok := errors.AsType[*callbackError](err); ok {
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
		where.Err = fmt.Errorf("%w; if the file is not part of the catalog, list it in a %s file", where.Err, indexIgnore)
	}
	return where
}

// lineAt returns the line of the first byte at or behind offset that is not white space; 0 if the file cannot be read.
// Offsets do not count a byte order mark.
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
