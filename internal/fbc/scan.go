package fbc

import (
	"errors"
	"io/fs"
)

// Visitor is told what is in a file, in the order in which it stands there. An error that a function of it returns ends the
// reading, and is returned as it is.
type Visitor struct {
	// Blob gets every blob, which is its until it returns; the JSON is overwritten afterwards.
	Blob func(Blob, Position) error

	// Fault gets what stands where a blob has to be and is none: no object, or one whose schema, package and name cannot be told.
	// What follows can be read all the same. If Fault is nil, reading ends there with that error.
	Fault func(*Error) error
}

// Position is where in its file a blob begins. Nobody counts lines without need, so in JSON it is an offset.
type Position struct {
	Line   int   // in YAML; 1 is the first. In JSON it is 0
	Offset int64 // in JSON, without a byte order mark; perhaps of white space before the blob
}

// fault is an error about what stands at the position.
func (p Position) fault(err error) error {
	if p.Line > 0 {
		return &Error{Line: p.Line, Err: err}
	}
	return &offsetError{offset: p.Offset, err: err}
}

// visit is a Visitor in one file.
type visit struct {
	Visitor
	fsys fs.FS
	name string
}

func (v Visitor) in(fsys fs.FS, name string) visit { return visit{v, fsys, name} }

// object tells of a compact JSON object.
func (v visit) object(text []byte, at Position) error {
	b, err := blobOf(toValidUTF8(text))
	return v.next(b, err, at)
}

// next tells of a blob, or of the error that there is in place of one.
func (v visit) next(b Blob, err error, at Position) error {
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
