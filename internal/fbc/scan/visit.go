package scan

import (
	"errors"
	"io/fs"
)

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
}

// object passes a compact JSON object to the visitor, as a blob or as a fault.
func (v visit) object(text []byte, at Position) error {
	b, err := ParseBlob(toValidUTF8(text))
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
