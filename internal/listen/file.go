package listen

import (
	"io"
	"os"
)

// ReadFrom sends a part of a file with sendfile, so its bytes do not enter this process. A part of at most one piece is
// faster to copy. net/http calls ReadFrom.
func (c *conn) ReadFrom(src io.Reader) (int64, error) {
	if part, ok := filePartOf(src); ok && part.limit.N > pieceSize {
		return c.sendFile(part)
	}
	return c.copyFrom(src)
}

// copyFrom sends src with Write. The deadline applies to the client only, not to src.
func (c *conn) copyFrom(src io.Reader) (int64, error) {
	buf := c.table.piece()
	defer c.table.putPiece(buf)
	return io.CopyBuffer(writeOnly{c}, src, buf)
}

// writeOnly hides ReadFrom from io.Copy.
type writeOnly struct{ io.Writer }

// filePart is a part of a file as io.CopyN reads it: of the file, or of a section of it that several responses share.
type filePart struct {
	limit  *io.LimitedReader
	seeker io.Seeker // limit.R
	file   *os.File
	offset int64 // in the file
}

// filePartOf reports whether src is a part of a file, and which one.
func filePartOf(src io.Reader) (part filePart, ok bool) {
	part.limit, ok = src.(*io.LimitedReader)
	if !ok {
		return part, false
	}
	start := int64(0)
	switch r := part.limit.R.(type) {
	case *io.SectionReader:
		at, from, size := r.Outer()
		part.file, ok = at.(*os.File)
		part.seeker, start = r, from
		if position, err := r.Seek(0, io.SeekCurrent); err != nil || part.limit.N > size-position {
			return part, false
		}
	case *os.File:
		part.file, part.seeker = r, r
	default:
		return part, false
	}
	if !ok {
		return part, false
	}
	position, err := part.seeker.Seek(0, io.SeekCurrent)
	part.offset = start + position
	return part, err == nil
}

// advance moves the position of the part past n sent bytes.
func (p *filePart) advance(n int64) error {
	p.offset += n
	p.limit.N -= n
	_, err := p.seeker.Seek(n, io.SeekCurrent)
	return err
}
